"""CEL texts: refused before anything runs, right in both operand orders, explained with numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import ExpressionError, Place
from catalog.expressions import check_threshold, compile_expression, split_keyed

VALUES = {
    "busBandwidthGBps": 373.25,
    "value": 373.25,
    "wrongCount": 0,
    "busBandwidthAtGBps": {"16G": 380.2, "8G": 371.0},
}


@pytest.mark.parametrize(
    ("text", "result", "with_values"),
    [
        ("busBandwidthGBps >= 300", True, "373.25 >= 300"),
        ("300 <= busBandwidthGBps", True, "300 <= 373.25"),
        ("busBandwidthGBps >= 373.5", False, "373.25 >= 373.5"),
        ("wrongCount == 0", True, "0 == 0"),
        ("wrongCount == 0.0", True, "0 == 0.0"),
        ("0.0 != wrongCount", False, "0.0 != 0"),
        ('busBandwidthAtGBps["16G"] >= 0.9 * 386.6', True, "380.2 >= 0.9 * 386.6"),
        ("busBandwidthGBps > 1 && busBandwidthGBps < 2", False, "373.25 > 1 && 373.25 < 2"),
        ("busBandwidthAtGBps.all(s, busBandwidthAtGBps[s] > 370.0)", True, None),
        ('"16G" in busBandwidthAtGBps', True, None),
        ("size(busBandwidthAtGBps) == 2", True, None),
    ],
)
def test_numbers_compare_in_any_order_and_are_shown(
    text: str, result: bool, with_values: str | None
) -> None:
    expression = check_threshold("bar", text, "nccl")
    assert expression.evaluate(VALUES) is result
    if with_values is not None:
        assert expression.with_values(VALUES) == with_values


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("busBandwidthGBps >=", "is not valid CEL"),
        ("busBandwidthGPBs >= 1.0", "did you mean 'busBandwidthGBps'"),
        ("busBandwidthGBps", "not a boolean"),
        ("busBandwidthGBps > 1.0 ? 1 : 0", "not a boolean"),
        ("busBandwidthGBps >= 370 * 0.9", "write 370.0"),
        ('busBandwidthGBps >= "300"', "different types"),
        ("5 > 3 > 1", "different types"),
        ("wrong(3) == 1", "unknown function 'wrong'"),
        ('__import__("os").system("id")', "unknown function"),
        ("!has(busBandwidth.x) || busBandwidth.x > 3", "names unknown 'busBandwidth'"),
        ("x" * 3000, "longer than"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_its_place(text: str, says: str) -> None:
    place = Place("bars.yaml", 7, "thresholds.busBandwidthGBps")
    with pytest.raises(ExpressionError) as caught:
        check_threshold("bar", text, "nccl", place)
    message = str(caught.value)
    assert message.startswith("bars.yaml:7: thresholds.busBandwidthGBps: ")
    assert says in message
    assert "\n" not in message


def test_key_over_value_is_nvcres_form() -> None:
    assert split_keyed("busBandwidthGBps: value >= 300") == ("busBandwidthGBps", "value >= 300")
    assert split_keyed("busBandwidthGBps >= 300") == (None, "busBandwidthGBps >= 300")
    assert split_keyed("true ? a > 1 : b > 1")[0] is None


def test_value_needs_a_key_that_is_a_figure() -> None:
    with pytest.raises(ExpressionError, match="did you mean 'busBandwidthGBps'"):
        check_threshold("busBandwithGBps", "value >= 1.0", "nccl")


def test_message_size_that_was_not_measured_is_an_error_not_a_zero() -> None:
    expression = check_threshold("bar", 'busBandwidthAtGBps["32G"] >= 1.0', "nccl")
    with pytest.raises(ExpressionError, match="32G"):
        expression.evaluate(VALUES)


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(["x < 3.0", "!(x < 3.0)"]))
def test_nan_and_infinity_satisfy_nothing(number: float, text: str) -> None:
    expression = compile_expression(text, {"x": 1.5})
    if math.isfinite(number):
        assert expression.evaluate({"x": number}) is (number < 3.0) ^ text.startswith("!")
    else:
        with pytest.raises(ExpressionError):
            expression.evaluate({"x": number})


@given(st.text(max_size=60))
def test_any_text_gives_an_expression_or_one_line(text: str) -> None:
    said = "--expr: "
    try:
        check_threshold("bar", text, "nccl", Place("--expr"))
    except ExpressionError as error:
        said = str(error)
    assert said.startswith("--expr: ")
