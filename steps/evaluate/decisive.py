"""The rows of the output that a figure came from: the evidence of a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from steps.documents import Evidence, Measurements
from steps.documents.measurements import Row
from steps.tools.tool import ToolSteps

MOST_LINES = 3
"""Lines of evidence for one expression."""

_SIZE = re.compile(r"""["'](\d+[KMGT]?)["']""")


class Decisive:
    """Finds the rows behind the figures of one measurement.

    Args:
        read: the measurement.
        tool: whose figures they are.
    """

    def __init__(self, read: Measurements, tool: ToolSteps[Any]) -> None:
        self._read = read
        self._tool = tool
        self._find = tool.find_rows(read)
        self._known: dict[tuple[str, str], tuple[Row, ...]] = {}

    def lines(
        self, figures: Iterable[str], text: str, most: int = MOST_LINES
    ) -> tuple[Evidence, ...]:
        """Return the lines that some figures came from, the most telling first.

        Args:
            figures: names of the figures that an expression reads.
            text: the expression, which names the message sizes that it reads.
            most: so many lines at most.
        """
        sizes = ",".join(_SIZE.findall(text))
        found: dict[int, tuple[Row, str]] = {}
        for name in figures:
            key = (name, sizes)
            if key not in self._known:
                self._known[key] = tuple(self._find(name, sizes))[:MOST_LINES]
            for row in self._known[key]:
                found.setdefault(id(row), (row, name))
            if len(found) >= most:
                break
        return tuple(self.line(row, name) for row, name in list(found.values())[:most])

    def line(self, row: Row, figure: str | None = None) -> Evidence:
        """Return the line of one row; its text stands in for the line until the log is read.

        Args:
            row: the row.
            figure: the figure that it is evidence of; of a row with several values, which is meant.
        """
        files = self._read.files
        line, text = self._tool.quote(row, figure, self._read)
        return Evidence(file=files[0] if files else None, line=line, text=text)


def computed_from(figures: Iterable[str], read: Measurements, tool: ToolSteps[Any]) -> str | None:
    """Say what some figures were computed from: ``at 16G, mean of 2 cycles``.

    Args:
        figures: names of the figures that an expression reads.
        read: the measurement.
        tool: whose figures they are.

    Returns:
        None where every figure stands in the output as it is.
    """
    names = tuple(figures)
    known = {name: figure for name in names if (figure := read.figures.get(name))}
    said = {
        name: words
        for name, figure in known.items()
        if (words := tool.computed_from(name, figure, read))
    }
    if len(names) == 1:
        return next(iter(said.values()), None)
    return "; ".join(f"{name} {words}" for name, words in said.items()) or None
