"""What a figure was computed from, in words, where no single row of the output shows it."""

from __future__ import annotations

import sys
from collections.abc import Collection

from steps.documents import Measurements, NcclRow, TrainingStep
from steps.evaluate.whole import whole_number
from steps.parse.nccl.figures import SMALL_BYTES
from steps.parse.nccl.sizes import size_name

_TOLD = {"bandwidthDip", "cycleSpread", "warmupStepTimeSec", "tokensPerSec"}
"""Figures that the parser explains by itself."""
_OF_CYCLES = {"busBandwidthGBps", "algBandwidthGBps", "largestSizeBusBandwidthGBps"}
_OF_CYCLES |= {"minLargeBusBandwidthGBps", "busBandwidthAtGBps", "busBandwidthInPlaceAtGBps"}
_OF_CYCLES |= {"algBandwidthAtGBps", "timeAtUs"}
_OF_ROWS = {
    "recomputedAvgBusBandwidthGBps": ("mean of", sys.maxsize, ", out of place and in place"),
    "smallMessageLatencyUs": ("median of", SMALL_BYTES, f" up to {size_name(SMALL_BYTES)}"),
}
"""How, up to which size, and of what."""
_OF_STEPS = {
    "avgTFLOPsPerGPU": ("mean of", "tflops_per_gpu"),
    "avgStepTimeSec": ("mean of", "step_time_s"),
    "medianStepTimeSec": ("median of", "step_time_s"),
    "stepTimeSpread": ("over", "step_time_s"),
}


def computed_from(figures: Collection[str], read: Measurements) -> str | None:
    """Say what some figures were computed from: ``at 16G, mean of 2 cycles``.

    Args:
        figures: names of the figures that an expression reads.
        read: the measurement.

    Returns:
        None where every figure stands in the output as it is.
    """
    said = {name: words for name in figures if (words := _words(name, read))}
    if len(figures) == 1:
        return next(iter(said.values()), None)
    return "; ".join(f"{name} {words}" for name, words in said.items()) or None


def _words(name: str, read: Measurements) -> str | None:
    figure = read.figures.get(name)
    if figure is None:
        return None
    if name in _OF_CYCLES:
        cycles = whole_number(read.figures.get("cycleCount")) or 0
        where = f"{figure.says}, " if figure.says else ""
        return f"{where}mean of {cycles} cycles" if cycles > 1 else None
    if name in _OF_ROWS:
        how, most, of = _OF_ROWS[name]
        sizes = [row.size_bytes for row in read.rows if isinstance(row, NcclRow)]
        rows = sum(0 < size <= most for size in sizes)
        return f"{how} {rows} rows{of}" if rows > 1 else None
    if name in _OF_STEPS:
        how, field = _OF_STEPS[name]
        steps = [row for row in read.rows if isinstance(row, TrainingStep) and not row.warmup]
        lines = sum(getattr(step, field) is not None for step in steps)
        return f"{how} {lines} lines after warm-up" if lines > 1 else None
    return figure.says if name in _TOLD else None
