"""The report as one static HTML file: no scripts, nothing loaded, inline CSS and SVG.

Everything that comes from outside is made printable and escaped; a content security policy in the
file forbids scripts and loads even if that had a hole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from catalog.reading.quantity import format_duration, format_size
from steps.documents.report import CategoryReport, NodeStatus, Report
from steps.documents.verdict import GroupVerdict
from steps.report import wording
from steps.report.charts import HEIGHT, LEFT, RIGHT, WIDTH, Chart, group_chart, size_chart
from steps.report.proofs import ProofIndex, evidence_place, remedies, rule, statement
from steps.report.summaries import (
    FigureSummary,
    bar_summaries,
    common_facts,
    figure_summaries,
    group_line,
    main_value,
    node_line,
    of_purpose,
    reason_summaries,
    run_line,
    size_summaries,
)

_SIMPLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_MANY = 64
"""A longer list of ready nodes starts folded."""
_FEW = 24
"""Up to so many nodes are named in the overview."""


@dataclass(frozen=True, slots=True)
class _Runs:
    """The groups of one category and purpose, prepared for the template."""

    what: str
    groups: tuple[GroupVerdict, ...]
    figures: tuple[FigureSummary, ...]
    charts: tuple[Chart, ...]
    sizes: Sequence[tuple[int, float, float, float]]

    @property
    def has_bars(self) -> bool:
        """Whether any expression was evaluated."""
        return any(group.expressions for group in self.groups)


@dataclass(frozen=True, slots=True)
class _Section:
    """One category, prepared for the template."""

    category: CategoryReport
    anchor: str
    runs: tuple[_Runs, ...]


def render_html(report: Report) -> str:
    """Write a report as one HTML file that needs nothing else.

    Returns:
        HTML text in UTF-8's character set; the same report gives the same text.
    """
    index = ProofIndex(report)
    anchors = {node.node: _anchor(node.node, n) for n, node in enumerate(report.nodes, 1)}
    return _template().render(
        report=report,
        index=index,
        anchors=anchors,
        sections=[_section(c, n) for n, c in enumerate(report.categories, 1)],
        by_status={status: index.nodes(status) for status in wording.STATUS_WORDS},
        clusters=index.clusters(),
    )


def _anchor(name: str, number: int) -> str:
    """Return a stable id for links; odd names get one by position."""
    return f"node-{name}" if _SIMPLE_NAME.fullmatch(name) else f"node--{number}"


def _section(category: CategoryReport, number: int) -> _Section:
    runs = (
        _runs(of_purpose(category, "measure"), "measurement runs"),
        _runs(of_purpose(category, "isolate"), "isolation runs"),
    )
    return _Section(category, f"category-{number}", tuple(part for part in runs if part.groups))


def _runs(groups: tuple[GroupVerdict, ...], what: str) -> _Runs:
    charts = (size_chart(groups, what), group_chart(groups, what))
    return _Runs(
        what=what,
        groups=groups,
        figures=figure_summaries(groups),
        charts=tuple(chart for chart in charts if chart),
        sizes=size_summaries(groups),
    )


def _finalize(value: Any) -> Any:
    """Make every printed string printable; it is escaped afterwards."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return wording.printable(value)
    return value


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("steps.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(duration=format_duration, size=format_size)
    environment.globals.update(
        words=wording,
        NodeStatus=NodeStatus,
        MANY=_MANY,
        FEW=_FEW,
        WIDTH=WIDTH,
        HEIGHT=HEIGHT,
        LEFT=LEFT,
        RIGHT=RIGHT,
        bar_summaries=bar_summaries,
        common_facts=common_facts,
        evidence_place=evidence_place,
        group_line=group_line,
        main_value=main_value,
        node_line=node_line,
        reason_summaries=reason_summaries,
        remedies=remedies,
        rule=rule,
        run_line=run_line,
        statement=statement,
    )
    return environment.get_template("report.html.j2")
