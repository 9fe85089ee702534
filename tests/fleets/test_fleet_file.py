from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catalog.errors import InputError
from catalog.hardware.platforms import platform_of
from catalog.hardware.profile import builtin_profiles
from steps.fleets.fleet import Fleet, load_fleet
from tests.fleets.jobs import simulated

HEAD = "apiVersion: readiness/v1\nkind: Fleet\nmetadata: {name: t}\nspec:\n"
SIMULATED = HEAD + "  source: simulated\n  nodes: [{names: 'n-[1-3]'}]\n"
LEVEL1 = "category: diagnostics/dcgm-level1, nodes: n-1"
RECORDED = HEAD + "  source: recorded\n  nodes: [{names: 'n-[1-3]'}]\n"


def load(tmp_path: Path, text: str) -> Fleet:
    path = tmp_path / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return load_fleet(path)


def fault(text: str) -> str:
    return SIMULATED + f"  faults:\n  - {{{text}}}\n"


def output(text: str) -> str:
    return RECORDED + f"  outputs:\n  - {{{text}}}\n"


MALFORMED = {
    "misspelt field": (
        SIMULATED + "  sead: 3\n",
        ":7: spec.sead: is not a known field (did you mean 'seed'?)",
    ),
    "misspelt node field": (
        HEAD + "  source: simulated\n  nodes:\n  - {names: n-1, gpuProdukt: x}\n",
        ":7: spec.nodes[0].gpuProdukt: is not a known field (did you mean 'gpuProduct'?)",
    ),
    "misspelt source": (
        SIMULATED.replace("simulated", "simulatd"),
        ":5: spec.source: there is no source 'simulatd' (did you mean 'simulated'?)",
    ),
    "no source": (HEAD + "  nodes: [{names: n-1}]\n", "spec.source: is required"),
    "another kind": (SIMULATED.replace("Fleet", "Certification"), ":2: kind: "),
    "no nodes": (HEAD + "  source: simulated\n", "spec: needs nodes or nodesFile"),
    "malformed range": (SIMULATED.replace("[1-3]", "[3-1]"), "runs backwards"),
    "a node twice": (
        HEAD + "  source: simulated\n  nodes: [{names: n-1}, {names: 'n-[1-2]'}]\n",
        "the fleet has two nodes 'n-1'",
    ),
    "unknown fault": (
        fault("kind: slow-lnik, node: n-1, factor: 0.5"),
        ":8: spec.faults[0].kind: there is no kind 'slow-lnik' (did you mean 'slow-link'?)",
    ),
    "fault without kind": (fault("node: n-1"), "spec.faults[0].kind: is required"),
    "fault on no node": (
        fault("kind: hang, node: n-4"),
        ":8: spec.faults[0].node: there is no node 'n-4' (did you mean 'n-3'?)",
    ),
    "fault in no category": (
        fault("kind: hang, node: n-1, category: communication/nccl-allreduce"),
        "there is no catalog entry 'communication/nccl-allreduce' (did you mean",
    ),
    "fault that never shows": (
        fault("kind: nan-loss, node: n-1, step: 3, category: diagnostics/dcgm-level1"),
        "never shows in diagnostics/dcgm-level1, only where training runs",
    ),
    "lasting fault of a category": (
        fault("kind: cordon, node: n-1, category: diagnostics/dcgm-level1"),
        "spec.faults[0].category: needs 'at'",
    ),
    "two rates": (fault("kind: slow-link, node: n-1, factor: 0.5, GBps: 4"), "needs either"),
    "rate of nothing": (
        fault("kind: slow-link, node: n-1, GBps: 0"),
        ":8: spec.faults[0].GBps: must be greater than or equal to 0.001",
    ),
    "rate next to nothing": (
        fault("kind: slow-link, node: n-1, GBps: 1.0e-300"),
        "spec.faults[0].GBps: must be greater than or equal to 0.001",
    ),
    "rate beyond any": (
        fault("kind: slow-link, node: n-1, GBps: 1.0e+9"),
        "spec.faults[0].GBps: must be less than or equal to 10000",
    ),
    "part of next to nothing": (
        fault("kind: slow-link, node: n-1, factor: 1.0e-300"),
        "spec.faults[0].factor: must be greater than or equal to 0.001",
    ),
    "speed of next to nothing": (
        HEAD + "  source: simulated\n  nodes: [{names: n-1, performance: 1.0e-300}]\n",
        "spec.nodes[0].performance: must be greater than or equal to 0.001",
    ),
    "start at the end of time": (
        SIMULATED + "  start: 9999-12-31T23:59:00Z\n",
        ":7: spec.start: must be in the years 2000 to 2100",
    ),
    "start before its zone": (
        SIMULATED + "  start: 0001-01-01T00:00:00+14:00\n",
        "spec.start: must be in the years 2000 to 2100",
    ),
    "output from the future": (
        output(f"{LEVEL1}, file: fleet.yaml, started: 3026-01-02T00:00:00Z"),
        "spec.outputs[0].started: must be in the years 2000 to 2100",
    ),
    "event without zone": (
        output(
            f"{LEVEL1}, file: fleet.yaml, events: [{{node: n-1, at: 2026-01-02T00:00:00, "
            "code: NODE_CORDONED, source: taint, text: x}]"
        ),
        "spec.outputs[0].events: needs a time zone, for example Z",
    ),
    "no such GPU": (
        fault("kind: lost-gpu, node: n-1, gpu: 8"),
        ":8: spec.faults[0].gpu: node n-1 has 8 GPUs, numbered from 0",
    ),
    "no such test": (
        fault("kind: dcgm-failure, node: n-1, test: memtset, errorId: 52"),
        "spec.faults[0].test: there is no DCGM test 'memtset' (did you mean 'memtest'?)",
    ),
    "no such DCGM error": (
        fault("kind: dcgm-failure, node: n-1, test: memtest, errorId: 9999"),
        "spec.faults[0].errorId: there is no DCGM error id 9999",
    ),
    "no such infrastructure code": (
        fault("kind: infrastructure, node: n-1, code: XID_79, message: x"),
        "spec.faults[0].code: must be an INFRA_ code, not 'XID_79'",
    ),
    "no duration": (fault("kind: cordon, node: n-1, at: 42"), "must be a duration"),
    "start without zone": (SIMULATED + "  start: 2026-01-01T00:00:00\n", ":7: spec.start: "),
    "simulated field in recorded": (RECORDED + "  seed: 3\n", "spec.seed: is not a known field"),
    "no output file": (
        output(f"{LEVEL1}, file: gone.json"),
        ":8: spec.outputs[0].file: there is no file ",
    ),
    "output of no node": (
        output("category: diagnostics/dcgm-level1, nodes: n-9, file: fleet.yaml"),
        "spec.outputs[0].nodes: there is no node 'n-9'",
    ),
    "output of no category": (
        output("category: diagnostics/dcgm-level9, nodes: n-1, file: fleet.yaml"),
        "there is no catalog entry 'diagnostics/dcgm-level9'",
    ),
    "per-node output of two nodes": (
        output("category: diagnostics/dcgm-level1, nodes: 'n-[1-2]', file: fleet.yaml"),
        "runs on one node at a time",
    ),
    "kernel log of another node": (
        output(
            "category: diagnostics/dcgm-level1, nodes: n-1, file: fleet.yaml, "
            "kernelLogs: {n-2: fleet.yaml}"
        ),
        "there is no node 'n-2'",
    ),
    "ends before it starts": (
        output(
            "category: diagnostics/dcgm-level1, nodes: n-1, file: fleet.yaml, "
            "started: 2026-01-02T00:00:00Z, ended: 2026-01-01T00:00:00Z"
        ),
        "ended needs a started that is not later",
    ),
    "iteration twice": (
        RECORDED
        + "  outputs:\n"
        + "  - {category: diagnostics/dcgm-level1, nodes: n-1, file: fleet.yaml, iteration: 2}\n"
        * 2,
        ":9: spec.outputs[1]: is the second output of iteration 2 of diagnostics/dcgm-level1 on "
        "n-1; the first, fleet.yaml, is in line 8",
    ),
    "two outputs of one run": (
        RECORDED
        + "  outputs:\n"
        + "  - {category: communication/nccl-all-reduce, nodes: [n-1, n-2], file: fleet.yaml}\n"
        + "  - {category: communication/nccl-all-reduce, nodes: [n-2, n-1], file: fleet.yaml}\n",
        ":9: spec.outputs[1]: is the second output of communication/nccl-all-reduce on n-2, n-1; "
        "the first, fleet.yaml, is in line 8 (give the repeats of a run different iterations)",
    ),
    "two first iterations": (
        RECORDED
        + "  outputs:\n"
        + "  - {category: diagnostics/dcgm-level1, nodes: n-1, file: fleet.yaml}\n"
        + "  - {category: diagnostics/dcgm-level1, nodes: n-1, file: fleet.yaml, iteration: 1}\n",
        ":9: spec.outputs[1]: is the second output of iteration 1",
    ),
    "no nodes file": (
        HEAD + "  source: simulated\n  nodesFile: nodes.yaml\n",
        ":6: spec.nodesFile: there is no file",
    ),
    "nodes file is no node list": (
        HEAD + "  source: simulated\n  nodesFile: fleet.yaml\n",
        "kind: is Fleet, expected Node",
    ),
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_fleet_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        load(tmp_path, text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "fleet.yaml" in str(error.value)


def node(fleet: Fleet, name: str) -> dict[str, Any]:
    return next(item for item in fleet.nodes() if item["metadata"]["name"] == name)


def test_the_shorthand_expands_into_node_objects(tmp_path: Path) -> None:
    more = (
        "    platform: aws\n    instanceType: p5.48xlarge\n    nics: {vpc.amazonaws.com/efa: 32}\n"
        "    labels: {team: a}\n    taints: [{key: k, effect: NoSchedule}]\n    domain: b-1\n"
    )
    fleet = simulated(tmp_path, more=more, nodes="n-[1-2]")
    first = node(fleet, "n-1")
    assert [item["metadata"]["name"] for item in fleet.nodes()] == ["n-1", "n-2"]
    assert (
        first["metadata"]["labels"].items()
        >= {
            "node.kubernetes.io/instance-type": "p5.48xlarge",
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.count": "8",
            "topology.k8s.aws/network-node-layer-1": "b-1",
            "team": "a",
        }.items()
    )
    assert first["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert first["status"]["allocatable"]["vpc.amazonaws.com/efa"] == "32"
    assert first["spec"]["taints"] == [{"key": "k", "effect": "NoSchedule"}]
    assert first["spec"]["providerID"] != node(fleet, "n-2")["spec"]["providerID"]


@pytest.mark.parametrize(
    "platform",
    ["onprem", "aws", "gcp", "azure", "oci", "coreweave", "togetherai", "forge", "mistral"],
)
def test_the_platform_is_told_from_the_nodes(tmp_path: Path, platform: str) -> None:
    product = "NVIDIA-GB300" if platform == "mistral" else "NVIDIA-H100-80GB-HBM3"
    more = f"    platform: {platform}\n    gpuProduct: {product}\n"
    found = node(simulated(tmp_path, more=more), "n-1")
    guess = platform_of(
        found["spec"].get("providerID", ""),
        found["metadata"]["labels"],
        found["status"]["allocatable"],
        gpu="gb300" if platform == "mistral" else "h100",
        rules=builtin_profiles().platform_rules(),
    )
    assert guess.platform == platform


def test_lasting_faults_show_in_the_node_objects(tmp_path: Path) -> None:
    faults = (
        "  - {kind: lost-gpu, node: n-1, gpu: 2}\n"
        "  - {kind: cordon, node: n-2}\n"
        "  - {kind: not-ready, node: n-3}\n"
        "  - {kind: lost-gpu, node: n-4, gpu: 2, at: 1m}\n"
    )
    fleet = simulated(tmp_path, faults)
    assert node(fleet, "n-1")["status"]["allocatable"]["nvidia.com/gpu"] == "7"
    assert node(fleet, "n-1")["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert node(fleet, "n-2")["spec"]["unschedulable"] is True
    ready = [c for c in node(fleet, "n-3")["status"]["conditions"] if c["type"] == "Ready"]
    assert [c["status"] for c in ready] == ["Unknown"]
    assert node(fleet, "n-4")["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_nodes_and_pods_of_kubectl_files_join_the_shorthand(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n"
        "  metadata: {name: other, creationTimestamp: 2026-01-01T00:00:00Z}\n  spec: null\n",
        encoding="utf-8",
    )
    (tmp_path / "pods.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\nspec: {nodeName: n-1}\n",
        encoding="utf-8",
    )
    text = (
        HEAD + "  source: simulated\n  nodesFile: nodes.yaml\n  podsFile: pods.yaml\n"
        "  nodes: [{names: n-1, busyGpus: 2}]\n  faults: [{kind: cordon, node: other}]\n"
    )
    fleet = load(tmp_path, text)
    assert [item["metadata"]["name"] for item in fleet.nodes()] == ["n-1", "other"]
    assert node(fleet, "other")["spec"]["unschedulable"] is True
    assert {item["metadata"]["name"] for item in fleet.pods()} == {"p", "training-n-1"}
