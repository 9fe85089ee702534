"""`readiness submit`: the workflow it creates, what it shows, and its exit code."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from catalog.errors import ClusterError
from pipelines.cli import submit as command
from pipelines.submission import steps_of
from steps.aggregate.core import make_report
from steps.documents import Report
from tests.builders import group, plan

app = typer.Typer()
command.register(app)


@app.callback()
def _root() -> None:
    pass


CERTIFICATION = """\
kind: Certification
metadata: {name: two-nodes}
spec:
  limits: {deadline: 2h}
  categories: [{domain: diagnostics, variant: dcgm-level1}]
"""


def node(name: str, phase: str, started: str, kind: str = "Pod") -> dict[str, str]:
    return {"name": name, "type": kind, "phase": phase, "startedAt": started, "displayName": name}


def workflow(phase: str, *nodes: dict[str, str]) -> dict[str, Any]:
    return {"status": {"phase": phase, "nodes": {item["name"]: item for item in nodes}}}


class FakeCluster:
    """Answers with the given states of the workflow, one for each look."""

    def __init__(self, states: list[dict[str, Any] | ClusterError]) -> None:
        self.namespace = "argo"
        self.created: list[dict[str, Any]] = []
        self.states: Iterator[dict[str, Any] | ClusterError] = iter(states)

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        self.created.append(body)
        return {"metadata": {"name": body["metadata"]["generateName"] + "x7k2p", "uid": "u-1"}}

    def get(self, kind: str, name: str) -> dict[str, Any]:
        assert (kind, name) == ("Workflow", "two-nodes-x7k2p")
        state = next(self.states)
        if isinstance(state, ClusterError):
            raise state
        return state


@pytest.fixture
def certification(tmp_path: Path) -> Path:
    path = tmp_path / "two-nodes.yaml"
    path.write_text(CERTIFICATION, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "POLL_SECONDS", 0.0)


def run(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, *words: str | Path, report: Report | None
) -> Any:
    asked: list[tuple[str, str | None]] = []

    def connect(namespace: str, context: str | None, _: str) -> FakeCluster:
        asked.append((namespace, context))
        return cluster

    def find_report(found: FakeCluster, name: str, uid: str) -> Report:
        assert uid == "u-1"
        if report is None:
            raise ClusterError(f"{name} left no report")
        return report

    monkeypatch.setattr(command, "connect", connect)
    monkeypatch.setattr(command, "report_of_workflow", find_report)
    result = CliRunner().invoke(app, ["submit", *map(str, words)])
    result.asked = asked  # type: ignore[attr-defined]
    return result


def test_without_waiting_the_name_is_all_that_stdout_holds(
    monkeypatch: pytest.MonkeyPatch, certification: Path
) -> None:
    cluster = FakeCluster([])
    result = run(
        monkeypatch, cluster, certification, "--namespace", "gpu", "--context", "lab", report=None
    )
    assert result.exit_code == 0
    assert result.stdout == "two-nodes-x7k2p\n"
    assert result.asked == [("gpu", "lab")]
    (body,) = cluster.created
    assert body["kind"] == "Workflow"
    assert body["metadata"]["namespace"] == "gpu"
    assert body["spec"]["workflowTemplateRef"] == {"name": "certification"}
    assert body["spec"]["activeDeadlineSeconds"] == 3 * 3600
    assert body["spec"]["arguments"]["parameters"][0] == {
        "name": "certification",
        "value": CERTIFICATION,
    }


def test_what_needs_no_nodes_to_be_wrong_is_refused_before_the_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, certification: Path
) -> None:
    certification.write_text(CERTIFICATION.replace("dcgm-level1", "dcgm-levl1"), encoding="utf-8")
    cluster = FakeCluster([])
    result = run(monkeypatch, cluster, certification, report=None)
    assert "two-nodes.yaml:5: spec.categories[0].variant" in str(result.exception)
    assert "did you mean" in str(result.exception)
    assert (result.asked, cluster.created) == ([], [])


def test_waiting_shows_each_change_once_and_exits_by_the_report(
    monkeypatch: pytest.MonkeyPatch, certification: Path
) -> None:
    detect = node("two-nodes-x7k2p.detect(0)", "Running", "2026-05-01T10:00:00Z")
    done = {**detect, "phase": "Succeeded"}
    aggregate = node("two-nodes-x7k2p.aggregate(0)", "Failed", "2026-05-01T10:30:00Z")
    cluster = FakeCluster(
        [
            {},
            workflow("Running", detect),
            workflow("Running", detect),
            ClusterError("the API server restarts"),
            workflow("Running", done),
            workflow("Failed", done, aggregate),
        ]
    )
    report = make_report(plan([group(["gpu-1", "gpu-2"])]), {}, [])
    result = run(monkeypatch, cluster, certification, "--wait", report=report)
    shown = [line.strip() for line in result.stderr.splitlines()]
    assert shown == [
        "argo/two-nodes-x7k2p",
        "Pending",
        "detect(0): Running",
        "Running",
        "detect(0): Succeeded",
        "aggregate(0): Failed",
        "Failed",
    ]
    assert report.certification in result.stdout
    assert result.exit_code == {"FAIL": 1, "INCONCLUSIVE": 3, "INCOMPLETE": 4}[report.result.value]


def test_a_workflow_without_a_report_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, certification: Path
) -> None:
    cluster = FakeCluster([workflow("Succeeded")])
    result = run(monkeypatch, cluster, certification, "--wait", report=None)
    assert isinstance(result.exception, ClusterError)
    assert result.exit_code != 0


def test_an_api_server_that_stays_away_ends_the_waiting(
    monkeypatch: pytest.MonkeyPatch, certification: Path
) -> None:
    monkeypatch.setattr(command, "PATIENCE_SECONDS", -1.0)
    cluster = FakeCluster([ClusterError("connection refused")])
    result = run(monkeypatch, cluster, certification, "--wait", report=None)
    assert isinstance(result.exception, ClusterError)


def test_steps_are_read_from_a_packed_status_too() -> None:
    nodes = {
        "b": node("w.evaluate(0)", "Pending", "2026-05-01T10:05:00Z"),
        "a": node("w.run(0:group:full-scale-0)", "Succeeded", "2026-05-01T10:00:00Z"),
        "c": node("w.category", "Running", "2026-05-01T09:00:00Z", kind="DAG"),
    }
    packed = base64.b64encode(gzip.compress(json.dumps(nodes).encode())).decode()
    expected = {"run(0:group:full-scale-0)": "Succeeded", "evaluate(0)": "Pending"}
    assert steps_of({"status": {"compressedNodes": packed}}) == expected
    assert list(steps_of({"status": {"nodes": nodes}})) == list(expected)
    assert steps_of({"status": {"compressedNodes": "broken"}}) == {}
    assert steps_of({}) == {}
