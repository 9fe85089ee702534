"""The faces of a report that are texts of their own; there is no other list of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catalog.reading.table import Table
from steps.documents import Report
from steps.report.html import render_html
from steps.report.junit import render_junit


@dataclass(frozen=True, slots=True)
class Face:
    """A way to show a report.

    Attributes:
        name: as `readiness report --format` takes it.
        file: under which the aggregation keeps it beside the report.
        render: writes it; the same report gives the same text.
    """

    name: str
    file: str
    render: Callable[[Report], str]


FACES: Table[Face] = Table(
    "face",
    (Face("html", "report.html", render_html), Face("junit", "report.xml", render_junit)),
)
"""Every face, by name; the terminal's is apart, since it knows of colours and widths."""
