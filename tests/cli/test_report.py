"""`readiness report`: a report that was written before, from a directory or a workflow."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

from catalog.errors import ClusterError, InputError
from pipelines.cli import report as command
from pipelines.cli.report import FORMATS
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore
from steps.documents import Report, load
from steps.store.store import DirectoryStore
from tests.cluster_units.fake import FakeCluster
from tests.report.samples import all_pass, eight_nodes, inconclusive

RUN = WorkflowRun("nightly-x7k2p", "u-1")

app = typer.Typer()
command.register(app)


@app.callback()
def _root() -> None:
    pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    found = FakeCluster()
    monkeypatch.setattr(command, "connect", lambda *_: found)
    return found


@pytest.mark.parametrize(
    ("report", "code"), [(all_pass(), 0), (eight_nodes(), 1), (inconclusive(), 3)]
)
def test_exit_code_is_that_of_the_result(
    cluster: FakeCluster, tmp_path: Path, report: Report, code: int
) -> None:
    ConfigMapStore(cluster, RUN).put(report)
    DirectoryStore(tmp_path).put(report)
    of_workflow = CliRunner().invoke(app, ["report", "--workflow", "nightly-x7k2p"])
    of_directory = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert (of_workflow.exit_code, of_directory.exit_code) == (code, code)
    assert of_workflow.output == of_directory.output
    assert f"{report.result}  " in of_workflow.output


def test_a_name_that_was_used_again_is_the_last_one_unless_the_uid_says_which(
    cluster: FakeCluster,
) -> None:
    old, new = WorkflowRun(RUN.name, "u-old"), WorkflowRun(RUN.name, "u-new")
    for run, report, when in ((new, eight_nodes(), "02"), (old, all_pass(), "01")):
        before = len(cluster.of("ConfigMap"))
        ConfigMapStore(cluster, run).put(report)
        for item in cluster.of("ConfigMap")[before:]:
            item["metadata"]["creationTimestamp"] = f"2026-03-{when}T00:00:00Z"
    words = ["report", "--workflow", RUN.name]
    assert CliRunner().invoke(app, words).exit_code == 1
    assert CliRunner().invoke(app, [*words, "--uid", "u-old"]).exit_code == 0
    # A Workflow that is there and has no report yet is not that of the night before.
    cluster.put({"kind": "Workflow", "metadata": {"name": RUN.name, "uid": "u-now"}})
    assert isinstance(CliRunner().invoke(app, words).exception, ClusterError)


def test_every_face_shows_the_report(tmp_path: Path) -> None:
    DirectoryStore(tmp_path).put(eight_nodes())
    shown = {
        face: CliRunner().invoke(app, ["report", str(tmp_path), "--format", face]).output
        for face in FORMATS
    }
    assert load(shown["json"].encode(), Report, "stdout") == eight_nodes()
    assert ElementTree.fromstring(shown["junit"]).tag == "testsuites"
    assert shown["html"].lower().startswith("<!doctype html>")
    assert all("FAIL" in shown[face] for face in ("text", "html"))


def test_unknown_format_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(tmp_path), "--format", "htm"])
    assert isinstance(result.exception, InputError)
    assert "did you mean 'html'" in str(result.exception)


def test_no_report_is_one_message_and_no_pass(cluster: FakeCluster, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", "--workflow", "nightly-x7k2p"])
    assert isinstance(result.exception, ClusterError)
    assert "nightly-x7k2p left no report" in str(result.exception)
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "holds no report.json" in str(result.exception)


@pytest.mark.parametrize("words", [[], ["out", "--workflow", "w"]])
def test_it_shows_one_report(words: list[str]) -> None:
    result = CliRunner().invoke(app, ["report", *words])
    assert isinstance(result.exception, InputError)
    assert "one of them" in str(result.exception)
