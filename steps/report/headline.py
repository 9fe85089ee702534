"""One line for places that show one line: Argo's tree, termination messages, workflow outputs."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from catalog.facts.reasons import Effect
from steps.documents.report import NodeReport, NodeStatus, Report, Result
from steps.documents.verdict import NodeVerdict, Outcome, ReasonGiven, Verdict
from steps.report.wording import count, number_text, printable, result_sentence

MAX_LINE = 240
"""Longest line, in characters: two lines of a terminal."""
MAX_MESSAGE = 120
"""Longest last words: `argo get` pads every line of its tree to the longest message."""
_MAX_NAMED = 3
_MAX_DETAIL = 72

_COMPARED = re.compile(
    r"(?P<value>[0-9.eE+-]+) (?P<sign>>=|<=|>|<) (?P<bar>[0-9.eE+-]+)"
    r"(?: \* (?P<factor>[0-9.eE+-]+))?(?= \(|$)"
)
_SIGNS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    ">=": ("<", operator.ge),
    "<=": (">", operator.le),
    ">": ("<=", operator.gt),
    "<": (">=", operator.lt),
}
"""What is true where a comparison is false, and the comparison."""

_RANKS = ("HardwareFailureDetected", "WorkloadFailed", "ThresholdViolation")
"""Reasons of a node in the order of this line: faults of the hardware lead."""

_ENDED = {Outcome.PASS: "passed", Outcome.FAIL: "failed", Outcome.INCONCLUSIVE: "not proven"}


def report_line(report: Report, most: int = MAX_LINE) -> str:
    """Return ``FAIL: node-07 NCCL_LOW_BANDWIDTH 61 < 430, node-09 XID_79 ... and 12 more``.

    Args:
        report: the report.
        most: longest line, in characters; as many nodes are named as fit, three at most.
    """
    statuses = {Result.FAIL: NodeStatus.FAILED, Result.INCONCLUSIVE: NodeStatus.NOT_PROVEN}
    nodes = [node for node in report.nodes if node.status is statuses.get(report.result)]
    about = [f"{code}: {message}" for code, message in report.problems] or [
        f"{item.category} {_worst(item.reasons)}"
        for item in report.categories
        if item.outcome is not Outcome.PASS and item.outcome.value == report.result.value
    ]
    return _line(report.result, nodes, about, result_sentence(report), most)


def verdict_line(verdict: Verdict, most: int = MAX_LINE) -> str:
    """Return the same for one category, and ``PASS: 8 nodes passed``."""
    nodes = [node for node in verdict.nodes if node.outcome is verdict.outcome]
    otherwise = f"{count(len(nodes), 'node')} {_ENDED[verdict.outcome]}"
    if verdict.outcome is Outcome.PASS:
        return _line(verdict.outcome, (), (), otherwise, most)
    return _line(verdict.outcome, nodes, [_worst(verdict.reasons)], otherwise, most)


def bounded(text: str, most: int = MAX_LINE) -> str:
    """Return text on one line, cut at its end where it is longer."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _line(
    result: Result | Outcome,
    nodes: Iterable[NodeReport | NodeVerdict],
    about: Iterable[str],
    otherwise: str,
    most: int,
) -> str:
    """Name the nodes; without any, what the whole is about; without that, what else is known."""
    parts = [f"{node.node} {_worst(node.reasons)}" for node in sorted(nodes, key=_rank)]
    # Room for the result before and the number of the others behind.
    parts = [bounded(part, most - 35) for part in parts or about if part.strip()]
    parts = parts or [otherwise]
    line = ""
    for shown in range(min(_MAX_NAMED, len(parts)), 0, -1):
        more = f" and {len(parts) - shown} more" if len(parts) > shown else ""
        line = f"{result.value}: {', '.join(parts[:shown])}{more}"
        if len(line) <= most:
            break
    return line


def _rank(node: NodeReport | NodeVerdict) -> int:
    return _RANKS.index(node.reason) if node.reason in _RANKS else len(_RANKS)


def _worst(reasons: Iterable[ReasonGiven]) -> str:
    """Return ``NCCL_LOW_BANDWIDTH 61 < 430`` for the first reason that stops a node."""
    listed = list(reasons)
    for effect in (Effect.FAIL, Effect.INCONCLUSIVE):
        for reason in listed:
            if reason.effect is effect:
                return f"{reason.code} {_detail(reason.message)}"
    return listed[0].code if listed else ""


def _detail(message: str) -> str:
    """Return what was measured against what was demanded, else the message, cut."""
    match = _COMPARED.search(message)
    if match:
        with suppress(ValueError):
            value, bar = float(match["value"]), float(match["bar"]) * float(match["factor"] or 1)
            truth, holds = _SIGNS[match["sign"]]
            if not holds(value, bar):  # else it is no bar that was missed
                missed = f"{number_text(value)} {truth} {number_text(bar)}"
                return bounded(f"{message[: match.start()]}{missed}", _MAX_DETAIL)
    return bounded(message, _MAX_DETAIL)
