"""Reading values out of data: each is held against the type that is declared for it.

A text where a number belongs, NaN, or a number beyond 64 bits is an error, and null is nothing at
all. A double that the data writes without a point, 370, is a double all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.errors import ExpressionError
from catalog.language.cel.kinds import Kind
from catalog.language.cel.operators import NotFiniteError, NoValueError, describe, is_number, whole

Reader = Callable[[Any, object], Any]
"""Takes a value and what to call it in errors."""


def read_any(value: Any, name: object) -> Any:
    """Return a value of which no type is declared.

    Raises:
        NotFiniteError: it is NaN, infinite or too great.
        NoValueError: it is null.
    """
    if value is None:
        raise NoValueError(name)
    if type(value) is float:
        return read_double(value, name)
    if type(value) is int:
        return whole(value)
    return list(value) if isinstance(value, tuple) else value


def read_double(value: Any, name: object) -> float:
    """Return a double; a whole number is one too."""
    number = float(_number(value, name))
    if number - number != 0:  # NaN and infinity, faster than to ask for either
        raise NotFiniteError(f"{name} is {number}")
    return number


def _read_int(value: Any, name: object) -> int:
    return whole(_whole(value, name))


def _whole(value: Any, name: object) -> int:
    number = _number(value, name)
    if isinstance(number, float) and not number.is_integer():
        raise NotFiniteError(f"{name} is {number}, not a whole number")
    return int(number)


def _number(value: Any, name: object) -> Any:
    if value is None:
        raise NoValueError(name)
    if not is_number(value):
        raise ExpressionError(f"{name} is {describe(value)}, not a number")
    return value


def _reader_of(wanted: type, says: str) -> Reader:
    def read(value: Any, name: object) -> Any:
        if value is None:
            raise NoValueError(name)
        if not isinstance(value, wanted):
            raise ExpressionError(f"{name} is {describe(value)}, not {says}")
        return value

    return read


_READERS: dict[str, Reader] = {
    "double": read_double,
    "int": _read_int,
    "string": _reader_of(str, "a text"),
    "bool": _reader_of(bool, "a boolean"),
}


def reader(kind: Kind) -> Reader:
    """Return what reads values of a type."""
    return _READERS.get(kind.name, read_any)
