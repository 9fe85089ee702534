"""Conversions between types, and durations and timestamps: Go durations, RFC 3339."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from catalog.language.cel.operators import DataError, Uint, describe, finite, is_number, whole

_INTEGER = re.compile(r"[-+]?\d+")
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|infinity|nan)", re.I)
_TRUTH = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}
_UNITS = {"h": 3.6e9, "m": 6e7, "s": 1e6, "ms": 1e3, "us": 1.0, "µs": 1.0, "ns": 1e-3}
"""Microseconds, the resolution of a timedelta."""
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|us|µs|ns|s)")
_DURATION = re.compile(rf"[-+]?(?:{_PART.pattern})+")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)")


def to_int(value: Any) -> int:
    """Convert to int: decimals are cut towards zero."""
    return _to_whole(value, int)


def to_uint(value: Any) -> int:
    """Convert to uint; see `to_int`."""
    return _to_whole(value, Uint)


def _to_whole(value: Any, kind: type[int]) -> int:
    if isinstance(value, datetime):
        return whole(math.floor(value.timestamp()), kind)
    if is_number(value) or (isinstance(value, str) and _INTEGER.fullmatch(value)):
        return whole(int(value), kind)
    raise _no_conversion(value, "a whole number")


def to_double(value: Any) -> float:
    """Convert to double; ``"nan"`` and ``"inf"`` are errors as NaN and infinity are."""
    if is_number(value) or (isinstance(value, str) and _DECIMAL.fullmatch(value)):
        return finite(float(value))
    raise _no_conversion(value, "a number")


def to_string(value: Any) -> str:
    """Convert to a text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case int() | str():
            return str(value)
        case timedelta():
            return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
        case datetime():
            try:
                return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
            except OverflowError as error:
                raise DataError("a part of it is no time that can be told") from error
    raise _no_conversion(value, "a text")


def to_bool(value: Any) -> bool:
    """Convert to a boolean."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUTH:
        return _TRUTH[value]
    raise _no_conversion(value, "a boolean")


def to_duration(value: Any) -> timedelta:
    """Read ``1h30m``; as in Go there is no unit for days.

    Raises:
        DataError: it is no duration.
    """
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise _no_conversion(value, "a duration such as 90s, 15m or 24h")
    micros = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    try:
        return timedelta(microseconds=-micros if value[0] == "-" else micros)
    except OverflowError as error:
        raise _no_conversion(value, "a duration that can be told") from error


def to_timestamp(value: Any) -> datetime:
    """Read ``2026-01-31T12:00:00Z``; date, time and zone are all needed.

    Raises:
        DataError: it is no timestamp.
    """
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
            return datetime.fromisoformat(value)
    except ValueError:
        pass  # The 31st of February.
    raise _no_conversion(value, "a timestamp such as 2026-01-31T12:00:00Z")


def _no_conversion(value: Any, wanted: str) -> DataError:
    shown = repr(value) if isinstance(value, str) else describe(value)
    return DataError(f"{shown} is not {wanted}")
