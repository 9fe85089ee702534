"""What an installation gives, where no GPU is needed or most of the time is spent waiting."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from catalog.certification import load_certification
from pipelines.local import certify
from pipelines.render import Rendering, render, write
from pipelines.templates.images import STEPS_IMAGE
from steps.documents import Result
from steps.fleets.fleet import load_fleet
from steps.store.store import DirectoryStore
from tests.cluster import dress
from tests.cluster.gangs import ROOT, waiting_workflow
from tests.cluster.lab import Lab
from tests.cluster.lanes import side_by_side
from tests.cluster.product import (
    STEPS,
    Product,
    certification,
    node_statuses,
    reason_codes,
)
from tests.cluster.shell import wait_for
from tests.docs.pages import commands
from tests.steps.test_programs import run_dag

pytestmark = pytest.mark.cluster

COMMANDS = [line.removeprefix("uv run ") for line in commands(ROOT / "README.md", "bash")]
NO_SUCH_NODES = {"argo submit": 1, "readiness submit": 4}
"""The README's certifications name nodes that this cluster does not have, so nothing is covered."""


@pytest.fixture(scope="module", autouse=True)
def onprem_nodes(lab: Lab) -> None:
    lab.dress_all(dress.ONPREM_H100)


@pytest.fixture(scope="module", autouse=True)
def meanwhile(
    lab: Lab, product: Product, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Any]]]:
    """What mostly waits, begun before the first test."""
    steps = ROOT / "containers" / "steps" / "Containerfile"
    lab.build_image(ROOT, steps, f"docker.io/library/{STEPS_IMAGE}")
    folder = tmp_path_factory.mktemp("readme")
    stories = {
        "cron": lambda node: follow_cron(product, node),
        "README": lambda _: follow_readme(lab, folder),
    }
    with side_by_side(lab.node_names, stories) as found:
        yield found


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
    run = waiting_workflow(lab, product.namespace, "recorded")
    store = f"configmap:{product.namespace}/{run.name}/{run.uid}"
    code = run_dag(store, tmp_path / "outputs", certification_file, fleet, names, env=lab.env)
    assert code == {Result.PASS: 0, Result.FAIL: 1}[here.result]
    there = product.report("recorded")
    lab.kubectl("delete", "workflow", "recorded", "-n", product.namespace)
    mine = here.to_data()
    for name in ("started", "ended"):
        mine.pop(name, None)
        there.pop(name, None)
    assert there == mine


def test_too_few_gpus_are_found_before_anything_runs(product: Product) -> None:
    """On the node that the cron does not use."""
    text = certification("too-few", gpus=16, nodes=product.lab.node_names[1:])
    name = product.submit(text, "-p", "node-pool=too-few")
    report = product.report(name)
    assert report["result"] == "INCOMPLETE", product.told_by(name)
    assert set(node_statuses(report).values()) == {"excluded"}
    assert reason_codes(report) == {"NODE_EXCLUDED_GPU_COUNT"}


def follow_cron(product: Product, node: str) -> dict[str, Any]:
    """Let a cron fire once, on one node, and return the report of its workflow."""
    text = certification("from-cron", nodes=[node])
    parameters = {"parameters": [{"name": "certification", "value": text}]}
    template = {"workflowTemplateRef": {"name": "certification"}, "arguments": parameters}
    cron = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "every-minute", "namespace": product.namespace},
        "spec": {
            "schedules": ["* * * * *"],
            "concurrencyPolicy": "Forbid",
            "workflowSpec": template,
        },
    }
    product.lab.apply(cron, namespace=product.namespace)
    selector = "workflows.argoproj.io/cron-workflow=every-minute"
    words = ["cronworkflow", "every-minute", "-n", product.namespace]

    def fired() -> list[dict[str, Any]]:
        found = product.lab.get("workflows", "-n", product.namespace, "-l", selector)["items"]
        return list(found)

    try:
        wait_for("the cron to fire", lambda: bool(fired()), timeout=180)
        name = fired()[0]["metadata"]["name"]
        # It owns its workflows, so it goes only after this one has ended.
        stop = json.dumps({"spec": {"suspend": True}})
        product.lab.kubectl("patch", *words, "--type=merge", "-p", stop)
        product.wait(name)
    finally:
        product.lab.kubectl("delete", *words)
    return product.report(name)


def test_cron_fires_and_leaves_a_report(meanwhile: Mapping[str, Future[Any]]) -> None:
    report = meanwhile["cron"].result()
    assert report["result"] == "PASS", report


def follow_readme(lab: Lab, folder: Path) -> None:
    """Run the README's commands for a cluster, as somebody would who has just cloned it."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    programs = Path(sys.executable).parent
    env = lab.env | {"PATH": f"{programs}:{lab.env['PATH']}"}
    for line in COMMANDS:
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        expected = next(
            (code for start, code in NO_SUCH_NODES.items() if line.startswith(start)), 0
        )
        assert done.returncode == expected, f"{line}\n{done.stdout}{done.stderr}"
    lab.kubectl("delete", "-k", folder / "deploy")


def test_commands_of_the_readme_work_on_a_cluster(meanwhile: Mapping[str, Future[Any]]) -> None:
    assert COMMANDS
    meanwhile["README"].result()
