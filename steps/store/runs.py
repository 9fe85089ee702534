"""What the store holds of a category: planned groups, isolation pairs, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.errors import NoPlanError, RecordError
from steps.documents import (
    Group,
    IsolationRound,
    Measurements,
    Plan,
    PlannedCategory,
    PlannedPart,
    RunRecord,
)
from steps.jobs.job import JobResult
from steps.store.store import RecordStore, slug


@dataclass(frozen=True, slots=True)
class Run:
    """One group with what came of it."""

    part: PlannedPart
    group: Group
    record: RunRecord | None
    measurements: Measurements | None


def require_plan(store: RecordStore) -> Plan:
    """Return the plan.

    Raises:
        NoPlanError: detect has not written one.
    """
    plan = store.get(Plan)
    if plan is None:
        raise NoPlanError("there is no plan; detect has not run, or has died")
    return plan


def planned_category(plan: Plan, category: str) -> PlannedCategory:
    """Return one category of the plan.

    Raises:
        RecordError: the plan does not have it.
    """
    for planned in plan.categories:
        if planned.id == category:
            return planned
    raise RecordError(f"the plan has no category {category}")


def all_groups(store: RecordStore, planned: PlannedCategory) -> Iterator[tuple[PlannedPart, Group]]:
    """Yield every group of a category, planned ones first, then isolation pairs by round."""
    parts = {part.cohort: part for part in planned.parts}
    for part in planned.parts:
        for group in part.groups:
            yield part, group
    for isolation in store.list(IsolationRound, planned.id):
        for pair in isolation.pairs:
            yield parts[pair.cohort], pair.group


def find_group(
    store: RecordStore, planned: PlannedCategory, group_id: str
) -> tuple[PlannedPart, Group]:
    """Return a group by id, with the part whose workload it takes.

    Raises:
        RecordError: no such group was planned.
    """
    for part, group in all_groups(store, planned):
        if group.id == group_id:
            return part, group
    raise RecordError(f"{planned.id} has no group {group_id}")


def collect_runs(store: RecordStore, planned: PlannedCategory) -> list[Run]:
    """Return every group with its record and measurements, as far as they are there."""
    found = []
    for part, group in all_groups(store, planned):
        record = store.get(RunRecord, planned.id, group.id)
        read = store.get(Measurements, planned.id, group.id)
        if record is not None and read is not None and read.attempt != record.attempt:
            # Of a run that was stopped, and has run again since.
            read = None
        found.append(Run(part, group, record, read))
    return found


def keep_run(store: RecordStore, result: JobResult) -> RunRecord:
    """Write a run's record and its raw outputs; the outputs first, since the record names them."""
    category, group = slug(result.record.category), slug(result.record.group.id)
    names = {log.name: f"{category}/{_below(group, slug(log.name))}" for log in result.record.logs}
    for name, data in result.logs.items():
        store.put_log(names[name], data)
    logs = tuple(log.model_copy(update={"name": names[log.name]}) for log in result.record.logs)
    record = result.record.model_copy(update={"logs": logs})
    store.put(record, record.category, record.group.id)
    return record


def _below(group: str, name: str) -> str:
    """Put the group into the name, so that no run can overwrite the output of another."""
    return name if name.startswith(f"{group}-") else f"{group}-{name}"
