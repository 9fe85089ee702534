"""The names that expressions may use are those that are measured or told, with their types."""

from __future__ import annotations

import math
import typing

import pytest

from catalog.bars.stages import stage_values, stages
from catalog.errors import ExpressionError
from catalog.facts.tools import TOOLS
from catalog.language.cel.kinds import kind_of
from catalog.language.expressions import check_threshold, compile_bar
from catalog.language.vocabulary import Scope, names_of, row_fields, samples_of
from steps.documents import DiagnosticRow, NcclRow, TrainingStep

NVCRE_KEYS = {
    "busBandwidthGBps": "nccl",
    "algBandwidthGBps": "nccl",
    "goodputRatio": "training",
    "avgTFLOPsPerGPU": "training",
    "avgStepTimeSec": "training",
}


@pytest.mark.parametrize(
    ("tool", "row"), [("nccl", NcclRow), ("dcgm", DiagnosticRow), ("training", TrainingStep)]
)
def test_fields_of_rows_are_those_of_the_document(
    tool: str, row: type[NcclRow | DiagnosticRow | TrainingStep]
) -> None:
    fields = row_fields(tool)
    assert set(fields) == set(row.model_fields) - {"kind", "line"}
    words = {float: "double", int: "int", bool: "bool"}
    for name, field in fields.items():
        info = row.model_fields[name]
        kinds = [kind for kind in typing.get_args(info.annotation) if kind is not type(None)]
        kind = kinds[0] if kinds and isinstance(kinds[0], type) else info.annotation
        assert field.type == words.get(kind, "string"), name  # type: ignore[arg-type]
        assert field.optional is (info.default is None), name


def test_numbers_of_a_stage_are_all_named() -> None:
    numbers = {name for name, item in names_of("nccl").items() if item.origin == "stage"}
    assert numbers == set(stage_values(next(iter(stages().values()))))


@pytest.mark.parametrize("tool", TOOLS.names)
@pytest.mark.parametrize("scope", ["group", "node", "gpu", "row"])
def test_every_name_has_a_sample_of_its_type_a_unit_and_a_meaning(tool: str, scope: Scope) -> None:
    key = next(iter(TOOLS[tool].figures))
    names = names_of(tool, scope, key)
    for name, sample in samples_of(tool, scope, key).items():
        item = names[name]
        assert item.says
        assert item.unit
        kind = kind_of(sample).name
        assert kind == {"row": "map", "rows": "list"}.get(item.type, item.type)
    assert ("row" in names) is (scope == "row")
    assert ("peer_median" in names) is (scope in {"group", "node"})
    assert {"value", "rows", "nodes", "gpu", "expected", "fraction"} <= set(names)


def test_figures_are_in_camel_case_and_what_is_told_in_snake_case() -> None:
    for tool in TOOLS.names:
        for name, item in names_of(tool, "row", None).items():
            assert (name.islower()) is (item.origin != "figure"), name


@pytest.mark.parametrize(("key", "tool"), NVCRE_KEYS.items())
def test_key_of_nvcre_is_taken_where_it_makes_sense_and_refused_elsewhere(
    key: str, tool: str
) -> None:
    for other in TOOLS.names:
        if other == tool:
            expression = check_threshold(key, "value >= 0.5", other)
            assert expression.evaluate({"value": 1}) is True
        else:
            with pytest.raises(ExpressionError, match=f"no figure of {other} .it is one of {tool}"):
                check_threshold(key, "value >= 0.5", other)
            with pytest.raises(ExpressionError, match=f"it is one of {tool}"):
                check_threshold(key, f"{next(iter(TOOLS[other].figures))} >= 1", other)


def test_unknown_key_over_value_is_refused() -> None:
    with pytest.raises(ExpressionError, match="did you mean 'busBandwidthGBps'"):
        check_threshold("busBandwithGBps", "value >= 300", "nccl")


@pytest.mark.parametrize(
    ("tool", "key", "text", "fits"),
    [
        ("nccl", "busBandwidthGBps", "value >= 0.9 * expected", True),
        ("nccl", "bar", "busbw_at('8G') >= 0.9 * expected", True),
        ("nccl", "bar", "rows.all(r, r.out_bus_gbps > 0.1 * expected)", True),
        ("nccl", "bandwidthDip", "value <= expected", False),
        ("training", "avgTFLOPsPerGPU", "value >= 0.9 * expected", True),
        ("training", "avgStepTimeSec", "value <= expected", False),
        ("dcgm", "hostToDeviceMinGBps", "value >= 0.9 * expected", True),
        ("dcgm", "gpusSeen", "value >= expected", False),
    ],
)
def test_expected_is_there_for_what_something_is_expected_of(
    tool: str, key: str, text: str, fits: bool
) -> None:
    if fits:
        check_threshold(key, text, tool)
    else:
        with pytest.raises(ExpressionError, match="nothing says what to expect of"):
            check_threshold(key, text, tool)


def test_double_that_comes_as_a_whole_number_stays_a_double() -> None:
    names = {"value": 370, "busBandwidthAtGBps": {"8G": 371}, "row": {"out_bus_gbps": 5}}
    for text in ("value / 4 == 92.5", "busbw_at('8G') / 2 == 185.5", "row.out_bus_gbps / 2 == 2.5"):
        assert compile_bar("busBandwidthGBps", text, "nccl", "row").evaluate(names) is True


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "value was not measured"),
        (math.nan, "value is nan"),
        (-math.inf, "value is -inf"),
        ("373", "value is a text, not a number"),
        (True, "value is a boolean, not a number"),
        ([373.0], "value is a list, not a number"),
    ],
)
def test_value_that_is_no_number_proves_nothing(value: object, says: str) -> None:
    for text in ("value >= 300", "!(value < 300)", "value >= 300 || wrongCount == 0"):
        expression = compile_bar("busBandwidthGBps", text, "nccl")
        with pytest.raises(ExpressionError, match=says):
            expression.evaluate({"value": value, "wrongCount": 0})


@pytest.mark.parametrize("count", [8, 8.0])
def test_count_that_comes_as_a_decimal_is_whole_if_it_is(count: float) -> None:
    expression = compile_bar("gpusSeen", "gpusSeen % 2 == 0 && gpusSeen >= gpus_per_node", "dcgm")
    assert expression.evaluate({"gpusSeen": count, "gpus_per_node": 8.0}) is True
    with pytest.raises(ExpressionError, match=r"gpusSeen is 7\.5, not a whole number"):
        expression.evaluate({"gpusSeen": 7.5, "gpus_per_node": 8})


ROW = {"size_bytes": 8, "out_bus_gbps": 373.0, "type": "float", "cycle": 1}


@pytest.mark.parametrize(
    ("field", "value", "text", "says"),
    [
        ("size_bytes", "8", "row.size_bytes != 9", "size_bytes is a text, not a number"),
        ("size_bytes", 8.5, "row.size_bytes != 9", "size_bytes is 8.5, not a whole number"),
        ("out_bus_gbps", "373", "row.out_bus_gbps > 3", "out_bus_gbps is a text, not a number"),
        ("out_bus_gbps", True, "row.out_bus_gbps > 0", "out_bus_gbps is a boolean"),
        ("out_bus_gbps", math.nan, "!(row.out_bus_gbps < 3)", "out_bus_gbps is nan"),
        ("out_bus_gbps", None, "row.out_bus_gbps != 3", "no value for out_bus_gbps"),
        ("type", 3, "row.type != 'half' && row.cycle > 0", "type is a number, not a text"),
        ("out_bus_gbps", "x", "rows.all(r, r.out_bus_gbps != 3)", "out_bus_gbps is a text"),
        ("out_bus_gbps", math.inf, "rows.exists(r, r.out_bus_gbps > 3)", "out_bus_gbps is inf"),
        ("out_bus_gbps", "x", "max(rows.map(r, r.out_bus_gbps)) > 3", "out_bus_gbps is a text"),
    ],
)
def test_field_of_another_type_than_declared_proves_nothing(
    field: str, value: object, text: str, says: str
) -> None:
    expression = compile_bar("bar", text, "nccl", "row")
    row = {**ROW, field: value}
    with pytest.raises(ExpressionError, match=says):
        expression.evaluate({"row": row, "rows": [row]})


@pytest.mark.parametrize("value", ["371", None, math.nan, math.inf, True, [1.0]])
def test_value_of_a_map_that_is_no_number_proves_nothing(value: object) -> None:
    for text in (
        "busbw_at('8G') != 3",
        "busBandwidthAtGBps['8G'] != 3",
        "busBandwidthAtGBps.all(s, busBandwidthAtGBps[s] != 3)",
    ):
        with pytest.raises(ExpressionError):
            compile_bar("bar", text, "nccl").evaluate({"busBandwidthAtGBps": {"8G": value}})
