"""Whatever is written and whatever is measured: true, false or one error, and never a crash."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from catalog.bars.lint.statements import Finding, Statement, lint
from catalog.errors import ExpressionError
from catalog.language.expressions import compile_bar

ATOMS = st.sampled_from(
    [
        *("value", "wrongCount", "busBandwidthAtGBps", "expected", "fraction", "nodes", "gpu"),
        *("rows", "row", "row.out_bus_gbps", "row.size_bytes", "row.type", "r", "r.out_bus_gbps"),
        *("0", "1", "2.5", "-3", "'a'", "'8G'", "true", "null", "[]", "[1, 2.5]", "{'a': 1}"),
        *("busbw_at('8G')", "9223372036854775807", "1e308"),
    ]
)
VALUES: dict[str, Any] = {
    "value": 373.2,
    "wrongCount": 0,
    "busBandwidthAtGBps": {"8G": 371.0, "16G": 373.2},
    "expected": 390,
    "fraction": 0.92,
    "nodes": 2,
    "gpu": "h100",
    "row": {"size_bytes": 8, "out_bus_gbps": 0.5, "type": "float"},
    "rows": [{"size_bytes": 8, "out_bus_gbps": 0.5}, {"size_bytes": 16, "out_bus_gbps": None}],
}
SIGNS = ["+", "-", "*", "/", "%", "<", "<=", "==", "!=", ">", ">=", "in", "&&", "||"]
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, math.nan, math.inf, True, "text", [], {}, -1, 10**30, [None], {"8G": None}, [{}], 2**63]
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from(SIGNS)
    macros = st.sampled_from(["all", "exists", "exists_one", "map", "filter"])
    calls = st.sampled_from(
        ["size", "min", "mean", "sum", "stddev", "abs", "double", "int", "dyn", "has"]
    )
    return st.one_of(
        st.tuples(inner, signs, inner).map(" ".join),
        st.builds("!({})".format, inner),
        st.builds("-({})".format, inner),
        st.builds("({})".format, inner),
        st.builds("({}) ? ({}) : ({})".format, inner, inner, inner),
        st.builds("{}({})".format, calls, inner),
        st.builds("max({}, {})".format, inner, inner),
        st.builds("percentile({}, {})".format, inner, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("rows.{}(r, {})".format, macros, inner),
        st.builds("({}).{}(r, {})".format, inner, macros, inner),
    )


EXPRESSIONS = st.recursive(ATOMS, _grow, max_leaves=8)
BARS = st.builds(
    "({} {} {}) {} value > 1".format,
    EXPRESSIONS,
    st.sampled_from(["<", "==", "in"]),
    EXPRESSIONS,
    st.sampled_from(["&&", "||"]),
)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS | BARS, st.dictionaries(st.sampled_from(sorted(VALUES)), ODD, max_size=2))
def test_expression_is_true_false_or_one_line_of_error(text: str, odd: dict[str, Any]) -> None:
    values = {**VALUES, **odd}
    said = ""
    try:
        expression = compile_bar("busBandwidthGBps", text, "nccl", "row")
        assert isinstance(expression.with_values(values), str)
        result = expression.evaluate(values)
        assert type(result) is bool
        assert all(values[name] is not None for name in expression.names)
    except ExpressionError as error:
        said = str(error)
    assert "\n" not in said


@settings(max_examples=60, deadline=None)
@given(BARS)
@example("(value < -(max(wrongCount, 1e308))) && value > 1")
def test_lint_has_an_opinion_on_everything(text: str) -> None:
    found = lint([Statement(key="busBandwidthGBps", text=text, tool="nccl", scope="row")])
    assert all(isinstance(item, Finding) and "\n" not in item.text for item in found)
