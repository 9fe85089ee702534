"""Functions: CEL's own that bars and node-health rules can use, and those that CEL lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from catalog.errors import ExpressionError
from catalog.language.cel import aggregates, conversions
from catalog.language.cel.kinds import ANY, BOOL, DOUBLE, INT, Kind, common
from catalog.language.cel.operators import describe

Kinds = tuple[Kind, ...]
Result = Callable[[Kinds], Kind | None]


@dataclass(frozen=True, slots=True)
class Function:
    """A function.

    Attributes:
        name: as it is called.
        takes: its arguments, in words.
        result: type of the result for arguments of these types, None where it takes no such.
        run: what it does, on values.
        method: it can be called on its first argument: ``x.size()``.
        free: it can be called by its name alone: ``size(x)``.
        reads: the figure that it reads before its arguments.
        check: refuses a literal as the last argument, before anything runs.
    """

    name: str
    takes: str
    result: Result
    run: Callable[..., Any]
    method: bool = False
    free: bool = True
    reads: str | None = None
    check: Callable[[Any], Any] | None = None


def _exactly(result: Kind, *wanted: str) -> Result:
    """Take so many arguments, each of one of the types that its word names."""

    def check(kinds: Kinds) -> Kind | None:
        fits = len(kinds) == len(wanted) and all(
            kind is ANY or kind.name in names.split()
            for kind, names in zip(kinds, wanted, strict=True)
        )
        return result if fits else None

    return check


def _several(kinds: Kinds) -> Kind | None:
    """Take a list of numbers, or several numbers; give the type that they have in common."""
    if len(kinds) == 1 and kinds[0].name in {"list", "any"}:
        kinds = (kinds[0].inside,)
    elif len(kinds) < 2:
        return None
    return common(kinds) if all(kind.number or kind is ANY for kind in kinds) else None


def _percentile(kinds: Kinds) -> Kind | None:
    listed = len(kinds) == 2 and _several(kinds[:1]) is not None
    return DOUBLE if listed and (kinds[1].number or kinds[1] is ANY) else None


def _same_number(kinds: Kinds) -> Kind | None:
    return kinds[0] if _exactly(ANY, _NUMBER)(kinds) else None


def _anything(kinds: Kinds) -> Kind | None:
    return ANY if len(kinds) == 1 else None


def _size(value: Any) -> int:
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise ExpressionError(f"size() takes a text, a list or a map, not {describe(value)}")


def _of_texts(name: str, test: Callable[[str, str], bool]) -> Function:
    def run(text: Any, part: Any) -> bool:
        for value in (text, part):
            if not isinstance(value, str):
                raise ExpressionError(f"{name}() takes texts, not {describe(value)}")
        return test(text, part)

    pattern = name == "matches"
    return Function(
        name,
        "two texts",
        _exactly(BOOL, "string", "string"),
        run,
        method=True,
        free=pattern,
        check=_pattern if pattern else None,
    )


@cache
def _pattern(text: str) -> Any:
    """Compile an RE2 pattern, without re2's own words on stderr."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options=options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        why = why.decode() if isinstance(why, bytes) else why
        raise ExpressionError(f"has {text!r}, which is no RE2 pattern: {why}") from error


_MANY = "a list of numbers, or several numbers"
_NUMBER = "int double"
_READ = f"{_NUMBER} string"
_SIZED = "string list map"


def _of_numbers(name: str, run: Callable[..., Any], result: Kind | None = None) -> Function:
    """Return a function over a list or several numbers; ``result`` None means their own type."""
    return Function(name, _MANY, lambda kinds: _several(kinds) and (result or _several(kinds)), run)


def _by_size(name: str, figure: str) -> Function:
    return Function(
        name,
        "a message size, such as '8G'",
        _exactly(DOUBLE, "string int"),
        aggregates.at_size,
        reads=figure,
        check=aggregates.size_of,
    )


def _conversion(kind: Kind, run: Callable[[Any], Any]) -> Function:
    return Function(kind.name, "a number or a text", _exactly(kind, _READ), run, check=run)


_OWN = (
    _of_numbers("min", aggregates.least),
    _of_numbers("max", aggregates.greatest),
    _of_numbers("sum", aggregates.total),
    _of_numbers("mean", aggregates.mean, DOUBLE),
    _of_numbers("median", aggregates.median, DOUBLE),
    _of_numbers("stddev", aggregates.stddev, DOUBLE),
    Function(
        "percentile",
        "a list of numbers and a percentage",
        _percentile,
        aggregates.percentile,
        check=aggregates.check_percent,
    ),
    Function("abs", "a number", _same_number, aggregates.absolute),
    _by_size("busbw_at", "busBandwidthAtGBps"),
    _by_size("algbw_at", "algBandwidthAtGBps"),
    _by_size("time_at", "timeAtUs"),
)
_OF_CEL = (
    Function("size", "a text, a list or a map", _exactly(INT, _SIZED), _size, method=True),
    _of_texts("contains", str.__contains__),
    _of_texts("startsWith", str.startswith),
    _of_texts("endsWith", str.endswith),
    _of_texts("matches", lambda text, pattern: _pattern(pattern).search(text) is not None),
    _conversion(INT, conversions.to_int),
    _conversion(DOUBLE, conversions.to_double),
    Function("dyn", "one value", _anything, lambda value: value),
)
FUNCTIONS: dict[str, Function] = {function.name: function for function in (*_OWN, *_OF_CEL)}
"""Every function, by name."""
OWN_FUNCTIONS = tuple(function.name for function in _OWN)
"""Names of those that CEL lacks."""
