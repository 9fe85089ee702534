"""Geometry of the charts in report.html; the template draws them as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from catalog.reading.quantity import format_size
from steps.documents.verdict import GroupVerdict, Outcome
from steps.report.summaries import bar_summaries, bar_value, measured_figure, sizes_of
from steps.report.wording import count, number_text

WIDTH, HEIGHT = 720, 250
LEFT, RIGHT = 52, 648
_TOP, _BOTTOM = 12, 216
_FEW = 6
"""Up to so many groups are drawn line by line; more as the band between least and greatest."""

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of the chart; ``css`` gives its dashes, ``slow`` marks a group that did not pass."""

    label: str
    css: str
    points: str
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart, in the units of its view box.

    Attributes:
        band: polygon between least and greatest value, empty for none.
        dots: x, y and whether the bar was met.
        bars: of each bar the height of its line, the height of its text, and the text.
    """

    title: str
    x_name: str
    y_name: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    curves: tuple[Curve, ...] = ()
    band: str = ""
    dots: tuple[tuple[float, float, bool], ...] = ()
    bars: tuple[tuple[float, float, str], ...] = ()

    @property
    def dot_radius(self) -> float:
        """Small enough that many dots stay apart."""
        return 3.5 if len(self.dots) <= 64 else 2.0


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values to the view box; y starts at zero, so that heights can be compared."""

    left: float
    right: float
    top: float

    def x(self, value: float) -> float:
        part = (value - self.left) / ((self.right - self.left) or 1.0)
        return round(LEFT + part * (RIGHT - LEFT), 1)

    def y(self, value: float) -> float:
        part = min(max(value / self.top, 0.0), 1.0)
        return round(_BOTTOM - part * (_BOTTOM - _TOP), 1)

    def points(self, pairs: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in pairs)


def size_chart(groups: Sequence[GroupVerdict], what: str) -> Chart | None:
    """Draw bus bandwidth by message size, out of place.

    Args:
        groups: groups of one purpose.
        what: what the groups are, for the title.

    Returns:
        The chart; None when no group has at least two sizes.
    """
    found: list[tuple[GroupVerdict, list[tuple[float, float]]]] = []
    for group in groups:
        figure = group.figures.get("busBandwidthAtGBps")
        if figure is not None and isinstance(figure.value, dict):
            pairs = [(math.log2(size), value) for size, value in sizes_of(figure.value)]
            if len(pairs) > 1:
                found.append((group, pairs))
    if not found:
        return None
    bars = _bars(groups, "busbandwidth")
    values = [value for _, pairs in found for _, value in pairs]
    places = sorted({x for _, pairs in found for x, _ in pairs})
    scale = _Scale(places[0], places[-1], _nice_top(max([*values, *bars])))
    if len(found) <= _FEW:
        band = ""
        curves = [
            Curve(
                group.group.id,
                f"line-{number}",
                scale.points(pairs),
                slow=group.outcome is Outcome.FAIL,
            )
            for number, (group, pairs) in enumerate(found, 1)
        ]
    else:
        by_size: dict[float, list[float]] = {}
        for _, pairs in found:
            for x, value in pairs:
                by_size.setdefault(x, []).append(value)
        low = [(x, min(by_size[x])) for x in places]
        high = [(x, max(by_size[x])) for x in places]
        band = scale.points([*high, *reversed(low)])
        middle = scale.points([(x, median(by_size[x])) for x in places])
        curves = [Curve(f"median of {count(len(found), 'group')}", "line-1", middle)]
    return Chart(
        title=f"Bus bandwidth by message size, {what}",
        x_name="message size",
        y_name="GB/s",
        x_ticks=tuple((scale.x(x), format_size(2 ** round(x))) for x in _some(places, 9)),
        y_ticks=_y_ticks(scale),
        curves=tuple(curves),
        band=band,
        bars=_bar_lines(scale, bars),
    )


def group_chart(groups: Sequence[GroupVerdict], what: str) -> Chart | None:
    """Draw the measured value of every group against its bar, for the first bar that is a number.

    Returns:
        The chart; None for fewer than three groups or when no such bar exists.
    """
    for bar in bar_summaries(groups):
        judged = (*bar.not_met, *bar.met)
        values = [
            (item.group.group.id, value, item.result.outcome is Outcome.PASS)
            for item in judged
            if (value := measured_figure(item.result)) is not None
            and bar_value(item.result) is not None
        ]
        unit = _unit(groups, judged[0].result.values) if judged else ""
        if len(values) < 3 or unit in {"", "count"}:
            continue
        order = {group.group.id: number for number, group in enumerate(groups)}
        bars = sorted({v for item in judged if (v := bar_value(item.result)) is not None})[:3]
        scale = _Scale(-0.5, len(groups) - 0.5, _nice_top(max([*bars, *(v for _, v, _ in values)])))
        return Chart(
            title=f"{bar.key} of every group, {what}",
            x_name="groups in the order of the run",
            y_name=unit,
            x_ticks=(),
            y_ticks=_y_ticks(scale),
            dots=tuple(
                (scale.x(order[name]), scale.y(value), met)
                for name, value, met in sorted(values, key=lambda item: order[item[0]])
            ),
            bars=_bar_lines(scale, bars),
        )
    return None


def _bars(groups: Sequence[GroupVerdict], figure: str) -> list[float]:
    """Return the bars on a figure, at most three."""
    values = {
        value
        for group in groups
        for result in group.expressions
        if figure in result.expression.lower() and (value := bar_value(result)) is not None
    }
    return sorted(values)[:3]


def _bar_lines(scale: _Scale, values: Sequence[float]) -> tuple[tuple[float, float, str], ...]:
    """Place the lines of ascending bars, and their texts so far apart that they can be read."""
    lines: list[tuple[float, float, str]] = []
    for value in values:
        y = scale.y(value)
        text_y = min(y, lines[-1][1] - 13) if lines else y
        lines.append((y, text_y, f"bar {number_text(value)}"))
    return tuple(lines)


def _unit(groups: Sequence[GroupVerdict], values: dict[str, float | int | str]) -> str:
    units = (
        group.figures[name].unit for name in values for group in groups if name in group.figures
    )
    return next(units, "")


def _nice_top(value: float) -> float:
    """Return a round number a little above the value."""
    if value <= 0:
        return 1.0
    step = 10.0 ** math.floor(math.log10(value))
    return next(part * step for part in (1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15) if part * step > value)


def _y_ticks(scale: _Scale) -> tuple[Tick, ...]:
    values = [scale.top * part / 4 for part in range(5)]
    return tuple((scale.y(value), number_text(value)) for value in values)


def _some(places: Sequence[float], most: int) -> Sequence[float]:
    """Return every n-th place, counted from the last, which matters most."""
    step = max(1, math.ceil(len(places) / most))
    return places[::-1][::step][::-1]
