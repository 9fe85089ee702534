"""The product on a real Kubernetes with Argo: installed by kustomize, run by `argo submit`.

The nodes look like H100 machines, the workload is the CPU stand-in's real MPI over the pod network.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.certification import load_certification
from pipelines.local import certify
from pipelines.render import Rendering, render, write
from pipelines.templates.images import STEPS_IMAGE
from steps.documents import Result
from steps.run.fleet import load_fleet
from steps.store import DirectoryStore
from tests.cluster import dress
from tests.cluster.lab import Lab
from tests.cluster.shell import wait_for
from tests.steps.test_programs import run_dag
from tests.templates.argo import workflow_templates

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
STEPS = "docker.io/library/readiness-steps:test"
STANDIN = "docker.io/library/readiness-standin:test"

QUICK = [
    {"name": "READINESS_SCHEDULING_DEADLINE", "value": "30"},
    {"name": "READINESS_POLL_SECONDS", "value": "1"},
    {"name": "READINESS_SETTLE_SECONDS", "value": "8"},
    {"name": "READINESS_BACKOFF_SECONDS", "value": "1"},
]
"""The run step waits as long as suits a test; nothing else differs from what is installed."""

CERTIFICATION = """\
apiVersion: readiness/v1
kind: Certification
metadata: {{name: {name}}}
spec:
  stage: burn-in
  image: {image}
  gpusPerNode: 2
  mlnxPerNode: 0
  timeoutPerJob: {timeout}
  replaceBars: true
  thresholds: {{busBandwidthGBps: '{bar}'}}
  categories:
    - domain: communication
      variant: nccl-all-reduce
      options: {{maxBytes: {size}, numIterations: {iterations}, numCycles: 1, isolate: {isolate}}}
"""


def certification(
    name: str,
    *,
    bar: str = "value > 0.0",
    image: str = STANDIN,
    size: str = "4M",
    iterations: int = 2,
    timeout: str = "5m",
    isolate: bool = False,
) -> str:
    return CERTIFICATION.format(
        name=name,
        bar=bar,
        image=image,
        size=size,
        iterations=iterations,
        timeout=timeout,
        isolate=str(isolate).lower(),
    )


class Product:
    """The product, installed in a namespace of its own."""

    def __init__(self, lab: Lab, namespace: str) -> None:
        self.lab = lab
        self.namespace = namespace

    def submit(self, text: str, *words: str, wait: bool = True, server: bool = False) -> str:
        """Submit a certification as a person does and return the name of the workflow."""
        arguments = ["submit", "--from", "workflowtemplate/certification", "-n", self.namespace]
        arguments += ["-p", f"certification={text}", "-o", "name", *words]
        name = self.lab.argo(*arguments, server=server).strip().splitlines()[-1]
        if wait:
            self.wait(name)
        return name

    def wait(self, name: str, timeout: float = 400) -> None:
        wait_for(
            f"workflow {name} to end",
            lambda: self.phase(name) in {"Succeeded", "Failed", "Error"},
            timeout=timeout,
            detail=lambda: self.lab.try_argo("get", name, "-n", self.namespace).stdout[-4000:],
        )

    def workflow(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.lab.get("workflow", name, "-n", self.namespace)
        return found

    def phase(self, name: str) -> str:
        return str(self.workflow(name).get("status", {}).get("phase", ""))

    def steps(self, name: str) -> dict[str, str]:
        """Return the phase of every step by its display name."""
        nodes = self.workflow(name)["status"].get("nodes", {}).values()
        return {node["displayName"]: node["phase"] for node in nodes}

    def words(self, name: str) -> str:
        """Return what the steps printed; says why an outcome is not the expected one."""
        return self.lab.try_argo("logs", name, "-n", self.namespace, "--no-color").stdout[-6000:]

    def report(self, name: str) -> dict[str, Any]:
        """Read the report from its ConfigMap, as it stays after the workflow."""
        selector = f"readiness/workflow={name},readiness/kind=Report"
        maps = self.lab.get("configmap", "-n", self.namespace, "-l", selector)["items"]
        packed = b"".join(
            base64.b64decode(item["binaryData"]["data"])
            for item in sorted(maps, key=lambda item: item["metadata"]["name"])
        )
        report: dict[str, Any] = json.loads(gzip.decompress(packed))
        return report

    def left(self) -> list[str]:
        """Return what runs have left: Jobs, Secrets, and pods that hold a tool."""
        selector = ["-n", self.namespace, "-l", "readiness/workflow"]
        items = self.lab.get("jobs,pods,secrets", *selector)["items"]
        return [f"{item['kind']}/{item['metadata']['name']}" for item in items]

    def run_pods(self, name: str) -> list[str]:
        """Return the names of the run step's own pods."""
        selector = f"workflows.argoproj.io/workflow={name},app.kubernetes.io/component=run"
        pods = self.lab.get("pods", "-n", self.namespace, "-l", selector)["items"]
        return [pod["metadata"]["name"] for pod in pods]

    def workers(self) -> list[str]:
        """Return the names of running pods that the run step has made."""
        pods = self.lab.get("pods", "-n", self.namespace, "-l", "readiness/workflow")["items"]
        return [p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Running"]

    def wait_for_workers(self, count: int = 2) -> None:
        wait_for("workers to run", lambda: len(self.workers()) >= count, timeout=120)

    def wait_clean(self, timeout: float = 90) -> None:
        wait_for(
            "nothing to be left",
            lambda: not self.left(),
            timeout=timeout,
            detail=lambda: str(self.left()),
        )


@pytest.fixture(scope="module")
def product(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    for name in lab.node_names:
        lab.dress(name, dress.ONPREM_H100)
    lab.build_image(ROOT, ROOT / "containers" / "steps" / "Containerfile", STEPS)
    standin = ROOT / "containers" / "standin"
    lab.build_image(standin, standin / "Containerfile", STANDIN)
    with lab.namespace("readiness", executor_role=False) as namespace:
        out = tmp_path_factory.mktemp("manifests")
        manifests = render(Rendering(namespace=namespace, image=STEPS))
        for workflow in workflow_templates(manifests):
            for template in workflow["spec"]["templates"]:
                if template["name"] == "run":
                    template["container"]["env"] += QUICK
        write(manifests, out)
        lab.kubectl("apply", "-k", out)
        yield Product(lab, namespace)


def node_statuses(report: dict[str, Any]) -> dict[str, str]:
    return {node["node"]: node["status"] for node in report["nodes"]}


def reason_codes(report: dict[str, Any]) -> set[str]:
    return {reason["code"] for node in report["nodes"] for reason in node.get("reasons", [])}


def test_api_server_accepts_every_manifest(lab: Lab, product: Product, tmp_path: Path) -> None:
    write(render(Rendering(namespace=product.namespace, image=STEPS)), tmp_path)
    done = lab.kubectl("apply", "-k", tmp_path, "--server-side", "--dry-run=server",
                       "--force-conflicts")  # fmt: skip
    assert done.count("serverside-applied") >= 20


def test_argo_lint_finds_nothing(lab: Lab, tmp_path: Path) -> None:
    for artifacts in ("", "default"):
        out = tmp_path / (artifacts or "none")
        written = write(render(Rendering(image=STEPS, artifact_repository=artifacts)), out)
        files = [path for path in written if path.parent != out]
        said = lab.argo("lint", "--offline", "--kinds", "workflowtemplates,cronworkflows", *files)
        assert "no linting errors found" in said


def test_recorded_outputs_give_the_same_report_as_on_a_laptop(
    lab: Lab, product: Product, tmp_path: Path
) -> None:
    """The documents travel through ConfigMaps of a real API server instead of a directory."""
    certification_file = ROOT / "examples" / "recorded" / "certification.yaml"
    fleet = ROOT / "examples" / "recorded" / "fleet.yaml"
    loaded, source = load_certification(certification_file)
    here = certify(loaded, load_fleet(fleet), DirectoryStore(tmp_path), text=source)
    names = [category.id for category in loaded.spec.categories]
    store = f"configmap:{product.namespace}/recorded"
    code = run_dag(store, tmp_path / "outputs", certification_file, fleet, names, env=lab.env)
    assert code == {Result.PASS: 0, Result.FAIL: 1}[here.result]
    there = product.report("recorded")
    mine = here.to_data()
    for name in ("started", "ended"):
        mine.pop(name, None)
        there.pop(name, None)
    assert there == mine


def test_green_run_passes_and_its_report_stays(product: Product) -> None:
    name = product.submit(certification("green"))
    assert product.phase(name) == "Succeeded", product.words(name)
    report = product.report(name)
    assert report["result"] == "PASS"
    assert set(node_statuses(report).values()) == {"ready"}
    assert len(report["nodes"]) == 2
    assert report["source"] == "cluster"
    figures = report["categories"][0]["groups"][0]["figures"]
    assert figures["rankCount"]["value"] == 4
    assert product.left() == []
    product.lab.argo("delete", name, "-n", product.namespace)
    assert product.report(name)["result"] == "PASS"


def test_bar_above_what_is_reached_fails_and_names_no_innocent(product: Product) -> None:
    name = product.submit(certification("red", bar="value > 100000.0"))
    assert product.phase(name) == "Failed"
    report = product.report(name)
    assert report["result"] == "FAIL"
    assert set(node_statuses(report).values()) == {"not-proven"}
    assert product.left() == []


def test_the_same_through_the_server_that_the_ui_uses(product: Product) -> None:
    name = product.submit(certification("by-ui"), server=True)
    assert product.phase(name) == "Succeeded", product.words(name)
    assert product.report(name)["result"] == "PASS"


def test_category_runs_alone(product: Product) -> None:
    text = certification("alone")
    name = product.lab.argo(
        "submit", "--from", "workflowtemplate/communication-nccl-all-reduce",
        "-n", product.namespace, "-p", f"certification={text}", "-o", "name",
    ).strip().splitlines()[-1]  # fmt: skip
    product.wait(name)
    assert product.phase(name) == "Succeeded", product.words(name)
    assert product.report(name)["result"] == "PASS"


def test_readiness_submit_waits_and_prints_the_report(product: Product, tmp_path: Path) -> None:
    path = tmp_path / "certification.yaml"
    path.write_text(certification("submitted"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "submit", str(path), "--wait",
         "--namespace", product.namespace],
        capture_output=True, text=True, cwd=ROOT, env=product.lab.env, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"image": "docker.io/library/does-not-exist:1"}, "INFRA_IMAGE_PULL"),
    ],
)
def test_launch_failure_is_ours_and_fails_no_node(
    product: Product, changes: dict[str, Any], code: str
) -> None:
    name = product.submit(certification("broken", timeout="2m", **changes))
    report = product.report(name)
    assert product.phase(name) == "Failed"
    assert report["result"] == "INCONCLUSIVE"
    assert code in reason_codes(report)
    assert "failed" not in node_statuses(report).values()
    assert product.left() == []


def test_too_few_gpus_are_found_before_anything_runs(product: Product) -> None:
    name = product.submit(certification("too-few").replace("gpusPerNode: 2", "gpusPerNode: 16"))
    report = product.report(name)
    assert report["result"] == "INCOMPLETE"
    assert set(node_statuses(report).values()) == {"excluded"}
    assert reason_codes(report) == {"NODE_EXCLUDED_GPU_COUNT"}


LONG: dict[str, Any] = {"size": "16M", "iterations": 100000, "timeout": "70s"}


def disturb(product: Product, name: str, action: Callable[[], object]) -> dict[str, Any]:
    """Submit a long run, disturb it when its workers run, and return its report."""
    workflow = product.submit(certification(name, **LONG), wait=False)
    product.wait_for_workers()
    action()
    product.wait(workflow)
    product.wait_clean()
    return product.report(workflow)


def test_deleted_worker_pod_fails_no_node(product: Product) -> None:
    report = disturb(
        product,
        "worker-gone",
        lambda: product.lab.kubectl(
            "delete", "pod", product.workers()[0], "-n", product.namespace, "--wait=false"
        ),
    )
    assert report["result"] == "INCONCLUSIVE"
    assert "failed" not in node_statuses(report).values()


def test_cordoned_node_fails_and_no_other(product: Product) -> None:
    node = product.lab.node_names[0]
    try:
        report = disturb(product, "cordoned", lambda: product.lab.cordon(node))
    finally:
        product.lab.uncordon(node)
    assert report["result"] == "FAIL"
    statuses = node_statuses(report)
    assert statuses.pop(node) == "failed"
    assert "failed" not in statuses.values()


def test_killed_run_pod_is_a_missing_result(product: Product) -> None:
    workflow = product.submit(certification("run-killed", **LONG), wait=False)
    product.wait_for_workers()
    for pod in product.run_pods(workflow):
        product.lab.kubectl(
            "delete", "pod", pod, "-n", product.namespace, "--force", "--grace-period=0"
        )
    product.wait(workflow)
    product.wait_clean()
    report = product.report(workflow)
    assert report["result"] == "INCONCLUSIVE"
    assert "failed" not in node_statuses(report).values()


@pytest.mark.parametrize("verb", ["stop", "terminate"])
def test_stopped_workflow_leaves_nothing(product: Product, verb: str) -> None:
    workflow = product.submit(certification(f"to-{verb}", **LONG), wait=False)
    product.wait_for_workers()
    product.lab.argo(verb, workflow, "-n", product.namespace)
    product.wait(workflow)
    product.wait_clean()
    assert product.phase(workflow) in {"Failed", "Error"}


def test_cron_fires_and_leaves_a_report(product: Product) -> None:
    cron = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "every-minute", "namespace": product.namespace},
        "spec": {
            "schedules": ["* * * * *"],
            "concurrencyPolicy": "Forbid",
            "workflowSpec": {
                "workflowTemplateRef": {"name": "certification"},
                "arguments": {
                    "parameters": [
                        {"name": "certification", "value": certification("from-cron")},
                    ]
                },
            },
        },
    }
    product.lab.apply(cron, namespace=product.namespace)
    selector = "workflows.argoproj.io/cron-workflow=every-minute"

    def fired() -> list[dict[str, Any]]:
        found = product.lab.get("workflows", "-n", product.namespace, "-l", selector)["items"]
        return list(found)

    try:
        wait_for("the cron to fire", lambda: bool(fired()), timeout=100)
        name = fired()[0]["metadata"]["name"]
        # It owns its workflows, so it goes only after this one has ended.
        stop = json.dumps({"spec": {"suspend": True}})
        product.lab.kubectl(
            "patch", "cronworkflow", "every-minute", "-n", product.namespace, "--type=merge",
            "-p", stop,
        )  # fmt: skip
        product.wait(name)
    finally:
        product.lab.kubectl("delete", "cronworkflow", "every-minute", "-n", product.namespace)
    assert product.report(name)["result"] == "PASS"


README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
]
NO_SUCH_NODES = {"argo submit": 1, "readiness submit": 4}
"""The README's certifications name nodes that this cluster does not have, so nothing is covered."""


def test_commands_of_the_readme_work_on_a_cluster(
    lab: Lab, product: Product, tmp_path: Path
) -> None:
    steps = ROOT / "containers" / "steps" / "Containerfile"
    lab.build_image(ROOT, steps, f"docker.io/library/{STEPS_IMAGE}")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    programs = Path(sys.executable).parent
    env = lab.env | {"PATH": f"{programs}:{lab.env['PATH']}"}
    assert COMMANDS
    for line in COMMANDS:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        expected = next(
            (code for start, code in NO_SUCH_NODES.items() if line.startswith(start)), 0
        )
        assert done.returncode == expected, f"{line}\n{done.stdout}{done.stderr}"
    lab.kubectl("delete", "-k", tmp_path / "deploy")
