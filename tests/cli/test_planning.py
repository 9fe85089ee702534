"""What `plan` says beforehand, where nodes come from, and which documents are mixed up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.cli.certify import _Shown
from pipelines.cli.measured import show_measurements
from steps.documents import PlannedCategory
from steps.parse.reader import parse_bytes
from tests.builders import group, record
from tests.cli.test_commands import EXAMPLES, readiness

CERTIFICATION = """\
kind: Certification
metadata: {name: hall-2}
spec:
  stage: burn-in
  target: {nodeSelector: {pool: gpu}}
  categories: [{domain: training, variant: nemotron5-8b}]
"""
FLEET = """\
kind: Fleet
metadata: {name: hall-2}
spec:
  source: simulated
  nodes:
    - {names: "h2-[1-4]", labels: {pool: gpu}, nics: {rdma/hca_shared_devices_a: 8}}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "certification.yaml", tmp_path / "fleet.yaml"
    for path, text in zip(found, (CERTIFICATION, FLEET), strict=True):
        path.write_text(text, encoding="utf-8")
    return found


def test_command_is_shown_with_the_numbers_of_the_group(files: tuple[Path, Path]) -> None:
    done = readiness("plan", files[0], "--fleet", files[1])
    assert done.returncode == 0, done.stderr
    assert "--global-batch-size=32" in done.stdout
    assert "${" not in done.stdout


@pytest.mark.parametrize(
    ("target", "result", "code"),
    [
        ("nodeSelector: {pool: cpu}", "INCONCLUSIVE", 3),
        ("nodeNames: [h2-9]", "INCOMPLETE", 4),
    ],
    ids=["no node matches", "no named node exists"],
)
def test_plan_of_nothing_exits_as_certify_does(
    files: tuple[Path, Path], tmp_path: Path, target: str, result: str, code: int
) -> None:
    text = CERTIFICATION.replace("nodeSelector: {pool: gpu}", target)
    files[0].write_text(text, encoding="utf-8")
    certified = readiness("certify", files[0], "--fleet", files[1], "--out", tmp_path / "out")
    planned = readiness("plan", files[0], "--fleet", files[1])
    assert (planned.returncode, certified.returncode) == (code, code)
    assert planned.stdout.splitlines()[1].startswith(f"Nothing can run: certify would be {result}")


def test_plan_says_that_the_deadline_cuts_the_timeouts(files: tuple[Path, Path]) -> None:
    text = CERTIFICATION.replace("stage: burn-in", "limits: {deadline: 10m}")
    files[0].write_text(text, encoding="utf-8")
    lines = readiness("plan", files[0], "--fleet", files[1]).stdout.splitlines()
    assert lines[1].startswith("At most 10m0s")
    assert lines[2].startswith("All timeouts together are longer")


@pytest.mark.parametrize(
    "command", [["detect"], ["plan", "examples/recorded/certification.yaml"]], ids=" ".join
)
def test_nodes_come_from_standard_input_too(command: list[str]) -> None:
    nodes = EXAMPLES / "recorded" / "nodes.yaml"
    piped = readiness(*command, "--nodes", "-", stdin=nodes.read_text("utf-8"))
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == readiness(*command, "--nodes", nodes).stdout


def test_what_is_no_node_is_told_of_standard_input_as_of_a_file() -> None:
    done = readiness("detect", "--nodes", "-", stdin=CERTIFICATION)
    assert done.returncode == 2
    assert "-:1: kind: is Certification, expected Node" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("certification.yaml", "--fleet", "certification.yaml"), "'Certification', exp"),
        (("fleet.yaml", "--fleet", "fleet.yaml"), "is 'Fleet', expected 'Certification'"),
        (("certification.yaml", "--fleet", "fleet.yaml", "--bars", "fleet.yaml"), "'Bars'"),
    ],
)
def test_document_of_another_kind_is_refused_by_its_kind(
    files: tuple[Path, Path], words: tuple[str, ...], says: str
) -> None:
    done = readiness("plan", *words, cwd=files[0].parent)
    assert done.returncode == 2
    assert ".yaml:1: kind: is " in done.stderr
    assert says in done.stderr


def test_platform_of_ones_own_in_a_fleet_says_what_to_write(files: tuple[Path, Path]) -> None:
    files[1].write_text(FLEET.replace("labels:", "platform: hall-2, labels:"), encoding="utf-8")
    done = readiness("plan", files[0], "--fleet", files[1])
    assert done.returncode == 2
    assert "fleet.yaml:6: spec.nodes[0].platform: 'hall-2' is none of onprem, aws" in done.stderr
    assert "name its profile in spec.profile" in done.stderr


def test_nvcres_word_for_an_entry_points_to_ours() -> None:
    assert "Possible options: --entry" in readiness("judge", "-", "--category", "x").stderr


def test_progress_counts_pair_runs_as_well() -> None:
    whole, pairs = group(["a", "b"]), [group(["a", "c"], "isolate-0", "isolate")] * 2
    shown = _Shown(Console(quiet=True), quiet=True)
    shown.category(PlannedCategory(id="communication/nccl-all-reduce", scale="x", parts=()), 1)
    shown.group_done("x", whole, record(whole))
    shown.isolating(len(pairs))
    for pair in pairs:
        shown.group_done("x", pair, record(pair))
    assert (shown.bar.tasks[0].completed, shown.bar.tasks[0].total) == (3, 3)


def test_tool_that_is_called_like_its_operation_is_named_once() -> None:
    text = json.dumps({"DCGM GPU Diagnostic": {"test_categories": []}, "version": "4.2.3"})
    console = Console(record=True, quiet=True)
    show_measurements(parse_bytes(text.encode(), "diag.json"), console)
    assert "diag diag" not in console.export_text()
