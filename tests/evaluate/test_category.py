"""Never blame the innocent, lose no node: from groups to nodes, isolation included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.facts.reasons import Effect
from steps.documents import (
    Completeness,
    Entity,
    Finding,
    Group,
    NodeEvent,
    Outcome,
    Plan,
    RunFailure,
    RunOutcome,
    Verdict,
)
from steps.evaluate.core import evaluate
from steps.isolate.core import MAX_ROUNDS, next_isolation
from steps.store.runs import Run
from tests.builders import START, group, measured, plan, record

EIGHT = tuple(f"node-{number}" for number in range(1, 9))


def run_of(of: Plan, item: Group, bandwidth: float) -> Run:
    return Run(of.categories[0].parts[0], item, record(item), measured(bandwidth))


def isolate_fully(of: Plan, runs: list[Run], bad: Mapping[str, float]) -> tuple[Verdict, int]:
    """Run pair rounds until there is nothing to learn; a pair is as slow as its worst node."""
    planned = of.categories[0]
    count = 0
    for round_number in range(1, MAX_ROUNDS + 2):
        pairs = next_isolation(of, planned, runs, round_number)
        if not pairs:
            break
        assert round_number <= MAX_ROUNDS
        used = [node for _, pair in pairs for node in pair.nodes]
        assert len(used) == len(set(used)), "pairs of a round share a node"
        for _, pair in pairs:
            runs.append(run_of(of, pair, min(bad.get(node, 400.0) for node in pair.nodes)))
            count += 1
    return evaluate(of, planned, runs), count


def failed(verdict: Verdict) -> set[str]:
    return {node.node for node in verdict.nodes if node.outcome is Outcome.FAIL}


def outcomes(verdict: Verdict) -> dict[str, Outcome]:
    return {node.node: node.outcome for node in verdict.nodes}


def test_failed_group_alone_names_nobody() -> None:
    whole = group(EIGHT)
    of = plan([whole])
    verdict = evaluate(of, of.categories[0], [run_of(of, whole, 120.0)])
    assert verdict.outcome is Outcome.FAIL
    assert failed(verdict) == set()
    assert all(node.suspect for node in verdict.nodes)


def test_pairs_find_the_slow_node_and_clear_the_rest() -> None:
    whole = group(EIGHT)
    of = plan([whole])
    verdict, pairs = isolate_fully(of, [run_of(of, whole, 60.0)], {"node-3": 60.0})
    assert failed(verdict) == {"node-3"}
    assert [v for k, v in outcomes(verdict).items() if k != "node-3"] == [Outcome.PASS] * 7
    slow = next(node for node in verdict.nodes if node.node == "node-3")
    assert slow.reason == "ThresholdViolation"
    assert slow.decided_by is not None
    assert slow.decided_by.startswith("pair-2")
    assert pairs == 6


def test_suspects_are_paired_with_nodes_of_a_group_that_passed() -> None:
    """Two groups of four; the first fails: four pair runs, one for each suspect."""
    first, second = group(EIGHT[:4], "full-scale-0"), group(EIGHT[4:], "full-scale-1")
    of = plan([first, second])
    runs = [run_of(of, first, 60.0), run_of(of, second, 400.0)]
    verdict, pairs = isolate_fully(of, runs, {"node-3": 60.0})
    assert pairs == 4
    assert failed(verdict) == {"node-3"}
    assert outcomes(verdict)["node-7"] is Outcome.PASS


def test_group_that_fails_although_all_pairs_pass_clears_nobody() -> None:
    whole = group(EIGHT)
    of = plan([whole])
    verdict, _ = isolate_fully(of, [run_of(of, whole, 60.0)], {})
    assert verdict.outcome is Outcome.FAIL
    assert failed(verdict) == set()
    assert set(outcomes(verdict).values()) == {Outcome.INCONCLUSIVE}
    assert "FABRIC_SUSPECT" in {reason.code for reason in verdict.reasons}


def test_event_fails_its_own_node_and_pairs_find_the_other_one() -> None:
    """The sample report: one node dies in mid-run, another is slow."""
    whole = group(EIGHT)
    of = plan([whole])
    event = NodeEvent(
        node="node-8",
        at=START + timedelta(minutes=4),
        code="XID_79",
        source="kernel log",
        text="GPU has fallen off the bus",
    )
    cut = record(whole, RunOutcome.HARDWARE, events=[event])
    runs = [Run(of.categories[0].parts[0], whole, cut, measured(60.0))]
    verdict, _ = isolate_fully(of, runs, {"node-3": 60.0, "node-8": 0.0})
    assert failed(verdict) == {"node-3", "node-8"}
    by_name = {node.node: node for node in verdict.nodes}
    assert by_name["node-8"].reason == "HardwareFailureDetected"
    assert by_name["node-3"].reason == "ThresholdViolation"
    assert sum(outcome is Outcome.PASS for outcome in outcomes(verdict).values()) == 6


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("XID_13", Outcome.PASS),
        ("XID_43", Outcome.PASS),
        ("XID_999", Outcome.INCONCLUSIVE),
        ("XID_79", Outcome.FAIL),
    ],
)
def test_event_fails_its_node_only_when_its_code_does(code: str, outcome: Outcome) -> None:
    pair = group(["node-1", "node-2"])
    of = plan([pair])
    event = NodeEvent(node="node-1", at=START, code=code, source="kernel log", text="Xid")
    runs = [Run(of.categories[0].parts[0], pair, record(pair, events=[event]), measured(400.0))]
    verdict = evaluate(of, of.categories[0], runs)
    assert outcomes(verdict)["node-1"] is outcome
    assert outcomes(verdict)["node-2"] is not Outcome.FAIL


def test_innocent_partner_does_not_carry_the_code_of_the_culprit() -> None:
    pair = group(["node-1", "node-2"])
    of = plan([pair])
    event = NodeEvent(node="node-1", at=START, code="XID_79", source="kernel log", text="Xid 79")
    cut = record(pair, RunOutcome.HARDWARE, events=[event])
    runs = [Run(of.categories[0].parts[0], pair, cut, measured(60.0, Completeness.CUT_OFF))]
    verdict = evaluate(of, of.categories[0], runs)
    innocent = next(node for node in verdict.nodes if node.node == "node-2")
    assert "XID_79" not in {given.code for given in innocent.reasons}
    assert innocent.outcome is Outcome.INCONCLUSIVE
    assert "node-1 failed" in innocent.reasons[0].message


def test_finding_that_names_one_node_fails_that_node() -> None:
    whole = group(EIGHT)
    of = plan([whole])
    finding = Finding(
        code="GPU_FELL_OFF_BUS",
        effect=Effect.FAIL,
        message="gone",
        entities=(Entity(node="node-5", gpu=2),),
    )
    runs = [
        Run(of.categories[0].parts[0], whole, record(whole), measured(400.0, findings=[finding]))
    ]
    assert failed(evaluate(of, of.categories[0], runs)) == {"node-5"}


def test_finding_that_names_two_nodes_fails_neither() -> None:
    whole = group(EIGHT)
    of = plan([whole])
    finding = Finding(
        code="NCCL_DATA_CORRUPTION",
        effect=Effect.FAIL,
        message="wrong",
        entities=(Entity(node="node-5"), Entity(node="node-6")),
    )
    runs = [
        Run(of.categories[0].parts[0], whole, record(whole), measured(400.0, findings=[finding]))
    ]
    assert failed(evaluate(of, of.categories[0], runs)) == set()


def test_failing_repeat_is_not_outvoted_by_a_passing_one() -> None:
    first = group(EIGHT, "full-scale-0-1")
    second = group(EIGHT, "full-scale-0-2")
    of = plan([first, second])
    runs = [run_of(of, first, 400.0), run_of(of, second, 60.0)]
    verdict = evaluate(of, of.categories[0], runs)
    assert verdict.outcome is Outcome.FAIL
    assert set(outcomes(verdict).values()) == {Outcome.INCONCLUSIVE}


def test_infrastructure_failure_makes_no_suspects_and_no_pairs() -> None:
    whole = group(EIGHT)
    of = plan([whole])
    failure = RunFailure(code="INFRA_SSH_AUTH", message="refused", entity=Entity(node="node-2"))
    broken = record(whole, RunOutcome.INFRASTRUCTURE, [failure])
    runs = [Run(of.categories[0].parts[0], whole, broken, None)]
    verdict = evaluate(of, of.categories[0], runs)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert not any(node.suspect for node in verdict.nodes)
    assert next_isolation(of, of.categories[0], runs, 1) == []


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(2, 24),
    bad=st.sets(st.integers(0, 23), max_size=4),
    size=st.integers(2, 24),
)
def test_isolation_never_blames_a_healthy_node(count: int, bad: set[int], size: int) -> None:
    names = [f"n{number:02}" for number in range(count)]
    slow = {names[number]: 50.0 for number in bad if number < count}
    groups = [group(names[at : at + size], f"g-{at}") for at in range(0, count, size)]
    of = plan(groups)
    runs = [run_of(of, g, min(slow.get(node, 400.0) for node in g.nodes)) for g in groups]
    verdict, _ = isolate_fully(of, runs, slow)
    assert failed(verdict) <= set(slow)
    assert {node.node for node in verdict.nodes} == set(names)
    healthy_passed = [
        node for node in verdict.nodes if node.outcome is Outcome.PASS and node.node in slow
    ]
    assert healthy_passed == [], "a slow node passed"
    assert verdict.outcome is (Outcome.FAIL if slow else Outcome.PASS)


@settings(max_examples=60, deadline=None)
@given(
    lost=st.sets(st.integers(0, 5)),
    infra=st.sets(st.integers(0, 5)),
    bandwidths=st.lists(st.floats(0, 800), min_size=6, max_size=6),
)
def test_lost_runs_and_infrastructure_failures_fail_no_node(
    lost: set[int], infra: set[int], bandwidths: Sequence[float]
) -> None:
    groups = [group([f"n{i}a", f"n{i}b"], f"g-{i}") for i in range(6)]
    of = plan(groups)
    part = of.categories[0].parts[0]
    runs = []
    for number, item in enumerate(groups):
        if number in lost:
            continue
        if number in infra:
            failure = RunFailure(code="INFRA_DNS", message="no such host")
            broken = record(item, RunOutcome.INFRASTRUCTURE, [failure])
            runs.append(Run(part, item, broken, None))
        else:
            runs.append(Run(part, item, record(item), measured(bandwidths[number])))
    verdict = evaluate(of, of.categories[0], runs)
    assert {node.node for node in verdict.nodes} == set(of.targeted)
    assert failed(verdict) == set()
    for number in lost | infra:
        assert outcomes(verdict)[f"n{number}a"] is Outcome.INCONCLUSIVE
