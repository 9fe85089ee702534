"""Result rows as expressions see them: a map of fields, and a name for people."""

from __future__ import annotations

from catalog.facts.tools import output_kind
from steps.documents import DiagnosticRow, Measurements, NcclRow, TrainingStep
from steps.documents.measurements import Row
from steps.parse.nccl.sizes import size_name

RowValues = dict[str, float | int | str | bool]

_NO_FIELDS = {"kind", "line"}


def counted_rows(read: Measurements) -> list[Row]:
    """Return the rows that count: no warm-up step, no message of zero bytes."""
    return [row for row in read.rows if _counts(row)]


def _counts(row: Row) -> bool:
    if isinstance(row, TrainingStep):
        return not row.warmup
    return not isinstance(row, NcclRow) or row.size_bytes > 0


def row_values(row: Row) -> RowValues:
    """Return the fields by name; what the tool did not print is absent."""
    return {name: value for name, value in row if value is not None and name not in _NO_FIELDS}


def row_name(row: Row) -> str:
    """Name a row: ``8M, cycle 2``, ``step 41``, ``pcie GPU 3``."""
    if isinstance(row, NcclRow):
        return f"{size_name(row.size_bytes)}, cycle {row.cycle}"
    if isinstance(row, TrainingStep):
        return f"step {row.step}"
    return row.test if row.gpu is None else f"{row.test} GPU {row.gpu}"


def row_words(row: Row) -> str:
    """Say what a row measured, for evidence whose line is not at hand."""
    if isinstance(row, NcclRow):
        parts = [
            _amount(row.out_time_us, "us"),
            _amount(row.out_alg_gbps, "GB/s algbw"),
            _amount(row.out_bus_gbps, "GB/s busbw"),
            None if row.out_wrong is None else f"{row.out_wrong:g} wrong",
        ]
    elif isinstance(row, TrainingStep):
        parts = [
            _amount(row.step_time_s, "s"),
            _amount(row.tflops_per_gpu, "TFLOP/s/GPU"),
            None if row.loss is None else f"loss {row.loss:g}",
            "NaN" if row.nan else None,
        ]
    else:
        parts = [row.status, _amount(row.value, row.unit or "")]
    return f"{row_name(row)}: {', '.join(part for part in parts if part) or 'no value'}"


def _amount(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:g} {unit}".rstrip()


def line_of(row: Row, read: Measurements) -> int | None:
    """Return the line of the output that the row stands in; JSON of nccl-tests has none."""
    return None if read.mode is output_kind("nccl-json") else row.line


def diagnostics(read: Measurements) -> list[DiagnosticRow]:
    """Return the rows of a diagnostic."""
    return [row for row in read.rows if isinstance(row, DiagnosticRow)]
