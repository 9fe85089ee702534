"""The evaluate step: a category is judged by everything that is in the store."""

from __future__ import annotations

from steps.documents import Plan, Verdict
from steps.evaluate.core import evaluate
from steps.parse.step import read_runs
from steps.store.runs import planned_category, require_plan
from steps.store.store import RecordStore


def evaluate_step(store: RecordStore, category: str) -> Verdict:
    """Judge a category by everything that is in the store, and write the verdict."""
    verdict = judge_stored(store, require_plan(store), category)
    store.put(verdict, category)
    return verdict


def judge_stored(store: RecordStore, plan: Plan, category: str) -> Verdict:
    """Judge a category by everything that is in the store."""
    planned = planned_category(plan, category)
    return evaluate(plan, planned, read_runs(store, plan, planned), store.get_log)
