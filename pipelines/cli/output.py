"""Where output goes: documents and tables to stdout, progress to stderr, colour on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
from enum import StrEnum
from typing import Any

from rich.console import Console


class Format(StrEnum):
    """How to print a result."""

    TABLE = "table"
    JSON = "json"


def wants_colour() -> bool:
    """Colour only on a terminal, and never against NO_COLOR."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def terminal_width() -> int:
    """Columns of the terminal; 100 when the output goes elsewhere."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def stdout_console() -> Console:
    """Console for tables; plain and of fixed width when piped."""
    return Console(
        width=terminal_width(), no_color=not wants_colour(), highlight=False, emoji=False
    )


def stderr_console() -> Console:
    """Console for progress."""
    return Console(stderr=True, highlight=False, emoji=False)


def print_json(data: Any) -> None:
    """Print JSON as people and programs both read it."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
