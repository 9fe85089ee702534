"""Measurements as tables that a person can read."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from catalog.reading.quantity import format_size
from pipelines.cli.output import new_table, print_hanging, print_table
from steps.documents import (
    Completeness,
    DiagnosticRow,
    Finding,
    Measurements,
    NcclRow,
    TrainingStep,
)
from steps.report.wording import fold_names

MAX_ROWS = 60
"""Rows shown; a log of a long training run has thousands. JSON has them all."""


def show_measurements(document: Measurements, console: Console) -> None:
    """Print one document: what it is, its figures, its rows, its findings."""
    head = ", ".join(document.files) or "output"
    # Some tools have the name of their operation.
    words = f"{document.tool or ''} {document.operation or ''}".split()
    what = " ".join(dict.fromkeys(words))
    title = f"{head}: {document.mode}" + (f", {what}" if what else "")
    print_hanging(console, Text(title, style="bold"), 0)
    whole = document.completeness is Completeness.COMPLETE
    console.print(Text(f"completeness: {document.completeness}", style="" if whole else "yellow"))
    if document.versions:
        text = ", ".join(f"{name} {version}" for name, version in document.versions.items())
        print_hanging(console, Text(f"versions: {text}"), 0)
    if document.ranks:
        nodes = fold_names(place.node or "?" for place in document.ranks)
        print_hanging(console, Text(f"ranks: {len(document.ranks)} on {nodes}"), 0)
    _show_figures(document, console)
    _show_rows(document, console)
    show_findings(document.findings, console)


def _show_figures(document: Measurements, console: Console) -> None:
    table = new_table("figure", "value", "unit")
    table.columns[1].justify = "right"
    for name, figure in document.figures.items():
        if isinstance(figure.value, dict):
            continue
        value = figure.value
        table.add_row(
            name,
            f"{value:g}" if isinstance(value, int) else f"{value:.6g}",
            figure.unit + (" (as printed)" if figure.printed else ""),
        )
    if table.row_count:
        console.print()
        print_table(console, table)


def _show_rows(document: Measurements, console: Console) -> None:
    if not document.rows:
        return
    first = document.rows[0]
    if isinstance(first, NcclRow):
        table = _nccl_table([row for row in document.rows if isinstance(row, NcclRow)])
    elif isinstance(first, DiagnosticRow):
        table = _diagnostic_table([r for r in document.rows if isinstance(r, DiagnosticRow)])
    else:
        table = _step_table([row for row in document.rows if isinstance(row, TrainingStep)])
    console.print()
    print_table(console, table)
    if len(document.rows) > MAX_ROWS:
        console.print(f"… {len(document.rows) - MAX_ROWS} more rows; --output json has them all")


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _nccl_table(rows: list[NcclRow]) -> Table:
    columns = ("size", "time us", "algbw", "busbw", "wrong", "time us", "algbw", "busbw", "wrong")
    table = new_table(*columns, title="GB/s; out of place, then in place")
    for column in table.columns:
        column.justify = "right"
    cycles = len({row.cycle for row in rows}) > 1
    if cycles:
        table.add_column("cycle", justify="right")
    for row in rows[:MAX_ROWS]:
        cells = [
            format_size(row.size_bytes),
            _number(row.out_time_us),
            _number(row.out_alg_gbps),
            _number(row.out_bus_gbps),
            _number(row.out_wrong, 0),
            _number(row.in_time_us),
            _number(row.in_alg_gbps),
            _number(row.in_bus_gbps),
            _number(row.in_wrong, 0),
        ]
        table.add_row(*cells, *([str(row.cycle)] if cycles else []))
    return table


def _diagnostic_table(rows: list[DiagnosticRow]) -> Table:
    table = new_table("test", "GPU", "status", "error", "value", "text")
    for row in rows[:MAX_ROWS]:
        table.add_row(
            row.test,
            "-" if row.gpu is None else str(row.gpu),
            Text(row.status, style={"fail": "red", "warn": "yellow"}.get(row.status, "")),
            "" if row.error_id is None else str(row.error_id),
            "" if row.value is None else f"{row.value:.6g} {row.unit or ''}",
            Text(row.text or ""),
        )
    return table


def _step_table(rows: list[TrainingStep]) -> Table:
    columns = ("step", "step time s", "TFLOP/s per GPU", "tokens/s", "loss", "grad norm", "")
    table = new_table(*columns)
    for column in table.columns:
        column.justify = "right"
    for row in rows[:MAX_ROWS]:
        marks = [name for name, on in (("warm-up", row.warmup), ("NaN", row.nan)) if on]
        table.add_row(
            str(row.step) if row.total_steps is None else f"{row.step}/{row.total_steps}",
            _number(row.step_time_s, 3),
            _number(row.tflops_per_gpu, 1),
            _number(row.tokens_per_s, 0),
            _number(row.loss, 4),
            _number(row.grad_norm, 3),
            " ".join(marks),
        )
    return table


def show_findings(findings: tuple[Finding, ...], console: Console) -> None:
    """Print findings, each with the place it is about and the line that proves it."""
    if not findings:
        return
    console.print()
    console.print("Findings")
    styles = {"fail": "red", "inconclusive": "yellow", "warn": "yellow"}
    for finding in findings:
        text = Text(finding.code, style=styles.get(finding.effect, ""))
        places = ", ".join(dict.fromkeys(str(e) for e in finding.entities if str(e)))
        text.append(f" ({finding.effect})", style="")
        if places:
            text.append(f" {'seen at ' if finding.witness else ''}{places}", style="")
        text.append(f": {finding.message}", style="")
        if finding.count > 1:
            text.append(f" ({finding.count} times)", style="")
        print_hanging(console, text, 2)
        for proof in finding.evidence[:2]:
            where = f"line {proof.line}: " if proof.line else ""
            print_hanging(console, Text(f"{where}{proof.text.strip()}", style="dim"), 6)
