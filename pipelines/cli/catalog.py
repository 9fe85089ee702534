"""`readiness catalog`: what can be certified."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import typer
from rich.text import Text

from catalog.bars import Stage, stage_values, stages
from catalog.certification import Options
from catalog.entry import BarTemplate, Entry, builtin_entries, find_entry
from catalog.errors import Place
from catalog.figures import figures_of
from pipelines.cli.output import (
    Format,
    new_table,
    print_hanging,
    print_json,
    print_table,
    stdout_console,
)

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
        table = new_table("id", "title", "scales")
        for entry in entries.values():
            table.add_row(entry.id, entry.title, ", ".join(entry.scales))
        print_table(stdout_console(), table)

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
    console.print()
    options = new_table("option", "type", "default", "meaning", title="Options")
    for name, default in entry.options.items():
        kind, says = _about(name)
        options.add_row(name, kind, "" if default is None else _text(default), says)
    print_table(console, options)
    console.print()
    console.print("Bars, with what a stage puts in", style="italic")
    for bar in entry.bars:
        print_hanging(console, Text(f"{bar.key}: {bar.expression}   [{bar.code}]"), 0)
        cells = [f"{name} {_at(bar, name, stage)}" for name, stage in stages().items()]
        alike = all(cell.endswith(" yes") for cell in cells)
        print_hanging(console, Text("every stage" if alike else ", ".join(cells)), 4)
    console.print()
    figures = new_table("figure", "unit", "meaning", title="Figures")
    for name, figure in figures_of(entry.tool).items():
        figures.add_row(name, figure.unit, figure.says)
    print_table(console, figures)
    console.print()
    rules = new_table("stage", "fraction", "meaning", title="Stages")
    for name, stage in stages().items():
        rules.add_row(name, f"{stage.fraction:g}", stage.says)
    print_table(console, rules)


def _at(bar: BarTemplate, name: str, stage: Stage) -> str:
    """Return the number that a stage puts into a bar; "-" where the stage has no such bar."""
    if bar.stages and name not in bar.stages:
        return "-"
    numbers = stage_values(stage)
    return ", ".join(f"{numbers[use]:g}" for use in bar.uses if use in numbers) or "yes"


def _about(option: str) -> tuple[str, str]:
    """Return type and meaning of an option, from the model that checks it."""
    schema = _option_schemas().get(option, {})
    kinds = [_kind(item) for item in schema.get("anyOf", [schema]) if item.get("type") != "null"]
    return " or ".join(kinds), str(schema.get("description", ""))


@cache
def _option_schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = Options.model_json_schema()["properties"]
    return schemas


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return ", ".join(schema.get("enum", [schema.get("const")]))
    words = {"integer": "number", "string": "text", "boolean": "true, false", "array": "list"}
    return words.get(str(schema.get("type")), "map")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
