"""The aggregate step: the report, from whatever the store still holds."""

from __future__ import annotations

from contextlib import suppress

from catalog.errors import RecordError
from steps.aggregate.core import make_report
from steps.documents import Report, RunRecord, Verdict
from steps.report.html import render_html
from steps.report.junit import render_junit
from steps.store.runs import require_plan
from steps.store.store import RecordStore


def aggregate_step(store: RecordStore) -> tuple[Report, str]:
    """Write the report; a verdict that is absent or damaged is a missing result.

    Returns:
        The report, and the same as HTML.
    """
    plan = require_plan(store)
    verdicts: dict[str, Verdict] = {}
    records: list[RunRecord] = []
    for planned in plan.categories:
        with suppress(RecordError):
            verdict = store.get(Verdict, planned.id)
            if verdict is not None:
                verdicts[planned.id] = verdict
        # They only add times and versions, so a damaged one must not cost the verdict.
        with suppress(RecordError):
            records += store.list(RunRecord, planned.id)
    report = make_report(plan, verdicts, records)
    store.put(report)
    html = render_html(report)
    store.put_text("report.html", html)
    store.put_text("report.xml", render_junit(report))
    return report, html
