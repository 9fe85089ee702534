"""Measurements as tables that a person can read."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipelines.cli.output import new_table, print_hanging, print_table
from steps.documents import (
    Completeness,
    Finding,
    Measurements,
)
from steps.report.wording import fold_names
from steps.tools import TOOL_STEPS

MAX_ROWS = 60
"""Rows shown; a log of a long training run has thousands. JSON has them all."""

_STATUS_STYLES = {"fail": "red", "warn": "yellow"}


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
    if not document.rows or document.mode.tool is None:
        return
    tool = TOOL_STEPS[document.mode.tool]
    rows = tool.rows(document)
    columns = zip(tool.columns, zip(*map(tool.cells, rows), strict=True), strict=True)
    kept = [
        (name, cells[:MAX_ROWS])
        for name, cells in columns
        if name not in tool.varying or len(set(cells)) > 1
    ]
    table = new_table(*(name for name, _ in kept), title=tool.title)
    if tool.numeric:
        for column in table.columns:
            column.justify = "right"
    for cells in zip(*(cells for _, cells in kept), strict=True):
        table.add_row(*(Text(cell, style=_STATUS_STYLES.get(cell, "")) for cell in cells))
    console.print()
    print_table(console, table)
    if len(rows) > MAX_ROWS:
        console.print(f"… {len(rows) - MAX_ROWS} more rows; --output json has them all")


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
