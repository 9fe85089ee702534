"""The verdict in one line, as Argo's tree and the workflow's outputs show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts.reasons import Effect
from steps.aggregate.core import report_without_plan
from steps.documents import NodeReport, NodeStatus, NodeVerdict, Outcome, Result, Verdict
from steps.documents.verdict import ReasonGiven
from steps.report.headline import MAX_LINE, MAX_MESSAGE, bounded, report_line, verdict_line
from tests.report.samples import all_pass, give

LOW = give("NCCL_LOW_BANDWIDTH", "61 >= 0.92 * 467.5 (at 16G, mean of 10 cycles)")


def failed(node: str, reason: str = "ThresholdViolation", given: ReasonGiven = LOW) -> NodeReport:
    return NodeReport(node=node, status=NodeStatus.FAILED, reason=reason, reasons=(given,))


def line_of(*nodes: NodeReport, result: Result = Result.FAIL, most: int = MAX_LINE) -> str:
    return report_line(all_pass().model_copy(update={"result": result, "nodes": nodes}), most)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("61 >= 0.92 * 467.5 (at 16G, mean of 10 cycles)", "61 < 430.1"),
        ("61 >= 430", "61 < 430"),
        ("GPU 3: 12.4 > 20", "GPU 3: 12.4 <= 20"),
        ("0.5 <= 0.4", "0.5 > 0.4"),
        ("temperature 95 > 90 (slowdown)", "temperature 95 > 90 (slowdown)"),
        ("nan >= 430", "nan >= 430"),
        ("fell off the bus", "fell off the bus"),
    ],
)
def test_a_bar_that_was_missed_is_said_as_it_is(message: str, said: str) -> None:
    line = line_of(failed("node-07", "ThresholdViolation", give("NCCL_LOW_BANDWIDTH", message)))
    assert line == f"FAIL: node-07 NCCL_LOW_BANDWIDTH {said}"


def test_hardware_leads_and_the_rest_is_counted() -> None:
    nodes = [failed(f"node-{number:02}") for number in range(14)]
    broken = failed("node-99", "HardwareFailureDetected", give("XID_79", effect=Effect.FAIL))
    line = line_of(*nodes, broken)
    assert line.startswith("FAIL: node-99 XID_79 ")
    assert line.endswith(", node-01 NCCL_LOW_BANDWIDTH 61 < 430.1 and 12 more")


def test_a_pass_and_a_failure_of_no_single_node_are_said_too() -> None:
    assert line_of(result=Result.PASS) == "PASS: every targeted node is ready"
    reasons = (give("NCCL_LOW_BANDWIDTH", "61 >= 430"),)
    verdict = Verdict(
        category="communication/nccl-all-reduce", outcome=Outcome.FAIL, reasons=reasons
    )
    assert verdict_line(verdict) == "FAIL: NCCL_LOW_BANDWIDTH 61 < 430"
    nodes = tuple(NodeVerdict(node=name, outcome=Outcome.PASS) for name in "ab")
    verdict = Verdict(category="diagnostics/dcgm-level1", outcome=Outcome.PASS, nodes=nodes)
    assert verdict_line(verdict) == "PASS: 2 nodes passed"


def test_wrong_input_is_said_with_its_place() -> None:
    report = report_without_plan("x", "INVALID_INPUT", "certification:5: spec.stage: unknown")
    said = "INCONCLUSIVE: INVALID_INPUT: certification:5: spec.stage: unknown"
    assert report_line(report) == said


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=300), st.text(max_size=400)), max_size=30),
    st.sampled_from(list(Result)),
    st.sampled_from([MAX_LINE, MAX_MESSAGE]),
)
def test_a_line_is_one_line_and_bounded_and_leads_with_the_result(
    nodes: list[tuple[str, str]], result: Result, most: int
) -> None:
    status = {Result.FAIL: NodeStatus.FAILED, Result.INCONCLUSIVE: NodeStatus.NOT_PROVEN}
    listed = [
        NodeReport(
            node=name,
            status=status.get(result, NodeStatus.READY),
            reasons=(give("NCCL_LOW_BANDWIDTH", text),),
        )
        for name, text in nodes
    ]
    line = line_of(*listed, result=result, most=most)
    assert line.startswith(f"{result.value}: ")
    assert len(line) <= most
    assert line.isprintable()
    assert len(bounded(line).encode()) < 4096
