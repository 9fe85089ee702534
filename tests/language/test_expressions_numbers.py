"""Numbers of both types compare and compute as arithmetic says."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import celpy
import pytest
from celpy import celtypes
from celpy.evaluation import CELEvalError
from hypothesis import assume, given
from hypothesis import strategies as st

from catalog.errors import ExpressionError
from catalog.language.expressions import NotFiniteError, compile_expression


def _holds(text: str) -> bool:
    return compile_expression(text, {}).evaluate({})


INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**64), 2**64).map(float)
NUMBERS = INTS | DOUBLES
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _near(number: Any) -> Any:
    """Numbers that are close to this one or the same, of every type."""
    floor = math.floor(number)
    whole = [n for n in (floor - 1, floor, floor + 1) if -(2**63) <= n < 2**63]
    return st.sampled_from([*whole, float(number), float(floor)])


@given(st.data(), NUMBERS, st.sampled_from(sorted(COMPARISONS)))
def test_comparison_is_exact_whatever_the_types_and_the_order(
    data: st.DataObject, left: Any, sign: str
) -> None:
    right = data.draw(NUMBERS | _near(left))
    for one, other in ((left, right), (right, left)):
        expected = COMPARISONS[sign](one, other)
        assert _holds(f"{one!r} {sign} {other!r}") is expected
        names = {"a": one, "b": other}
        assert compile_expression(f"a {sign} b", names).evaluate(names) is expected
        assert compile_expression(f"dyn(a) {sign} b", names).evaluate(names) is expected
        if sign in {"==", "!="}:
            assert compile_expression(f"[a] {sign} [b]", names).evaluate(names) is expected


@given(NUMBERS, NUMBERS, st.sampled_from(sorted(CALCULATIONS)))
def test_arithmetic_with_a_double_is_that_of_doubles_and_of_whole_numbers_exact(
    left: Any, right: Any, sign: str
) -> None:
    doubles = isinstance(left, float) or isinstance(right, float)
    assume(doubles or sign != "/")
    names: dict[str, object] = {"a": left, "b": right, "r": 1.5 if doubles else 1}
    expression = compile_expression(f"a {sign} b == r", names)
    try:
        expected = CALCULATIONS[sign](left, right)
    except (ZeroDivisionError, OverflowError):
        expected = math.nan
    fits = math.isfinite(expected) if doubles else -(2**63) <= expected < 2**63
    if fits:
        assert expression.evaluate({**names, "r": expected}) is True
    else:
        with pytest.raises(NotFiniteError):
            expression.evaluate(names)


@given(INTS, INTS.filter(bool))
def test_whole_numbers_divide_towards_zero(left: int, right: int) -> None:
    assume((left, right) != (-(2**63), -1))
    names: dict[str, object] = {"a": left, "b": right}
    exact = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    values = {**names, "q": exact, "r": left - right * exact}
    expression = compile_expression("a / b == q && a % b == r", {**names, "q": 1, "r": 1})
    assert expression.evaluate(values) is True


def _cel_python() -> celpy.Environment:
    """Return cel-python's own environment, without the recursion limit that it sets."""
    limit = sys.getrecursionlimit()
    try:
        return celpy.Environment()
    finally:
        sys.setrecursionlimit(limit)


CEL_PYTHON = _cel_python()
SAME_TYPE = st.one_of(
    st.tuples(INTS, INTS),
    st.tuples(
        st.floats(-1e150, 1e150, allow_subnormal=False),
        st.floats(-1e150, 1e150, allow_subnormal=False),
    ),
)


@given(SAME_TYPE, st.sampled_from([*COMPARISONS, "+ b >", "- b <", "* b !="]))
def test_numbers_of_one_type_give_what_cel_python_gives(
    pair: tuple[Any, Any], operation: str
) -> None:
    names: dict[str, object] = {"a": pair[0], "b": pair[1]}
    text = f"a {operation} b"
    kind = celtypes.DoubleType if isinstance(pair[0], float) else celtypes.IntType
    program = CEL_PYTHON.program(CEL_PYTHON.compile(text))
    try:
        theirs: bool | None = bool(program.evaluate({k: kind(v) for k, v in names.items()}))
    except CELEvalError:
        theirs = None
    try:
        ours: bool | None = compile_expression(text, names).evaluate(names)
    except NotFiniteError:
        ours = None
    assert ours is theirs


@given(st.lists(NUMBERS.filter(lambda n: abs(n) < 2**60), min_size=1, max_size=20))
def test_least_and_greatest_are_items_and_bound_the_rest(items: list[Any]) -> None:
    values = {"items": items}
    for text in (
        "items.all(i, i >= min(items) && i <= max(items))",
        "items.exists(i, i == min(items)) && items.exists(i, i == max(items))",
        "percentile(items, 0) == double(min(items))",
        "percentile(items, 100) == double(max(items))",
        "percentile(items, 25) <= percentile(items, 75)",
        "min(items) <= median(items) + 1e-6 * abs(median(items))",
        "stddev(items) >= 0",
    ):
        assert compile_expression(text, values).evaluate(values), text


@given(st.lists(st.floats(), max_size=8), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_nan_and_infinity_in_a_list_are_errors_in_every_function(
    items: list[float], bad: float
) -> None:
    values = {"items": [*items, bad]}
    for call in ("min(items)", "max(items)", "mean(items)", "median(items)", "stddev(items)"):
        with pytest.raises(ExpressionError):
            compile_expression(f"{call} < 1.0 || {call} >= 1.0", {"items": [1.5]}).evaluate(values)
    with pytest.raises(ExpressionError):
        compile_expression("items.all(i, i < 1.0 || i >= 1.0)", {"items": [1.5]}).evaluate(values)
