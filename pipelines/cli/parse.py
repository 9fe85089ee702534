"""`readiness parse`: read tool output that somebody already has."""

from __future__ import annotations

from typing import Annotated

import typer

from catalog.entries.entry import Entry, find_entry
from catalog.errors import Place
from catalog.facts.tools import UNKNOWN_OUTPUT
from pipelines.cli.exits import Exit
from pipelines.cli.inputs import OutputFiles, expand, opened
from pipelines.cli.measured import show_measurements
from pipelines.cli.output import Format, print_json, stdout_console
from steps.documents import Measurements
from steps.parse.api import ParseContext
from steps.parse.reader import parse_stream

_HELP = """Read the output of nccl-tests, DCGM, nvbandwidth, a training run or a kernel log.

The kind is recognised, or given by the entry that the output belongs to. The document is printed
also when the output is damaged; its completeness and findings say so.

**Examples**

`readiness parse all_reduce.log`

`kubectl logs launcher | readiness parse - --output json`
"""

EntryOption = Annotated[
    str | None, typer.Option("--entry", metavar="ID", help="The entry the output belongs to.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        "parse",
        help=_HELP,
        epilog="Exit codes: 0 something could be read, 2 wrong use, 3 nothing could be read.",
    )
    def command(
        files: OutputFiles,
        entry: EntryOption = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        known = find_entry(entry, Place("--entry")) if entry else None
        documents = []
        for name in expand(files):
            with opened(name) as stream:
                documents.append(parse_stream(stream, name, hints(known)))
        if output is Format.JSON:
            data = [document.to_data() for document in documents]
            print_json(data[0] if len(data) == 1 else data)
        else:
            console = stdout_console()
            for index, document in enumerate(documents):
                if index:
                    console.print()
                show_measurements(document, console)
        raise typer.Exit(Exit.PASS if any(map(was_read, documents)) else Exit.INCONCLUSIVE)


def hints(entry: Entry | None) -> ParseContext:
    """Tell the parsers what an entry says about its output."""
    if entry is None:
        return ParseContext()
    return ParseContext(
        category=entry.id,
        tool=entry.tool,
        diag_level=entry.diag_level,
        warmup_steps=entry.facts.get("warmupSteps"),
    )


def was_read(document: Measurements) -> bool:
    """True when the output was of a known kind and said anything."""
    return document.mode is not UNKNOWN_OUTPUT and bool(
        document.rows or document.figures or document.findings or document.ranks
    )
