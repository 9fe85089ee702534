"""The report starts from the plan: whatever is lost on the way shows, and never as ready."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.aggregate.core import make_report
from steps.documents import (
    Exclusion,
    NodeStatus,
    NodeVerdict,
    Outcome,
    Report,
    Result,
    Verdict,
)
from tests.builders import ALL_REDUCE, group, plan

NODES = ("node-a", "node-b", "node-c")


def verdict(**outcomes: Outcome) -> Verdict:
    nodes = tuple(
        NodeVerdict(
            node=name.replace("_", "-"),
            outcome=outcome,
            reason="ThresholdViolation" if outcome is Outcome.FAIL else None,
        )
        for name, outcome in outcomes.items()
    )
    worst = next(
        o for o in (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS) if o in outcomes.values()
    )
    return Verdict(category=ALL_REDUCE, outcome=worst, nodes=nodes)


def statuses(report: Report) -> dict[str, NodeStatus]:
    return {node.node: node.status for node in report.nodes}


PASSED = verdict(node_a=Outcome.PASS, node_b=Outcome.PASS, node_c=Outcome.PASS)


def test_all_passed_is_pass_and_all_nodes_are_ready() -> None:
    report = make_report(plan([group(NODES)]), {ALL_REDUCE: PASSED})
    assert report.result is Result.PASS
    assert set(statuses(report).values()) == {NodeStatus.READY}


def test_node_absent_from_the_verdict_is_result_missing() -> None:
    partial = verdict(node_a=Outcome.PASS, node_c=Outcome.PASS)
    report = make_report(plan([group(NODES)]), {ALL_REDUCE: partial})
    assert report.result is Result.INCONCLUSIVE
    lost = next(node for node in report.nodes if node.node == "node-b")
    assert lost.status is NodeStatus.NOT_PROVEN
    assert [reason.code for reason in lost.reasons] == ["RESULT_MISSING"]


def test_category_without_a_verdict_proves_no_node() -> None:
    report = make_report(plan([group(NODES)]), {})
    assert report.result is Result.INCONCLUSIVE
    assert set(statuses(report).values()) == {NodeStatus.NOT_PROVEN}


def test_excluded_node_makes_it_incomplete() -> None:
    gone = Exclusion(node="node-z", code="NODE_EXCLUDED_CORDONED", message="is cordoned")
    report = make_report(plan([group(NODES)], excluded=[gone]), {ALL_REDUCE: PASSED})
    assert report.result is Result.INCOMPLETE
    assert statuses(report)["node-z"] is NodeStatus.EXCLUDED
    assert (report.coverage.tested, report.coverage.targeted) == (3, 4)


def test_node_that_a_category_left_out_is_not_proven() -> None:
    of = plan([group(NODES)])
    other = of.categories[0].model_copy(update={"id": "communication/nccl-all-gather"})
    part = other.parts[0]
    other = other.model_copy(
        update={"parts": (part.model_copy(update={"groups": (group(NODES[:1]),)}),)}
    )
    why = Exclusion(
        node=NODES[1], code="NODE_EXCLUDED_NIC_MISSING", message="has 7, needs 8", category=other.id
    )
    of = of.model_copy(update={"categories": (*of.categories, other), "excluded": (why,)})
    passed = verdict(node_a=Outcome.PASS).model_copy(update={"category": other.id})
    report = make_report(of, {ALL_REDUCE: PASSED, other.id: passed})
    assert report.result is Result.INCOMPLETE
    assert statuses(report)[NODES[0]] is NodeStatus.READY
    assert statuses(report)[NODES[1]] is NodeStatus.NOT_PROVEN
    (reason,) = next(node for node in report.nodes if node.node == NODES[1]).reasons
    assert reason.code == "NODE_EXCLUDED_NIC_MISSING"
    assert reason.message == f"{other.id} did not test it: has 7, needs 8"


def test_failure_outweighs_everything_else() -> None:
    gone = Exclusion(node="node-z", code="NODE_EXCLUDED_CORDONED", message="is cordoned")
    mixed = verdict(node_a=Outcome.FAIL, node_b=Outcome.INCONCLUSIVE, node_c=Outcome.PASS)
    report = make_report(plan([group(NODES)], excluded=[gone]), {ALL_REDUCE: mixed})
    assert report.result is Result.FAIL
    assert statuses(report)["node-a"] is NodeStatus.FAILED
    assert statuses(report)["node-c"] is NodeStatus.READY


def test_plan_problem_prevents_pass() -> None:
    of = plan([group(NODES)])
    of = of.model_copy(update={"problems": (("PLATFORM_UNKNOWN", "no profile"),)})
    assert make_report(of, {ALL_REDUCE: PASSED}).result is Result.INCONCLUSIVE


def test_nothing_targeted_is_never_pass() -> None:
    empty = plan([group(NODES)]).model_copy(
        update={"targeted": (), "categories": (), "problems": (("NO_NODES", "none match"),)}
    )
    assert make_report(empty, {}).result is Result.INCONCLUSIVE


@given(
    st.lists(st.sampled_from([*Outcome, None]), min_size=1, max_size=12),
    st.integers(0, 3),
    st.booleans(),
)
def test_every_targeted_node_is_in_the_report_once_and_ready_only_if_it_passed(
    given_outcomes: list[Outcome | None], excluded: int, arrived: bool
) -> None:
    names = [f"n{number}" for number in range(len(given_outcomes))]
    gone = [
        Exclusion(node=f"x{i}", code="NODE_EXCLUDED_NOT_READY", message="x")
        for i in range(excluded)
    ]
    of = plan([group(names)], excluded=gone)
    nodes = tuple(
        NodeVerdict(node=name, outcome=outcome)
        for name, outcome in zip(names, given_outcomes, strict=True)
        if outcome is not None
    )
    found = Verdict(category=ALL_REDUCE, outcome=Outcome.PASS, nodes=nodes)
    report = make_report(of, {ALL_REDUCE: found} if arrived else {})
    assert [node.node for node in report.nodes] == list(of.targeted)
    ready = {name for name, status in statuses(report).items() if status is NodeStatus.READY}
    passed = {
        name for name, outcome in zip(names, given_outcomes, strict=True) if outcome is Outcome.PASS
    }
    assert ready == (passed if arrived else set())
    if report.result is Result.PASS:
        assert ready == set(of.targeted)


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.INCONCLUSIVE])
def test_verdict_that_calls_itself_pass_is_not_believed_over_its_nodes(outcome: Outcome) -> None:
    nodes = (NodeVerdict(node="node-a", outcome=outcome),)
    wrong = Verdict(category=ALL_REDUCE, outcome=Outcome.PASS, nodes=nodes)
    report = make_report(plan([group(["node-a"])]), {ALL_REDUCE: wrong})
    assert report.result is not Result.PASS
