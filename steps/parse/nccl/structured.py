"""Reads the JSON that the patched nccl-tests of pull request 318 prints on its output.

``{"identifier": "nccl-tests structured output", "version": "2.26.6", "benchmark": [{"33554432":
{"count": …, "oop_time": …, "oop_algbw": …, "oop_busbw": …, "oop_error": …, "ip_time": …, …}}]}``:
one record for each size, out of place and in place side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steps.documents import NcclRow
from steps.parse.nccl.header import Bounds
from steps.parse.nccl.runs import ToolRun
from steps.parse.nccl.table import TableRow
from steps.parse.nccl.values import as_float, as_int, as_text


def is_structured(data: object) -> bool:
    """Whether a document is of this kind."""
    return isinstance(data, Mapping) and any(
        "oop_busbw" in record or "ip_busbw" in record for _, record in _records(data)
    )


def structured_run(data: Mapping[str, Any]) -> ToolRun:
    """Return the run; it has no closing line, so the closed document is what closes it."""
    rows = [_row(size, record, n) for n, (size, record) in enumerate(_records(data), 1)]
    run = ToolRun(rows=rows, document=True)
    wrong = sum(int(entry.row.out_wrong or 0) for entry in run.rows if _countable(entry))
    run.bounds = Bounds(wrong, okay=wrong == 0)
    return run


def _records(data: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    groups = data.get("benchmark")
    for group in groups if isinstance(groups, list) else [groups]:
        for key, record in group.items() if isinstance(group, Mapping) else ():
            size = as_int(key)
            if size is not None and isinstance(record, Mapping):
                yield size, record


def _row(size: int, record: Mapping[str, Any], number: int) -> TableRow:
    wrong = as_float(record.get("oop_error"))
    row = NcclRow.model_construct(
        kind="nccl",
        size_bytes=size,
        count=as_int(record.get("count")),
        type=as_text(record.get("type")),
        redop=as_text(record.get("redop")),
        root=as_int(record.get("root")),
        out_time_us=as_float(record.get("oop_time")),
        out_alg_gbps=as_float(record.get("oop_algbw")),
        out_bus_gbps=as_float(record.get("oop_busbw")),
        out_wrong=wrong,
        in_time_us=as_float(record.get("ip_time")),
        in_alg_gbps=as_float(record.get("ip_algbw")),
        in_bus_gbps=as_float(record.get("ip_busbw")),
        in_wrong=as_float(record.get("ip_error")),
        cycle=1,
        line=number,
    )
    return TableRow(row, wrong is not None, "wrong")


def _countable(entry: TableRow) -> bool:
    return 0 <= (entry.row.out_wrong or 0) < 1e18
