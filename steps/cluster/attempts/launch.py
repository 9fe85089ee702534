"""Running one group on the cluster, tried again where an infrastructure failure can heal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from catalog.entries.entry import find_entry
from catalog.errors import InputError, Place
from catalog.facts.reasons import BLAMING_KINDS, Kind, reason
from catalog.reading.quantity import format_duration
from steps.cluster.api.owner import workflow_start
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts.attempt import Attempt
from steps.cluster.attempts.clean import failures_of, remove
from steps.cluster.attempts.leases import Leases, duration_for, place_names, run_name
from steps.cluster.attempts.lost import Lost, find_lost
from steps.cluster.attempts.witness import check_place
from steps.cluster.objects.names import GroupNames
from steps.cluster.watching.patience import Deadline
from steps.cluster.watching.stop import Stop, stopping
from steps.cluster.watching.telling import Telling
from steps.cluster.watching.times import Times
from steps.documents import Finding, RunFailure, RunOutcome
from steps.jobs.job import Job, JobResult
from steps.jobs.retry import run_with_retries
from steps.parse.measure import measure
from steps.store.store import RecordStore


def launch(
    store: RecordStore, job: Job, *, deadline_seconds: float | None = None, here: str = ""
) -> JobResult:
    """Run a group and return its record, also when the step is told to stop meanwhile.

    Args:
        store: of the workflow.
        job: what to run.
        deadline_seconds: how long after the start of its workflow the certification must be over;
            it bounds the waiting for other runs, for queues and between attempts too.
        here: the node of the step where it could be started on another; empty where it cannot.

    Raises:
        ElsewhereError: the step is on a node of its group, and others would take it.
        InputError: the store is not that of a workflow, or an environment variable is wrong.
        ClusterError: the API refused or did not answer.
    """
    if not isinstance(store, ConfigMapStore):
        hint = "write configmap:NAMESPACE/WORKFLOW/UID, or give a --fleet"
        raise InputError("running on a cluster needs its record store", Place("--store"), hint)
    times = Times.from_environment()
    check_place(store.cluster, here, job.group.nodes)
    name = run_name(store.workflow, job.category, job.group.id)
    leases = Leases(
        store.cluster,
        store.workflow,
        name,
        store.owner,
        duration=duration_for(len(job.group.nodes)),
        outage=times.outage,
    )
    limit = job.workload.options.get("maxConcurrent")
    places = place_names(store.workflow, job.category, int(limit.value) if limit else 0)
    with stopping() as stop:
        try:
            deadline = _deadline(store, deadline_seconds)

            def wait(seconds: float) -> bool:
                return stop.wait(min(seconds, max(deadline.left, 0.0))) or deadline.over

            lost = find_lost(store.cluster, name, job.group, wait, times.poll)
            if lost and lost.events:
                leases.take(job.group.nodes, (), wait, times.poll)
                return _lost_with_its_node(store, job, lost, times)
            missing = leases.take(job.group.nodes, places, wait, times.poll)
            if missing or deadline.over:
                return _never_started(job, missing, stop, deadline)
            started = replace(job, start=datetime.now(UTC))
            return _attempts(store, started, times, stop, deadline)
        finally:
            leases.release()


def _lost_with_its_node(store: ConfigMapStore, job: Job, lost: Lost, times: Times) -> JobResult:
    """Say what the step before us could not say any more, and clean up after it."""
    names = GroupNames(store.workflow, job.category, job.group.id, job.attempt)
    left = remove(store.cluster, names.selector, times.cleanup)
    record = lost.record(job.category, job.cohort, job.group, job.attempt)
    failures = (*record.failures, *failures_of(left))
    return JobResult(record.model_copy(update={"failures": failures}))


def _deadline(store: ConfigMapStore, seconds: float | None) -> Deadline:
    if seconds is None:
        return Deadline()
    return Deadline(workflow_start(store.cluster, store.workflow), seconds)


def _attempts(
    store: ConfigMapStore, job: Job, times: Times, stop: Stop, deadline: Deadline
) -> JobResult:
    tell = Telling()

    def run(job: Job) -> JobResult:
        names = GroupNames(store.workflow, job.category, job.group.id, job.attempt)
        attempt = Attempt(
            store.cluster,
            job,
            names=names,
            owner=store.owner,
            times=times,
            stop=stop,
            deadline=deadline,
            tell=tell,
        )
        return _explained(job, attempt.run())

    def wait(result: JobResult, pause: timedelta) -> datetime | RunFailure | None:
        seconds = pause.total_seconds()
        if deadline.left <= seconds and not stop:
            return deadline.failure("before the run could be tried again")
        first = result.record.failures[0]
        tell.say(f"tried again in {format_duration(seconds)}: {first.code}: {first.message}")
        return None if stop.wait(seconds) else datetime.now(UTC)

    return run_with_retries(job, run, wait, timedelta(seconds=times.backoff))


def _never_started(job: Job, missing: str | None, stop: Stop, deadline: Deadline) -> JobResult:
    waited = f"while it waited for {missing}" if missing else "before it could start"
    if stop:
        outcome = RunOutcome.STOPPED
        failure = RunFailure(code="INFRA_STOPPED", message=f"told to stop {waited}")
    else:
        outcome, failure = RunOutcome.TIMED_OUT, deadline.failure(waited)
    record = job.record(
        outcome,
        ended=datetime.now(UTC),
        failures=(failure,),
    )
    return JobResult(record)


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
    stops = [item for item in read.findings if item.effect.blocks]
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
