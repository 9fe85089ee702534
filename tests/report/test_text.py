from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from catalog.facts.reasons import Effect
from steps.documents import CategoryReport, Exclusion, NodeStatus, Outcome, Report, Result
from steps.report.text import render_text
from tests.report import samples
from tests.report.reading import text_sections

GOLDEN = Path(__file__).parent / "golden"
EVERY = pytest.mark.parametrize("name", list(samples.SAMPLES))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["eight_nodes", "inconclusive"])
def test_text_is_as_it_was(name: str, width: int) -> None:
    """``UPDATE_GOLDEN=1 pytest tests/report`` writes the files anew; read the difference then."""
    text = render_text(samples.SAMPLES[name](), width=width)
    path = GOLDEN / f"{name}-{width}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_eight_nodes_fit_on_one_screen() -> None:
    assert len(render_text(samples.eight_nodes(), width=120).splitlines()) <= 45


@EVERY
def test_no_escape_code_without_colour(name: str) -> None:
    text = render_text(samples.SAMPLES[name]())
    assert "\x1b" not in text
    assert all(char == "\n" or char.isprintable() for char in text)


@EVERY
def test_colour_changes_nothing_but_colour(name: str) -> None:
    report = samples.SAMPLES[name]()
    coloured = render_text(report, colour=True)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == render_text(report).splitlines()


@EVERY
@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_width(name: str, width: int) -> None:
    lines = render_text(samples.SAMPLES[name](), width=width).splitlines()
    assert max(cell_len(line) for line in lines) <= width


@EVERY
def test_every_node_stands_in_the_section_of_its_status(name: str) -> None:
    if name == "hostile":
        pytest.skip("odd names cannot be read back; test_hostile_names_are_all_there has them")
    report = samples.SAMPLES[name]()
    assert {k: sorted(v) for k, v in text_sections(render_text(report)).items()} == _expected(
        report
    )


def _expected(report: Report) -> dict[NodeStatus, list[str]]:
    found: dict[NodeStatus, list[str]] = {}
    for node in report.nodes:
        found.setdefault(node.status, []).append(node.node)
    return found


def test_hostile_names_are_all_there() -> None:
    text = render_text(samples.hostile(), width=140)
    for name in samples.HOSTILE[:8]:
        shown = name.encode("unicode_escape").decode()
        assert shown in text
    assert "a" * 113 in text


def test_failed_nodes_come_with_reason_numbers_source_and_next_step() -> None:
    text = render_text(samples.eight_nodes(), width=140)
    failed = text[text.index("── Failed") : text.index("── communication")]
    assert "gpu-node-07  ThresholdViolation  NCCL_LOW_BANDWIDTH" in failed
    assert "61.3 >= 0.92 * 467.5 is false" in failed
    assert samples.SOURCE in failed
    assert "isolation run pair-2-0 with gpu-node-05 (ready)" in failed
    assert "gpu-node-12  HardwareFailureDetected  XID_79" in failed
    assert "at 42m18s: NVRM: Xid (PCI:0000:9b:00): 79" in failed
    assert failed.count("next: ") == 2


@EVERY
def test_fail_never_stands_on_a_line_with_an_innocent_node(name: str) -> None:
    report = samples.SAMPLES[name]()
    innocent = [node.node for node in report.nodes if node.status is not NodeStatus.FAILED]
    for line in render_text(report, width=140).splitlines():
        if re.search(r"\b(FAIL|FAILED|[Ff]ailed)\b", line):
            assert not [n for n in innocent if re.search(rf"(?<![\w-]){re.escape(n)}(?!\w)", line)]


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("eight_nodes", "SIMULATED", "FAIL (simulated): "),
        ("inconclusive", "RECORDED", "INCONCLUSIVE (recorded): "),
        ("all_pass", "PASS  every", "PASS: every"),
    ],
)
def test_source_and_result_stand_first_and_last(name: str, first: str, last: str) -> None:
    lines = render_text(samples.SAMPLES[name]()).splitlines()
    head = [line for line in lines if line.strip("!")]
    assert head[0].startswith(first)
    assert lines[-1].startswith(last)


def test_category_card_tells_scale_runtime_and_isolation_apart() -> None:
    text = render_text(samples.eight_nodes(), width=120)
    assert (
        "full-scale, 1 group of 8 nodes, runtime 42m18s; 6 isolation runs, 6m2s\n"
        "8 nodes: 6 passed, 2 failed\n" in text
    )
    assert "6 isolation runs: 4 passed, 2 not passed" in text


def test_warnings_of_ready_nodes_are_not_lost() -> None:
    text = render_text(samples.all_pass(), width=120)
    assert "warning: ROW_REMAP_PENDING: GPU 3: a row remap waits for a reset\n    h100-003" in text


def test_a_node_excluded_from_one_category_only_is_told_there() -> None:
    text = render_text(samples.inconclusive(), width=120)
    card = text[text.index("── communication/nccl-all-gather") :]
    assert "not covered here: ip-10-0-7-60.ec2.internal: has 31" in card


def test_nodes_that_one_category_left_out_for_the_same_reason_share_a_line() -> None:
    report = samples.all_pass()
    out = tuple(
        Exclusion(
            node=name,
            code="NODE_EXCLUDED_NIC_MISSING",
            message="has 0, needs 8",
            category=samples.ALL_REDUCE,
        )
        for name in ("h100-001", "h100-002")
    )
    nodes = tuple(
        node.model_copy(update={"categories": {samples.DCGM: Outcome.PASS}})
        if node.node in {"h100-001", "h100-002"}
        else node
        for node in report.nodes
    )
    text = render_text(report.model_copy(update={"excluded": out, "nodes": nodes}), width=120)
    assert "  not covered here: h100-[001-002]: has 0, needs 8\n" in text


def test_bar_that_no_group_met_is_one_line() -> None:
    report = samples.all_pass()
    groups = tuple(
        samples.nccl_group(
            f"pair-1-{number}", (f"a{number}", f"b{number}"), 300.0 + number, purpose="isolate"
        )
        for number in range(9)
    )
    category = report.categories[0].model_copy(update={"groups": groups})
    text = render_text(report.model_copy(update={"categories": (category,)}), width=120)
    assert "  not met    300.0 >= 0.92 * 467.5 … 308.0 >= 0.92 * 467.5  9 of 9 groups" in text
    assert "0 of 9 groups" not in text


def test_lists_break_between_figures_only() -> None:
    text = render_text(samples.all_pass(), width=80)
    assert not any(
        line.endswith(("dip", "latency", "greatest", "wrong")) for line in text.splitlines()
    )


def test_failed_node_without_any_detail_is_still_named() -> None:
    bare = samples.failed("n1", "WorkloadFailed", None)
    category = CategoryReport(
        category=samples.DCGM, outcome=Outcome.FAIL, scale="intra-node", nodes=(bare,)
    )
    text = render_text(samples.make_report([category]))
    assert "n1  WorkloadFailed\n    no detail was recorded" in text


def test_reasons_that_only_the_report_knows_are_shown() -> None:
    report = samples.all_pass(3)
    lost = report.nodes[0].model_copy(
        update={
            "status": NodeStatus.NOT_PROVEN,
            "reasons": (samples.give("RESULT_MISSING", effect=Effect.INCONCLUSIVE),),
        }
    )
    text = render_text(report.model_copy(update={"nodes": (lost, *report.nodes[1:])}))
    assert f"{lost.node}  RESULT_MISSING" in text
    assert "next: look at the run step of its group" in text


def test_report_without_nodes_renders() -> None:
    text = render_text(samples.make_report([], result=Result.INCONCLUSIVE))
    assert "INCONCLUSIVE" in text.splitlines()[0]


@pytest.mark.parametrize(
    "variables",
    [{"NO_COLOR": "1", "TERM": "dumb"}, {"FORCE_COLOR": "1", "COLUMNS": "37", "LINES": "5"}],
    ids=["no-colour", "forced"],
)
def test_environment_has_no_say(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    report = samples.eight_nodes()
    before = render_text(report), render_text(report, colour=True)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (render_text(report), render_text(report, colour=True)) == before


def test_large_fleet_stays_short_and_fast() -> None:
    report = samples.big(1440)
    start = time.perf_counter()
    text = render_text(report, width=120)
    assert time.perf_counter() - start < 5
    assert len(text.splitlines()) < 200
