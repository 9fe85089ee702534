"""Reads the output files of rccl-tests (-x FILE -Z json|csv): one record for each placement.

The format is that of rccl-tests' Reporter class: numCycle, name (CSV: collective), nodes, ranks,
ranksPerNode, gpusPerRank, size, type, redop, inPlace, time, algBw, busBw, wrong. The file is
written at the end of the run in one go and has no closing line of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steps.documents import NcclRow
from steps.parse.api import Line
from steps.parse.nccl.header import OPERATIONS, Bounds
from steps.parse.nccl.runs import ToolRun
from steps.parse.nccl.table import TableRow
from steps.parse.nccl.values import as_float, as_int, as_text

MAX_RECORDS = 100_000

Record = Mapping[str, object]

_OPERATIONS = {name.replace("_", ""): name for name in OPERATIONS}


def is_record(data: object) -> bool:
    """Whether a JSON value is one such record."""
    return isinstance(data, Mapping) and {"size", "busbw", "time"} <= {
        str(key).lower() for key in data
    }


class CsvTable:
    """Takes the lines of a CSV output file.

    Attributes:
        records: what was taken.
        cut: the output ends inside a record.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.cut = False
        self._names: list[str] = []

    def heading(self, text: str) -> bool:
        """Take a line if it is the heading."""
        names = text.strip().lower().split(",")
        if not {"size", "busbw", "inplace"} <= set(names):
            return False
        self._names = names
        return True

    def row(self, line: Line) -> bool:
        """Take a line if it is a record."""
        names = self._names
        if not names:
            return False
        if not line.ended:
            self.cut = True
            return True
        values = line.text.strip().split(",")
        if len(values) == len(names) + 1:  # with MPI the node count has a value and no heading
            names = [*names[:2], "nodes", *names[2:]]
        if len(values) != len(names) or len(self.records) >= MAX_RECORDS:
            return False
        self.records.append(dict(zip(names, values, strict=True)) | {"line": line.number})
        return True


def run_of(records: Sequence[Record]) -> ToolRun:
    """Return the run that the records describe; the two placements of a size become one row."""
    rows: dict[tuple[object, ...], _Placements] = {}
    for number, record in enumerate(records, 1):
        low = {str(key).lower(): value for key, value in record.items()}
        size = as_int(low.get("size"))
        if size is None:
            continue
        cycle = as_int(low.get("numcycle")) or 0
        key = (cycle, as_text(low.get("type")), as_text(low.get("redop")), size)
        placements = rows.setdefault(
            key, _Placements(cycle, size, as_int(low.get("line")) or number)
        )
        placements.sides["in" if as_int(low.get("inplace")) else "out"] = low
    run = ToolRun(document=True)
    for placements in rows.values():
        run.operation = run.operation or placements.operation()
        run.cycle_starts[len(run.rows)] = placements.cycle + 1
        run.rows.append(placements.row())
    if run.rows and _balanced(run.rows):
        wrong = sum(_count(entry.row.out_wrong) + _count(entry.row.in_wrong) for entry in run.rows)
        run.bounds = Bounds(wrong, okay=wrong == 0)
    return run


def rank_count(records: Sequence[Record]) -> int | None:
    """Return the number of ranks that the records name."""
    counts = {
        as_int(value)
        for record in records
        for key, value in record.items()
        if str(key).lower() == "ranks"
    }
    return max((count for count in counts if count is not None and count > 0), default=None)


@dataclass(slots=True)
class _Placements:
    """The records of one size: out of place and in place."""

    cycle: int
    size: int
    line: int
    sides: dict[str, Record] = field(default_factory=dict)

    def operation(self) -> str | None:
        record = next(iter(self.sides.values()))
        name = str(record.get("name") or record.get("collective") or "")
        return _OPERATIONS.get(name.lower().replace("_", "").removesuffix("perf"))

    def row(self) -> TableRow:
        first = next(iter(self.sides.values()))
        out, inside = self.sides.get("out", {}), self.sides.get("in", {})
        wrongs = {
            side: as_float(record.get("wrong", record.get("#wrong")))
            for side, record in self.sides.items()
        }
        row = NcclRow.model_construct(
            kind="nccl",
            size_bytes=self.size,
            count=None,
            type=as_text(first.get("type")),
            redop=as_text(first.get("redop")),
            root=None,
            out_time_us=as_float(out.get("time")),
            out_alg_gbps=as_float(out.get("algbw")),
            out_bus_gbps=as_float(out.get("busbw")),
            out_wrong=wrongs.get("out"),
            in_time_us=as_float(inside.get("time")),
            in_alg_gbps=as_float(inside.get("algbw")),
            in_bus_gbps=as_float(inside.get("busbw")),
            in_wrong=wrongs.get("in"),
            cycle=1,
            line=self.line,
        )
        return TableRow(row, any(wrong is not None for wrong in wrongs.values()), "wrong")


def _balanced(rows: Sequence[TableRow]) -> bool:
    """Whether the last size has the placements that the first has: a cut file may lack one."""
    first, last = rows[0].row, rows[-1].row
    return all(
        (getattr(first, name) is None) == (getattr(last, name) is None)
        for name in ("out_bus_gbps", "in_bus_gbps")
    )


def _count(value: float | None) -> int:
    return int(value) if value is not None and 0 <= value < 1e18 else 0
