"""The isolate step: one round of pair runs, planned."""

from __future__ import annotations

from steps.documents import IsolationRound, PlannedPair
from steps.isolate.core import next_isolation
from steps.parse.step import read_runs
from steps.store.runs import planned_category, require_plan
from steps.store.store import RecordStore


def isolate_step(store: RecordStore, category: str, round_number: int) -> IsolationRound:
    """Plan the pairs of one isolation round."""
    plan = require_plan(store)
    planned = planned_category(plan, category)
    pairs = next_isolation(plan, planned, read_runs(store, plan, planned), round_number)
    found = IsolationRound(
        category=category,
        round=round_number,
        pairs=tuple(PlannedPair(cohort=part.cohort, group=group) for part, group in pairs),
    )
    store.put(found, category, f"round-{round_number}")
    return found
