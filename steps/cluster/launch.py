"""Running one group on the cluster, tried again where an infrastructure failure can heal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from catalog.entry import find_entry
from catalog.errors import InputError, Place
from catalog.reasons import BLAMING_KINDS, Effect, Kind, reason
from steps.cluster.attempt import Attempt
from steps.cluster.leases import Leases, duration_for, place_names
from steps.cluster.names import GroupNames
from steps.cluster.stop import Stop, stopping
from steps.cluster.store import ConfigMapStore
from steps.cluster.times import Times
from steps.documents import Finding, RunFailure, RunOutcome, RunRecord
from steps.parse.measure import measure
from steps.run.job import Job, JobResult
from steps.run.retry import MAX_ATTEMPTS, wait_before_next, worth_retrying
from steps.store import RecordStore


def launch(store: RecordStore, job: Job) -> JobResult:
    """Run a group and return its record, also when the step is told to stop meanwhile.

    Raises:
        InputError: the store is not that of a workflow, or an environment variable is wrong.
    """
    if not isinstance(store, ConfigMapStore):
        hint = "write configmap:NAMESPACE/WORKFLOW, or give a --fleet"
        raise InputError("running on a cluster needs its record store", Place("--store"), hint)
    times = Times.from_environment()
    leases = Leases(
        store.cluster,
        store.workflow,
        f"{store.workflow}/{job.category}/{job.group.id}",
        store.owner,
        duration=duration_for(len(job.group.nodes)),
    )
    limit = job.workload.options.get("maxConcurrent")
    places = place_names(store.workflow, job.category, int(limit.value) if limit else 0)
    with stopping() as stop:
        try:
            missing = leases.take(job.group.nodes, places, stop.wait, times.poll)
            if missing:
                return _never_started(job, f"told to stop while it waited for {missing}")
            return _attempts(store, replace(job, start=datetime.now(UTC)), times, stop)
        finally:
            leases.release()


def _attempts(store: ConfigMapStore, job: Job, times: Times, stop: Stop) -> JobResult:
    while True:
        result = _attempt(store, job, times, stop)
        if stop or job.attempt >= MAX_ATTEMPTS or not worth_retrying(result.record):
            return result
        first = timedelta(seconds=times.backoff)
        if stop.wait(wait_before_next(job.attempt, first).total_seconds()):
            return result
        job = replace(job, attempt=job.attempt + 1, start=datetime.now(UTC))


def _never_started(job: Job, message: str) -> JobResult:
    record = RunRecord(
        category=job.category,
        cohort=job.cohort,
        group=job.group,
        started=job.start,
        ended=datetime.now(UTC),
        outcome=RunOutcome.STOPPED,
        failures=(RunFailure(code="INFRA_STOPPED", message=message),),
    )
    return JobResult(record)


def _attempt(store: ConfigMapStore, job: Job, times: Times, stop: Stop) -> JobResult:
    names = GroupNames(store.workflow, job.category, job.group.id, job.attempt)
    attempt = Attempt(store.cluster, job, names=names, owner=store.owner, times=times, stop=stop)
    return _explained(job, attempt.run())


def _explained(job: Job, result: JobResult) -> JobResult:
    """Let the output say why the tool failed: ssh, mpirun and torchrun have words of their own.

    Only what is clearly ours is taken, so that it can be tried again: nothing was measured, and
    nothing in the output speaks against a node.
    """
    if result.record.outcome is not RunOutcome.FAILED:
        return result
    read = measure(
        find_entry(job.category), job.workload, result.record, lambda name: result.logs[name]
    )
    stops = [item for item in read.findings if item.effect in {Effect.FAIL, Effect.INCONCLUSIVE}]
    ours = [item for item in stops if _is_ours(item) and item.cause is None]
    if not ours or read.rows or any(_blames(item) for item in stops):
        return result
    failures = [
        RunFailure(code=item.code, message=item.message, entity=next(iter(item.entities), None))
        for item in ours
    ]
    failures += result.record.failures
    record = result.record.model_copy(
        update={"outcome": RunOutcome.INFRASTRUCTURE, "failures": tuple(failures)}
    )
    return JobResult(record, result.logs)


def _is_ours(item: Finding) -> bool:
    return reason(item.code).kind is Kind.INFRASTRUCTURE


def _blames(item: Finding) -> bool:
    """A finding that speaks of the hardware or its speed; that a rank died is said of any end."""
    return reason(item.code).kind in BLAMING_KINDS - {Kind.WORKLOAD}
