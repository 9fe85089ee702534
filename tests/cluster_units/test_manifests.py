"""What is created for a group: pods pinned by name, gangs, claims, names and labels."""

from __future__ import annotations

import base64
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.entries.entry import Launcher
from catalog.reading.setting import Setting
from catalog.workload.workload import Workload
from steps.cluster.api.labels import label_value
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.objects.mpi import SSH_PORT, host_names
from steps.cluster.objects.names import GroupNames
from steps.cluster.objects.shapes import Shape, shape_of
from tests.builders import setting, workload
from tests.plain_yaml import to_yaml

GOLDEN = Path(__file__).parent / "golden"
RUN = WorkflowRun("certify-x7k2p", "u-1")
NAMES = GroupNames(RUN, "communication/nccl-all-reduce", "full-scale-0")
OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "certify", "uid": "u-1"}
NODES = ("gpu-b.example.com", "gpu-a.example.com")


def settings(**values: object) -> dict[str, Setting]:
    return {name: setting(value) for name, value in values.items()}


def of(kind: Launcher, **parts: object) -> Workload:
    base: dict[str, object] = {
        "launcher": kind,
        "resources": {"nvidia.com/gpu": setting(8), "vpc.amazonaws.com/efa": setting(32)},
        "env": settings(NCCL_DEBUG="INFO", FROM_IMAGE=None),
        "pod": settings(
            capabilities=["IPC_LOCK"],
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
            volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
            volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}],
            jobLabels={"kueue.x-k8s.io/queue-name": "gpus"},
        ),
        "launch": settings(
            mpirun="/usr/local/mpi/bin/mpirun",
            flags={"-N": "8", "--allow-run-as-root": ""},
            mca={"plm_rsh_args": "-o StrictHostKeyChecking=no"},
            forwardEnv=["LD_LIBRARY_PATH"],
        ),
    }
    return workload().model_copy(update=base | parts)


def shape(what: Workload, nodes: tuple[str, ...] = NODES) -> Shape:
    return shape_of(what, nodes, NAMES, OWNER, scheduling_seconds=600)


def worker(what: Workload, nodes: tuple[str, ...] = NODES) -> dict[str, Any]:
    jobs = [item for item in shape(what, nodes).objects if item["kind"] == "Job"]
    found: dict[str, Any] = jobs[0]["spec"]["template"]
    return found


@pytest.mark.parametrize("kind", list(Launcher), ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_objects_are_as_they_were(kind: Launcher, count: int) -> None:
    """Regenerate with UPDATE_GOLDEN=1; the diff is what reviewers look at."""
    made = shape(of(kind), NODES[:count])
    objects = [dict(item) for item in made.objects]
    if made.launcher:
        pods = {node: {"status": {"podIP": f"10.0.0.{i}"}} for i, node in enumerate(NODES)}
        objects.append(made.launcher(pods))
    for item in objects:
        if item["kind"] == "Secret":
            item["data"] = dict.fromkeys(item["data"], "...")
    text = to_yaml(*objects, sort_keys=True)
    file = GOLDEN / f"{kind.value}-{count}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", list(Launcher), ids=str)
def test_pods_are_pinned_to_the_named_nodes_one_each(kind: Launcher) -> None:
    affinity = worker(of(kind))["spec"]["affinity"]
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = [term["matchFields"][0] for term in required["nodeSelectorTerms"]]
    assert [field["values"] for field in fields] == [[node] for node in sorted(NODES)]
    assert {field["key"] for field in fields} == {"metadata.name"}
    (apart,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    # A launcher on a worker's node must not be kept away, so the role is part of it.
    assert apart["labelSelector"]["matchLabels"]["readiness/role"] == "worker"


@pytest.mark.parametrize("kind", list(Launcher), ids=str)
def test_everything_is_owned_and_labelled(kind: Launcher) -> None:
    for item in shape(of(kind)).objects:
        assert item["metadata"]["ownerReferences"] == [OWNER]
        assert item["metadata"]["labels"] | NAMES.labels() == item["metadata"]["labels"]


def test_jobs_never_retry_and_end_by_themselves() -> None:
    job = shape(of(Launcher.MPI)).objects[-1]
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["activeDeadlineSeconds"] == 2 * 600 + 3600 + 300
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"


def test_tools_hold_no_token() -> None:
    assert worker(of(Launcher.PER_NODE))["spec"]["automountServiceAccountToken"] is False


def test_workers_get_the_public_key_only() -> None:
    secret, job = shape(of(Launcher.MPI)).objects
    public = base64.b64decode(secret["data"]["authorized_keys"])
    assert public.startswith(b"ssh-ed25519 ")
    assert b"PRIVATE KEY" in base64.b64decode(secret["data"]["id_ed25519"])
    volume = job["spec"]["template"]["spec"]["volumes"][-1]["secret"]
    assert [item["key"] for item in volume["items"]] == ["authorized_keys"]
    assert volume["secretName"] == secret["metadata"]["name"]


def test_two_runs_never_share_a_key() -> None:
    one, other = (shape(of(Launcher.MPI)).objects[0]["data"] for _ in range(2))
    assert one != other


def test_mpirun_line_has_ranks_in_order_of_nodes_and_flags_of_the_profile() -> None:
    made = shape(of(Launcher.MPI))
    assert made.launcher is not None
    pods = {node: {"status": {"podIP": f"10.0.0.{i}"}} for i, node in enumerate(NODES)}
    container = made.launcher(pods)["spec"]["template"]["spec"]["containers"][0]
    script = container["command"][-1]
    hosts = re.findall(r"^.*?(\S+) slots=8", script, re.M)
    assert [host.strip("'") for host in hosts] == list(NODES)
    words = shlex.split(script.splitlines()[-1])
    assert words[:2] == ["exec", "/usr/local/mpi/bin/mpirun"]
    assert words[words.index("-np") + 1] == "16"
    assert words[words.index("plm_rsh_no_tree_spawn") + 1] == "1"
    assert words[words.index("plm_rsh_args") + 1] == (
        "-F /tmp/readiness_ssh_config -o StrictHostKeyChecking=no"
    )
    assert "NCCL_DEBUG=INFO" in words
    assert not any(word.startswith("FROM_IMAGE") for word in words)
    assert "LD_LIBRARY_PATH" in words
    assert words[-1] == "all_reduce_perf"
    assert f"Port {SSH_PORT}" in script


def test_launcher_finds_workers_under_the_names_of_their_nodes() -> None:
    names, aliases = host_names({"gpu-a.example.com": "10.0.0.1", "gpu-b": "10.0.0.2"})
    assert names == {"gpu-a.example.com": "gpu-a.example.com", "gpu-b": "gpu-b"}
    assert aliases == [
        {"ip": "10.0.0.1", "hostnames": ["gpu-a.example.com", "gpu-a"]},
        {"ip": "10.0.0.2", "hostnames": ["gpu-b"]},
    ]


@pytest.mark.parametrize("node", ["10.0.12.4", "fd00::12"])
def test_node_named_by_an_address_is_called_by_its_pods_address(node: str) -> None:
    assert host_names({node: "10.244.1.9"}) == ({node: "10.244.1.9"}, [])


def test_environment_and_scripts_around_a_rank() -> None:
    around = settings(unsetEnv=["NCCL_NET"], sourceScripts=["/usr/lib/a b/env.sh"])
    command = worker(of(Launcher.PER_NODE, launch=around), NODES[:1])["spec"]["containers"][0]
    assert command["command"][:3] == ["/usr/bin/env", "-u", "NCCL_NET"]
    assert command["command"][3:5] == ["/bin/bash", "-c"]
    assert "'/usr/lib/a b/env.sh'" in command["command"][5]


def test_sidecars_start_before_and_do_not_hold_the_job() -> None:
    sidecar = {"name": "rxdm", "image": "r.example/rxdm:1"}
    spec = worker(of(Launcher.MPI, pod=settings(sidecars=[sidecar])))["spec"]
    assert spec["initContainers"] == [{**sidecar, "restartPolicy": "Always"}]
    assert len(spec["containers"]) == 1


def test_launcher_gets_neither_devices_nor_sidecars() -> None:
    what = of(
        Launcher.MPI,
        pod=settings(
            sidecars=[{"name": "rxdm"}],
            initContainers=[{"name": "plugin"}],
            resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
            claimTemplates=[{"name": "gpus", "spec": {"devices": {}}}],
            hostNetwork=True,
        ),
    )
    made = shape(what)
    assert made.launcher is not None
    pods = {node: {"status": {"podIP": "10.0.0.1"}} for node in NODES}
    spec = made.launcher(pods)["spec"]["template"]["spec"]
    assert not {"initContainers", "resourceClaims", "hostNetwork"} & set(spec)
    assert "nvidia.com/gpu" not in str(spec["containers"][0]["resources"])


def test_claims_domains_and_files_of_a_group_are_its_own() -> None:
    what = of(
        Launcher.MPI,
        pod=settings(
            claimTemplates=[{"name": "gpus", "spec": {"devices": {"requests": []}}}],
            computeDomain={
                "apiVersion": "resource.nvidia.com/v1beta1",
                "numNodes": 2,
                "channel": {"resourceClaimTemplate": {"name": "all-reduce-channel"}},
            },
            configMaps={"topo": {"topo.xml": "<system/>"}},
            resourceClaims=[
                {"name": "gpus", "resourceClaimTemplateName": "gpus"},
                {"name": "channel", "resourceClaimTemplateName": "all-reduce-channel"},
            ],
            volumes=[{"name": "topology", "configMap": {"name": "topo"}}],
        ),
    )
    objects = {item["kind"]: item for item in shape(what).objects}
    claim, domain = objects["ResourceClaimTemplate"], objects["ComputeDomain"]
    spec = objects["Job"]["spec"]["template"]["spec"]
    channel = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    assert [item["resourceClaimTemplateName"] for item in spec["resourceClaims"]] == [
        claim["metadata"]["name"],
        channel,
    ]
    assert claim["spec"] == {"spec": {"devices": {"requests": []}}}
    assert domain["apiVersion"] == "resource.nvidia.com/v1beta1"
    assert "apiVersion" not in domain["spec"]
    assert spec["volumes"][0]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpus"}, {"name": "channel"}]
    other = GroupNames(RUN, "communication/nccl-all-reduce", "full-scale-1")
    assert other.object("gpus") != claim["metadata"]["name"]


def test_source_is_taken_from_the_image_before_it_is_cloned() -> None:
    what = of(
        Launcher.TORCHRUN,
        command=("pretrain_gpt.py", "--bf16"),
        options=settings(sourceRepo="https://git.example/megatron"),
    )
    script = worker(what)["spec"]["containers"][0]["command"][-1]
    assert script.index("/opt/megatron-lm") < script.index("git clone")
    assert "https://git.example/megatron" in script
    assert script.rstrip().endswith("pretrain_gpt.py --bf16")


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300), st.integers(1, 3))
def test_names_and_labels_are_always_legal(
    workflow: str, category: str, group: str, attempt: int
) -> None:
    names = GroupNames(WorkflowRun(workflow, RUN.uid), category, group, attempt)
    for part in ("worker", "launcher", "all-reduce-azure-topo", ""):
        name = names.object(part)
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
        # NAME-1023-x8k2q, the longest pod name that a Job makes of it.
        assert len(name) + 11 <= 63
    for value in names.labels("worker").values():
        assert re.fullmatch(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]", value)


@given(st.text(min_size=64, max_size=200), st.text(min_size=64, max_size=200))
def test_long_texts_that_differ_give_labels_that_differ(one: str, other: str) -> None:
    if len(one.encode()) > 63 and label_value(one) == label_value(other):
        # Both may be made of characters that no label can hold.
        assert one == other or not re.search(r"[A-Za-z0-9]{64}", one + other)


def test_names_differ_by_category_group_attempt_and_workflow() -> None:
    base = (WorkflowRun("wf", "u-1"), "diagnostics/dcgm-level1", "node-0", 1)
    others = [
        (WorkflowRun("wg", "u-1"), *base[1:]),
        (WorkflowRun("wf", "u-2"), *base[1:]),
        (base[0], "diagnostics/dcgm-level2", *base[2:]),
        (*base[:2], "node-1", 1),
        (*base[:3], 2),
    ]
    names = {GroupNames(*parts).object("worker") for parts in (base, *others)}
    assert len(names) == 6
