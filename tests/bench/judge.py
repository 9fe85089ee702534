"""Judging 10,000 nodes by 10 bars: seconds, and the ratio to cel-python's bare evaluation.

Seconds are those of the processor, so that a busy machine does not count.

Bare evaluation is what any judgment with cel-python pays at least: the same expressions, compiled
once, on values that are converted already, and nothing made of the results. The judgment does all
that `readiness` does with a category: figures and context looked up, rows checked for gaps, peers
compared, numbers put into the text, evidence found, nodes judged.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

import celpy
from celpy import celtypes

from catalog.bars.bar import Bar
from catalog.facts.tools import output_kind
from steps.documents import (
    Completeness,
    Figure,
    Group,
    Measurements,
    NcclRow,
    Outcome,
    Verdict,
)
from steps.documents.measurements import Row
from steps.evaluate.core import evaluate
from steps.parse.nccl.figures import compute
from steps.store.runs import Run
from tests.builders import plan, record

CATEGORY = "communication/nccl-loopback-nvswitch"
EXPRESSIONS = {
    "busBandwidthGBps": "value >= fraction * expected",
    "algBandwidthGBps": "value >= 200.0 && value <= 900.0",
    "largestSizeBusBandwidthGBps": "value >= 0.95 * peer_median",
    "minLargeBusBandwidthGBps": "value >= 0.5 * largestSizeBusBandwidthGBps",
    "peakBusBandwidthGBps": "peakBusBandwidthGBps < 1000.0",
    "bandwidthDip": "bandwidthDip <= max_dip",
    "cycleSpread": "cycleSpread <= max_spread",
    "smallMessageLatencyUs": "value <= 80.0",
    "wrongCount": "wrongCount == 0",
    "rowCount": "rowCount > 60 && cycleCount == 2",
}
NUMBERS = {"fraction": 0.92, "expected": 467.5, "max_dip": 0.4, "max_spread": 0.15}
VARIANTS = 50
"""Different outputs; nodes share their rows, since 640,000 rows would not fit into memory."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the benchmark."""
    parser.add_argument("--nodes", type=int, default=10_000, help="nodes to judge")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Judge once, evaluate barely once, and compare."""
    outputs = [_output(random.Random(n)) for n in range(VARIANTS)]  # noqa: S311  # not for secrets
    groups = [Group(id=f"intra-node-{n}", nodes=(f"node-{n:05}",)) for n in range(options.nodes)]
    bars = [_bar(key, text) for key, text in EXPRESSIONS.items()]
    of = plan(groups, category=CATEGORY, bars=bars)
    part = of.categories[0].parts[0]
    runs = [
        Run(part, group, record(group), outputs[number % VARIANTS].model_copy())
        for number, group in enumerate(groups)
    ]
    evaluate(of, of.categories[0], runs[:1])  # compiles the bars and reads the catalog
    bare, true = _bare(runs)  # first, so that no verdict is in memory yet
    start = time.process_time()
    verdict = evaluate(of, of.categories[0], runs)
    ours = time.process_time() - start
    return {
        "nodes": options.nodes,
        "bars": len(bars),
        "seconds, judging": round(ours, 2),
        "seconds, bare cel-python": round(bare, 2),
        "ratio": round(ours / bare, 3),
        "us per bar, judging": round(1e6 * ours / (options.nodes * len(bars)), 1),
        "nodes that pass": sum(node.outcome is Outcome.PASS for node in verdict.nodes),
        "expressions that are true": _true(verdict),
        "the same, bare": true,
    }


def _true(verdict: Verdict) -> int:
    return sum(
        item.outcome is Outcome.PASS for group in verdict.groups for item in group.expressions
    )


def _bar(key: str, text: str) -> Bar:
    used = {name: value for name, value in NUMBERS.items() if name in text}
    return Bar.model_validate(
        {"key": key, "expression": text, "values": used, "origin": {"rule": "bench", "file": "-"}}
    )


def _output(rng: random.Random) -> Measurements:
    peak = rng.uniform(440.0, 480.0)
    rows = [
        _row(8 << step, cycle, 57 + 32 * (cycle - 1) + step, peak * rng.uniform(0.99, 1.0))
        for cycle in (1, 2)
        for step in range(32)
    ]
    kept: tuple[Row, ...] = tuple(rows)
    return Measurements(
        mode=output_kind("nccl-table"),
        files=("output.log",),
        completeness=Completeness.COMPLETE,
        figures=compute(rows) | {"wrongCount": Figure(value=0, unit="count")},
        rows=kept,
    )


def _row(size: int, cycle: int, line: int, peak: float) -> NcclRow:
    bus = peak / (1 + (2 << 20) / size)
    alg = bus / 1.75
    return NcclRow(
        size_bytes=size,
        type="float",
        redop="sum",
        root=-1,
        out_time_us=max(size / alg / 1e3, 31.0),
        out_alg_gbps=alg,
        out_bus_gbps=bus,
        out_wrong=0,
        in_bus_gbps=bus,
        in_wrong=0,
        cycle=cycle,
        line=line,
    )


def _bare(runs: list[Run]) -> tuple[float, int]:
    """Evaluate the same expressions with cel-python alone.

    Returns:
        Seconds, and how many are true.
    """
    environment = celpy.Environment()
    programs = [
        (key, environment.program(environment.compile(text))) for key, text in EXPRESSIONS.items()
    ]
    median = celtypes.DoubleType(460.0)
    seconds, true = 0.0, 0
    for one in runs:
        figures = one.measurements.figures if one.measurements else {}
        known: dict[str, Any] = {
            name: (celtypes.IntType if isinstance(figure.value, int) else celtypes.DoubleType)(
                figure.value
            )
            for name, figure in figures.items()
            if not isinstance(figure.value, dict)
        }
        known |= {name: celtypes.DoubleType(value) for name, value in NUMBERS.items()}
        known["peer_median"] = median
        activations = [{**known, "value": known[key]} for key, _ in programs]
        start = time.process_time()
        for (_, program), activation in zip(programs, activations, strict=True):
            true += bool(program.evaluate(activation))
        seconds += time.process_time() - start
    return seconds, true
