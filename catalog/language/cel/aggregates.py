"""What bars need and CEL lacks: functions over lists of numbers, and figures by message size.

A list of measurements is never empty: the mean, or the greatest, of nothing is an error.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from catalog.errors import ExpressionError
from catalog.language.cel.data import read_any, read_double
from catalog.language.cel.operators import (
    DataError,
    NotFiniteError,
    NoValueError,
    describe,
    finite,
    is_number,
    whole,
)
from catalog.reading.quantity import format_size, parse_size


def _numbers(name: str, arguments: tuple[Any, ...]) -> list[Any]:
    """Return the numbers that a function is about: of a list, or the arguments themselves."""
    items = arguments[0] if len(arguments) == 1 else list(arguments)
    if not isinstance(items, list):
        raise ExpressionError(f"{name}() takes a list of numbers, not {describe(items)}")
    if not items:
        raise DataError(f"{name}() has an empty list, which proves nothing")
    for item in items:
        if not is_number(read_any(item, "an item")):
            raise ExpressionError(f"{name}() takes numbers, not {describe(item)}")
    return items


def least(*arguments: Any) -> Any:
    """Return the smallest number."""
    return min(_numbers("min", arguments))


def greatest(*arguments: Any) -> Any:
    """Return the greatest number."""
    return max(_numbers("max", arguments))


def total(*arguments: Any) -> Any:
    """Return the sum; of whole numbers it is whole."""
    items = _numbers("sum", arguments)
    return _float_sum(items) if float in map(type, items) else whole(sum(items))


def _float_sum(items: list[Any]) -> float:
    try:
        return finite(math.fsum(items))
    except OverflowError as error:
        raise NotFiniteError("a part of it is too great for a number") from error


def mean(*arguments: Any) -> float:
    """Return the arithmetic mean."""
    items = _numbers("mean", arguments)
    return _float_sum(items) / len(items)


def median(*arguments: Any) -> float:
    """Return the median; of an even number of values the mean of the two in the middle."""
    return finite(float(statistics.median(_numbers("median", arguments))))


def stddev(*arguments: Any) -> float:
    """Return the standard deviation of all that there is, as the figure stepTimeSpread has it."""
    try:
        return finite(statistics.pstdev([float(item) for item in _numbers("stddev", arguments)]))
    except OverflowError as error:
        raise NotFiniteError("a part of it is too great for a number") from error


def percentile(items: Any, percent: Any) -> float:
    """Return a percentile, interpolated linearly between the two nearest ranks."""
    ordered = sorted(_numbers("percentile", (items,)))
    part, low = math.modf((len(ordered) - 1) * check_percent(percent) / 100)
    high = min(int(low) + 1, len(ordered) - 1)
    return finite(float(ordered[int(low)] * (1 - part) + ordered[high] * part))


def check_percent(percent: Any) -> float:
    """Return a percentage.

    Raises:
        ExpressionError: it is not from 0 to 100.
    """
    if not is_number(percent) or not 0 <= percent <= 100:
        raise ExpressionError("asks percentile() for a percentage that is not from 0 to 100")
    return float(percent)


def absolute(value: Any) -> Any:
    """Return the number without its sign."""
    if not is_number(value):
        raise ExpressionError(f"abs() takes a number, not {describe(value)}")
    return abs(value) if type(value) is float else whole(abs(value))


def size_of(value: Any) -> int:
    """Read a message size in bytes, or a text such as ``8G``.

    Raises:
        ExpressionError: it is no message size.
    """
    try:
        return parse_size(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise ExpressionError(str(error)) from error


def at_size(values: Any, asked: Any) -> float:
    """Read a map by message size; ``8G``, ``8192M`` and 8589934592 are the same size."""
    wanted = size_of(asked)
    if not isinstance(values, Mapping):
        raise ExpressionError(f"reads a size of {describe(values)}, which is no map")
    name = format_size(wanted)
    if name not in values:
        name = next((key for key in values if is_size(key) and parse_size(key) == wanted), "")
    if not name:
        raise NoValueError(asked, values)
    return read_double(values[name], f"the value at {name}")


def is_size(text: str) -> bool:
    """Say whether a text is a message size."""
    try:
        return parse_size(text) > 0
    except ValueError:
        return False
