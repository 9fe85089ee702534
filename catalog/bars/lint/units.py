"""Units of an expression: what is compared with what.

A number that is written has no unit and fits every one; so does what multiplication makes of two
units. Only where both sides are known to differ is something said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from catalog.language.cel.node import COMPARISONS, MACROS, Node
from catalog.language.vocabulary import Name

_NO_UNIT = {"ratio", "1"}
"""Units of plain numbers that stand for a part or a factor."""
_OF_THEIR_ARGUMENT = {"min", "max", "sum", "mean", "median", "percentile", "stddev", "abs"}


class Units:
    """Works out the units of the parts of one expression.

    Args:
        names: what the names of the expression stand for.
    """

    def __init__(self, names: Mapping[str, Name]) -> None:
        self._names = names

    def clashes(self, node: Node) -> Iterator[tuple[str, str]]:
        """Yield both units of every comparison, sum and difference of two."""
        for units, part in self._walk(node):
            if part.op in {*COMPARISONS, "+", "-", "in"} and len(part.args) == 2:
                left, right = (units.unit(argument) for argument in part.args)
                if left and right and left != right and not {left, right} <= _NO_UNIT:
                    yield left, right

    def bare_ratios(self, node: Node) -> Iterator[float]:
        """Yield the numbers outside 0 to 1 that a ratio is compared with."""
        for units, part in self._walk(node):
            for one, other in (part.args, part.args[::-1]) if part.op in COMPARISONS else ():
                number = _number(other)
                ratio = one.op in {"name", "select"} and units.unit(one) == "ratio"
                if ratio and number is not None and not 0 <= number <= 1:
                    yield number

    def _walk(self, node: Node) -> Iterator[tuple[Units, Node]]:
        """Yield all nodes, each with the units of the names that it sees."""
        yield self, node
        for index, part in enumerate(node.args):
            inside = self._inside(node) if index and node.op in MACROS else self
            yield from inside._walk(part)

    def _inside(self, macro: Node) -> Units:
        items = self._item(macro.args[0])
        return Units({**self._names, macro.value: items}) if items else self

    def _item(self, node: Node) -> Name | None:
        """Return what the items of a list of rows are."""
        while node.op == "filter":
            node = node.args[0]
        if node.op == "name" and node.value in self._names:
            name = self._names[node.value]
            if name.type == "rows":
                return name.model_copy(update={"type": "row"})
        return None

    def unit(self, node: Node) -> str | None:  # noqa: PLR0911  (one for each kind of operation)
        """Return the unit of a number, or None where it has none or nobody knows."""
        match node.op:
            case "name":
                return self._of_name(node.value)
            case "select" | "index":
                return self._of_item(node)
            case "call":
                return self._of_call(node)
            case "neg" | "+" | "-" | "?:":
                return next((unit for part in node.args if (unit := self.unit(part))), None)
            case "list":
                found = {self.unit(part) for part in node.args}
                return found.pop() if len(found) == 1 else None
            case "map":
                return self._inside(node).unit(node.args[-1])
            case "*" | "/":
                return self._of_product(node)
        return None

    def _of_name(self, name: str) -> str | None:
        if name not in self._names or self._names[name].type in {"row", "rows"}:
            return None
        unit = self._names[name].unit
        if unit == "value":
            return self._names["value"].unit if "value" in self._names else None
        return None if unit in {"any", "text", "flag"} else unit

    def _of_item(self, node: Node) -> str | None:
        base = node.args[0]
        if base.op != "name" or base.value not in self._names:
            return self.unit(base)
        name = self._names[base.value]
        if name.type == "row":
            field = name.fields.get(str(node.value))
            return field.unit if field and field.unit not in {"any", "text", "flag"} else None
        return self._of_name(base.value)

    def _of_call(self, node: Node) -> str | None:
        if node.figure:
            return self._names[node.figure].unit
        if node.value == "size":
            return "count"
        if node.value in _OF_THEIR_ARGUMENT:
            return next((unit for part in node.args if (unit := self.unit(part))), None)
        return None

    def _of_product(self, node: Node) -> str | None:
        """A number without a unit scales; other products have units of their own, with no name."""
        left, right = (self.unit(part) for part in node.args)
        if node.op == "/" and left is not None and left == right:
            return "ratio"
        if right is None or right in _NO_UNIT:
            return left
        return right if node.op == "*" and (left is None or left in _NO_UNIT) else None


def _number(node: Node) -> float | None:
    if node.op == "neg":
        inner = _number(node.args[0])
        return None if inner is None else -inner
    plain = node.op == "literal" and node.kind.number
    return float(node.value) if plain else None
