"""Bars move with the stage and the hardware; without a published figure there is no bar."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.bars import Hardware, bars_for, find_stage, references, stages
from catalog.entry import builtin_entries, find_entry
from catalog.errors import ExpressionError, InputError
from catalog.expressions import compile_expression, sample_values
from catalog.figures import figures_of
from catalog.resolved import Origin, Setting

P5 = Hardware(platform="aws", instance_type="p5.48xlarge", gpu_architecture="h100", gpus_per_node=8)
ALL_REDUCE = find_entry("communication/nccl-all-reduce")
ORIGIN = Origin(rule="certification", file="cert.yaml", line=12)


def bandwidth_bar(stage: str, hardware: Hardware = P5, nodes: int = 2) -> float:
    bars, missing = bars_for(ALL_REDUCE, stage, hardware, nodes, {})
    assert missing == ()
    bar = next(bar for bar in bars if bar.key == "busBandwidthGBps")
    return bar.values["fraction"] * bar.values["reference"]


def test_bar_rises_from_stage_to_stage() -> None:
    heights = [bandwidth_bar(stage) for stage in stages()]
    assert heights == sorted(set(heights))


def test_bar_depends_on_the_number_of_nodes() -> None:
    assert bandwidth_bar("production", nodes=2) == pytest.approx(0.92 * 487.1)
    assert bandwidth_bar("production", nodes=8) == pytest.approx(0.92 * 368.0)
    assert bandwidth_bar("production", nodes=1) == pytest.approx(0.92 * 480.2)


def test_no_published_figure_is_no_threshold_except_where_the_stage_allows_it() -> None:
    odd = replace(P5, platform="nowhere", instance_type=None)
    bars, missing = bars_for(ALL_REDUCE, "burn-in", odd, 2, {})
    assert [code for code, _ in missing] == ["NO_THRESHOLD"]
    assert "busBandwidthGBps" not in [bar.key for bar in bars]
    assert bars_for(ALL_REDUCE, "bring-up", odd, 2, {})[1] == ()


def test_threshold_of_the_user_replaces_the_bar_of_its_key_only() -> None:
    own = {"thresholds": Setting(value={"busBandwidthGBps": "value >= 250"}, origin=ORIGIN)}
    bars, _ = bars_for(ALL_REDUCE, "production", P5, 2, own)
    by_key = {bar.key: bar for bar in bars}
    assert by_key["busBandwidthGBps"].expression == "value >= 250"
    assert by_key["busBandwidthGBps"].origin.line == 12
    assert {"wrongCount", "bandwidthDip"} <= set(by_key)


def test_threshold_that_is_no_cel_names_its_line() -> None:
    own = {"thresholds": Setting(value={"busBandwidthGBps": "value >>"}, origin=ORIGIN)}
    with pytest.raises(ExpressionError, match=r"^cert\.yaml:12: "):
        bars_for(ALL_REDUCE, "production", P5, 2, own)


def test_bar_over_an_unknown_number_of_gpus_is_left_out_with_a_note() -> None:
    entry = find_entry("diagnostics/dcgm-level1")
    bars, missing = bars_for(entry, "production", replace(P5, gpus_per_node=None), 1, {})
    assert [bar.key for bar in bars] == ["testsPassed"]
    assert [code for code, _ in missing] == ["BAR_LEFT_OUT"]
    bars, missing = bars_for(entry, "production", P5, 1, {})
    assert [bar.values.get("gpusPerNode") for bar in bars] == [None, 8.0]
    assert missing == ()


def test_unknown_stage_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="did you mean 'burn-in'"):
        find_stage("burnin")


@pytest.mark.parametrize("entry", builtin_entries().values(), ids=lambda entry: entry.id)
def test_every_bar_of_every_entry_compiles_over_the_figures_of_its_tool(entry: object) -> None:
    assert isinstance(entry, type(ALL_REDUCE))
    names = sample_values(figures_of(entry.tool))
    for bar in entry.bars:
        compile_expression(bar.expression, names | dict.fromkeys(bar.uses, 1.5))
        assert set(bar.stages) <= set(stages())


def test_every_reference_belongs_to_an_operation_of_the_catalog() -> None:
    operations = {entry.operation for entry in builtin_entries().values()}
    assert {row.operation for row in references()} <= operations
