"""Values to try an expression on: plausible ones, and those at which it changes its mind.

Random values alone would miss a band such as ``value >= 0.92 * expected && value <= expected``. So
both sides of every comparison are evaluated, and the names on one side are moved to where the two
are equal, just beside it, and between two such points; first one name by itself, then all of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from catalog.errors import ExpressionError
from catalog.language.cel.aggregates import is_size
from catalog.language.cel.expression import Expression
from catalog.language.cel.node import COMPARISONS, MACROS, Node
from catalog.language.cel.operators import is_number
from catalog.language.vocabulary import MEASURED, Name

Values = dict[str, Any]

_STARTS = 16
"""Sets of values to begin with."""
_COMBINED = 16
"""Of each such set, how often several names are moved together."""
_BESIDE = 1e-6
"""Distance to a border, as a part of its value."""
_LEAST = 1e-6
"""Least distance to a border, and least value of what is never nothing."""

PLAUSIBLE: dict[str, tuple[float, float]] = {
    "GB/s": (0.01, 2000.0),
    "us": (0.5, 1e8),
    "s": (0.01, 600.0),
    "ratio": (0.0, 1.0),
    "TFLOP/s": (1.0, 5000.0),
    "tokens/s": (1.0, 1e9),
    "samples/s": (0.01, 1e6),
    "bytes": (1.0, 2.0**40),
    "count": (0.0, 1e6),
    "1": (-100.0, 100.0),
}
"""Least and greatest value that a figure of this unit has on any machine, with room."""
POSSIBLE = (0.0, 1e15)
"""Bounds of what the type allows: nothing that is measured is negative, apart from losses."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Where values are taken from.

    Attributes:
        names: what the names stand for.
        fixed: values that are given, such as the numbers of a stage.
        plausible: keep to values that machines have; otherwise to all that there can be.
    """

    names: Mapping[str, Name]
    fixed: Mapping[str, Any]
    plausible: bool

    def bounds(self, name: Name) -> tuple[float, float]:
        """Return the least and the greatest value of a number."""
        unit = self.names["value"].unit if name.unit == "value" and "value" in self.names else None
        low, high = PLAUSIBLE.get(unit or name.unit, POSSIBLE)
        if not self.plausible:
            low, high = min(low, POSSIBLE[0]), POSSIBLE[1]
        # What is expected, told or the median of others is never nothing.
        return (low, high) if name.origin in MEASURED else (max(low, _LEAST), high)


def samples(expressions: Sequence[Expression], domain: Domain) -> Iterator[Values]:
    """Yield values for all names of some expressions, always the same.

    Args:
        expressions: the borders between their true and false are looked for.
        domain: where values come from.
    """
    names = sorted({name for expression in expressions for name in expression.names})
    draw = _Draw(domain, _words(expressions))
    for number in range(_STARTS):
        start = {
            name: domain.fixed[name] if name in domain.fixed else draw.value(domain.names[name])
            for name in names
        }
        draw.turn = number + 1
        yield start
        moves = {
            name: list(found) for name, found in _moves(expressions, start, domain, draw.words)
        }
        for name, values in moves.items():
            yield from ({**start, name: value} for value in values)
        for turn in range(_COMBINED):
            moved = {name: draw.choice(values) for name, values in moves.items() if values}
            agreed = _agreed(expressions, draw) if turn % 2 else {}
            yield {**start, **moved, **{name: agreed[name] for name in moves if name in agreed}}


def _words(expressions: Sequence[Expression]) -> list[str]:
    """Return the texts that expressions compare with, and two that are none of them."""
    found = {
        node.value
        for expression in expressions
        for node in expression.node.walk()
        if node.op == "literal" and isinstance(node.value, str)
    }
    return ["", *sorted(found), "another"]


class _Draw:
    """Draws values: first the least of everything, then the greatest, then by chance."""

    def __init__(self, domain: Domain, words: list[str]) -> None:
        self.words = words
        self.turn = 0
        self._domain = domain
        self._chance = random.Random(7)  # noqa: S311  (samples, no secrets)
        self.choice = self._chance.choice

    def value(self, name: Name) -> Any:
        """Return a value of the type of a name."""
        if name.type == "row":
            return {field: self.value(item) for field, item in name.fields.items()}
        if name.type == "rows":
            row = name.model_copy(update={"type": "row"})
            return [self.value(row) for _ in range(1 + self.turn % 3)]
        if name.type == "string":
            return self.choice(self.words)
        if name.type == "bool":
            return self._chance.random() < 0.5
        return _as(name, self._number(name))

    def _number(self, name: Name) -> float:
        low, high = self._domain.bounds(name)
        if self.turn < 2:
            return high if self.turn else low
        if low < 0:
            return self._chance.uniform(low, high)
        bottom = max(low, _LEAST)
        return float(bottom * (high / bottom) ** self._chance.random())


class Sizes(dict[str, float]):
    """A map that has every message size, with one value at all but some."""

    def __init__(self, value: float, others: Mapping[str, float] = {}) -> None:
        super().__init__({"1G": value, "8G": value, **others})
        self.value = value

    def __missing__(self, key: str) -> float:
        return self.value

    def __contains__(self, key: object) -> bool:
        return True


def _agreed(expressions: Sequence[Expression], draw: _Draw) -> Values:
    """Return what names are said to be equal to, one of the values of each."""
    found: dict[str, list[Any]] = {}
    for node in (node for expression in expressions for node in expression.node.walk()):
        for one, other in (node.args, node.args[::-1]) if node.op == "==" else ():
            if one.op == "name" and other.op == "literal":
                found.setdefault(one.value, []).append(other.value)
    return {name: draw.choice(values) for name, values in found.items()}


def _moves(
    expressions: Sequence[Expression], start: Values, domain: Domain, words: list[str]
) -> Iterator[tuple[str, Iterable[Any]]]:
    """Yield the names that are free, each with the values at every border and beside it."""
    comparisons = [item for e in expressions for item in _comparisons(e.node, start)]
    for name in start:
        known = domain.names[name]
        if name in domain.fixed or known.type == "bool":
            continue
        if known.type == "string":
            yield name, words
        elif known.type in {"row", "rows"}:
            yield name, _moved_rows(comparisons, start[name], known, domain)
        else:
            yield name, _moved_number(comparisons, start, name, domain, words)


def _moved_number(
    comparisons: Sequence[tuple[Node, Values]],
    start: Values,
    name: str,
    domain: Domain,
    words: list[str],
) -> Iterator[Any]:
    known = domain.names[name]
    now = float(start[name].value if known.type == "map" else start[name])
    nodes = [item for item in comparisons if name in item[0].reads()]
    for value in _targets(nodes, now, domain.bounds(known)):
        yield _as(known, value)
        if known.type == "map":
            yield from (Sizes(now, {word: value}) for word in words if is_size(word))


def _moved_rows(
    comparisons: Sequence[tuple[Node, Values]], now: Any, known: Name, domain: Domain
) -> Iterator[Any]:
    """Yield the row or rows with one field moved, in all rows alike."""
    rows = now if isinstance(now, list) else [now]
    for field, name in known.fields.items():
        nodes = [
            item for item in comparisons if any(_is_field(part, field) for part in item[0].walk())
        ]
        if not nodes or name.type not in {"double", "int"}:
            continue
        for value in _targets(nodes, float(rows[0][field]), domain.bounds(name)):
            moved = [{**row, field: _as(name, value)} for row in rows]
            yield moved if isinstance(now, list) else moved[0]


def _is_field(node: Node, field: str) -> bool:
    return node.op == "select" and node.value == field


def _as(name: Name, value: float) -> Any:
    if name.type == "map":
        return Sizes(value)
    return round(value) if name.type == "int" else value


def _comparisons(node: Node, values: Values) -> Iterator[tuple[Node, Values]]:
    """Yield the comparisons, each with what it sees: in a macro, the first item."""
    if node.op in COMPARISONS:
        yield node, values
    inside = values
    if node.op in MACROS:
        items = _try(node.args[0], values)
        if not items:
            yield from _comparisons(node.args[0], values)
            return
        inside = {**values, node.value: next(iter(items))}
    for index, part in enumerate(node.args):
        yield from _comparisons(part, inside if index else values)


def _try(node: Node, values: Values) -> Any:
    try:
        return node.run(values)
    except (ExpressionError, ArithmeticError, ValueError, TypeError, KeyError):
        return None


def _targets(
    comparisons: Sequence[tuple[Node, Values]], now: float, bounds: tuple[float, float]
) -> list[float]:
    """Return where a value would have to be for two sides to be equal, beside it, and between.

    The sides are taken to be proportional to the value, or to differ from it by a constant; for
    others these are merely more samples.
    """
    found = {now}
    for node, values in comparisons:
        left, right = (_try(part, values) for part in node.args)
        if not (is_number(left) and is_number(right)):
            continue
        found |= {left, right, now + right - left, now + left - right}
        if left and right:
            found |= {now * right / left, now * left / right}
    ordered = sorted(float(value) for value in found if math.isfinite(value))
    points = [(low + high) / 2 for low, high in pairwise(ordered)]
    for value in ordered:
        step = max(abs(value) * _BESIDE, _LEAST)
        points += [value - step, value, value + step, value - 1, value + 1]
    low, high = bounds
    return sorted({min(max(point, low), high) for point in points})
