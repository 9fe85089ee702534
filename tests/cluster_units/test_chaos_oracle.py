"""The rules of the chaos bench find what they are there for, and nothing where all is well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.cluster.chaos import oracle
from tests.cluster.chaos.conductor import plays
from tests.cluster.chaos.faults import FAULTS
from tests.cluster.chaos.oracle import Facts, Fall, Measured, violations

TARGETS = ("node-1", "node-2")
GANG = (Measured(TARGETS, ended=100.0),)
EACH = (Measured(("node-1",), ended=100.0), Measured(("node-2",), ended=100.0))


def report(result: str, code: str = "RESULT_MISSING", **statuses: str) -> dict[str, Any]:
    nodes = [
        {
            "node": name.replace("_", "-"),
            "status": status,
            "reasons": [] if status == "ready" else [{"code": code}],
        }
        for name, status in statuses.items()
    ]
    return {"result": result, "nodes": nodes, "categories": []}


def facts(**changed: Any) -> Facts:
    whole = report("PASS", node_1="ready", node_2="ready")
    base = Facts(targets=TARGETS, fails=False, report=whole, phase="Succeeded", measured=GANG)
    return replace(base, **changed)


def rules(**changed: Any) -> list[str]:
    return [item.rule for item in violations(facts(**changed))]


def test_good_ending_breaks_no_rule() -> None:
    assert rules() == []


def test_failed_below_the_bar_is_right() -> None:
    failed = report("FAIL", "ThresholdViolation", node_1="failed", node_2="failed")
    assert rules(fails=True, report=failed, phase="Failed") == []


@pytest.mark.parametrize(
    "changed",
    [
        {"fails": True},
        {"measured": ()},
        {"measured": EACH[:1]},
        {"fallen": {"node-1": Fall(since=90.0)}},
        {"fallen": {"node-2": Fall(since=90.0, back=101.0)}},
    ],
    ids=["below its bar", "not measured", "one not measured", "away at the end", "back later"],
)
def test_wrong_pass(changed: dict[str, Any]) -> None:
    assert oracle.WRONG_PASS in rules(**changed)


@pytest.mark.parametrize("fall", [Fall(since=101.0), Fall(since=50.0, back=60.0)])
def test_node_that_was_there_at_the_end_may_be_ready(fall: Fall) -> None:
    assert rules(fallen={"node-1": fall}) == []


@pytest.mark.parametrize("result", ["PASS", "INCONCLUSIVE"])
def test_result_and_phase_agree_with_the_nodes(result: str) -> None:
    told = report(result, node_1="not-proven", node_2="ready")
    assert oracle.WRONG_PASS in rules(report=told)


def test_innocent_and_guilty() -> None:
    told = report("FAIL", "WorkloadFailed", node_1="failed", node_2="not-proven")
    seen = {"report": told, "phase": "Failed", "measured": ()}
    assert rules(**seen) == [oracle.INNOCENT]
    assert rules(**seen, touched=frozenset({"node-1"})) == []
    assert rules(**seen, touched=frozenset({"node-2"})) == [oracle.INNOCENT]


@pytest.mark.parametrize("name", TARGETS)
def test_every_node_is_looked_for(name: str) -> None:
    whole = report("PASS", node_1="ready", node_2="ready")
    less = whole | {"nodes": [node for node in whole["nodes"] if node["node"] != name]}
    assert oracle.LOST in rules(report=less)
    assert oracle.LOST in rules(targets=(name,))


def test_report_may_be_absent_only_where_that_was_asked_for() -> None:
    assert rules(report=None, phase="Failed") == [oracle.LOST]
    assert rules(report=None, phase="Failed", may_lack_report=True) == []


def test_measured_is_used() -> None:
    told = report("INCONCLUSIVE", node_1="not-proven", node_2="not-proven")
    seen = {"report": told, "phase": "Failed"}
    assert rules(**seen, measured=EACH) == [oracle.UNUSED, oracle.UNUSED]
    one_lost = (replace(EACH[0], lost=True), EACH[1])
    assert rules(**seen, measured=one_lost) == [oracle.UNUSED]
    assert rules(**seen, measured=()) == []
    assert rules(**seen, measured=(), sound=True) == [oracle.UNUSED, oracle.UNUSED]
    # Whoever shared a run with a node that went away is not proven.
    assert rules(**seen, measured=GANG, touched=frozenset({"node-1"})) == []


def test_end_is_bounded_and_leaves_nothing() -> None:
    assert rules(phase="", report=None) == [oracle.UNBOUNDED]
    assert rules(left=("Job/x",)) == [oracle.LEFT]


def test_expected_code_is_told() -> None:
    told = report("INCONCLUSIVE", node_1="not-proven", node_2="not-proven")
    seen: dict[str, Any] = {"report": told, "phase": "Failed", "measured": ()}
    assert rules(**seen, codes=frozenset({"INFRA_IMAGE_PULL"})) == [oracle.SILENT]
    assert rules(**seen, codes=frozenset({"RESULT_MISSING"})) == []


def test_every_fault_comes_before_one_comes_again() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    every = [play.fault.name for play in plays(3, 10 * len(FAULTS))]
    assert sorted(every[: len(names)]) == sorted(names)


def test_seed_decides_everything() -> None:
    assert plays(5, 40) == plays(5, 40)
    assert plays(5, 40) != plays(6, 40)
