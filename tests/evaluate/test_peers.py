"""Bars that compare a run with its peers: outliers fail, innocents never do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.bars.bar import Bar
from catalog.entries.entry import Entry, builtin_entries
from steps.documents import (
    Completeness,
    Group,
    Outcome,
    Plan,
    RunFailure,
    RunOutcome,
    Verdict,
)
from steps.evaluate.core import evaluate, judge_runs
from steps.evaluate.peers import FEWEST_PEERS, PeerClass
from steps.isolate.core import MAX_ROUNDS, next_isolation
from steps.store.runs import Run
from tests.builders import group, measured, plan, record
from tests.evaluate.outputs import bar

OUTLIER = bar("busBandwidthGBps", "value >= 0.95 * peer_median", code="OUTLIER")
ABSOLUTE = bar("rowCount", "rowCount >= 1")
LOOPBACK = "communication/nccl-loopback-nvswitch"


def runs_of(values: Mapping[str, float | None], *bars: Bar) -> tuple[Plan, list[Run]]:
    """One run a node; None is a run that was lost."""
    groups = [group([node], f"intra-node-{node}") for node in values]
    of = plan(groups, category=LOOPBACK, bars=bars or (ABSOLUTE, OUTLIER))
    part = of.categories[0].parts[0]
    runs = [
        Run(part, one, record(one), measured(value))
        for one, value in zip(groups, values.values(), strict=True)
        if value is not None
    ]
    return of, runs


def verdict_of(values: Mapping[str, float | None], *bars: Bar) -> Verdict:
    of, runs = runs_of(values, *bars)
    return evaluate(of, of.categories[0], runs)


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {node.node: node.outcome.value for node in verdict.nodes}


def failed(verdict: Verdict) -> set[str]:
    return {node.node for node in verdict.nodes if node.outcome is Outcome.FAIL}


def codes(verdict: Verdict, node: str) -> set[str]:
    return {reason.code for item in verdict.nodes if item.node == node for reason in item.reasons}


def test_node_below_its_peers_fails_although_the_absolute_bar_holds() -> None:
    verdict = verdict_of({"a": 460.0, "b": 462.0, "c": 458.0, "d": 430.0, "e": 461.0})
    assert failed(verdict) == {"d"}
    assert codes(verdict, "d") == {"OUTLIER"}
    assert next(node.reason for node in verdict.nodes if node.node == "d") == "ThresholdViolation"
    [run] = [item for item in verdict.groups if item.group.nodes == ("d",)]
    result = run.expressions[1]
    assert result.statement == "430 >= 0.95 * 460.5"
    assert result.values == {"peer_count": 4, "peer_median": 460.5, "value": 430.0}
    assert result.message == "against 4 other runs of this kind"
    assert result.evidence[0].line == 57


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([460, 437.1, 460, 460], {}, id="at the bar"),
        pytest.param([460, 436.9, 460, 460], {1: "FAIL"}, id="below the bar"),
        pytest.param([200, 460, 461, 459, 462], {0: "FAIL"}, id="cannot hide in the median"),
        pytest.param([200, 210, 460, 461, 459], {0: "FAIL", 1: "FAIL"}, id="two of five"),
        pytest.param([300] * 5 + [400] * 5, dict.fromkeys(range(5), "INCONCLUSIVE"), id="half"),
        pytest.param([300] * 6 + [400] * 4, {}, id="more than half are the rule"),
        pytest.param([300, 300, 400, 400], {0: "INCONCLUSIVE", 1: "INCONCLUSIVE"}, id="2 of 4"),
        pytest.param([100, 200, 300, 400], {0: "INCONCLUSIVE", 1: "INCONCLUSIVE"}, id="all differ"),
    ],
)
def test_who_falls_short_of_whom(values: list[float], expected: Mapping[int, str]) -> None:
    verdict = verdict_of({f"n{number}": float(value) for number, value in enumerate(values)})
    found = {name: outcome for name, outcome in outcomes(verdict).items() if outcome != "PASS"}
    assert found == {f"n{number}": outcome for number, outcome in expected.items()}


def test_half_of_a_fleet_is_no_outlier_and_is_told_so() -> None:
    verdict = verdict_of({f"n{i}": 300.0 if i < 5 else 400.0 for i in range(10)})
    assert failed(verdict) == set()
    assert codes(verdict, "n0") == {"FLEET_SPLIT"}
    assert not any(node.suspect for node in verdict.nodes)


@pytest.mark.parametrize("others", range(5))
def test_bar_without_enough_peers_is_left_out_with_a_note(others: int) -> None:
    values = {"slow": 100.0} | {f"n{number}": 460.0 for number in range(others)}
    verdict = verdict_of(values)
    if others < FEWEST_PEERS:
        assert verdict.outcome is Outcome.PASS
        notes = {reason.code for reason in verdict.reasons}
        # A run that is the only one of its kind is no news.
        assert notes == ({"BAR_LEFT_OUT"} if others else set())
    else:
        assert failed(verdict) == {"slow"}


def test_bar_over_peers_alone_without_peers_is_no_pass() -> None:
    assert verdict_of({"a": 460.0, "b": 460.0}, OUTLIER).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("lost", "expected"),
    [(0, "PASS"), (1, "PASS"), (2, "PASS"), (3, "INCONCLUSIVE"), (4, "INCONCLUSIVE")],
)
def test_lost_peers_leave_the_median_open(lost: int, expected: str) -> None:
    values: dict[str, float | None] = {f"n{number}": 460.0 for number in range(6)}
    values |= {f"n{number}": None for number in range(lost)}
    assert outcomes(verdict_of(values))["n5"] == expected
    if expected == "INCONCLUSIVE":
        assert codes(verdict_of(values), "n5") == {"PEERS_MISSING"}


def test_run_that_did_not_end_well_is_no_peer() -> None:
    of, runs = runs_of({f"n{number}": 460.0 if number else 100.0 for number in range(5)})
    part, one = runs[0].part, runs[0].group
    for spoiled in (
        Run(
            part,
            one,
            record(one, RunOutcome.STOPPED, [RunFailure(code="INFRA_DNS", message="")]),
            measured(100.0),
        ),
        Run(part, one, record(one), measured(100.0, Completeness.CUT_OFF)),
    ):
        verdict = evaluate(of, of.categories[0], [spoiled, *runs[1:]])
        assert outcomes(verdict) == {"n0": "INCONCLUSIVE"} | {f"n{i}": "PASS" for i in range(1, 5)}


def test_other_cohorts_sizes_and_repeats_of_the_same_nodes_are_no_peers() -> None:
    repeats = [group(["a"], f"intra-node-0-{number}") for number in range(6)]
    of = plan([*repeats, group(["b"], "intra-node-1-0")], category=LOOPBACK, bars=[OUTLIER])
    part = of.categories[0].parts[0]
    runs = [Run(part, one, record(one), measured(460.0)) for one in part.groups]
    for run in judge_runs(of, of.categories[0], runs):
        assert {reason.code for reason in run.reasons} >= {"BAR_LEFT_OUT"}


def test_pairs_across_racks_are_not_compared_with_pairs_within_one() -> None:
    within = [group([f"r1-{i}", f"r1-{i + 1}"], f"pair-{i}") for i in range(0, 10, 2)]
    across = group(["r1-x", "r2-x"], "pair-across")
    of = plan([*within, across], bars=[ABSOLUTE, OUTLIER])
    nodes = tuple(node.model_copy(update={"domains": {"rack": node.name[:2]}}) for node in of.nodes)
    values = {across.id: 400.0}
    for known, expected in ((of, Outcome.FAIL), (of.model_copy(update={"nodes": nodes}), None)):
        part = known.categories[0].parts[0]
        runs = [
            Run(part, one, record(one), measured(values.get(one.id, 830.0))) for one in part.groups
        ]
        outcome = evaluate(known, known.categories[0], runs).outcome
        assert outcome is (expected or Outcome.PASS)


def isolated(of: Plan, slow: frozenset[str]) -> tuple[Verdict, Verdict]:
    """Run all groups and then pairs until nothing is left to learn; slow nodes are 8 % slow.

    Returns:
        The verdict after the groups, and the last one.
    """
    planned = of.categories[0]
    part = planned.parts[0]

    def run(one: Group) -> Run:
        bandwidth = 460.0 if slow.isdisjoint(one.nodes) else 424.0
        return Run(part, one, record(one), measured(bandwidth))

    runs = [run(one) for one in part.groups]
    first = evaluate(of, planned, runs)
    for number in range(1, MAX_ROUNDS + 1):
        pairs = next_isolation(of, planned, runs, number)
        runs += [run(pair) for _, pair in pairs]
    return first, evaluate(of, planned, runs)


def fleet_of(groups: int, size: int) -> Plan:
    names = [f"n{number:02}" for number in range(groups * size)]
    made = [group(names[at : at + size], f"full-scale-{at}") for at in range(0, len(names), size)]
    return plan(made, bars=[ABSOLUTE, OUTLIER])


@pytest.mark.parametrize(("groups", "size"), [(4, 2), (6, 2), (4, 3), (5, 4), (6, 4), (4, 8)])
def test_group_below_its_peers_makes_suspects_and_pairs_find_the_node(
    groups: int, size: int
) -> None:
    """One node is slow by so little that no absolute bar sees it."""
    first, last = isolated(fleet_of(groups, size), frozenset({"n01"}))
    assert failed(first) == set()
    assert {node.node for node in first.nodes if node.suspect} == {f"n{n:02}" for n in range(size)}
    assert failed(last) == {"n01"}
    assert codes(last, "n01") == {"OUTLIER"}
    assert {outcome for name, outcome in outcomes(last).items() if name != "n01"} == {"PASS"}


@settings(max_examples=40, deadline=None)
@given(
    groups=st.integers(2, 7), size=st.integers(2, 5), bad=st.sets(st.integers(0, 34), max_size=3)
)
def test_isolation_by_peers_blames_no_innocent(groups: int, size: int, bad: set[int]) -> None:
    of = fleet_of(groups, size)
    slow = frozenset(f"n{number:02}" for number in bad) & frozenset(of.targeted)
    _, last = isolated(of, slow)
    assert failed(last) <= slow
    short = sum(not slow.isdisjoint(one.nodes) for one in of.categories[0].parts[0].groups)
    if groups > FEWEST_PEERS and 0 < 2 * short < groups:
        assert last.outcome is Outcome.FAIL


@given(
    fast=st.lists(st.floats(456.0, 464.0), min_size=4, max_size=20),
    slow=st.lists(st.floats(20.0, 420.0), max_size=4),
    order=st.randoms(),
)
@settings(max_examples=60, deadline=None)
def test_only_slow_nodes_fail_and_all_of_them_do_while_they_are_few(
    fast: list[float], slow: list[float], order: Random
) -> None:
    values = {f"fast-{number}": value for number, value in enumerate(fast)}
    values |= {f"slow-{number}": value for number, value in enumerate(slow)}
    names = list(values)
    order.shuffle(names)
    verdict = verdict_of({name: values[name] for name in names})
    assert all(name.startswith("slow") for name in failed(verdict))
    if 2 * len(slow) < len(values) - 1:
        assert len(failed(verdict)) == len(slow)


# the median itself


def _brute(values: Sequence[float | None], index: int) -> tuple[float, float]:
    others = [value for at, value in enumerate(values) if at != index]
    low = median([-math.inf if value is None else value for value in others])
    high = median([math.inf if value is None else value for value in others])
    return low, high


@given(
    st.lists(
        st.one_of(st.none(), st.floats(1.0, 1000.0), st.sampled_from([460.0, 461.0])),
        min_size=2,
        max_size=12,
    )
)
def test_median_of_the_others_is_that_of_a_sorted_list(values: list[float | None]) -> None:
    groups = [group([f"n{at}"], f"g{at}") for at in range(len(values))]
    peers = PeerClass(groups, [None if value is None else {"f": value} for value in values])
    for index, one in enumerate(groups):
        found = peers.median(one, "f")
        assert (found.low, found.high) == _brute(values, index)
        assert found.total == len(values) - 1
        assert peers.others(one) == len(values) - 1


def test_ten_thousand_peers_are_compared_in_a_moment() -> None:
    groups = [group([f"n{at}"], f"g{at}") for at in range(10_000)]
    peers = PeerClass(groups, [{"f": float(at)} for at in range(10_000)])
    assert [peers.median(one, "f").low for one in groups[:2]] == [5000.0, 5000.0]
    assert [peers.others(one) for one in groups[:2]] == [9999, 9999]
    assert peers.median(groups[-1], "f").low == 4999.0


@pytest.mark.parametrize(
    "entry", [entry for entry in builtin_entries().values() if not entry.id.endswith("level1")]
)
def test_every_entry_has_an_outlier_bar_from_burn_in_on(entry: Entry) -> None:
    bars = [one for one in entry.bars if "peer_median" in one.expression]
    assert bars
    for one in bars:
        assert one.stages == ("burn-in", "preproduction", "production")
        assert one.code == "OUTLIER"
