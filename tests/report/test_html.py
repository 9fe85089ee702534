from __future__ import annotations

import re
import time

import pytest

from steps.documents import Figure, NodeStatus
from steps.report.charts import HEIGHT, WIDTH, group_chart, size_chart
from steps.report.html import render_html
from steps.report.wording import printable
from tests.report import samples
from tests.report.reading import Page

EVERY = pytest.mark.parametrize("name", list(samples.SAMPLES))


@EVERY
def test_every_node_stands_once_in_the_section_of_its_status(name: str) -> None:
    report = samples.SAMPLES[name]()
    page = Page(render_html(report))
    for status in NodeStatus:
        expected = [printable(node.node) for node in report.nodes if node.status is status]
        assert sorted(page.nodes.pop(status.value, [])) == sorted(expected)
    assert not page.nodes


@EVERY
def test_page_is_static_and_loads_nothing(name: str) -> None:
    html = render_html(samples.SAMPLES[name]())
    page = Page(html)
    assert not page.tags & {"script", "img", "link", "iframe", "object", "embed", "form", "base"}
    assert not [
        key for key, _ in page.attributes if key.startswith("on") or key in {"src", "srcset"}
    ]
    assert all(link.startswith("#") for link in page.links)
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html


@EVERY
def test_every_link_has_its_anchor_and_ids_are_unique(name: str) -> None:
    page = Page(render_html(samples.SAMPLES[name]()))
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)


@EVERY
def test_hostile_text_is_shown_and_not_obeyed(name: str) -> None:
    html = render_html(samples.SAMPLES[name]())
    assert "<script" not in html
    assert "<img" not in html
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", html)


def test_hostile_names_are_all_there() -> None:
    text = Page(render_html(samples.hostile())).text
    for name in samples.HOSTILE:
        assert printable(name) in text


def test_page_has_language_title_and_scoped_headers() -> None:
    html = render_html(samples.eight_nodes())
    assert html.startswith("<!DOCTYPE html>")
    assert '<html lang="en">' in html
    assert "<title>FAIL: h100-acceptance (simulated)</title>" in html
    assert not re.search(r"<th(?! scope=| ?ead)", html)
    assert "prefers-color-scheme: dark" in html


def test_status_is_never_told_by_colour_alone() -> None:
    html = render_html(samples.inconclusive())
    cells = re.findall(r'<li><a class="(\w+)"[^>]*aria-label="[^"]*: ([a-z ]+)"[^>]*>(.)', html)
    assert {(css, word, sign) for css, word, sign in cells} == {
        ("good", "ready", "✓"),
        ("open", "not proven", "?"),
        ("none", "excluded", "\N{EN DASH}"),
    }


def test_nodes_have_stable_anchors() -> None:
    html = render_html(samples.eight_nodes())
    assert '<article class="card is-bad" id="node-gpu-node-07"' in html
    assert '<tr id="node-gpu-node-05"' in html


def test_source_note_stands_at_head_and_foot() -> None:
    html = render_html(samples.eight_nodes())
    assert html.count("SIMULATED: no hardware was tested") == 2
    assert "SIMULATED" not in render_html(samples.all_pass())


def test_failed_node_shows_numbers_place_and_next_step() -> None:
    html = render_html(samples.eight_nodes())
    card = html[html.index('id="node-gpu-node-07"') : html.index('id="node-gpu-node-12"')]
    for words in (
        "ThresholdViolation",
        "NCCL_LOW_BANDWIDTH",
        "61.3 &gt;= 0.92 * 467.5 is false",
        "isolation run pair-2-0 with gpu-node-05 (ready)",
        "<strong>Next:</strong>",
    ):
        assert words in card


def test_large_fleet_stays_small_and_fast() -> None:
    report = samples.big(1440)
    start = time.perf_counter()
    html = render_html(report)
    assert time.perf_counter() - start < 10
    assert len(html.encode()) < 2_000_000


def test_same_report_gives_the_same_page() -> None:
    assert render_html(samples.eight_nodes()) == render_html(samples.eight_nodes())


def test_few_groups_are_drawn_as_lines_and_many_as_a_band() -> None:
    few = [samples.nccl_group(f"g-{n}", [f"n{n}"], 460.0 + n) for n in range(3)]
    many = [samples.nccl_group(f"g-{n}", [f"n{n}"], 460.0 + n) for n in range(30)]
    lines, band = size_chart(few, "x"), size_chart(many, "x")
    assert lines is not None
    assert band is not None
    assert [curve.label for curve in lines.curves] == ["g-0", "g-1", "g-2"]
    assert not lines.band
    assert [curve.label for curve in band.curves] == ["median of 30 groups"]
    assert band.band
    assert [text for _, _, text in lines.bars] == ["bar 430.1"]


def test_charts_stay_inside_their_box() -> None:
    groups = [
        samples.nccl_group(f"g-{n}", [f"n{n}"], value) for n, value in enumerate((9.0, 800.0))
    ]
    chart = size_chart(groups, "x")
    assert chart is not None
    for curve in chart.curves:
        for point in curve.points.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


def test_nothing_is_drawn_where_nothing_was_measured() -> None:
    group = samples.nccl_group("g-0", ["n0"], 460.0)
    empty = group.model_copy(update={"figures": {}, "expressions": ()})
    odd = group.model_copy(
        update={"figures": {"busBandwidthAtGBps": Figure(value={"all": 1.0}, unit="GB/s")}}
    )
    assert size_chart([empty], "x") is None
    assert size_chart([odd], "x") is None
    assert group_chart([empty] * 5, "x") is None


def test_groups_below_the_bar_are_crosses() -> None:
    groups = [
        samples.nccl_group(f"g-{n}", [f"n{n}"], value) for n, value in enumerate((460, 61, 455))
    ]
    chart = group_chart(groups, "x")
    assert chart is not None
    assert [met for _, _, met in chart.dots] == [True, False, True]
