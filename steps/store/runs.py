"""What the store holds of a category: planned groups, isolation pairs, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

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
from steps.store.store import D, RecordStore, key_of, slug


@dataclass(frozen=True, slots=True)
class Run:
    """One group with what came of it.

    Attributes:
        part: the part of the plan whose workload it took.
        group: the group.
        record: what the launcher saw, as far as it is there.
        measurements: what its outputs say, as far as they were read.
        damage: what is wrong with documents of it, each by its key.
        read_now: its outputs were read just now: nobody had yet, or what was read is damaged.
    """

    part: PlannedPart
    group: Group
    record: RunRecord | None
    measurements: Measurements | None
    damage: tuple[str, ...] = ()
    read_now: bool = False


def require_plan(store: RecordStore) -> Plan:
    """Return the plan.

    Raises:
        NoPlanError: detect has not written one, or it is damaged.
    """
    try:
        plan = store.get(Plan)
    except RecordError as error:
        raise NoPlanError(f"the plan is damaged: {error}") from error
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


def groups_of(plan: Plan, category: str) -> list[Group]:
    """Return the planned groups of a category; none where the plan does not have it."""
    found = [planned for planned in plan.categories if planned.id == category]
    return [group for planned in found for part in planned.parts for group in part.groups]


def all_groups(
    store: RecordStore, planned: PlannedCategory, damaged: list[RecordError] | None = None
) -> Iterator[tuple[PlannedPart, Group]]:
    """Yield every group of a category, planned ones first, then isolation pairs by round.

    Args:
        store: the record store.
        planned: the category.
        damaged: takes what is wrong with isolation rounds that cannot be read.

    Raises:
        RecordError: an isolation round cannot be read, and nobody takes that.
    """
    parts = {part.cohort: part for part in planned.parts}
    for part in planned.parts:
        for group in part.groups:
            yield part, group
    for isolation in store.list(IsolationRound, planned.id, damaged):
        for pair in isolation.pairs:
            # A plan that was made again may have other cohorts.
            if pair.cohort in parts:
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
    """Return every group with its record and measurements, as far as they are there.

    A damaged document costs its own group and no other. A group of which only the record tells,
    because the round or the plan that named it is lost, counts like the rest. So does one that ran
    on other nodes than are planned for it now: it says nothing of those, but all of its own.
    """
    parts = {part.cohort: part for part in planned.parts}
    records = {item.group.id: item for item in store.list(RunRecord, planned.id, [])}
    groups = {group.id: (part, group) for part, group in all_groups(store, planned, [])}
    for record in records.values():
        if record.cohort in parts and record.category == planned.id:
            groups.setdefault(record.group.id, (parts[record.cohort], record.group))
    runs = [_run(store, planned.id, part, group) for part, group in groups.values()]
    return [one for run in runs for one in _by_nodes(run, parts)]


def _by_nodes(run: Run, parts: Mapping[str, PlannedPart]) -> list[Run]:
    """Tell a run of other nodes than its group's apart from the group, which then has no run.

    Plan and isolation rounds can be made again when some nodes have changed.
    """
    if run.record is None or run.record.group.nodes == run.group.nodes:
        return [run]
    key, nodes = key_of(RunRecord, run.record.category, run.group.id), run.record.group.nodes
    told = f"{key}: ran on other nodes than are planned for it: {', '.join(nodes)}"
    planned = Run(run.part, run.group, None, None, (told,))
    if run.record.cohort not in parts:
        return [planned]
    group = run.record.group.model_copy(update={"id": f"{run.group.id}-before"})
    return [planned, replace(run, part=parts[run.record.cohort], group=group)]


def _run(store: RecordStore, category: str, part: PlannedPart, group: Group) -> Run:
    damaged: list[RecordError] = []
    here = (category, group.id)
    record = _whole(store, RunRecord, here, lambda item: (item.category, item.group.id), damaged)
    read = _whole(store, Measurements, here, lambda item: (item.category, item.group), damaged)
    if record is not None and read is not None and read.attempt != record.attempt:
        # Of a run that was stopped, and has run again since.
        read = None
    if record is None and read is not None and not damaged:
        damaged.append(RecordError(f"{key_of(RunRecord, *here)}: is gone"))
    return Run(part, group, record, read, tuple(map(str, damaged)))


def _whole(
    store: RecordStore,
    kind: type[D],
    here: tuple[str, str],
    told: Callable[[D], object],
    damaged: list[RecordError],
) -> D | None:
    """Read a document of a group; None where it is not there, or not what it should be."""
    try:
        found = store.get(kind, *here)
    except RecordError as error:
        damaged.append(error)
        return None
    if found is None or told(found) == here:
        return found
    damaged.append(RecordError(f"{key_of(kind, *here)}: is of another group or category"))
    return None


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
