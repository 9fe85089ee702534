"""What must hold of every certification, whatever happened to it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

WRONG_PASS = "wrong PASS"
INNOCENT = "innocent failed"
LOST = "node lost"
UNUSED = "measured, not used"
LEFT = "left behind"
UNBOUNDED = "no end in time"
UNEXPLAINED = "not explained"
SILENT = "fault not told"

RULES = (WRONG_PASS, INNOCENT, LOST, UNUSED, UNBOUNDED, LEFT, UNEXPLAINED, SILENT)
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A run that the cluster was seen to finish.

    Attributes:
        nodes: that took part.
        ended: seconds since the epoch.
        lost: its record was damaged or deleted by the fault.
    """

    nodes: tuple[str, ...]
    ended: float
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Fall:
    """A node that was away.

    Attributes:
        since: seconds since the epoch.
        back: when it came back; infinite if it did not before the end.
    """

    since: float
    back: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a certification that is over.

    Attributes:
        targets: nodes that it was to certify.
        fails: its bar is one that no node reaches.
        report: as kept; None if there is none.
        may_lack_report: the fault was one after which there need not be a report.
        phase: of the workflow; empty when it did not end.
        measured: runs that were seen to end well.
        fallen: nodes that were away, by name.
        touched: nodes that the fault was done to, for instance by a cordon.
        sound: nothing was done that could keep the nodes from being measured.
        codes: reason codes of which one must be in the report if it is no PASS; none: any.
        left: what is left after the end, by name.
        injected: whether the fault happened at all.
    """

    targets: tuple[str, ...]
    fails: bool
    report: Mapping[str, Any] | None
    phase: str
    measured: tuple[Measured, ...] = ()
    fallen: Mapping[str, Fall] = field(default_factory=dict)
    touched: frozenset[str] = frozenset()
    sound: bool = False
    may_lack_report: bool = False
    codes: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    injected: bool = True


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold, and what was seen."""

    rule: str
    seen: str


def violations(facts: Facts) -> list[Violation]:
    """Return every rule that does not hold, worst first."""
    found = [*_of_end(facts)]
    report = facts.report
    if report is not None:
        statuses = {node["node"]: node["status"] for node in report["nodes"]}
        found += _wrong_pass(facts, statuses, str(report["result"]))
        found += _innocent(facts, statuses, codes_of(report))
        lost = sorted(set(facts.targets) - set(statuses))
        strange = sorted(set(statuses) - set(facts.targets))
        found += [Violation(LOST, f"{name} is not in the report") for name in lost]
        found += [Violation(LOST, f"{name} is in the report, not a target") for name in strange]
        found += _unused(facts, statuses, codes_of(report))
        found += _unexplained(facts, report)
    elif not facts.may_lack_report and facts.phase:
        found.append(Violation(LOST, f"no report; the workflow is {facts.phase}"))
    return sorted(found, key=lambda item: RULES.index(item.rule))


def codes_of(report: Mapping[str, Any]) -> set[str]:
    """Return every reason code that a report gives."""
    parts: list[Mapping[str, Any]] = [*report["nodes"], *report["categories"]]
    parts += [node for category in report["categories"] for node in category.get("nodes", ())]
    parts += [group for category in report["categories"] for group in category.get("groups", ())]
    given = {reason["code"] for part in parts for reason in part.get("reasons", ())}
    return (
        given
        | {item["code"] for item in report.get("excluded", ())}
        | {code for code, _ in report.get("problems", ())}
    )


def _of_end(facts: Facts) -> Iterable[Violation]:
    if not facts.phase:
        yield Violation(UNBOUNDED, "the workflow did not end")
    if facts.left:
        yield Violation(LEFT, ", ".join(facts.left))


def _wrong_pass(facts: Facts, statuses: Mapping[str, str], result: str) -> Iterable[Violation]:
    for node, status in statuses.items():
        if status != "ready":
            continue
        runs = [run for run in facts.measured if node in run.nodes]
        if facts.fails:
            yield Violation(WRONG_PASS, f"{node} is ready below its bar")
        elif not runs:
            yield Violation(WRONG_PASS, f"{node} is ready and no run of it ended")
        elif fall := facts.fallen.get(node):
            ended = max(run.ended for run in runs)
            if fall.since < ended < fall.back:
                since = ended - fall.since
                yield Violation(WRONG_PASS, f"{node} is ready, away {since:.0f} s before the end")
    ready = set(statuses) == set(facts.targets) and set(statuses.values()) == {"ready"}
    if result == "PASS" and not ready:
        yield Violation(WRONG_PASS, f"PASS with {dict(statuses)}")
    if facts.phase == "Succeeded" and result != "PASS":
        yield Violation(WRONG_PASS, f"the workflow succeeded with {result}")


def _innocent(
    facts: Facts, statuses: Mapping[str, str], codes: Iterable[str]
) -> Iterable[Violation]:
    if facts.fails:
        return
    guilty = facts.touched | facts.fallen.keys()
    for node, status in statuses.items():
        if status == "failed" and node not in guilty:
            yield Violation(INNOCENT, f"{node}: {', '.join(sorted(codes))}")


def _unused(facts: Facts, statuses: Mapping[str, str], codes: Iterable[str]) -> Iterable[Violation]:
    """A node all of whose runs ended, and are still on record, has its verdict."""
    guilty = facts.touched | facts.fallen.keys()
    given = ", ".join(sorted(codes))
    wanted = "failed" if facts.fails else "ready"
    for node in facts.targets:
        runs = [run for run in facts.measured if node in run.nodes]
        known = [run for run in runs if not run.lost]
        status = statuses.get(node)
        if status is None or status == wanted or node in guilty:
            continue
        if known and not set().union(*(run.nodes for run in known)) & guilty:
            yield Violation(UNUSED, f"{node} was measured and is {status}: {given}")
        elif facts.sound and not runs:
            yield Violation(UNUSED, f"{node} is {status} without any cause: {given}")


def _unexplained(facts: Facts, report: Mapping[str, Any]) -> Iterable[Violation]:
    for node in report["nodes"]:
        if node["status"] != "ready" and not node.get("reasons"):
            yield Violation(UNEXPLAINED, f"{node['node']} is {node['status']} without a reason")
    given = codes_of(report)
    asked = facts.injected and not facts.fails and report["result"] != "PASS"
    if asked and facts.codes and not given & facts.codes:
        yield Violation(SILENT, f"{', '.join(sorted(given))}; none of the expected")
