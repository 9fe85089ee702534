"""Types of CEL values as far as they are known before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from catalog.errors import ExpressionError
from catalog.reading.model import suggestion


@dataclass(frozen=True, slots=True)
class Kind:
    """A type.

    Attributes:
        name: int, double, bool, string, list, map, null or any.
        item: of the items of a list or the values of a map.
        fields: of a map whose fields are declared, by name.
    """

    name: str
    item: Kind | None = None
    fields: tuple[tuple[str, Kind], ...] = ()

    @property
    def number(self) -> bool:
        """True for int and double."""
        return self.name in {"int", "double"}

    @property
    def inside(self) -> Kind:
        """Type of the items, any where nobody knows."""
        return self.item or ANY

    def __str__(self) -> str:
        return _WORDS[self.name]


class Record(dict[str, object]):
    """A sample of a map that has these fields and no others, though not always all of them."""


class AnyKey(dict[str, float]):
    """A sample of a map of numbers by message size, which has every size."""

    def __missing__(self, key: str) -> float:
        return 1.5

    def __contains__(self, key: object) -> bool:
        return True


_WORDS = {
    "int": "a number",
    "double": "a number",
    "bool": "a boolean",
    "string": "a text",
    "list": "a list",
    "map": "a map",
    "null": "null",
    "any": "a value",
}
ANY, BOOL, INT, DOUBLE, STRING, NULL = map(Kind, ("any", "bool", "int", "double", "string", "null"))
_PLAIN: dict[type, Kind] = {
    bool: BOOL,
    int: INT,
    float: DOUBLE,
    str: STRING,
    type(None): NULL,
}


def kind_of(sample: object) -> Kind:
    """Return the type that a sample value stands for.

    The values of a map may have any type unless it is a `Record` or holds nothing but numbers.
    """
    if isinstance(sample, Record):
        return Kind("map", ANY, tuple((name, kind_of(value)) for name, value in sample.items()))
    if isinstance(sample, Mapping):
        inside = same(kind_of(value) for value in sample.values())
        return Kind("map", inside if inside.number else ANY)
    if isinstance(sample, list | tuple):
        inside = same(kind_of(value) for value in sample)
        return Kind("list", inside if inside.number or inside.fields else ANY)
    return _PLAIN.get(type(sample), ANY)


def same(kinds: Iterable[Kind]) -> Kind:
    """Return the type of items that all have it; items of different types stay what they are."""
    found = set(kinds)
    return found.pop() if len(found) == 1 else ANY


def common(kinds: Iterable[Kind]) -> Kind:
    """Return the type that all of these have; numbers of different types have double in common."""
    found = set(kinds)
    if len(found) == 1:
        return found.pop()
    if found and all(kind.number for kind in found):
        return DOUBLE
    return ANY


def comparable(left: Kind, right: Kind) -> bool:
    """Say whether values of two types can be equal, or could be as far as one knows."""
    if "any" in {left.name, right.name} or (left.number and right.number):
        return True
    return left.name == right.name and comparable(left.inside, right.inside)


def field_kind(kind: Kind, name: str) -> Kind:
    """Return the type of a field.

    Raises:
        ExpressionError: there are no fields, or none of this name.
    """
    if kind.name not in {"map", "any"}:
        raise ExpressionError(f"reads .{name} of {kind}, which has no fields")
    if not kind.fields:
        return kind.inside
    fields = dict(kind.fields)
    if name not in fields:
        hint = suggestion(name, fields) or f"known: {', '.join(fields)}"
        raise ExpressionError(f"reads unknown field {name!r}", hint=hint)
    return fields[name]


def item_kind(kind: Kind) -> Kind:
    """Return the type of what a macro goes over: of a map its keys."""
    if kind.name == "map":
        return STRING if kind.inside.number or kind.fields else ANY
    return kind.inside


def check_comparison(sign: str, left: Kind, right: Kind) -> None:
    """Refuse to compare what can never be equal, or has no order.

    Raises:
        ExpressionError: the types do not go together.
    """
    if sign == "in":
        if right.name not in {"list", "map", "any"}:
            raise ExpressionError(f"looks for something in {right}")
        if right.name == "map" or comparable(left, right.inside):
            return
        right = right.inside
    unordered = {"list", "map", "null"} & {left.name, right.name} and sign not in {"==", "!=", "in"}
    if unordered or not comparable(left, right):
        raise ExpressionError(f"compares values of different types: {left} with {right}")


def result_kind(sign: str, left: Kind, right: Kind) -> Kind:
    """Return the type of a sum, difference, product, quotient or rest.

    Raises:
        ExpressionError: there is no such operation on these types.
    """
    if left.number and right.number:
        if DOUBLE in {left, right}:
            if sign == "%":
                raise ExpressionError("has % of a decimal; it is for whole numbers only")
            return DOUBLE
        return INT
    if ANY in {left, right}:
        return ANY
    if sign == "+" and left.name == right.name == "string":
        return STRING
    if sign == "+" and left.name == right.name == "list":
        return Kind("list", same((left.inside, right.inside)))
    raise ExpressionError(f"has values of different types: {left} {sign} {right}")
