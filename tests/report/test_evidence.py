"""Every verdict explains itself: numbers, code, source of the bar, line of the output."""

from __future__ import annotations

import pytest

from steps.aggregate.core import make_report
from steps.documents import Measurements, Report
from steps.evaluate.core import evaluate
from steps.report.html import render_html
from steps.report.text import render_text
from steps.store.runs import Run
from tests.builders import group, plan, record
from tests.evaluate.outputs import bar, dcgm, nccl

BARS = [
    bar("testsPassed", "testsPassed > 0"),
    bar(
        "hostToDeviceMinGBps",
        "value >= 50.0",
        scope="gpu",
        code="DCGM_LOW_BANDWIDTH",
        kind="derived",
        source="derived: 0.8 x 63 GB/s of PCIe (2024)",
        origin={"rule": "stage production", "file": "catalog/bars/stages.yaml", "line": 7},
    ),
]
LEVEL = "diagnostics/dcgm-level3"


def report_of(*reads: Measurements) -> Report:
    groups = [group([f"node-{n}"], f"intra-node-{n}") for n in range(len(reads))]
    of = plan(groups, category=LEVEL, bars=BARS)
    part = of.categories[0].parts[0]
    runs = [Run(part, one, record(one), read) for one, read in zip(groups, reads, strict=True)]
    text = "".join(f"{{ 'line': {number} }}\n" for number in range(1, 200)).encode()
    verdict = evaluate(of, of.categories[0], runs, lambda _: text)
    return make_report(of, {LEVEL: verdict})


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(dcgm(), dcgm(host_to_device={3: 12.6}))


def test_text_shows_gpu_numbers_code_rule_source_and_line(report: Report) -> None:
    text = " ".join(render_text(report, width=140).split())
    assert "node-1 ThresholdViolation DCGM_LOW_BANDWIDTH" in text
    assert "GPU 3: 12.6 >= 50.0 is false (value >= 50.0; bar from derived: 0.8 x 63" in text
    assert "> { 'line': 123 } (diag.json, line 123)" in text


def test_html_shows_gpu_numbers_code_rule_source_and_line(report: Report) -> None:
    html = render_html(report)
    for words in (
        "GPU 3: 12.6 &gt;= 50.0",
        "DCGM_LOW_BANDWIDTH",
        '<span class="badge none">derived</span>',
        "set by stage production (catalog/bars/stages.yaml:7)",
        "diag.json, line 123",
        "{ &#39;line&#39;: 123 }",
        "GPU 7: 55.2 &gt;= 50.0",
    ):
        assert words in html, words


def test_every_gpu_that_falls_short_is_listed_and_its_group_counted_once() -> None:
    slow = report_of(dcgm(host_to_device={1: 9.0, 3: 12.6}))
    text = " ".join(render_text(slow, width=140).split())
    assert "not met GPU 1: 9 >= 50.0 intra-node-0 not met GPU 3: 12.6 >= 50.0 intra-node-0" in text
    assert "met 0 of 1 group (hostToDeviceMinGBps: value >= 50.0; bar from derived" in text
    assert "GPU 3: 12.6 &gt;= 50.0" in render_html(slow)


def test_fleet_that_falls_in_two_is_said_to(report: Report) -> None:
    groups = [group([f"node-{n}"], f"intra-node-{n}") for n in range(6)]
    peers = bar("largestSizeBusBandwidthGBps", "value >= 0.95 * peer_median", code="OUTLIER")
    of = plan(groups, bars=[bar("rowCount", "value > 1"), peers])
    part = of.categories[0].parts[0]
    runs = [
        Run(part, one, record(one), nccl(bus=300.0 if n < 3 else 400.0))
        for n, one in enumerate(groups)
    ]
    name = of.categories[0].id
    text = render_text(make_report(of, {name: evaluate(of, of.categories[0], runs)}), width=140)
    assert "node-[0-2]  FLEET_SPLIT" in text
    assert "(against 5 other runs of this kind) is false" in " ".join(text.split())
    assert "Failed:" not in text
