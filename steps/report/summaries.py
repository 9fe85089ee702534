"""What the groups of a category say together: bars, figures, and reasons, summed up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from catalog.facts.reasons import Effect
from catalog.facts.tools import TOOLS
from catalog.reading.quantity import format_duration, parse_size
from steps.documents.report import CategoryReport
from steps.documents.verdict import ExpressionResult, GroupVerdict, Outcome, ReasonGiven
from steps.report.wording import GROUP_WORDS, amount, count, named_expression, number_text

MAIN_FIGURES = {
    "largestSizeBusBandwidthGBps": "bus bandwidth at the largest size",
    "busBandwidthGBps": "best bus bandwidth",
    "algBandwidthGBps": "best algorithm bandwidth",
    "bandwidthDip": "greatest dip",
    "smallMessageLatencyUs": "small-message latency",
    "wrongCount": "wrong values",
    "testsPassed": "tests passed",
    "testsFailed": "tests failed",
    "testsWarned": "tests with warnings",
    "testsSkipped": "tests skipped",
    "gpusSeen": "GPUs seen",
    "gpusFailed": "GPUs failed",
    "hostToDeviceMinGBps": "slowest host to GPU",
    "deviceToHostMinGBps": "slowest GPU to host",
    "goodputRatio": "goodput",
    "avgTFLOPsPerGPU": "per GPU",
    "avgStepTimeSec": "step time",
    "stepTimeSpread": "spread of the step time",
    "tokensPerSecPerGPU": "tokens per GPU",
    "stepCount": "steps",
    "nanStepCount": "steps with NaN",
    "lastLoss": "last loss",
}
"""Figures that a report shows without being asked, in this order, with a short name."""

MAIN_FACTS = {
    "transport": "transport",
    "nicsPerNode": "NICs per node",
    "gpuDirectRdma": "GPUDirect RDMA",
    "level": "diagnostic level",
    "worldSize": "ranks",
}
"""Facts that a report shows without being asked, with a short name."""

_BAR = re.compile(r"[0-9.eE+-]+ >=? ([0-9.]+)(?: \* ([0-9.]+))?")


@dataclass(frozen=True, slots=True)
class Judged:
    """One expression of one group."""

    group: GroupVerdict
    result: ExpressionResult


@dataclass(frozen=True, slots=True)
class BarSummary:
    """One bar over all groups that it judged.

    Attributes:
        met, not_met, not_evaluated: the groups, the lowest measured value first.
    """

    key: str
    expression: str
    source: str | None
    met: tuple[Judged, ...]
    not_met: tuple[Judged, ...]
    not_evaluated: tuple[Judged, ...]

    @property
    def rule(self) -> str:
        """The expression as written, named by its key, and where the bar comes from.

        The key alone stands for an expression that has no numbers to put in.
        """
        words = self.key
        if self._first.statement != self.expression:
            words = named_expression(self.key, self.expression)
        return f"{words}; bar from {self.source}" if self.source else words

    @property
    def total(self) -> int:
        """Number of groups that the bar judged, each on one or several GPUs."""
        return len({judged.group.group.id for judged in self._all})

    @property
    def kind(self) -> str:
        """Where the height of the bar comes from; see `ExpressionResult`."""
        return self._first.kind

    @property
    def provenance(self) -> str:
        """Where the bar comes from, and the rule that set it, with file and line."""
        source, rule = self.source or "", self._first.rule or ""
        if not source or rule.startswith(source):
            return rule or source
        return f"{source}; set by {rule}" if rule else source

    @property
    def _all(self) -> tuple[Judged, ...]:
        return (*self.not_met, *self.not_evaluated, *self.met)

    @property
    def _first(self) -> ExpressionResult:
        return self._all[0].result


@dataclass(frozen=True, slots=True)
class FigureSummary:
    """One figure over all groups that measured it; values in ``unit``."""

    name: str
    label: str
    unit: str
    low: float
    middle: float
    high: float
    groups: int

    @property
    def text(self) -> str:
        """One value, or least, median and greatest."""
        if self.low == self.high:
            return amount(self.unit, self.low)
        words = amount(self.unit, self.low, self.high)
        return words if self.groups < 3 else f"{words}, median {number_text(self.middle)}"


@dataclass(frozen=True, slots=True)
class ReasonSummary:
    """One reason code over all groups of a category.

    Attributes:
        groups: ids of the groups that gave it.
        examples: one reason for every distinct message.
    """

    code: str
    effect: Effect
    groups: tuple[str, ...]
    examples: tuple[ReasonGiven, ...]

    def messages(self, most: int) -> str:
        """Return the first messages, each with the node that it is about, if it is about one."""
        words = [_with_place(example) for example in self.examples[:most]]
        if len(self.examples) > most:
            words.append(f"{len(self.examples) - most} more like this")
        return "; ".join(words)


def _with_place(reason: ReasonGiven) -> str:
    places = {entity.node for entity in reason.entities}
    if len(places) == 1 and (node := places.pop()) and node not in reason.message:
        return f"{node}: {reason.message}"
    return reason.message


def of_purpose(category: CategoryReport, purpose: str) -> tuple[GroupVerdict, ...]:
    """Return the groups that ran to measure, or to isolate."""
    return tuple(group for group in category.groups if group.group.purpose == purpose)


def run_line(category: CategoryReport) -> str:
    """Return ``full-scale, 1 group of 8 nodes, runtime 42m18s; 7 isolation runs, 21m0s``."""
    measured, isolated = of_purpose(category, "measure"), of_purpose(category, "isolate")
    sizes = sorted({len(group.group.nodes) for group in measured})
    line = f"{category.scale}, {count(len(measured), 'group')}"
    if sizes:
        size = count(sizes[0], "node") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} nodes"
        line += f" of {size}"
    rounds = max((group.group.iteration for group in measured), default=1)
    if rounds > 1:
        line += f" over {rounds} iterations"
    line += f", runtime {format_duration(category.duration_seconds)}"
    if isolated:
        line += f"; {count(len(isolated), 'isolation run')}, "
        line += format_duration(category.isolation_seconds)
    return line


def node_line(category: CategoryReport) -> str:
    """Return ``8 nodes: 6 passed, 1 failed, 1 not proven``."""
    words = {
        Outcome.PASS: "passed",
        Outcome.FAIL: "failed",
        Outcome.INCONCLUSIVE: "not proven",
    }
    numbers = Counter(node.outcome for node in category.nodes)
    parts = [f"{numbers[outcome]} {word}" for outcome, word in words.items() if numbers[outcome]]
    return f"{count(len(category.nodes), 'node')}: {', '.join(parts) or 'none tested'}"


def group_line(groups: Iterable[GroupVerdict]) -> str:
    """Return ``703 passed, 16 not passed, 1 no result``."""
    numbers = Counter(group.outcome for group in groups)
    return ", ".join(f"{numbers[o]} {word}" for o, word in GROUP_WORDS.items() if numbers[o])


def bar_summaries(groups: Iterable[GroupVerdict]) -> tuple[BarSummary, ...]:
    """Sum up every bar, in the order in which the groups have them."""
    found: dict[tuple[str, str, str | None], dict[Outcome, list[Judged]]] = {}
    for group in groups:
        for result in group.expressions:
            by_outcome = found.setdefault((result.key, result.expression, result.source), {})
            by_outcome.setdefault(result.outcome, []).append(Judged(group, result))
    return tuple(
        BarSummary(
            key,
            expression,
            source,
            *(
                tuple(sorted(by_outcome.get(outcome, ()), key=_by_measured))
                for outcome in (Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE)
            ),
        )
        for (key, expression, source), by_outcome in found.items()
    )


def figure_summaries(groups: Sequence[GroupVerdict]) -> tuple[FigureSummary, ...]:
    """Sum up the main figures that the groups measured."""
    found: dict[str, FigureSummary] = {}
    for name, label in MAIN_FIGURES.items():
        figures = [group.figures[name] for group in groups if name in group.figures]
        values = [float(f.value) for f in figures if not isinstance(f.value, dict)]
        if values:
            found[name] = FigureSummary(
                name, label, figures[0].unit, min(values), median(values), max(values), len(values)
            )
    largest, best = found.get("largestSizeBusBandwidthGBps"), found.get("busBandwidthGBps")
    if largest and (size := _largest_size(groups)):
        found[largest.name] = replace(largest, label=f"bus bandwidth at {size}")
    if largest and best and (largest.low, largest.high) == (best.low, best.high):
        del found[best.name]
    return tuple(found.values())


def main_value(group: GroupVerdict) -> str:
    """Return the first main figure of a group with its unit; empty when it measured none."""
    summaries = figure_summaries([group])
    return summaries[0].text if summaries else ""


def size_summaries(groups: Sequence[GroupVerdict]) -> list[tuple[int, float, float, float]]:
    """Return size in bytes with least, median and greatest bus bandwidth in GB/s, by size."""
    by_size: dict[int, list[float]] = {}
    for group in groups:
        figure = group.figures.get("busBandwidthAtGBps")
        if figure is not None and isinstance(figure.value, dict):
            for size, value in sizes_of(figure.value):
                by_size.setdefault(size, []).append(value)
    return [(s, min(v), median(v), max(v)) for s, v in sorted(by_size.items())]


def reason_summaries(category: CategoryReport) -> tuple[ReasonSummary, ...]:
    """Sum up the reasons of a category and of its measurement groups, most serious first.

    Reasons that only repeat an expression are left out: the bars say them already.
    """
    groups: dict[tuple[str, Effect], dict[str, None]] = {}
    examples: dict[tuple[str, Effect], dict[str, ReasonGiven]] = {}
    own = [(item.group, item) for item in category.reasons]
    said = set()
    for group in of_purpose(category, "measure"):
        own += [(group.group.id, item) for item in group.reasons]
        for result in group.expressions:
            said |= {result.statement, f"{result.statement} ({result.message})"}
    for group_id, item in own:
        if item.message in said:
            continue
        key = (item.code, item.effect)
        examples.setdefault(key, {}).setdefault(item.message, item)
        names = groups.setdefault(key, {})
        if group_id:
            names[group_id] = None
    return tuple(
        ReasonSummary(code, effect, tuple(groups[code, effect]), tuple(found.values()))
        for (code, effect), found in sorted(examples.items(), key=lambda entry: entry[0][1].rank)
    )


def common_facts(groups: Sequence[GroupVerdict]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the facts that all groups with facts agree on: the main ones, and the others."""
    known = [group.facts for group in groups if group.facts]
    same = {
        name: value
        for name, value in (sorted(known[0].items()) if known else ())
        if all(facts.get(name) == value for facts in known)
    }
    main = {label: same.pop(name) for name, label in MAIN_FACTS.items() if name in same}
    return main, same


def bar_value(result: ExpressionResult) -> float | None:
    """Return the number that a simple ``figure >= bar`` compares with, for drawing it."""
    match = _BAR.fullmatch(result.with_values)
    try:
        return float(match[1]) * float(match[2] or 1) if match else None
    except ValueError:
        return None


def sizes_of(values: dict[str, float]) -> list[tuple[int, float]]:
    """Return a map by message size as pairs of bytes and value, ascending; other keys are left."""
    pairs = []
    for key, value in values.items():
        try:
            pairs.append((parse_size(key), value))
        except ValueError:
            continue
    return sorted(pairs)


def _largest_size(groups: Sequence[GroupVerdict]) -> str | None:
    largest = set()
    for group in groups:
        figure = group.figures.get("busBandwidthAtGBps")
        if figure is not None and isinstance(figure.value, dict) and figure.value:
            sizes = {size: key for key in figure.value for size, _ in sizes_of({key: 0.0})}
            if sizes:
                largest.add(sizes[max(sizes)])
    return largest.pop() if len(largest) == 1 else None


def _by_measured(judged: Judged) -> float:
    return measured_figure(judged.result) or 0.0


def measured_figure(result: ExpressionResult) -> float | None:
    """Return the measured number of an expression; None when it has none that is one number."""
    for name, value in result.values.items():
        measured = name == "value" or any(name in tool.figures for tool in TOOLS)
        if measured and isinstance(value, int | float):
            return float(value)
    return None
