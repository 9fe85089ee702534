"""Operators of CEL as every engine but cel-python has them, and stricter about numbers.

cel-python mixes int and double in some operand orders and not in others, and computes with
infinities. Here comparisons work in both orders, arithmetic never mixes the two, and a result that
is no finite number is an error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from celpy import celtypes
from celpy.evaluation import CELEvalError, base_functions

_NUMBERS = (celtypes.IntType, celtypes.UintType, celtypes.DoubleType)


def _compare(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """Compare numbers of any numeric type, and other values only with their own type."""

    def compare(left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, CELEvalError):
                return side
        if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
            plain = [
                float(x) if isinstance(x, celtypes.DoubleType) else int(x) for x in (left, right)
            ]
            return celtypes.BoolType(function(*plain))
        if isinstance(left, celtypes.BoolType) != isinstance(right, celtypes.BoolType):
            raise TypeError(f"cannot compare {kind_of(left)} with {kind_of(right)}")
        result = function(left, right)
        return NotImplemented if result is NotImplemented else celtypes.BoolType(bool(result))

    return compare


def _arithmetic(name: str) -> Callable[[Any, Any], Any]:
    """Refuse to mix int and double, as every other CEL engine does; cel-python mixes one way.

    A result that is not finite is an error too. CEL has infinities, but a bar that one meets
    proves nothing.
    """
    original: Callable[[Any, Any], Any] = base_functions[name]

    def compute(left: Any, right: Any) -> Any:
        if (
            isinstance(left, _NUMBERS)
            and isinstance(right, _NUMBERS)
            and isinstance(left, celtypes.DoubleType) != isinstance(right, celtypes.DoubleType)
        ):
            whole = right if isinstance(left, celtypes.DoubleType) else left
            return CELEvalError(
                f"mixes a whole number and a decimal; write {int(whole)}.0", TypeError
            )
        if name in {"_/_", "_%_"} and isinstance(right, _NUMBERS) and not right:
            return CELEvalError("divides by zero", ZeroDivisionError)
        return _finite(original(left, right))

    return compute


def _double(value: Any) -> Any:
    """Read ``double("nan")`` and its like as errors."""
    return _finite(celtypes.DoubleType(value))


def _finite(result: Any) -> Any:
    """Refuse infinities and NaN; celpy gives some results as plain floats."""
    if not isinstance(result, float):
        return result
    if not math.isfinite(result):
        return CELEvalError(f"a part of it is {float(result)}, not a finite number", OverflowError)
    return celtypes.DoubleType(result)


def kind_of(value: object) -> str:
    """Name the type of a CEL value for people."""
    kinds = {
        celtypes.BoolType: "a boolean",
        celtypes.DoubleType: "a number",
        celtypes.IntType: "a number",
        celtypes.StringType: "a text",
        celtypes.MapType: "a map",
        celtypes.ListType: "a list",
    }
    return next((says for kind, says in kinds.items() if isinstance(value, kind)), "no value")


OPERATORS: dict[str, Callable[..., Any]] = {
    "_<_": _compare(operator.lt),
    "_<=_": _compare(operator.le),
    "_>_": _compare(operator.gt),
    "_>=_": _compare(operator.ge),
    "_==_": _compare(operator.eq),
    "_!=_": _compare(operator.ne),
    **{name: _arithmetic(name) for name in ("_+_", "_-_", "_*_", "_/_", "_%_")},
    "double": _double,
}
