"""The product as it is installed by kustomize and used through Argo's client."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from pipelines.render import Rendering, render, write
from pipelines.templates.names import FINISH
from pipelines.templates.steps import STEP_TIMEOUT
from tests.cluster.gangs import ROOT, STANDIN, build_standin, left_over
from tests.cluster.lab import Lab
from tests.cluster.shell import wait_for
from tests.templates.argo import workflow_templates

STEPS = "docker.io/library/readiness-steps:test"

QUICK = [
    {"name": "READINESS_SCHEDULING_DEADLINE", "value": "120"},
    {"name": "READINESS_POLL_SECONDS", "value": "1"},
    {"name": "READINESS_SETTLE_SECONDS", "value": "5"},
    {"name": "READINESS_BACKOFF_SECONDS", "value": "1"},
]
"""The run step waits as long as suits a test; nothing else differs from what is installed."""

QUICK_END = [
    {"name": "READINESS_LAST_WORDS_SECONDS", "value": "60"},
    {"name": "READINESS_CLEANUP_SECONDS", "value": "45"},
]
"""The same for the exit handler, for tests that kill the node it waits for."""

SLOW = 500
"""Milliseconds after every collective that keep a run going until somebody ends it."""


def certification(
    name: str,
    *,
    bar: str = "value > 0.0",
    image: str = STANDIN,
    gpus: int = 2,
    nodes: Sequence[str] = (),
    pause_ms: int = 0,
    options: Mapping[str, object] | None = None,
) -> str:
    """Return a small certification.

    Args:
        name: its name.
        bar: of the bus bandwidth.
        image: of the workload.
        gpus: on each node.
        nodes: targets; all if none is named.
        pause_ms: makes the run last longer without keeping a processor busy.
        options: more of the category.
    """
    chosen: dict[str, object] = {"maxBytes": "4M", "numIterations": 2, "numCycles": 1}
    chosen |= {"isolate": False, "env": {"STANDIN_PAUSE_MS": str(pause_ms)}, **(options or {})}
    if len(nodes) == 1:
        chosen["testScale"] = "intra-node"
    category = {"domain": "communication", "variant": "nccl-all-reduce", "options": chosen}
    spec: dict[str, object] = {
        "stage": "burn-in",
        "image": image,
        "gpusPerNode": gpus,
        "mlnxPerNode": 0,
        "timeoutPerJob": "2m",
        "replaceBars": True,
        "thresholds": {"busBandwidthGBps": bar},
        "categories": [category],
    }
    if nodes:
        spec["target"] = {"nodeNames": list(nodes)}
    head = {"apiVersion": "readiness/v1", "kind": "Certification", "metadata": {"name": name}}
    return yaml.safe_dump(head | {"spec": spec}, sort_keys=False)


class Product:
    """The product, installed in a namespace of its own."""

    def __init__(self, lab: Lab, namespace: str) -> None:
        self.lab = lab
        self.namespace = namespace

    def submit(
        self,
        text: str,
        *words: str,
        wait: bool = True,
        server: bool = False,
        template: str = "workflowtemplate/certification",
    ) -> str:
        """Submit a certification as a person does and return the name of the workflow."""
        arguments = ["submit", "--from", template, "-n", self.namespace]
        arguments += ["-p", f"certification={text}", "-o", "name", *words]
        name = self.lab.argo(*arguments, server=server).strip().splitlines()[-1]
        if wait:
            self.wait(name)
        return name

    def wait(self, name: str, timeout: float = 600) -> None:
        """Wait until a workflow is over."""
        wait_for(
            f"workflow {name} to end",
            lambda: self.phase(name) in {"Succeeded", "Failed", "Error"},
            timeout=timeout,
            detail=lambda: self.told_by(name),
        )

    def workflow(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.lab.get("workflow", name, "-n", self.namespace)
        return found

    def phase(self, name: str) -> str:
        return str(self.workflow(name).get("status", {}).get("phase", ""))

    def wait_running(self, name: str) -> None:
        """Wait until a workflow has begun, and so has what it must not share."""
        wait_for(
            f"workflow {name} to run",
            lambda: self.phase(name) == "Running",
            timeout=120,
            detail=lambda: str(self.workflow(name).get("status")),
        )

    def steps(self, name: str) -> dict[str, str]:
        """Return the phase of every step by its display name."""
        nodes = self.workflow(name)["status"].get("nodes", {}).values()
        return {node["displayName"]: node["phase"] for node in nodes}

    def words(self, name: str) -> str:
        """Return what the steps printed; says why an outcome is not the expected one."""
        return self.lab.try_argo("logs", name, "-n", self.namespace, "--no-color").stdout[-6000:]

    def told_by(self, name: str) -> str:
        """Return the workflow as a person sees it, and what its steps printed."""
        seen = self.lab.try_argo("get", name, "-n", self.namespace, "--no-color").stdout[-6000:]
        return f"{seen}\n{self.words(name)}"

    def report(self, name: str) -> dict[str, Any]:
        """Read the report from its ConfigMap, as it stays after the workflow."""
        selector = f"readiness/workflow={name},readiness/kind=Report"
        maps = self.lab.get("configmap", "-n", self.namespace, "-l", selector)["items"]
        assert maps, f"{name} has no report\n{self.told_by(name)}"
        packed = b"".join(
            base64.b64decode(item["binaryData"]["data"])
            for item in sorted(maps, key=lambda item: item["metadata"]["name"])
        )
        report: dict[str, Any] = json.loads(gzip.decompress(packed))
        return report

    def left(self, name: str = "") -> list[str]:
        """Name what runs have left, of one workflow or of all."""
        return left_over(self.lab, self.namespace, name)

    def documents_and_steps(self, name: str) -> str:
        """Name the records of a workflow, its report apart, and the pods of its steps."""
        words = ["get", "pods,configmaps", "-n", self.namespace, "-o", "name", "-l"]
        documents = f"readiness/workflow={name},readiness/kind!=Report"
        steps = f"workflows.argoproj.io/workflow={name}"
        return self.lab.kubectl(*words, documents) + self.lab.kubectl(*words, steps)

    def run_pods(self, name: str) -> list[str]:
        """Return the names of the run step's own pods that run; one may have handed over before."""
        selector = f"workflows.argoproj.io/workflow={name},app.kubernetes.io/component=run"
        pods = self.lab.get("pods", "-n", self.namespace, "-l", selector)["items"]
        return [p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Running"]

    def workers(self, name: str) -> list[str]:
        """Return the names of running pods that the run steps of a workflow have made."""
        selector = ["-n", self.namespace, "-l", f"readiness/workflow={name}"]
        pods = self.lab.get("pods", *selector)["items"]
        return [p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Running"]

    def wait_for_workers(self, count: int, name: str) -> None:
        """Wait until so many pods of a workflow's runs run."""
        wait_for(
            "workers to run",
            lambda: len(self.workers(name)) >= count,
            timeout=300,
            detail=lambda: self.told_by(name),
        )

    def wait_clean(self, name: str, timeout: float = 180) -> None:
        """Wait until the runs of a workflow have left nothing."""
        wait_for(
            "nothing to be left",
            lambda: not self.left(name),
            timeout=timeout,
            detail=lambda: str(self.left(name)),
        )


@contextmanager
def installed(
    lab: Lab, folder: Path, *, image: str = STEPS, step_seconds: int | None = None
) -> Iterator[Product]:
    """Install the product in a namespace of its own for the time of a `with` block.

    Args:
        lab: where.
        folder: for the manifests.
        image: name of the steps image, which is built anew.
        step_seconds: longest time of a step that runs nothing, instead of half an hour; the exit
            handler then waits shorter too.
    """
    lab.build_image(ROOT, ROOT / "containers" / "steps" / "Containerfile", image)
    build_standin(lab)
    with lab.namespace("readiness", executor_role=False) as namespace:
        manifests = render(Rendering(namespace=namespace, image=image))
        for workflow in workflow_templates(manifests):
            for template in workflow["spec"]["templates"]:
                if template["name"] == "run":
                    template["container"]["env"] += QUICK
                if step_seconds and template["name"] == FINISH:
                    template["container"]["env"] += QUICK_END
                elif step_seconds and template.get("timeout") == STEP_TIMEOUT:
                    template["timeout"] = f"{step_seconds}s"
        write(manifests, folder)
        lab.kubectl("apply", "-k", folder)
        yield Product(lab, namespace)


def node_statuses(report: dict[str, Any]) -> dict[str, str]:
    return {node["node"]: node["status"] for node in report["nodes"]}


def reason_codes(report: dict[str, Any]) -> set[str]:
    return {reason["code"] for node in report["nodes"] for reason in node.get("reasons", [])}
