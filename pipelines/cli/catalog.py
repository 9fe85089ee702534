"""`readiness catalog`: what can be certified."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from catalog.bars import stages
from catalog.entry import Entry, builtin_entries, find_entry
from catalog.errors import Place
from catalog.figures import figures_of
from pipelines.cli.output import Format, print_json, stdout_console

OutputOption = Annotated[Format, typer.Option(help="How to print it.")]

_SHOW_HELP = """Show one entry: command, options, bars by stage and the figures of its tool.

**Example**

`readiness catalog show communication/nccl-all-reduce`
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="List and show what can be certified.")
    app.add_typer(group, name="catalog")

    @group.command("list", help="List the entries.")
    def list_entries(output: OutputOption = Format.TABLE) -> None:
        entries = builtin_entries()
        if output is Format.JSON:
            print_json([entry.to_data() for entry in entries.values()])
            return
        table = Table("id", "title", "scales", box=None, padding=(0, 2, 0, 0))
        for entry in entries.values():
            table.add_row(entry.id, entry.title, ", ".join(entry.scales))
        stdout_console().print(table)

    @group.command("show", help=_SHOW_HELP)
    def show(
        entry_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the entry.")],
        output: OutputOption = Format.TABLE,
    ) -> None:
        entry = find_entry(entry_id, Place("ID"))
        if output is Format.JSON:
            print_json(entry.to_data())
        else:
            _show(entry)


def _show(entry: Entry) -> None:
    console = stdout_console()
    console.print(f"{entry.id}: {entry.title}", style="bold", markup=False)
    console.print(entry.description, markup=False)
    console.print(f"\nImage    {entry.image}", markup=False)
    console.print(f"Command  {' '.join(entry.command)}", markup=False)
    console.print(f"Source   {entry.source}", markup=False)
    options = Table("option", "default", title="Options", title_justify="left", box=None)
    for name, default in entry.options.items():
        options.add_row(name, "" if default is None else str(default))
    console.print(options)
    bars = Table("key", "must hold", "code", *stages(), title="Bars", title_justify="left")
    for bar in entry.bars:
        marks = ("" if bar.stages and stage not in bar.stages else "x" for stage in stages())
        bars.add_row(bar.key, bar.expression, bar.code, *marks)
    console.print(bars)
    figures = Table("figure", "unit", "meaning", title="Figures", title_justify="left", box=None)
    for name, figure in figures_of(entry.tool).items():
        figures.add_row(name, figure.unit, figure.says)
    console.print(figures)
    rules = Table("stage", "fraction", "meaning", title="Stages", title_justify="left", box=None)
    for name, stage in stages().items():
        rules.add_row(name, f"{stage.fraction:g}", stage.says)
    console.print(rules)
