"""Operators on CEL values, which are plain Python values here.

int, float, bool, str, list, dict and None.
Numbers of different types compare and compute as arithmetic says. Everything else meets its own
type only. Every error is raised, and none of them is ever a value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from catalog.errors import ExpressionError

INT64 = range(-(2**63), 2**63)

Operator = Callable[[Any, Any], Any]


class DataError(ExpressionError):
    """The expression is sound, but over these values it says nothing."""


class NotFiniteError(DataError):
    """A division by zero, or a number outside the range of a double or a 64-bit integer."""


class NoValueError(ExpressionError):
    """A map has no such key; ``key`` and the ``there`` keys are for the message."""

    def __init__(self, key: object, there: Mapping[Any, Any] | None = None) -> None:
        says = f"there is no value for {key}"
        names = ", ".join(map(str, there or ()))
        super().__init__(f"{says}; there is {cut(names)}" if names else says)


MAX_LISTED = 200
"""Characters of a list of names or keys in a message."""


def cut(text: str) -> str:
    """Shorten a list for a message."""
    return text if len(text) <= MAX_LISTED else f"{text[: MAX_LISTED - 2]} …"


_WORDS = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    type(None): "null",
}
_NUMBERS = (int, float)


def describe(value: object) -> str:
    """Name the type of a value for people."""
    if isinstance(value, Mapping):
        return "a map"
    return "a list" if isinstance(value, list | tuple) else _WORDS.get(type(value), "no value")


def is_number(value: object) -> bool:
    """Say whether a value is a number; a boolean is none."""
    return type(value) in _NUMBERS


def finite(value: float) -> float:
    """Return the number, or raise: a bar that NaN or infinity meets proves nothing.

    Raises:
        NotFiniteError: it is NaN or infinite.
    """
    if not math.isfinite(value):
        raise NotFiniteError(f"a part of it is {value}, not a finite number")
    return value


def whole(value: int) -> int:
    """Return a whole number in its 64 bits.

    Raises:
        NotFiniteError: it does not fit.
    """
    if value not in INT64:
        raise NotFiniteError(f"a part of it is {value}, which does not fit in 64 bits")
    return value


def quotient(left: int, right: int) -> int:
    """Divide whole numbers as CEL does, towards zero."""
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


def remainder(left: int, right: int) -> int:
    """Return the rest of `quotient`, which has the sign of ``left``."""
    size = abs(left) % abs(right)
    return -size if left < 0 else size


_FLOAT: dict[str, Operator] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_WHOLE: dict[str, Operator] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": quotient,
    "%": remainder,
}


def arithmetic(sign: str) -> Operator:
    """Return ``+``, ``-``, ``*``, ``/`` or ``%`` for values of any types.

    int and double give a double; two of one type give that type.
    """

    def compute(left: Any, right: Any) -> Any:
        kinds = (type(left), type(right))
        if kinds[0] in _NUMBERS and kinds[1] in _NUMBERS:
            if sign in "/%" and right == 0:
                raise NotFiniteError("divides by zero")
            if float not in kinds:
                return whole(_WHOLE[sign](left, right))
            if sign == "%":
                raise ExpressionError("has % of a decimal; it is for whole numbers only")
            return finite(_FLOAT[sign](float(left), float(right)))
        if sign == "+" and kinds in {(str, str), (list, list)}:
            return left + right
        raise ExpressionError(
            f"has values of different types: {describe(left)} {sign} {describe(right)}"
        )

    return compute


def negate(value: Any) -> Any:
    """Return the negative of a number."""
    if type(value) is int:
        return whole(-value)
    if type(value) is float:
        return -value
    raise ExpressionError(f"has the negative of {describe(value)}")


_ORDERED: dict[str, Operator] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDERED_TYPES = (bool, str)


def ordering(sign: str) -> Operator:
    """Return ``<``, ``<=``, ``>`` or ``>=``; whole numbers and doubles compare exactly."""
    compare = _ORDERED[sign]

    def ordered(left: Any, right: Any) -> bool:
        kinds = (type(left), type(right))
        numbers = kinds[0] in _NUMBERS and kinds[1] in _NUMBERS
        if not numbers and (kinds[0] is not kinds[1] or kinds[0] not in _ORDERED_TYPES):
            raise _differ(left, right)
        return bool(compare(left, right))

    return ordered


def equal(left: Any, right: Any) -> bool:
    """Say whether two values are the same; 1 and 1.0 are, also inside lists and maps.

    Raises:
        ExpressionError: they have different types, also inside.
    """
    if is_number(left) and is_number(right):
        return bool(left == right)
    if left is None or right is None:
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return len(left) == len(right) and all(
            key in right and equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(equal(one, other) for one, other in pairs)
    if type(left) is not type(right):
        raise _differ(left, right)
    return bool(left == right)


def contains(item: Any, container: Any) -> bool:
    """Say whether a list has an item, or a map a key.

    Raises:
        ExpressionError: the container is neither; or no item is equal and one has another type.
    """
    if isinstance(container, Mapping):
        return has_key(container, item)
    if not isinstance(container, list):
        raise ExpressionError(f"looks for something in {describe(container)}")
    failed: ExpressionError | None = None
    for other in container:
        try:
            if equal(item, other):
                return True
        except ExpressionError as error:
            failed = error
    if failed:
        raise failed
    return False


def has_key(mapping: Mapping[Any, Any], key: Any) -> bool:
    """Say whether a map has a key: a text, or a whole number of any type.

    Raises:
        ExpressionError: no map can have such a key.
    """
    if type(key) is str or is_number(key):
        return key in mapping
    raise ExpressionError(f"takes {describe(key)} for the key of a map")


def _differ(left: Any, right: Any) -> ExpressionError:
    kinds = f"{describe(left)} with {describe(right)}"
    return ExpressionError(f"compares values of different types: {kinds}")
