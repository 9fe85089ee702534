"""nccl-tests and rccl-tests: what their rows prove, and how their runs go on."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean, median_low

from catalog.facts.reasons import Effect
from catalog.hardware.hardware import Hardware
from catalog.reading.quantity import format_size, parse_size
from steps.documents import Completeness, Figure, Finding, Measurements, NcclRow
from steps.parse.api import ParseContext
from steps.parse.lines import clean_line
from steps.parse.nccl.figures import LARGE_BYTES, MAX_GBPS, SMALL_BYTES, greatest_dip
from steps.parse.nccl.layout import Ranks, check_ranks
from steps.parse.nccl.sizes import size_name
from steps.parse.nccl.table import Layout, read_heading, read_row
from steps.simulator.clock import Script
from steps.simulator.machine import SimulatedRun
from steps.simulator.nccl import VERSIONS, nccl_script
from steps.tools.tool import (
    FindRows,
    Pace,
    Sweep,
    ToolSteps,
    amount,
    fixed,
    has_finding,
    whole_number,
)

_GREATEST = frozenset({"busBandwidthGBps", "algBandwidthGBps", "peakBusBandwidthGBps"})
_OF_SIZES = frozenset(
    {
        "largestSizeBusBandwidthGBps",
        "busBandwidthAtGBps",
        "busBandwidthInPlaceAtGBps",
        "algBandwidthAtGBps",
        "timeAtUs",
    }
)
_OF_CYCLES = _OF_SIZES | {"busBandwidthGBps", "algBandwidthGBps", "minLargeBusBandwidthGBps"}
_OF_ROWS = {
    "recomputedAvgBusBandwidthGBps": ("mean of", sys.maxsize, ", out of place and in place"),
    "smallMessageLatencyUs": ("median of", SMALL_BYTES, f" up to {size_name(SMALL_BYTES)}"),
}
"""How, up to which size, and of what."""
_TOLD = {"bandwidthDip", "cycleSpread"}
"""Figures that the parser explains by itself."""


class _Rows(Pace):
    noun = "row"
    repeats = True

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._banner = ""

    def steps(self, raw: bytes) -> Iterator[tuple[str, bool]]:
        # Nearly all lines of a big run, and no rows.
        if b" NCCL " in raw:
            return
        for line in clean_line(raw, 0):
            text = line.text.lstrip(" #\t")
            layout = read_heading(text, self._banner)
            self._layout, self._banner = layout or self._layout, text
            row = read_row(text, self._layout, 0) if text[:1].isdigit() else None
            if row is not None:
                self.figure = amount(row.row.out_bus_gbps, "GB/s") or ""
                yield format_size(row.row.size_bytes), False

    def usual_wait(self, waits: Sequence[float], longest: float) -> float:
        """The next row is of twice the size."""
        return 2 * longest


def _sizes_lost(read: Measurements) -> str | None:
    found = next((item for item in read.findings if item.code == "SIZE_MISSING"), None)
    return found.message if found else None


def _largest_lost(read: Measurements) -> str | None:
    for item in read.findings:
        # Sizes that are missing on the way are a note.
        if item.code == "SIZE_MISSING" and item.effect is Effect.INCONCLUSIVE:
            return item.message
    asked = read.facts.get("maxBytes", "")
    if read.completeness is Completeness.COMPLETE or not asked.isdecimal():
        return None
    largest = max((row.size_bytes for row in TOOL.rows(read)), default=0)
    if largest >= int(asked):
        return None
    return f"the largest size is {size_name(largest)} of {size_name(int(asked))}"


class _Nccl(ToolSteps[NcclRow]):
    name = "nccl"
    row_type = NcclRow
    versions = VERSIONS
    printed = frozenset({"avgBusBandwidthGBps", "fabricHostCount", "rankCount", "wrongCount"})
    sweep = Sweep(
        of_sizes=_OF_SIZES,
        greatest=_GREATEST,
        of_the_end=_GREATEST | {"largestSizeBusBandwidthGBps"},
        ceiling=MAX_GBPS,
        sizes_lost=_sizes_lost,
        largest_lost=_largest_lost,
    )
    pace = _Rows
    columns = (
        *("size", "time us", "algbw", "busbw", "wrong", "time us", "algbw", "busbw", "wrong"),
        "cycle",
    )
    title = "GB/s; out of place, then in place"
    numeric = True
    varying = frozenset({"cycle"})

    def counted(self, read: Measurements) -> list[NcclRow]:
        """Leave out messages of zero bytes."""
        return [row for row in self.rows(read) if row.size_bytes > 0]

    def row_name(self, row: NcclRow) -> str:
        return f"{size_name(row.size_bytes)}, cycle {row.cycle}"

    def row_parts(self, row: NcclRow) -> Iterable[str | None]:
        return (
            amount(row.out_time_us, "us"),
            amount(row.out_alg_gbps, "GB/s algbw"),
            amount(row.out_bus_gbps, "GB/s busbw"),
            None if row.out_wrong is None else f"{row.out_wrong:g} wrong",
        )

    def cells(self, row: NcclRow) -> tuple[str, ...]:
        return (
            format_size(row.size_bytes),
            fixed(row.out_time_us),
            fixed(row.out_alg_gbps),
            fixed(row.out_bus_gbps),
            fixed(row.out_wrong, 0),
            fixed(row.in_time_us),
            fixed(row.in_alg_gbps),
            fixed(row.in_bus_gbps),
            fixed(row.in_wrong, 0),
            str(row.cycle),
        )

    def rows_lost(self, read: Measurements) -> str | None:
        rows = self.rows(read)
        told = whole_number(read.figures.get("rowCount"))
        if told != len(rows):
            return (
                f"{len(rows)} of {'an unknown number of' if told is None else told} rows are here"
            )
        repeats = Counter((r.size_bytes, r.type, r.redop, r.root) for r in rows if r.size_bytes)
        cycles = max((row.cycle for row in rows), default=0)
        lost = sum(max(cycles - times, 0) for times in repeats.values())
        # Rows that equal an earlier one value by value were taken for repeats of the log.
        known = sum(item.count for item in read.findings if item.code == "DUPLICATE_ROW")
        if lost > known:
            count = lost - known
            return (
                f"of {cycles} cycles, {'1 row is' if count == 1 else f'{count} rows are'} missing"
            )
        return None

    def rightly_absent(self, figure: str, read: Measurements) -> bool:
        shown: dict[str, Callable[[], bool]] = {
            "wrongCount": lambda: has_finding(read, "VALIDATION_OFF"),
            "fabricHostCount": lambda: "transport" not in read.facts,
            "cycleSpread": lambda: whole_number(read.figures.get("cycleCount")) == 1,
            "minLargeBusBandwidthGBps": lambda: (
                not any(row.size_bytes >= LARGE_BYTES for row in self.rows(read))
            ),
            "smallMessageLatencyUs": lambda: (
                not any(1 <= row.size_bytes <= SMALL_BYTES for row in self.rows(read))
            ),
        }
        return figure in shown and shown[figure]() and self.figures_lost(read) is None

    def find_rows(self, read: Measurements) -> FindRows:
        return _Finder(self.counted(read)).find

    def computed_from(self, name: str, figure: Figure, read: Measurements) -> str | None:
        if name in _OF_CYCLES:
            cycles = whole_number(read.figures.get("cycleCount")) or 0
            where = f"{figure.says}, " if figure.says else ""
            return f"{where}mean of {cycles} cycles" if cycles > 1 else None
        if name in _OF_ROWS:
            how, most, of = _OF_ROWS[name]
            rows = sum(0 < row.size_bytes <= most for row in self.rows(read))
            return f"{how} {rows} rows{of}" if rows > 1 else None
        return figure.says if name in _TOLD else None

    def check_gpus(self, read: Measurements, gpus_per_node: int) -> Sequence[Finding]:
        context = ParseContext(hardware=Hardware(gpus_per_node=gpus_per_node))
        return check_ranks(Ranks(devices=read.ranks), context)

    def play(self, run: SimulatedRun) -> Script:
        return nccl_script(run)


class _Finder:
    """Finds the rows of a sweep behind its figures."""

    def __init__(self, rows: Sequence[NcclRow]) -> None:
        self._rows: dict[int, list[NcclRow]] = {}
        for row in rows:
            self._rows.setdefault(row.size_bytes, []).append(row)
        found = {
            size: [row.out_bus_gbps for row in some if row.out_bus_gbps is not None]
            for size, some in self._rows.items()
        }
        self._bus = {size: fmean(values) for size, values in found.items() if values}
        """Mean bus bandwidth over cycles by size, in GB/s."""

    def find(self, name: str, sizes: str) -> Sequence[NcclRow]:  # noqa: PLR0911  (one for each kind)
        rows, bus = self._rows, self._bus
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
                return [min(rows[size], key=_speed) for size in greatest_dip(bus).sizes]
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


def _speed(row: NcclRow) -> float:
    return row.out_bus_gbps if row.out_bus_gbps is not None else 0.0


TOOL = _Nccl()
