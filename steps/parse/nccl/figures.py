"""Computes the NCCL figures of the catalog from the rows of one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from steps.documents import Figure, NcclRow
from steps.parse.nccl.sizes import KIB, MIB, size_name

MAX_GBPS = 1e4
"""No GPU is joined by so much; a larger bandwidth is garbage."""
MAX_US = 1e12
MAX_WRONG = 1e18
"""No test runs for eleven days, and no buffer has so many values; more is garbage."""

LARGE_BYTES = 64 * MIB
DIP_FROM_BYTES = MIB
SMALL_BYTES = KIB
"""The message sizes that catalog/facts/tools.yaml names: 64M, 1M and 1K."""

_SPEEDS = ("out_alg_gbps", "out_bus_gbps", "in_alg_gbps", "in_bus_gbps")
_TIMES = ("out_time_us", "in_time_us")
_MEASURED = (*_TIMES, *_SPEEDS, "out_wrong", "in_wrong")


def without_nonsense(row: NcclRow) -> tuple[NcclRow, list[str]]:
    """Return the row without impossible values, and the names of the fields that had one.

    Impossible are NaN, infinity, negative numbers and bandwidths over 10^4 GB/s. In rows of size 0
    NaN is what dividing by nothing gives, and no fault.
    """
    bad = [name for name in _MEASURED if _impossible(name, getattr(row, name))]
    if not bad:
        return row, []
    return row.model_copy(update=dict.fromkeys(bad)), bad if row.size_bytes else []


def _impossible(name: str, value: float | None) -> bool:
    if value is None:
        return False
    most = MAX_GBPS if name in _SPEEDS else MAX_US if name in _TIMES else MAX_WRONG
    return not math.isfinite(value) or not 0 <= value <= most


def by_size(
    rows: Iterable[NcclRow],
    value: Callable[[NcclRow], float | None],
    *,
    slowest: Callable[..., float],
) -> dict[int, float]:
    """Return the mean over cycles by size, without size 0.

    Where several data types or reductions were measured, the slowest one counts.
    """
    found: dict[int, dict[tuple[object, ...], list[float]]] = {}
    for row in rows:
        number = value(row)
        if row.size_bytes and number is not None:
            kinds = found.setdefault(row.size_bytes, {})
            kinds.setdefault((row.type, row.redop, row.root), []).append(number)
    return {
        size: slowest(fmean(numbers) for numbers in kinds.values())
        for size, kinds in sorted(found.items())
    }


def compute(rows: list[NcclRow]) -> dict[str, Figure]:
    """Return every figure that the rows give; names and meanings are those of tools.yaml."""
    cycles = len({row.cycle for row in rows})
    figures = {"rowCount": _count(len(rows)), "cycleCount": _count(cycles)}
    bus = by_size(rows, lambda row: row.out_bus_gbps, slowest=min)
    alg = by_size(rows, lambda row: row.out_alg_gbps, slowest=min)
    inside = by_size(rows, lambda row: row.in_bus_gbps, slowest=min)
    times = by_size(rows, lambda row: row.out_time_us, slowest=max)
    every = [
        speed for row in rows for speed in (row.out_bus_gbps, row.in_bus_gbps) if speed is not None
    ]
    if every:
        figures["peakBusBandwidthGBps"] = _gbps(max(every))
        figures["recomputedAvgBusBandwidthGBps"] = _gbps(fmean(every))
    if bus:
        best, largest = max(bus, key=lambda size: bus[size]), max(bus)
        figures["busBandwidthGBps"] = _gbps(bus[best], f"at {size_name(best)}")
        figures["largestSizeBusBandwidthGBps"] = _gbps(bus[largest], f"at {size_name(largest)}")
        figures["busBandwidthAtGBps"] = _map(bus, "GB/s")
        dip = greatest_dip(bus)
        figures["bandwidthDip"] = Figure(value=dip.part, unit="ratio", says=dip.says)
        large = {size: speed for size, speed in bus.items() if size >= LARGE_BYTES}
        if large:
            lowest = min(large, key=lambda size: large[size])
            figures["minLargeBusBandwidthGBps"] = _gbps(large[lowest], f"at {size_name(lowest)}")
        spread = _spread(rows, largest)
        if spread is not None:
            figures["cycleSpread"] = Figure(
                value=spread, unit="ratio", says=f"over {cycles} cycles at {size_name(largest)}"
            )
    if alg:
        best = max(alg, key=lambda size: alg[size])
        figures["algBandwidthGBps"] = _gbps(alg[best], f"at {size_name(best)}")
        figures["algBandwidthAtGBps"] = _map(alg, "GB/s")
    if inside:
        figures["busBandwidthInPlaceAtGBps"] = _map(inside, "GB/s")
    if times:
        figures["timeAtUs"] = _map(times, "us")
    small = [
        row.out_time_us
        for row in rows
        if 0 < row.size_bytes <= SMALL_BYTES and row.out_time_us is not None
    ]
    if small:
        figures["smallMessageLatencyUs"] = Figure(value=float(median(small)), unit="us")
    return figures


class Dip(NamedTuple):
    """A fall of bandwidth from one message size to the next larger one.

    Attributes:
        part: how much of the former is lost, 0 to 1.
        sizes: the two sizes; empty where bandwidth never falls.
        says: the numbers, for people.
    """

    part: float = 0.0
    sizes: tuple[int, ...] = ()
    says: str | None = None


def greatest_dip(bus: dict[int, float]) -> Dip:
    """Return the greatest fall from one size to the next larger, from 1M on."""
    sizes = [size for size in sorted(bus) if size >= DIP_FROM_BYTES]
    greatest = Dip()
    for smaller, larger in pairwise(sizes):
        before, after = bus[smaller], bus[larger]
        fall = (before - after) / before if before > 0 else 0.0
        if fall > greatest.part:
            says = (
                f"from {before:.2f} GB/s at {size_name(smaller)} "
                f"to {after:.2f} GB/s at {size_name(larger)}"
            )
            greatest = Dip(fall, (smaller, larger), says)
    return greatest


def _spread(rows: list[NcclRow], size: int) -> float | None:
    kinds: dict[tuple[object, ...], list[float]] = {}
    for row in rows:
        if row.size_bytes == size and row.out_bus_gbps is not None:
            kinds.setdefault((row.type, row.redop, row.root), []).append(row.out_bus_gbps)
    spreads = [
        (max(speeds) - min(speeds)) / fmean(speeds)
        for speeds in kinds.values()
        if len(speeds) > 1 and fmean(speeds) > 0
    ]
    return max(spreads, default=None)


def _map(values: dict[int, float], unit: str) -> Figure:
    return Figure(value={size_name(size): number for size, number in values.items()}, unit=unit)


def _gbps(value: float, says: str | None = None) -> Figure:
    return Figure(value=float(value), unit="GB/s", says=says)


def _count(value: int) -> Figure:
    return Figure(value=value, unit="count")
