"""The run step: one group, by a fleet or on the cluster; always leaves a record."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from catalog.errors import InputError, ReadinessError, RecordError
from catalog.workload.resolve import for_group
from steps.documents import (
    Group,
    Plan,
    PlannedPart,
    RunFailure,
    RunOutcome,
    RunRecord,
)
from steps.evaluate.core import hardware_of
from steps.fleets.fleet import load_fleet
from steps.jobs.job import Job, JobResult
from steps.store.runs import find_group, keep_run, planned_category, require_plan
from steps.store.store import RecordStore


def run_step(
    store: RecordStore, category: str, group_id: str, fleet: Path | None = None
) -> RunRecord:
    """Run one group.

    What goes wrong on our side becomes a record with an INFRA_ code, so that a later step reports
    it instead of a missing result.

    Raises:
        InputError: the fleet file or a setting of the step is wrong.
        RecordError: there is no plan, no such group, or the record cannot be written.
    """
    plan = require_plan(store)
    planned = planned_category(plan, category)
    part, group = find_group(store, planned, group_id)
    job = Job(
        category=category,
        cohort=part.cohort,
        workload=for_group(part.workload, len(group.nodes)),
        group=group,
        hardware=hardware_of(plan, part),
        start=datetime.now(UTC),
    )
    try:
        result = load_fleet(fleet).run(job) if fleet else _on_cluster(store, plan, job)
    except InputError:
        raise
    except ReadinessError as error:
        result = JobResult(record=_broken(category, part, group, job.start, str(error)))
    return _keep(store, result)


def _keep(store: RecordStore, result: JobResult) -> RunRecord:
    """Write the record, without its outputs where they do not fit into the store."""
    try:
        return keep_run(store, result)
    except RecordError as error:
        lost = RunFailure(code="RESULT_MISSING", message=f"the output could not be kept: {error}")
        failures = (*result.record.failures, lost)
        record = result.record.model_copy(update={"logs": (), "failures": failures})
        return keep_run(store, JobResult(record))


def _on_cluster(store: RecordStore, plan: Plan, job: Job) -> JobResult:
    # Only here, so that the laptop needs no kubernetes client.
    from steps.cluster.attempts.launch import launch  # noqa: PLC0415

    return launch(store, job, deadline_seconds=plan.bounds.deadline_seconds)


def _broken(
    category: str, part: PlannedPart, group: Group, start: datetime, message: str
) -> RunRecord:
    return RunRecord(
        category=category,
        cohort=part.cohort,
        group=group,
        started=start,
        ended=datetime.now(UTC),
        outcome=RunOutcome.INFRASTRUCTURE,
        failures=(RunFailure(code="INFRA_API", message=message),),
    )
