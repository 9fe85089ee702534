"""Groups the lines of an output into runs, and the rows of a run into sweeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from steps.documents import NcclRow
from steps.parse.nccl.header import (
    Average,
    Bounds,
    Config,
    CycleStart,
    LeftOut,
    Mark,
    Reduced,
    Start,
)
from steps.parse.nccl.table import TableRow

ROUNDING_BYTES = 1 << 16
"""Smaller sizes may be rounded down by a large part."""


class HeadingLine(NamedTuple):
    """A heading stood here."""


class Event(NamedTuple):
    """One structural line of a table.

    Attributes:
        writer: the process that printed it, told apart by its tag; None without tags.
        line: number of the line.
        what: what the line is.
    """

    writer: str | None
    line: int
    what: TableRow | Mark | HeadingLine


@dataclass(slots=True)
class ToolRun:
    """One run of a test program.

    Attributes:
        writer: the process that printed it.
        start: number of its first line.
        operation: as the program names it.
        config: the settings line, if any.
        rows: in the order of the output.
        bounds: the first closing line; without it the run is not complete.
        average: the printed average, the second closing line of a table.
        document: the run was a closed document, which needs no closing lines.
        left_out: a line of dots says that rows were left out.
        cycle_starts: row positions at which the tool announced a sweep.
    """

    writer: str | None = None
    start: int = 0
    operation: str | None = None
    config: Config | None = None
    rows: list[TableRow] = field(default_factory=list)
    bounds: Bounds | None = None
    average: Average | None = None
    cycle_starts: dict[int, int] = field(default_factory=dict)
    document: bool = False
    left_out: bool = False

    @property
    def average_whole(self) -> bool:
        """Whether the average is there to its last digit, as far as anything can tell.

        An output that ends at the number may have been cut in it. Then the rows tell, up to the
        rounding of their two decimals.
        """
        if self.average is None or self.average.whole:
            return self.average is not None
        speeds = [
            speed
            for entry in self.rows
            for speed in (entry.row.out_bus_gbps, entry.row.in_bus_gbps)
            if speed is not None
        ]
        mean = sum(speeds) / len(speeds) if speeds else math.inf
        return abs(self.average.gbps - mean) <= 0.006 + 1e-5 * mean

    @property
    def closed(self) -> bool:
        """Whether the closing lines are there; every version of the tool prints both."""
        return self.bounds is not None and (self.document or self.average_whole)

    @property
    def sweep_done(self) -> bool:
        """Whether the rows reach the size that the settings line asked for."""
        if not self.config or not self.rows:
            return bool(self.rows)
        largest = max(entry.row.size_bytes for entry in self.rows)
        return self.config.next_size(largest) > self.config.max_bytes

    @property
    def complete(self) -> bool:
        """Whether rows, their last size and the closing lines are all there."""
        return bool(self.rows) and self.closed and self.sweep_done


def processes(events: Iterable[Event]) -> int:
    """Return how many processes ran a test of their own at the same time; 1 is as it should be.

    Programs that were built without MPI, or started without it, each print a whole table and
    exchange no data. Their ranks tell them apart; without tags, several settings lines stand
    before several closing lines, where one program after the other alternates. Tests that are told
    apart by a host name were started as such, one for each node, by pdsh and its like.
    """
    closing: Counter[str | None] = Counter()
    opened: Counter[str | None] = Counter()
    most = 1
    for writer, _, what in events:
        if isinstance(what, Config | CycleStart):
            opened[writer] = opened[writer] + 1 if not closing[writer] else 1
            closing[writer] = 0
        elif isinstance(what, Bounds):
            closing[writer] += 1
            most = max(most, min(closing[writer], opened[writer]))
    ranks = [writer for writer, count in closing.items() if count and (writer or "").isdecimal()]
    return max(most, len(ranks))


def split_runs(events: Sequence[Event]) -> list[ToolRun]:
    """Return the runs in order; processes that print tables side by side are told apart."""
    writers = {event.writer for event in events if isinstance(event.what, TableRow)}
    if len(writers) <= 1:
        return _runs(events, next(iter(writers), None))
    return [
        run
        for writer in sorted(writers, key=str)
        for run in _runs([event for event in events if event.writer == writer], writer)
    ]


def _runs(events: Iterable[Event], writer: str | None) -> list[ToolRun]:
    runs: list[ToolRun] = []
    run = ToolRun(writer)
    touched = False
    for event in events:
        what = event.what
        if _opens(what, run):
            if touched:
                runs.append(run)
            run = ToolRun(writer)
        run.start = run.start or event.line
        touched = True
        _add(run, what)
    if touched:
        runs.append(run)
    # a settings line that another one follows at once ran nothing that could be lost
    return [
        item
        for index, item in enumerate(runs)
        if item.rows or item.bounds or index + 1 == len(runs)
    ]


def _opens(what: object, run: ToolRun) -> bool:
    """Whether this line begins another run than the present one."""
    if isinstance(what, Config):
        return bool(run.rows or run.bounds or run.config)
    if isinstance(what, Start):
        return bool(run.rows or run.bounds or run.config or run.operation)
    if isinstance(what, HeadingLine | TableRow):
        return run.bounds is not None
    return isinstance(what, Bounds) and run.bounds is not None


def _add(run: ToolRun, what: TableRow | Mark | HeadingLine) -> None:
    match what:
        case TableRow():
            run.rows.append(what)
        case Config():
            run.config = what
        case Bounds():
            run.bounds = what
        case Average():
            run.average = what
        case Start():
            run.operation = what.operation
        case Reduced():
            if run.config:
                run.config = run.config._replace(max_bytes=what.max_bytes)
        case CycleStart():
            run.cycle_starts[len(run.rows)] = what.number
        case LeftOut():
            run.left_out = True
        case HeadingLine():
            pass


class Sweeps(NamedTuple):
    """The rows of a run with their cycle.

    Attributes:
        rows: without repeats.
        repeated: lines of rows that stood in the output before, value by value.
        disordered: lines whose size is smaller than the one before without a new sweep.
    """

    rows: list[TableRow]
    repeated: list[int]
    disordered: list[int]


def number_cycles(run: ToolRun) -> Sweeps:
    """Tell the sweeps of -N apart: the sizes begin anew."""
    rows: list[TableRow] = []
    repeated: list[int] = []
    disordered: list[int] = []
    seen: set[tuple[object, ...]] = set()
    sweeps: dict[tuple[object, ...], _Sweep] = {}
    announced: int | None = None
    for index, entry in enumerate(run.rows):
        announced = run.cycle_starts.get(index, announced)
        row = entry.row
        values = _values(row)
        if row.size_bytes and values in seen:
            repeated.append(row.line or 0)
            continue
        seen.add(values)
        sweep = sweeps.setdefault((row.type, row.redop, row.root), _Sweep())
        in_order = sweep.advance(row.size_bytes)
        if not in_order and announced is None:
            disordered.append(row.line or 0)
        cycle = announced if announced is not None else sweep.cycle
        rows.append(entry._replace(row=row.model_copy(update={"cycle": cycle})))
    return Sweeps(rows, repeated, disordered)


class Hole(NamedTuple):
    """Rows that the sweep must have had.

    Attributes:
        after: the size before the hole; None where the sweep lacks its beginning.
        before: the size after it.
    """

    after: int | None
    before: int


def missing_sizes(run: ToolRun) -> list[Hole]:
    """Return where a sweep lacks rows between its smallest and its largest size.

    Sizes are rounded down to what divides by the ranks, small ones down to 0; a hole is where at
    least one whole step is missing.
    """
    if not run.config or not run.rows:
        return []
    step = run.config.next_size
    sizes = sorted({entry.row.size_bytes for entry in run.rows})
    first = sizes[0]
    holes = []
    if first > ROUNDING_BYTES and step(run.config.min_bytes) <= first:
        holes.append(Hole(None, first))
    holes += [
        Hole(smaller, larger)
        for smaller, larger in pairwise(sizes)
        if smaller > 0 and step(step(smaller)) <= larger
    ]
    return holes


@dataclass(slots=True)
class _Sweep:
    cycle: int = 1
    sizes: list[int] = field(default_factory=list)

    def advance(self, size: int) -> bool:
        """Take the next size; False if it neither grows nor begins a new sweep."""
        in_order = True
        if self.sizes:
            # small sizes that round down to 0 stand in one sweep several times
            same = size == self.sizes[-1] and size > 0
            if same or (size < self.sizes[-1] and size <= self.sizes[0]):
                self.cycle += 1
                self.sizes.clear()
            elif size < self.sizes[-1]:
                in_order = False
        self.sizes.append(size)
        return in_order


def _values(row: NcclRow) -> tuple[object, ...]:
    return (
        row.size_bytes,
        row.type,
        row.redop,
        row.root,
        row.out_time_us,
        row.out_bus_gbps,
        row.in_time_us,
        row.in_bus_gbps,
    )
