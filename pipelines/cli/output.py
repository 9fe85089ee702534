"""Where output goes: documents and tables to stdout, progress to stderr, colour on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
from enum import StrEnum
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

NAMES_SHARE = 0.65
"""Part of the width that names may take before they are folded too."""
MIN_WIDTH = 40
"""Below this many columns nothing can be laid out."""


class Format(StrEnum):
    """How to print a result."""

    TABLE = "table"
    JSON = "json"


def wants_colour() -> bool:
    """Colour only on a terminal, and never against NO_COLOR."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def terminal_width() -> int:
    """Columns by COLUMNS, else of the terminal; 100 when the output goes elsewhere."""
    return max(shutil.get_terminal_size((100, 24)).columns, MIN_WIDTH)


def new_table(*columns: str, title: str | None = None) -> Table:
    """Build a table that folds what does not fit: ids, keys and codes are never cut."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def print_table(console: Console, table: Table, keep: int = 1) -> None:
    """Print a table whose first ``keep`` columns, the names, stay on one line if they can."""
    room = NAMES_SHARE * console.width
    for column in table.columns[:keep]:
        room -= max((cell_len(str(cell)) for cell in column.cells), default=0)
        column.no_wrap = room >= 0
    console.print(table)


def print_hanging(console: Console, text: Text, indent: int) -> None:
    """Print text behind ``indent`` blanks, and two more on every line but its first."""
    first = True
    for line in text.wrap(console, max(console.width - indent - 2, MIN_WIDTH // 2)):
        line.rstrip()
        console.print(Text(" " * (indent if first else indent + 2)).append_text(line))
        first = False


def stdout_console() -> Console:
    """Console for tables; plain when piped."""
    return Console(
        width=terminal_width(), no_color=not wants_colour(), highlight=False, emoji=False
    )


def stderr_console() -> Console:
    """Console for progress."""
    return Console(stderr=True, highlight=False, emoji=False)


def print_json(data: Any) -> None:
    """Print JSON as people and programs both read it."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
