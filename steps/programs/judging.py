"""The steps after the runs: parse, isolate, evaluate, aggregate."""

from __future__ import annotations

from contextlib import suppress

from catalog.entry import find_entry
from catalog.errors import RecordError
from steps.aggregate.core import make_report
from steps.aggregate.html import render_html
from steps.aggregate.junit import render_junit
from steps.documents import (
    IsolationRound,
    Measurements,
    PlannedPair,
    Report,
    RunRecord,
    Verdict,
)
from steps.evaluate.step import evaluate, next_isolation
from steps.parse.measure import measure
from steps.programs.runs import all_groups, collect_runs, planned_category, require_plan
from steps.store import RecordStore


def parse(store: RecordStore, category: str) -> int:
    """Read the outputs of every run of a category that was not read yet.

    Returns:
        How many were read.
    """
    plan = require_plan(store)
    planned = planned_category(plan, category)
    count = 0
    for part, group in all_groups(store, planned):
        record = store.get(RunRecord, category, group.id)
        if record is None or store.get(Measurements, category, group.id) is not None:
            continue
        if not record.logs and record.failures:
            continue
        read = measure(
            find_entry(category), part.workload, record, store.get_log, other_nodes=plan.targeted
        )
        store.put(read, category, group.id)
        count += 1
    return count


def isolate(store: RecordStore, category: str, round_number: int) -> IsolationRound:
    """Plan the pairs of one isolation round."""
    plan = require_plan(store)
    planned = planned_category(plan, category)
    pairs = next_isolation(plan, planned, collect_runs(store, planned), round_number)
    found = IsolationRound(
        category=category,
        round=round_number,
        pairs=tuple(PlannedPair(cohort=part.cohort, group=group) for part, group in pairs),
    )
    store.put(found, category, f"round-{round_number}")
    return found


def judge(store: RecordStore, category: str) -> Verdict:
    """Judge a category by everything that is in the store."""
    plan = require_plan(store)
    planned = planned_category(plan, category)
    verdict = evaluate(plan, planned, collect_runs(store, planned), store.get_log)
    store.put(verdict, category)
    return verdict


def aggregate(store: RecordStore) -> tuple[Report, str]:
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
