"""What a certification costs beside its workload, compared with a bare Argo DAG of `true` pods.

Both run on the lab of tests/cluster: the certification's workload does next to nothing, the bare
DAG has the same number of pods, one after another and side by side in the same way.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cluster.lab import Lab

ROOT = Path(__file__).parents[2]
STEPS = "docker.io/library/readiness-steps:test"
STANDIN = "docker.io/library/readiness-standin:test"

CERTIFICATION = f"""\
kind: Certification
metadata: {{name: overhead}}
spec:
  stage: bring-up
  image: {STANDIN}
  gpusPerNode: 2
  mlnxPerNode: 0
  replaceBars: true
  thresholds: {{busBandwidthGBps: 'value >= 0.0'}}
  categories:
    - domain: communication
      variant: nccl-loopback-nvswitch
      options: {{maxBytes: 1K, numIterations: 1, numCycles: 1}}
"""

LEVELS = (("detect", 1), ("groups", 1), ("run", 2), ("tool", 2), ("parse", 1), ("evaluate", 1),
          ("aggregate", 1))  # fmt: skip
"""Pods of the certification by level; the exit handler's pod comes on top."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this benchmark."""
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median counts")


def run(options: argparse.Namespace) -> dict[str, object]:
    """Return the seconds of both and their ratio."""
    from tests.cluster.lifecycle import attach, down, up  # noqa: PLC0415  (only here, see _measure)

    running = attach()
    lab = running or up()
    try:
        return _measure(lab, options.runs)
    finally:
        if running is None:
            down()


def _measure(lab: Lab, runs: int) -> dict[str, object]:
    # hera is big, and the other benchmarks measure their own memory.
    from pipelines.render import Rendering, render, write  # noqa: PLC0415
    from tests.cluster import dress  # noqa: PLC0415

    for name in lab.node_names:
        lab.dress(name, dress.ONPREM_H100)
    lab.build_image(ROOT, ROOT / "containers" / "steps" / "Containerfile", STEPS)
    standin = ROOT / "containers" / "standin"
    lab.build_image(standin, standin / "Containerfile", STANDIN)
    with lab.namespace("overhead") as namespace, tempfile.TemporaryDirectory() as folder:
        write(render(Rendering(namespace=namespace, image=STEPS)), Path(folder))
        lab.kubectl("apply", "-k", folder)
        ours, bare = [], []
        # In turns, so that what else the machine does falls on both.
        for _ in range(runs):
            ours.append(_seconds(lab, namespace, _certification(namespace)))
            bare.append(_seconds(lab, namespace, _bare(namespace)))
    return {
        "certification seconds": [round(value, 1) for value in ours],
        "bare DAG seconds": [round(value, 1) for value in bare],
        "pods": sum(count for _, count in LEVELS) + 1,
        "certification / bare DAG": round(median(ours) / median(bare), 2),
    }


def _seconds(lab: Lab, namespace: str, workflow: dict[str, Any]) -> float:
    from tests.cluster.shell import wait_for  # noqa: PLC0415

    made = json.loads(
        lab.kubectl("create", "-n", namespace, "-o", "json", "-f", "-", stdin=json.dumps(workflow))
    )
    name = made["metadata"]["name"]

    def status() -> dict[str, Any]:
        found: dict[str, Any] = lab.get("workflow", name, "-n", namespace).get("status", {})
        return found

    wait_for(f"workflow {name}", lambda: bool(status().get("finishedAt")), timeout=300)
    ended = status()
    if ended["phase"] != "Succeeded":
        raise RuntimeError(f"{name}: {ended['phase']}: {ended.get('message')}")
    return (_time(ended["finishedAt"]) - _time(ended["startedAt"])).total_seconds()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _certification(namespace: str) -> dict[str, Any]:
    parameters = [{"name": "certification", "value": CERTIFICATION}]
    return _workflow(
        namespace,
        {
            "workflowTemplateRef": {"name": "communication-nccl-loopback-nvswitch"},
            "arguments": {"parameters": parameters},
        },
    )


def _bare(namespace: str) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = []
    before: list[str] = []
    for level, count in LEVELS:
        names = [f"{level}-{number}" for number in range(count)]
        tasks += [
            {"name": name, "template": "nothing", "depends": " && ".join(before)} for name in names
        ]
        before = names
    nothing = {
        "name": "nothing",
        "container": {"image": STANDIN, "command": ["true"], "imagePullPolicy": "IfNotPresent"},
    }
    return _workflow(
        namespace,
        {
            "entrypoint": "all",
            "onExit": "nothing",
            "templates": [{"name": "all", "dag": {"tasks": tasks}}, nothing],
        },
    )


def _workflow(namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "overhead-", "namespace": namespace},
        "spec": spec,
    }
