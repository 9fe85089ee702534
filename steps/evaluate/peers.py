"""The other runs of the same kind, for bars that compare a run with them.

The median is over the others, so a bad run cannot hide in it, and it is an interval as long as some
of the others have no measurement: what is not known may lie anywhere. A bar is true or false only
where it is so at both ends, so losing data never makes a run look good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from steps.documents import Group

FEWEST_PEERS = 3
"""Fewer others than this have no median worth comparing with."""

Figures = Mapping[str, float | int]


@dataclass(frozen=True, slots=True)
class PeerMedian:
    """The median of one figure over the others.

    Attributes:
        low, high: its bounds; equal when every other run has the figure, infinite when so few have
            it that it can be anything.
        known: others that have the figure.
        total: all others that were planned.
    """

    low: float
    high: float
    known: int
    total: int


@dataclass(slots=True)
class _Column:
    """One figure of all runs: the known values in order, and where each run stands in them."""

    values: list[float]
    place: dict[int, int]


@dataclass(slots=True)
class PeerClass:
    """Runs that are alike: one category, cohort, group size and purpose.

    Attributes:
        groups: every planned run, also those without a measurement.
        figures: of each run the numbers that it measured; None where it has no whole measurement.
    """

    groups: Sequence[Group]
    figures: Sequence[Figures | None]
    _columns: dict[str, _Column] = field(default_factory=dict, init=False)
    _by_node: dict[str, list[int]] = field(default_factory=dict, init=False)
    _node_sets: set[tuple[str, ...]] = field(default_factory=set, init=False)
    _short: dict[str, tuple[bool | None, ...]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for index, group in enumerate(self.groups):
            self._node_sets.add(group.nodes)
            for node in group.nodes:
                self._by_node.setdefault(node, []).append(index)

    def others(self, group: Group) -> int:
        """Return how many runs on other nodes were planned, repeats not counted."""
        return len(self._node_sets) - len({self.groups[index].nodes for index in self._own(group)})

    def median(self, group: Group, figure: str) -> PeerMedian:
        """Return the median of a figure over the runs that share no node with this one."""
        column = self._column(figure)
        own = self._own(group)
        gone = sorted(column.place[index] for index in own if index in column.place)
        known = len(column.values) - len(gone)
        total = len(self.groups) - len(own)
        lost = total - known

        def at(position: int) -> float:
            if not 0 <= position < known:
                return -math.inf if position < 0 else math.inf
            for place in gone:
                position += place <= position
            return column.values[position]

        middle = ((total - 1) // 2, total // 2)
        low = sum(at(position - lost) for position in middle) / 2 if total else -math.inf
        high = sum(at(position) for position in middle) / 2 if total else math.inf
        return PeerMedian(low, high, known, total)

    def split(self, key: str, falls_short: Callable[[Group, Figures], bool | None]) -> bool:
        """Say whether half of the runs or more fall short of the others: then none is an outlier.

        Args:
            key: names the question, which is asked of every run only once.
            falls_short: tells it of one run; None where it is not known.
        """
        if key not in self._short:
            self._short[key] = tuple(
                None if figures is None else falls_short(group, figures)
                for group, figures in zip(self.groups, self.figures, strict=True)
            )
        answers = [answer for answer in self._short[key] if answer is not None]
        return 2 * sum(answers) >= len(answers)

    def _own(self, group: Group) -> list[int]:
        return sorted({index for node in group.nodes for index in self._by_node.get(node, ())})

    def _column(self, figure: str) -> _Column:
        if figure not in self._columns:
            known = sorted(
                (float(figures[figure]), index)
                for index, figures in enumerate(self.figures)
                if figures is not None and figure in figures and math.isfinite(figures[figure])
            )
            self._columns[figure] = _Column(
                [value for value, _ in known],
                {index: place for place, (_, index) in enumerate(known)},
            )
        return self._columns[figure]
