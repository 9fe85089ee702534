"""The parse step: the outputs of a category's runs become measurements."""

from __future__ import annotations

from dataclasses import replace

from catalog.entries.entry import find_entry
from catalog.errors import RecordError
from steps.documents import Plan, PlannedCategory
from steps.parse.measure import measure
from steps.store.runs import Run, collect_runs, planned_category, require_plan
from steps.store.store import RecordStore


def parse_step(store: RecordStore, category: str) -> int:
    """Read the outputs of every run of a category that was not read yet.

    What cannot be read is left to those who judge; they say so.

    Returns:
        How many were read.
    """
    plan = require_plan(store)
    runs = read_runs(store, plan, planned_category(plan, category))
    new = [run.measurements for run in runs if run.read_now and not run.damage]
    for read in filter(None, new):
        store.put(read, category, read.group or "")
    return len(new)


def read_runs(store: RecordStore, plan: Plan, planned: PlannedCategory) -> list[Run]:
    """Return the runs of a category; outputs that nobody has read yet are read now."""
    return [_read(store, plan, planned, run) for run in collect_runs(store, planned)]


def _read(store: RecordStore, plan: Plan, planned: PlannedCategory, run: Run) -> Run:
    record = run.record
    if record is None or run.measurements is not None:
        return run
    if not record.logs and record.failures:
        return run
    try:
        read = measure(
            find_entry(planned.id),
            run.part.workload,
            record,
            store.get_log,
            other_nodes=plan.targeted,
        )
    except RecordError as error:
        return replace(run, damage=(*run.damage, str(error)))
    return replace(run, measurements=read, read_now=True)
