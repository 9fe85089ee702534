"""Healthy published clusters pass our bars, and known-bad ones fail them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.bars.bar import Bar
from catalog.bars.physics import Derived, derive, size_factor
from catalog.bars.required import bars_for
from catalog.bars.stages import stages
from catalog.entries.entry import builtin_entries, find_entry
from catalog.language.expressions import compile_bar
from catalog.reading.quantity import parse_size
from catalog.reading.setting import Origin, Setting
from tests.bars.published import FIGURES, NOT_OURS, Figure

GOLDEN = Path(__file__).parent / "golden" / "derived-against-published.txt"
ORIGIN = Origin(rule="test", file="test")


def options_of(figure: Figure) -> dict[str, Setting]:
    return {"maxBytes": Setting(value=figure.size, origin=ORIGIN)}


def bar_of(figure: Figure, stage: str) -> Bar:
    entry = find_entry(figure.entry)
    bars, missing = bars_for(entry, stage, figure.hardware, figure.nodes, options_of(figure))
    found = [bar for bar in bars if bar.key == figure.key and "expected" in bar.values]
    assert len(found) == 1, missing
    return found[0]


def passes(figure: Figure, stage: str, part: float = 1.0) -> bool:
    bar = bar_of(figure, stage)
    expression = compile_bar(bar.key, bar.expression, find_entry(figure.entry).tool, bar.scope)
    value = part * figure.value
    names = {figure.key: value, "value": value, "largestSizeBusBandwidthGBps": value}
    return expression.evaluate(names | bar.values)


def test_the_table_is_complete() -> None:
    assert len(FIGURES) + len(NOT_OURS) >= 100
    assert len({str(figure) + figure.entry + figure.size for figure in FIGURES}) == len(FIGURES)


@pytest.mark.parametrize("figure", FIGURES, ids=str)
def test_published_figure_passes_up_to_the_stage_that_it_should(figure: Figure) -> None:
    order = list(stages())
    passed = [stage for stage in order if passes(figure, stage)]
    reaches = order[: order.index(figure.best) + 1] if figure.best else []
    assert passed == reaches
    if figure.kind == "measured":
        assert figure.best == "production", "a healthy cluster passes"
    elif figure.best != "production":
        assert figure.why or figure.kind == "bad"


@pytest.mark.parametrize("figure", [f for f in FIGURES if f.best == "production"], ids=str)
def test_half_of_a_good_figure_fails_production(figure: Figure) -> None:
    assert not passes(figure, "production", 0.5)


def ratios() -> Iterator[tuple[Figure, Derived]]:
    """Yield every published figure for whose hardware physics says something too."""
    for figure in FIGURES:
        found = derive(find_entry(figure.entry), figure.key, figure.hardware, nodes=figure.nodes)
        if isinstance(found, Derived):
            yield figure, found


def test_what_is_derived_lies_below_every_healthy_figure() -> None:
    """A figure from physics must never fail a healthy cluster; the table is there to be read."""
    lines = [
        "What physics expects as a part of what was published, for runs of the same hardware.",
        "Physics must not exceed a healthy figure; pass bars of vendors are often far below one.",
        "",
        f"{'published by':<38} {'category':<22} {'nodes':>5} {'published':>9} {'derived':>8} ratio",
    ]
    for figure, found in ratios():
        nccl = find_entry(figure.entry).tool == "nccl"
        factor = (size_factor(parse_size(figure.size)) or 0.0) if nccl else 1.0
        value = factor * found.value
        lines.append(
            f"{figure.says:<38} {figure.entry.partition('/')[2]:<22} {figure.nodes:>5} "
            f"{figure.value:>9.1f} {value:>8.1f} {value / figure.value:>5.2f} {figure.kind}"
        )
        if figure.kind == "measured":
            assert value <= figure.value, figure
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
    assert len(lines) > 60


def test_what_is_derived_fails_what_is_known_to_be_bad() -> None:
    for figure, found in ratios():
        if figure.kind == "bad":
            assert figure.value < 0.92 * found.value, figure


def test_every_category_with_an_expected_value_has_a_published_figure() -> None:
    judged = {figure.entry for figure in FIGURES}
    entries = {
        entry.id
        for entry in builtin_entries().values()
        if any("expected" in bar.names(entry.tool) for bar in entry.bars)
    }
    # The four DCGM levels share their bars. Of the 56B model nothing is published.
    assert {entry for entry in entries - judged if "dcgm" not in entry} == {
        "training/nemotron5-56b"
    }
