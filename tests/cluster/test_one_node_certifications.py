"""Certifications of one node each, two at a time: how they are submitted, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import dress
from tests.cluster.gangs import ROOT
from tests.cluster.lab import Lab
from tests.cluster.lanes import side_by_side
from tests.cluster.product import (
    SLOW,
    Product,
    certification,
    node_statuses,
    reason_codes,
)
from tests.cluster.shell import wait_for

pytestmark = pytest.mark.cluster

Outcomes = Mapping[str, Future[Any]]


@pytest.fixture(scope="module")
def outcomes(
    lab: Lab, product: Product, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcomes]:
    lab.dress_all(dress.ONPREM_H100)
    stories = Stories(product, tmp_path_factory.mktemp("submitted"))
    told = {name: getattr(stories, name) for name in vars(Stories) if not name.startswith("_")}
    with side_by_side(lab.node_names, told) as found:
        yield found


class Stories:
    """What happens to a certification of one node; each returns what its test looks at."""

    def __init__(self, product: Product, folder: Path) -> None:
        self._product = product
        self._folder = folder

    def by_the_server_of_the_ui(self, node: str) -> str:
        name = self._submit(certification("by-ui", nodes=[node]), node, server=True)
        self._product.wait(name)
        return name

    def category_alone(self, node: str) -> str:
        text = certification("alone", nodes=[node])
        template = "workflowtemplate/communication-nccl-all-reduce"
        name = self._submit(text, node, template=template)
        self._product.wait(name)
        return name

    def by_readiness_submit(self, node: str) -> subprocess.CompletedProcess[str]:
        path = self._folder / "certification.yaml"
        path.write_text(certification("submitted", nodes=[node]), encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-m", "pipelines.cli", "submit", str(path), "--wait",
             "--node-pool", node, "--namespace", self._product.namespace],
            capture_output=True, text=True, cwd=ROOT, env=self._product.lab.env, timeout=600,
            check=False,
        )  # fmt: skip

    def launch_failure(self, node: str) -> str:
        text = certification("broken", image="registry.invalid/Not//aName", nodes=[node])
        name = self._submit(text, node)
        self._product.wait(name)
        return name

    def lost_worker(self, node: str) -> str:
        return self._disturbed("worker-gone", node, self._delete_worker, pause_ms=100)

    def stopped(self, node: str) -> str:
        return self._disturbed("to-stop", node, lambda name: self._argo("stop", name))

    def terminated(self, node: str) -> str:
        return self._disturbed("to-terminate", node, lambda name: self._argo("terminate", name))

    def killed_run_pod(self, node: str) -> str:
        return self._disturbed("run-killed", node, self._kill_run_step)

    def deleted_run_pod(self, node: str) -> str:
        return self._disturbed("run-deleted", node, self._delete_run_pod, pause_ms=100)

    def deleted_workflow(self, node: str) -> str:
        """Kubernetes' garbage collector is all that cleans up here."""
        name = self._submit(certification("deleted", nodes=[node], pause_ms=SLOW), node)
        self._product.wait_for_workers(1, name)
        words = ["-n", self._product.namespace, "--wait=false"]
        self._product.lab.kubectl("delete", "workflow", name, *words)
        self._product.wait_clean(name)
        wait_for(
            "records and steps to go",
            lambda: not self._product.documents_and_steps(name),
            timeout=180,
            detail=lambda: self._product.documents_and_steps(name),
        )
        return name

    def _submit(self, text: str, node: str, **how: Any) -> str:
        return self._product.submit(text, "-p", f"node-pool={node}", wait=False, **how)

    def _disturbed(
        self, name: str, node: str, act: Callable[[str], object], pause_ms: int = SLOW
    ) -> str:
        """Let a long run be disturbed when its worker runs, and return the workflow's name."""
        workflow = self._submit(certification(name, nodes=[node], pause_ms=pause_ms), node)
        self._product.wait_for_workers(1, workflow)
        act(workflow)
        self._product.wait(workflow)
        self._product.wait_clean(workflow)
        return workflow

    def _argo(self, verb: str, workflow: str) -> None:
        self._product.lab.argo(verb, workflow, "-n", self._product.namespace)

    def _delete_worker(self, workflow: str) -> None:
        (worker,) = self._product.workers(workflow)
        words = ["-n", self._product.namespace, "--wait=false"]
        self._product.lab.kubectl("delete", "pod", worker, *words)

    def _kill_run_step(self, workflow: str) -> None:
        (pod,) = self._product.run_pods(workflow)
        killed = kill_python_of(pod)
        assert killed == 1

    def _delete_run_pod(self, workflow: str) -> None:
        (pod,) = self._product.run_pods(workflow)
        words = ["-n", self._product.namespace, "--force", "--grace-period=0"]
        self._product.lab.kubectl("delete", "pod", pod, *words)


def kill_python_of(pod: str) -> int:
    """Kill a step as the kernel does that is out of memory, and return how many processes it had.

    Argo's own process around it goes on, and tells the exit code.
    """
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (process / "environ").read_bytes().split(b"\0")
            program = (process / "cmdline").read_bytes().split(b"\0")[0]
            if f"POD_NAME={pod}".encode() in environment and program.endswith(b"python"):
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
    return killed


def test_submitted_through_the_server_that_the_ui_uses(
    product: Product, outcomes: Outcomes
) -> None:
    name = outcomes["by_the_server_of_the_ui"].result()
    assert product.phase(name) == "Succeeded", product.words(name)
    assert product.report(name)["result"] == "PASS"


def test_category_runs_alone(product: Product, outcomes: Outcomes) -> None:
    name = outcomes["category_alone"].result()
    assert product.phase(name) == "Succeeded", product.words(name)
    assert product.report(name)["result"] == "PASS"


def test_readiness_submit_waits_and_prints_the_report(outcomes: Outcomes) -> None:
    done = outcomes["by_readiness_submit"].result()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout


def test_launch_failure_is_ours_and_fails_no_node(product: Product, outcomes: Outcomes) -> None:
    """All causes are in test_launch_failures; this one shows how they come into a report."""
    name = outcomes["launch_failure"].result()
    report = product.report(name)
    assert product.phase(name) == "Failed"
    assert report["result"] == "INCONCLUSIVE", product.told_by(name)
    assert "INFRA_IMAGE_PULL" in reason_codes(report), product.told_by(name)
    assert "failed" not in node_statuses(report).values()


def test_run_that_lost_its_worker_is_tried_again(product: Product, outcomes: Outcomes) -> None:
    name = outcomes["lost_worker"].result()
    assert product.report(name)["result"] == "PASS", product.told_by(name)


def test_run_step_whose_pod_is_deleted_begins_again(product: Product, outcomes: Outcomes) -> None:
    """Argo makes the pod anew; the new one removes what the old one left on the GPUs."""
    name = outcomes["deleted_run_pod"].result()
    assert product.report(name)["result"] == "PASS", product.told_by(name)


def test_killed_run_step_is_a_missing_result(product: Product, outcomes: Outcomes) -> None:
    name = outcomes["killed_run_pod"].result()
    report = product.report(name)
    assert report["result"] == "INCONCLUSIVE", product.told_by(name)
    assert "failed" not in node_statuses(report).values()


@pytest.mark.parametrize("verb", ["stopped", "terminated"])
def test_workflow_that_is_ended_leaves_nothing(
    product: Product, outcomes: Outcomes, verb: str
) -> None:
    """That nothing is left is waited for in the story itself."""
    name = outcomes[verb].result()
    assert product.phase(name) in {"Failed", "Error"}, product.told_by(name)


def test_deleting_the_workflow_in_mid_run_removes_everything(outcomes: Outcomes) -> None:
    outcomes["deleted_workflow"].result()
