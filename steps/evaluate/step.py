"""The evaluate step: a category is judged by everything that is in the store."""

from __future__ import annotations

from steps.documents import Verdict
from steps.evaluate.core import evaluate
from steps.store.runs import collect_runs, planned_category, require_plan
from steps.store.store import RecordStore


def evaluate_step(store: RecordStore, category: str) -> Verdict:
    """Judge a category by everything that is in the store."""
    plan = require_plan(store)
    planned = planned_category(plan, category)
    verdict = evaluate(plan, planned, collect_runs(store, planned), store.get_log)
    store.put(verdict, category)
    return verdict
