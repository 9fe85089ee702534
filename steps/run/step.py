"""The run step: one group, by a fleet or on the cluster; always leaves a record."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from catalog.errors import ElsewhereError, InputError, ReadinessError, RecordError
from catalog.workload.resolve import for_group
from steps.documents import (
    Measurements,
    Plan,
    RunFailure,
    RunOutcome,
    RunRecord,
)
from steps.fleets.fleet import load_fleet
from steps.jobs.job import Job, JobResult
from steps.store.runs import find_group, keep_run, planned_category, require_plan
from steps.store.store import RecordStore


def run_step(
    store: RecordStore,
    category: str,
    group_id: str,
    fleet: Path | None = None,
    *,
    here: str = "",
    may_move: bool = False,
) -> RunRecord:
    """Run one group, unless it has run already; what was stopped runs again.

    Args:
        store: the record store.
        category: category id.
        group_id: the group.
        fleet: a fleet file; None asks the cluster.
        here: the node on which the step runs, where it is known.
        may_move: whether the step can be started again on another node.

    What goes wrong on our side becomes a record with an INFRA_ code, so that a later step reports
    it instead of a missing result.

    Raises:
        InputError: the fleet file or a setting of the step is wrong.
        ElsewhereError: the step runs on a node of its group, and should be started elsewhere.
        RecordError: there is no plan, no such group, or the record cannot be written.
    """
    plan = require_plan(store)
    planned = planned_category(plan, category)
    part, group = find_group(store, planned, group_id)
    before = _before(store, category, group.id)
    if before is not None and before.group.nodes == group.nodes and not was_stopped(before):
        return before
    job = Job(
        category=category,
        cohort=part.cohort,
        workload=for_group(part.workload, len(group.nodes)),
        group=group,
        attempt=_attempts_before(store, category, group.id, before) + 1,
        start=datetime.now(UTC),
    )
    try:
        if fleet:
            result = load_fleet(fleet).run(job)
        else:
            result = _on_cluster(store, plan, job, here if may_move else "")
    except (InputError, ElsewhereError):
        raise
    except ReadinessError as error:
        failure = RunFailure(code="INFRA_API", message=str(error))
        ended = datetime.now(UTC)
        record = job.record(RunOutcome.INFRASTRUCTURE, ended=ended, failures=(failure,))
        result = JobResult(record)
    return _keep(store, result)


def was_stopped(record: RunRecord) -> bool:
    """Say whether a run was told to stop, so that it is to run again when somebody goes on."""
    codes = {failure.code for failure in record.failures}
    return record.outcome is RunOutcome.STOPPED and "INFRA_STOPPED" in codes


def _before(store: RecordStore, category: str, group: str) -> RunRecord | None:
    """Return the record of the group from before a retry; a damaged one is none."""
    try:
        return store.get(RunRecord, category, group)
    except RecordError:
        return None


def _attempts_before(
    store: RecordStore, category: str, group: str, before: RunRecord | None
) -> int:
    """Return how many attempts of the group are known.

    Also by measurements, which would be taken for those of the next where the record is lost.
    """
    with suppress(RecordError):
        read = store.get(Measurements, category, group)
        return max(before.attempt if before else 0, read.attempt if read else 0)
    return before.attempt if before else 0


def _keep(store: RecordStore, result: JobResult) -> RunRecord:
    """Write the record, without its outputs where they do not fit into the store."""
    try:
        return keep_run(store, result)
    except RecordError as error:
        lost = RunFailure(code="RESULT_MISSING", message=f"the output could not be kept: {error}")
        failures = (*result.record.failures, lost)
        record = result.record.model_copy(update={"logs": (), "failures": failures})
        return keep_run(store, JobResult(record))


def _on_cluster(store: RecordStore, plan: Plan, job: Job, here: str) -> JobResult:
    # Only here, so that the laptop needs no kubernetes client.
    from steps.cluster.attempts.launch import launch  # noqa: PLC0415

    return launch(store, job, deadline_seconds=plan.bounds.deadline_seconds, here=here)
