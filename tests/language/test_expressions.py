"""CEL texts: refused before anything runs, right in both operand orders, explained with numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import ExpressionError, Place
from catalog.language.expressions import (
    NotFiniteError,
    check_threshold,
    code_of,
    compile_expression,
    split_keyed,
)

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
        ("min(busBandwidthGBps, 300) / 400 > 0.7", True, "min(373.25, 300) / 400 > 0.7"),
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
        ("goodputRatio >= 0.9", "a figure of training, not of nccl"),
        ("value >= 0.9", "'bar' is no figure of nccl"),
        ("row.out_bus_gbps >= 0.9", "in bars of scope row only"),
        ("peer_median > 1.0", "names unknown 'peer_median'"),
        ("busbw_at('8 G') > 1.0", "must be a message size"),
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


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "1 == 1",
        "[].all(x, false)",
        "null == null",
        "true || cycleSpread < 0.1",
        "cycleSpread < 0.1 || 2 > 1",
        "false && cycleSpread < 0.1",
        "nodes >= 2",
        "expected > 300",
        "gpu == 'h100' || gpu == 'h200'",
        "peer_count >= 3",
    ],
)
def test_expression_that_is_the_same_whatever_is_measured_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="tests nothing"):
        check_threshold("busBandwidthGBps", text, "nccl")


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("busBandwidthGBps", "300", "write value >= 300"),
        ("busBandwidthGBps", " 3.5e2", "is a number, not a test"),
        ("bus-bandwidth", "busBandwidthGBps > 1.0", "is no threshold key"),
        ("a b", "busBandwidthGBps > 1.0", "is no threshold key"),
        ("bar", "has(busBandwidthAtGBps.x)", r"has\(\) is no test .*\"16G\".*what is missing"),
        ("bar", "rows.all(r, has(r.out_wrong))", r"has\(\) is no test .*what is missing"),
        ("bar", "busBandwidthGBps >= 1e400", "1e400, which is too great"),
    ],
)
def test_what_only_looks_like_a_test_says_what_would_be_right(
    key: str, text: str, says: str
) -> None:
    with pytest.raises(ExpressionError, match=says):
        check_threshold(key, text, "nccl")


@pytest.mark.parametrize(
    "text",
    [
        "busBandwidthGBps / 0.0 > 1.0",
        "!(busBandwidthGBps / 0.0 < 1.0)",
        "(busBandwidthGBps - 373.25) / wrong > 1.0",
        "busBandwidthGBps * 1e308 > 1.0",
        "rankCount / (rankCount - 16) == 0",
    ],
)
def test_number_that_is_not_finite_is_an_error_and_proves_nothing(text: str) -> None:
    text = text.replace("wrong", "double(wrongCount)")
    expression = check_threshold("bar", text, "nccl")
    with pytest.raises(NotFiniteError):
        expression.evaluate(VALUES | {"rankCount": 16})


def test_division_that_is_finite_at_what_is_measured_is_accepted() -> None:
    expression = check_threshold("bar", "1.0 / (busBandwidthGBps - 1.5) > 0.0", "nccl")
    assert expression.evaluate(VALUES) is True


def test_size_that_is_missing_is_answered_by_the_sizes_that_exist() -> None:
    expression = check_threshold("bar", 'busBandwidthAtGBps["32G"] >= 1.0', "nccl")
    with pytest.raises(ExpressionError, match="no value for 32G; there is 16G, 8G"):
        expression.evaluate(VALUES)


@pytest.mark.parametrize(
    ("tool", "text", "code"),
    [
        ("nccl", '"32G" in busBandwidthAtGBps', "FIGURE_MISSING"),
        ("nccl", "size(busBandwidthAtGBps) == 3", "FIGURE_MISSING"),
        ("nccl", 'busBandwidthAtGBps.exists(size, size == "32G")', "FIGURE_MISSING"),
        ("nccl", 'busBandwidthAtGBps["16G"] > 1.0', "NCCL_LOW_BANDWIDTH"),
        ("nccl", "busBandwidthAtGBps.all(s, busBandwidthAtGBps[s] > 1.0)", "NCCL_LOW_BANDWIDTH"),
        ("nccl", "bandwidthDip < 0.3", "NCCL_LOW_BANDWIDTH"),
        ("nccl", "smallMessageLatencyUs < 40.0", "NCCL_HIGH_LATENCY"),
        ("nccl", "wrongCount == 0", "NCCL_DATA_CORRUPTION"),
        ("nccl", "rankCount == 16", "ThresholdViolation"),
        ("dcgm", "hostToDeviceMinGBps > 50.0", "ThresholdViolation"),
        ("training", "avgStepTimeSec < 2.0", "TRAIN_SLOW"),
        ("training", "lastLoss < firstLoss", "ThresholdViolation"),
        ("training", "stepCount >= 30 && avgStepTimeSec < 2.0", "ThresholdViolation"),
        ("training", "rows.all(r, r.step < 3 || r.step_time_s < 2.0)", "TRAIN_SLOW"),
        ("nccl", "rows.all(r, r.size_bytes < 64 || r.out_bus_gbps > 0.1)", "NCCL_LOW_BANDWIDTH"),
        ("nccl", "rows.all(r, r.out_time_us < 1e7)", "NCCL_HIGH_LATENCY"),
        ("nccl", "rows.all(r, r.out_wrong == 0 && r.in_wrong == 0)", "NCCL_DATA_CORRUPTION"),
        ("nccl", "wrongCount == 0 || nodes < 2", "NCCL_DATA_CORRUPTION"),
        ("nccl", "busbw_at('8G') > 1.0", "NCCL_LOW_BANDWIDTH"),
        ("nccl", "size(rows) == 24", "ThresholdViolation"),
    ],
)
def test_code_of_a_false_expression_is_that_of_what_it_tests(
    tool: str, text: str, code: str
) -> None:
    assert code_of("bar", check_threshold("bar", text, tool), tool) == code


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("value >= 0.92 * expected", "373.25 >= 0.92 * 386.6"),
        ("busbw_at('8192M') >= 0.9 * expected", "371 >= 0.9 * 386.6"),
        ("busBandwidthAtGBps['16G']>=300", "380.2>=300"),
        ("max(value, 300) >= 1", "max(373.25, 300) >= 1"),
        ("mean(rows.map(r, r.out_bus_gbps)) >= 300", "325.25 >= 300"),
        ("size(rows) == 2 && value > 1", "2 == 2 && 373.25 > 1"),
        ("gpu == 'h100' && nodes >= 2 && value > 1", "\"h100\" == 'h100' && 4 >= 2 && 373.25 > 1"),
        ("(value - 1.0) / 2.0 > 3", "(373.25 - 1.0) / 2.0 > 3"),
        ("cycleSpread < 0.1 || value > 1", "cycleSpread < 0.1 || 373.25 > 1"),
        ("value > 3 == true", "373.25 > 3 == true"),
        ("true == (value > 3)", "true == (373.25 > 3)"),
        ("value > 400 ? true : false", "373.25 > 400 ? true : false"),
        ("rows.all(r, r.out_bus_gbps >= 100)", "rows.all(r, r.out_bus_gbps >= 100)"),
        (
            "rows.all(r, r.out_bus_gbps >= 0.8 * expected)",
            "rows.all(r, r.out_bus_gbps >= 0.8 * 386.6) [item 1 of 2: 300 >= 0.8 * 386.6]",
        ),
        (
            "busBandwidthAtGBps.all(s, busBandwidthAtGBps[s] > 375)",
            "busBandwidthAtGBps.all(s, busBandwidthAtGBps[s] > 375) [s = 8G: 371 > 375]",
        ),
        (
            "!rows.exists(r, r.size_bytes > 8 && r.out_bus_gbps < 400)",
            "!rows.exists(r, r.size_bytes > 8 && r.out_bus_gbps < 400) "
            "[item 2 of 2: 16 > 8 && 350.5 < 400]",
        ),
    ],
)
def test_expression_is_shown_with_the_numbers_that_decide(text: str, shown: str) -> None:
    values = {
        **VALUES,
        "expected": 386.6,
        "nodes": 4,
        "gpu": "h100",
        "rows": [
            {"size_bytes": 8, "out_bus_gbps": 300},
            {"size_bytes": 16, "out_bus_gbps": 350.5},
        ],
    }
    assert check_threshold("busBandwidthGBps", text, "nccl").with_values(values) == shown


def test_names_include_what_functions_read() -> None:
    expression = check_threshold("bar", "busbw_at('8G') > 300 && nodes > 1", "nccl")
    assert expression.names == {"busBandwidthAtGBps", "nodes"}
    with pytest.raises(ExpressionError, match="busBandwidthAtGBps was not measured"):
        expression.evaluate({"nodes": 2})
