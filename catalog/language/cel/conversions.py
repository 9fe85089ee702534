"""Conversions to int and double, for expressions written where numbers of two types never meet."""

from __future__ import annotations

import re
from typing import Any

from catalog.language.cel.operators import DataError, describe, finite, is_number, whole

_INTEGER = re.compile(r"[-+]?\d+")
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|infinity|nan)", re.I)


def to_int(value: Any) -> int:
    """Convert to int: decimals are cut towards zero."""
    if is_number(value) or (isinstance(value, str) and _INTEGER.fullmatch(value)):
        return whole(int(value))
    raise _no_conversion(value, "a whole number")


def to_double(value: Any) -> float:
    """Convert to double; ``"nan"`` and ``"inf"`` are errors as NaN and infinity are."""
    if is_number(value) or (isinstance(value, str) and _DECIMAL.fullmatch(value)):
        return finite(float(value))
    raise _no_conversion(value, "a number")


def _no_conversion(value: Any, wanted: str) -> DataError:
    shown = repr(value) if isinstance(value, str) else describe(value)
    return DataError(f"{shown} is not {wanted}")
