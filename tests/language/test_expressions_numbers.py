"""Numbers of all types compare and compute as arithmetic says.

The conformance cases follow cel-spec's published data, tests/simple/testdata/comparisons.textproto
(cel-go passes it): cross-type equality and ordering of int, uint and double, the bounds of 64 bits,
``in``, and lists and maps. The ``dyn()`` that the data needs to get past the type checker is needed
nowhere here. Where the data rounds a whole number to a double, ours is exact; those are named.
"""

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
from catalog.language.cel.operators import Uint
from catalog.language.expressions import NotFiniteError, compile_expression

MOST_INT, LEAST_INT = "9223372036854775807", "-9223372036854775808"
MOST_UINT, OVER_INT = "18446744073709551615u", "9223372036854775808u"


def _holds(text: str) -> bool:
    return compile_expression(text, {}).evaluate({})


EQUAL = [
    *("1 == 1", "2u == 2u", "1.0 == 1.0e+0", "1 == 1u", "1u == 1", "1 == 1.0", "1.0 == 1"),
    *("1u == 1.0", "1.0 == 1u", "-0.0 == 0.0", "-0.0 == 0"),
    "[1, 2, 3] == [1, 2, 3]",
    "[1.0, 2.0, 3] == [1u, 2, 3u]",
    "[1] == [1.0]",
    "[null] == [null]",
    "[] == []",
    "{} == {}",
    "{'k': 1.0} == {'k': 1e+0}",
    "{1: 1.0, 2u: 3u} == {1u: 1, 2: 3.0}",
    "{'k': null} == {'k': null}",
    "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}",
]
UNEQUAL = [
    *("-1 == 1", "1u == 2u", "-1.0 == 1.0", "2 == 1u", "2u == 1", "2 == 1.0", "2.0 == 1"),
    *("2u == 1.0", "2.0 == 1u", "24 == 24.1", "9000 == 9001.0", "1u == 120"),
    "[1.0, 2.1] == [1u, 2]",
    "[1, 2, 3] == [1, 3, 2]",
    "[1] == []",
    "{'k': 1} == {'k': 2}",
    "{'k': 1, 'j': 2} == {'k': 1}",
    "{'k': 1, 'j': 2} == {'k': 1, 'j': null}",
    "[1, 2, null] == [1, null, 3]",
]


@pytest.mark.parametrize("text", EQUAL)
def test_what_is_equal_by_the_conformance_data_is_equal(text: str) -> None:
    assert _holds(text)
    assert not _holds(text.replace("==", "!="))


@pytest.mark.parametrize("text", UNEQUAL)
def test_what_is_unequal_by_the_conformance_data_is_unequal(text: str) -> None:
    assert not _holds(text)
    assert _holds(text.replace("==", "!="))


LESS = [
    *(("-1", "0"), ("0u", "1u"), ("1.0", "1.0000001"), ("-42", "42"), ("1e+0", "1e+1")),
    *(("1", "2u"), ("1", "2.0"), ("1u", "2"), ("1u", "2.0"), ("1.0", "2"), ("1.0", "2u")),
    ("1", OVER_INT),
    ("-1", "0u"),
    (LEAST_INT, "1u"),
    ("-1.0", MOST_UINT),
    ("-1.0", MOST_INT + "u"),
    (MOST_INT, "9223372036854777857.0"),
    ("-9223372036854777857.0", MOST_INT),
    ("-9223372036854777857.0", LEAST_INT),
    (MOST_UINT, "18446744073709590000.0"),
    (MOST_UINT, "18446744073709553665.0"),
    ("0.0", "0.1e-31"),
    ("0.99", "1.0"),
]
"""Pairs of which the left one is less, in the conformance data."""


@pytest.mark.parametrize(("less", "more"), LESS)
def test_order_of_the_conformance_data_holds_for_every_operator(less: str, more: str) -> None:
    for text in ("{0} < {1}", "{0} <= {1}", "{1} > {0}", "{1} >= {0}", "{0} != {1}"):
        assert _holds(text.format(less, more)), text
    for text in ("{1} < {0}", "{1} <= {0}", "{0} > {1}", "{0} >= {1}", "{0} == {1}"):
        assert not _holds(text.format(less, more)), text


ROUNDED = [
    (f"{MOST_INT} < 9223372036854775808.0", True),
    (f"{MOST_INT} >= 9223372036854775808.0", False),
    (f"9223372036854775808.0 > {MOST_INT}", True),
    (f"9223372036854775808.0 <= {MOST_INT}", False),
]
"""Cases of which the data says the opposite, since it rounds 2^63 - 1 to 2^63 first."""
BY_ROUNDING_EQUAL = [
    f"{LEAST_INT} == -9223372036854775809.0",
    f"{LEAST_INT} <= -9223372036854775809.0",
    f"{LEAST_INT} >= -9223372036854775809.0",
    f"-9223372036854775809.0 <= {LEAST_INT}",
]
"""Here the literal itself is rounded, as in every double, and exact and rounded agree."""


@pytest.mark.parametrize(("text", "exact"), ROUNDED)
def test_whole_number_is_not_rounded_for_a_comparison(text: str, exact: bool) -> None:
    assert _holds(text) is exact


@pytest.mark.parametrize("text", BY_ROUNDING_EQUAL)
def test_literal_of_a_double_is_the_nearest_double(text: str) -> None:
    assert _holds(text)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("'empty' in []", False),
        ("'elem' in ['elem', 'elemA']", True),
        ("'not' in ['elem', 'elemA']", False),
        ("'elem' in [1, 'elem', 2]", True),
        ("2 in [1.0, 2.0]", True),
        ("2u in [1, 2]", True),
        ("2.5 in [1, 2]", False),
        ("'key' in {'key': '1', 'other': '2'}", True),
        ("'key' in {'lock': 1}", False),
        ("'key' in {3: 3.0, 'key': 2u}", True),
        ("3u in {3: 3.0, 'key': 2u}", True),
        ("3.0 in {3: 3.0}", True),
    ],
)
def test_membership_follows_the_conformance_data(text: str, result: bool) -> None:
    assert _holds(text) is result


@pytest.mark.parametrize(
    "text",
    [
        *("null < null", "null >= null", "[0] < [1]", "['y'] >= ['x']", "{0: 'a'} < {1: 'b'}"),
        *("'foo' < 1024", "'foo' > 1024", "'foo' <= 1024", "'foo' >= 1.0"),
    ],
)
def test_what_has_no_order_in_the_conformance_data_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="different types"):
        compile_expression(text, {})


@pytest.mark.parametrize(
    "text",
    [
        *("0.0/0.0 == 0.0/0.0", "1 == 0.0/0.0", "0.0/0.0 != 0.0/0.0", "1u != 0.0/0.0"),
        *("[1, 'dos', 3] == [1, 2, 4]", "'elem' in [1u, 'str', 2]", "{1: 1} == {1: 'v1'}"),
    ],
)
def test_where_the_data_has_a_value_for_nan_and_for_unlike_types_there_is_an_error(
    text: str,
) -> None:
    with pytest.raises(ExpressionError):
        _holds(text)


INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-1000, 1000)
UINTS = st.integers(0, 2**64 - 1).map(Uint) | st.integers(0, 1000).map(Uint)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**64), 2**64).map(float)
NUMBERS = INTS | UINTS | DOUBLES
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


def _literal(number: float) -> str:
    return f"{int(number)}u" if isinstance(number, Uint) else repr(number)


def _plain(number: Any) -> Any:
    return int(number) if isinstance(number, Uint) else number


def _near(number: Any) -> Any:
    """Numbers that are close to this one or the same, of every type."""
    floor = math.floor(number)
    whole = [n for n in (floor - 1, floor, floor + 1) if -(2**63) <= n < 2**63]
    return st.sampled_from(
        [*whole, *(Uint(n) for n in whole if n >= 0), float(number), float(floor)]
    )


@given(st.data(), NUMBERS, st.sampled_from(sorted(COMPARISONS)))
def test_comparison_is_exact_whatever_the_types_and_the_order(
    data: st.DataObject, left: Any, sign: str
) -> None:
    right = data.draw(NUMBERS | _near(left))
    for one, other in ((left, right), (right, left)):
        expected = COMPARISONS[sign](_plain(one), _plain(other))
        assert _holds(f"{_literal(one)} {sign} {_literal(other)}") is expected
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
        expected = CALCULATIONS[sign](_plain(left), _plain(right))
    except (ZeroDivisionError, OverflowError):
        expected = math.nan
    unsigned = isinstance(left, Uint) and isinstance(right, Uint)
    fits = (
        math.isfinite(expected)
        if doubles
        else (0 <= expected < 2**64 if unsigned else -(2**63) <= expected < 2**63)
    )
    if fits:
        assume(doubles or expected < 2**63)
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
