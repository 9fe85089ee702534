"""Splits the rows of DCGM's text tables, whose cells are wrapped in the middle of words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from steps.parse.api import Line

_SECTION = re.compile(r"[|+]-{3,}\s+(?P<name>[A-Za-z][\w /-]*?)\s+-{2,}[+|]-*[+|]?")


@dataclass(frozen=True, slots=True)
class Cells:
    """One row: the name, the value, and the value as it was cut."""

    name: str
    value: str
    chunk: str
    line: int


def split_row(line: Line) -> Cells | None:
    """Split ``| name | value |``; None for a row that is cut off or is none."""
    text = line.text.strip()
    if not text.startswith("|"):
        return None
    name, bar, rest = text[1:].partition("|")
    if not bar or (not rest.endswith("|") and not line.ended):
        return None  # the end is missing: "GPU: 1" may have been "GPU: 12"
    cell = rest[:-1] if rest.endswith("|") else rest
    # One blank before, two behind; what the text itself ends with must stay.
    chunk = cell[1:-2] if rest.endswith("|") else cell[1:]
    return Cells(name.rstrip()[1:], cell.strip(), chunk, line.number)


def section_of(text: str) -> str | None:
    """Return the name in a section line such as ``+-----  Hardware  ----------+---…``."""
    match = _SECTION.match(text.strip())
    return match["name"] if match else None
