"""The rows of the output that a figure came from: the evidence of a verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from statistics import fmean, median_low

from catalog.facts.tools import output_kind
from catalog.reading.quantity import parse_size
from steps.documents import (
    DiagnosticRow,
    Evidence,
    Measurements,
    NcclRow,
    TrainingStep,
)
from steps.documents.measurements import Row
from steps.evaluate.gpus import bandwidth_rows, statuses
from steps.evaluate.rows import line_of, row_name, row_words
from steps.parse.dcgm.measured import BANDWIDTHS, bandwidths, count_tests
from steps.parse.dcgm.words import canonical
from steps.parse.nccl.figures import LARGE_BYTES, SMALL_BYTES, greatest_dip

MOST_LINES = 3
"""Lines of evidence for one expression."""

_SIZE = re.compile(r"""["'](\d+[KMGT]?)["']""")


class Decisive:
    """Finds the rows behind the figures of one measurement.

    Args:
        read: the measurement.
        tool: nccl, dcgm or training.
    """

    def __init__(self, read: Measurements, tool: str) -> None:
        self._read = read
        self._find: Callable[[str, str], Iterable[Row]] = {
            "nccl": self._nccl,
            "dcgm": self._dcgm,
            "training": self._training,
        }.get(tool, lambda _name, _text: ())
        self._known: dict[tuple[str, str], tuple[Row, ...]] = {}

    def lines(
        self, figures: Iterable[str], text: str, most: int = MOST_LINES
    ) -> tuple[Evidence, ...]:
        """Return the lines that some figures came from, the most telling first.

        Args:
            figures: names of the figures that an expression reads.
            text: the expression, which names the message sizes that it reads.
            most: so many lines at most.
        """
        sizes = ",".join(_SIZE.findall(text))
        found: dict[int, tuple[Row, str]] = {}
        for name in figures:
            key = (name, sizes)
            if key not in self._known:
                self._known[key] = tuple(self._find(name, sizes))[:MOST_LINES]
            for row in self._known[key]:
                found.setdefault(id(row), (row, name))
            if len(found) >= most:
                break
        return tuple(self.line(row, name) for row, name in list(found.values())[:most])

    def line(self, row: Row, figure: str | None = None) -> Evidence:
        """Return the line of one row; its text stands in for the line until the log is read.

        Args:
            row: the row.
            figure: the figure that it is evidence of; of a row with several values, which is meant.
        """
        files = self._read.files
        line, text = line_of(row, self._read), row_words(row)
        said = BANDWIDTHS.get(figure or "")
        if isinstance(row, DiagnosticRow) and said and row.text:
            values = bandwidths(row.text, said)
            if values:
                text = f"{row_name(row)}: {row.status}, {said} {min(values):g} GB/s"
            # A row knows the line of its first text only.
            if self._read.mode is not output_kind("dcgm-json") or "; " in row.text:
                line = None
        return Evidence(file=files[0] if files else None, line=line, text=text)

    @cached_property
    def _by_size(self) -> dict[int, list[NcclRow]]:
        found: dict[int, list[NcclRow]] = {}
        for row in self._read.rows:
            if isinstance(row, NcclRow) and row.size_bytes:
                found.setdefault(row.size_bytes, []).append(row)
        return found

    @cached_property
    def _bus(self) -> dict[int, float]:
        """Mean bus bandwidth over cycles by size, in GB/s."""
        found = {
            size: [row.out_bus_gbps for row in rows if row.out_bus_gbps is not None]
            for size, rows in self._by_size.items()
        }
        return {size: fmean(values) for size, values in found.items() if values}

    def _nccl(self, name: str, sizes: str) -> Sequence[Row]:  # noqa: PLR0911  (one for each kind)
        rows, bus = self._by_size, self._bus
        if name == "wrongCount":
            every = [row for of_size in rows.values() for row in of_size]
            wrong = [row for row in every if row.out_wrong or row.in_wrong]
            return wrong or every[-1:]
        if name == "smallMessageLatencyUs":
            small = [
                row
                for size, of_size in rows.items()
                if size <= SMALL_BYTES
                for row in of_size
                if row.out_time_us is not None
            ]
            middle = median_low([row.out_time_us or 0.0 for row in small]) if small else None
            return [row for row in small if row.out_time_us == middle]
        if not bus:
            return ()
        match name:
            case "busBandwidthGBps" | "algBandwidthGBps":
                wanted = [max(bus, key=lambda size: bus[size])]
            case "largestSizeBusBandwidthGBps" | "cycleSpread":
                wanted = [max(bus)]
            case "minLargeBusBandwidthGBps":
                large = [size for size in bus if size >= LARGE_BYTES]
                wanted = [min(large, key=lambda size: bus[size])] if large else []
            case "bandwidthDip":
                return [_slowest(rows[size]) for size in greatest_dip(bus).sizes]
            case "peakBusBandwidthGBps":
                every = [row for of_size in rows.values() for row in of_size]
                return [
                    max(every, key=lambda row: max(row.out_bus_gbps or 0, row.in_bus_gbps or 0))
                ]
            case _ if name.endswith(("AtGBps", "AtUs")):
                wanted = [parse_size(size) for size in sizes.split(",") if size]
            case _:
                return ()
        found = [row for size in wanted for row in rows.get(size, ())]
        found.sort(key=_speed)
        return [found[0], found[-1]] if name == "cycleSpread" and len(found) > 1 else found

    def _dcgm(self, name: str, _sizes: str) -> Sequence[Row]:
        rows = [row for row in self._read.rows if isinstance(row, DiagnosticRow)]
        wanted = {
            "testsPassed": "pass",
            "testsFailed": "fail",
            "testsWarned": "warn",
            "testsSkipped": "skip",
        }.get(name)
        if wanted:
            # A test counts once, by its worst result.
            counted = {
                test for test, found in statuses(rows).items() if count_tests([found])[name].value
            }
            return [row for row in rows if row.status == wanted and canonical(row.test) in counted]
        if name == "gpusFailed":
            return [row for row in rows if row.status == "fail"]
        if name == "gpusSeen":
            seen = {row.gpu: row for row in reversed(rows) if row.gpu is not None}
            return [seen[max(seen)]] if seen else ()
        values = sorted(bandwidth_rows(rows, name), key=lambda item: item[1])
        return [row for row, _ in values[:1]]

    def _training(self, name: str, _sizes: str) -> Sequence[Row]:  # noqa: PLR0911  (one for each kind)
        steps = [row for row in self._read.rows if isinstance(row, TrainingStep)]
        counted = [step for step in steps if not step.warmup]
        timed = sorted(
            (step for step in counted if step.step_time_s is not None),
            key=lambda step: step.step_time_s or 0.0,
        )
        match name:
            case "nanStepCount":
                return [step for step in steps if step.nan] or counted[-1:]
            case "stepTimeSpread":
                return [timed[-1], timed[0]] if len(timed) > 1 else timed
            case "avgTFLOPsPerGPU":
                rated = [step for step in counted if step.tflops_per_gpu is not None]
                return sorted(rated, key=lambda step: step.tflops_per_gpu or 0.0)[:1]
            case "warmupStepTimeSec" | "warmupStepCount":
                return [step for step in steps if step.warmup][:1]
            case "firstLoss":
                return [step for step in steps if step.loss is not None][:1]
            case "lastLoss":
                return [step for step in steps if step.loss is not None][-1:]
            case "medianStepTimeSec":
                return [timed[len(timed) // 2]] if timed else ()
            case "avgStepTimeSec" | "maxStepTimeSec":
                return timed[-1:]
            case _:
                return counted[-1:]


def _speed(row: NcclRow) -> float:
    return row.out_bus_gbps if row.out_bus_gbps is not None else 0.0


def _slowest(rows: Sequence[NcclRow]) -> NcclRow:
    return min(rows, key=_speed)
