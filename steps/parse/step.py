"""The parse step: the outputs of a category's runs become measurements."""

from __future__ import annotations

from catalog.entries.entry import find_entry
from steps.documents import Measurements, RunRecord
from steps.parse.measure import measure
from steps.store.runs import all_groups, planned_category, require_plan
from steps.store.store import RecordStore


def parse_step(store: RecordStore, category: str) -> int:
    """Read the outputs of every run of a category that was not read yet.

    Returns:
        How many were read.
    """
    plan = require_plan(store)
    planned = planned_category(plan, category)
    count = 0
    for part, group in all_groups(store, planned):
        record = store.get(RunRecord, category, group.id)
        known = store.get(Measurements, category, group.id)
        if record is None or (known is not None and known.attempt == record.attempt):
            continue
        if not record.logs and record.failures:
            continue
        read = measure(
            find_entry(category), part.workload, record, store.get_log, other_nodes=plan.targeted
        )
        store.put(read, category, group.id)
        count += 1
    return count
