"""`readiness bars lint`: what is wrong with bars before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from catalog.bars.lint.sources import KINDS, shipped, statements_of
from catalog.bars.lint.statements import Finding, Statement, lint
from catalog.errors import InputError, Place
from catalog.hardware.profile import Profiles, load_profiles, profile_documents
from catalog.reading.source import read_documents
from pipelines.cli.certify import ProfileFiles
from pipelines.cli.exits import Exit
from pipelines.cli.inputs import expand
from pipelines.cli.output import Format, print_json, stdout_console
from steps.report.wording import count

_HELP = """Check thresholds of certifications, and files of bars, before anything runs.

Errors: no CEL, unknown names and functions, wrong types, what can never fail or never pass, and a
stage that passes what a milder stage fails. Warnings: units that do not fit, a ratio that is
compared with a percentage, division of whole numbers, what passes or fails whatever a machine is
likely to measure, what is expected beyond all that such hardware reaches, and a key that is stated
twice under the same conditions. Without a file the bars that ship are checked.

**Example**

`readiness bars lint certification.yaml bars/`
"""
_STYLES = {"error": "red", "warning": "yellow"}
_SUFFIXES = {".yaml", ".yml", ".json"}


def register(app: typer.Typer) -> None:
    """Add the command to the group ``bars``."""

    @app.command("lint", help=_HELP, epilog="Exit codes: 0 no errors, 2 errors or bad input.")
    def command(
        files: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="FILE|DIR", help="Certifications and files of bars; ours if none."
            ),
        ] = None,
        profiles: ProfileFiles = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> int:
        stated: list[Statement] = [] if files else shipped()
        found: list[Finding] = []
        bars = _places(stated)
        known = load_profiles(profile_documents(profiles or ()))
        for name in files or ():
            statements, wrong, number = _read(name, known)
            stated += statements
            found += wrong
            bars += number
        found = sorted({*found, *lint(stated)}, key=_order)
        if output is Format.JSON:
            print_json({"bars": bars, "findings": [_as_data(item) for item in found]})
        else:
            _show(found, bars)
        return Exit.BAD_INPUT if any(item.level == "error" for item in found) else Exit.PASS


def _read(name: str, profiles: Profiles) -> tuple[list[Statement], list[Finding], int]:
    """Read a file, or a directory, which may hold other documents besides.

    Returns:
        The bars with an expression, what is wrong, and how many bars there are.

    Raises:
        InputError: it does not exist, or there is nothing to check in it.
    """
    stated: list[Statement] = []
    found: list[Finding] = []
    checked = bars = 0
    for file in map(Path, expand([name])):
        if Path(name).is_dir() and file.suffix not in _SUFFIXES:
            continue
        try:
            documents = read_documents(file)
        except InputError as error:
            found.append(Finding("error", error.message, error.place, error.hint))
            continue
        for source in documents:
            if isinstance(source.data, dict) and source.data.get("kind") in KINDS:
                statements, wrong = statements_of(source, profiles)
                stated += statements
                found += wrong
                checked += 1
                listed = source.data.get("bars")
                bars += len(listed) if isinstance(listed, list) else _places(statements)
    if not checked and not found:
        hint = f"documents have the kind {' or '.join(KINDS)}"
        raise InputError("has no bars to check", Place(name), hint)
    return stated, found, bars


def _places(stated: Sequence[Statement]) -> int:
    return len({(item.place, item.key) for item in stated})


def _order(item: Finding) -> tuple[str, int, str, str]:
    place = item.place
    return (place.file, place.line or 0, item.level, item.text) if place else ("", 0, "", item.text)


def _show(found: Sequence[Finding], bars: int) -> None:
    console = stdout_console()
    for item in found:
        line = Text(f"{_where(item)}: ")
        line.append(item.level, style=_STYLES[item.level])
        line.append(f": {item.text}" + (f" ({item.hint})" if item.hint else ""))
        console.print(line, soft_wrap=True)
    levels = Counter(item.level for item in found)
    said = ", ".join(count(levels[level], level) for level in ("error", "warning"))
    console.print(f"{count(bars, 'bar')}: {said}", markup=False)


def _where(item: Finding) -> str:
    if item.place is None:
        return "bar"
    return f"{item.place.file}:{item.place.line}" if item.place.line else item.place.file


def _as_data(item: Finding) -> dict[str, Any]:
    place = item.place
    return {
        "level": item.level,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "field": place.field if place else None,
        "text": item.text,
        "hint": item.hint,
    }
