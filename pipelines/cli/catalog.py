"""`readiness catalog`: what can be certified."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any

import typer
from rich.text import Text

from catalog.bars.stages import Stage, stage_values, stages
from catalog.certification import Options
from catalog.entries.entry import BarTemplate, Entry, builtin_entries, find_entry
from catalog.errors import Place
from catalog.facts.tools import TOOLS
from catalog.language.cel.functions import FUNCTIONS, OWN_FUNCTIONS
from catalog.language.vocabulary import names_of, row_fields
from pipelines.cli.output import (
    Format,
    new_table,
    print_hanging,
    print_json,
    print_table,
    stdout_console,
)

OutputOption = Annotated[Format, typer.Option(help="How to print it.")]

_BEFOREHAND = {"context", "stage", "peers", "expected"}

_SHOW_HELP = """Show one entry: command, options, bars by stage and what bars may name.

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
            names = names_of(entry.tool, "row")
            vocabulary = {name: item.to_data() for name, item in names.items() if name != "rows"}
            print_json({**entry.to_data(), "vocabulary": vocabulary})
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
        names = bar.names(entry.tool)
        cells = [f"{name} {_at(bar, names, name, stage)}" for name, stage in stages().items()]
        alike = all(cell.endswith(" yes") for cell in cells)
        print_hanging(console, Text("every stage" if alike else ", ".join(cells)), 4)
    console.print()
    _show_vocabulary(entry)
    rules = new_table("stage", "fraction", "meaning", title="Stages")
    for name, stage in stages().items():
        rules.add_row(name, f"{stage.fraction:g}", stage.says)
    print_table(console, rules)


def _show_vocabulary(entry: Entry) -> None:
    """Print what bars of the entry may name: the same names in a scope that has them all."""
    console = stdout_console()
    figure = next(iter(TOOLS[entry.tool].figures))
    names = names_of(entry.tool, "group", figure)
    fields = row_fields(entry.tool)
    for title, shown in (
        ("Figures", {name: item for name, item in names.items() if item.origin == "figure"}),
        ("Known beforehand", {n: item for n, item in names.items() if item.origin in _BEFOREHAND}),
        ("Fields of a row, row.FIELD in scope row, or rows.all(r, r.FIELD > 0)", fields),
    ):
        table = new_table("name", "type", "unit", "meaning", title=title)
        for name, item in shown.items():
            if name != "value":
                unit = "that of the figure" if item.unit == "value" else item.unit
                table.add_row(name, item.type, unit, item.says)
        print_table(console, table)
        console.print()
    functions = new_table("function", "takes", title="Functions beside those of CEL")
    for name in OWN_FUNCTIONS:
        function = FUNCTIONS[name]
        if function.reads is None or function.reads in names:
            functions.add_row(f"{name}()", function.takes)
    print_table(console, functions)
    console.print()


def _at(bar: BarTemplate, names: Collection[str], name: str, stage: Stage) -> str:
    """Return the number that a stage puts into a bar; "-" where the stage has no such bar."""
    if bar.stages and name not in bar.stages:
        return "-"
    numbers = stage_values(stage)
    return ", ".join(f"{numbers[use]:g}" for use in numbers if use in names) or "yes"


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
    words = {"string": "text", "boolean": "true, false", "array": "list"}
    words |= dict.fromkeys(("integer", "number"), "number")
    return words.get(str(schema.get("type")), "map")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
