"""Clocks of a run: queues pause that of scheduling, nothing pauses that of the certification."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steps.cluster.api.owner import WorkflowRun, workflow_start
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.watching.patience import Deadline, Patience
from steps.cluster.watching.trouble import is_queued
from steps.documents import RunOutcome, RunRecord
from steps.run.step import run_step
from tests.builders import ALL_REDUCE, group, plan, setting
from tests.cluster_units.fake import FakeCluster
from tests.cluster_units.running import (
    NODES,
    WORKFLOW,
    Script,
    assert_nothing_left,
    job,
    run,
    when_runs,
)


def started(ago: float = 0.0, **metadata: str) -> FakeCluster:
    """Return a cluster whose Workflow began so many seconds ago."""
    cluster = FakeCluster(*NODES)
    begun = (datetime.now(UTC) - timedelta(seconds=ago)).isoformat()
    cluster.put(
        {
            "kind": "Workflow",
            "metadata": {
                "name": WORKFLOW.name,
                "uid": WORKFLOW.uid,
                "creationTimestamp": "2020-02-03T04:05:06Z",
            }
            | metadata,
            "status": {"startedAt": begun},
        }
    )
    return cluster


def codes(record: RunRecord) -> list[str]:
    return [failure.code for failure in record.failures]


def test_deadline_ends_what_runs_and_cleans_up_after_it() -> None:
    cluster = started(ago=100)
    cluster.outputs["*"] = b"begun\n"
    result = run(cluster, job(), deadline_seconds=100.4)
    assert result.record.outcome is RunOutcome.TIMED_OUT
    assert codes(result.record) == ["INFRA_DEADLINE"]
    assert result.record.failures[0].message == (
        "the deadline of the certification, 1m40s after its start, passed before the run had ended"
    )
    assert result.logs == {"full-scale-0-output.log": b"begun\n"}
    assert_nothing_left(cluster)


def test_after_the_deadline_nothing_is_started() -> None:
    cluster = started(ago=100)
    record = run(cluster, job(), deadline_seconds=90).record
    assert (record.outcome, codes(record)) == (RunOutcome.TIMED_OUT, ["INFRA_DEADLINE"])
    assert "before it could start" in record.failures[0].message
    assert cluster.created == []
    assert_nothing_left(cluster)


def test_deadline_ends_the_wait_for_a_node_that_another_run_holds() -> None:
    cluster = started()
    cluster.put(
        {
            "kind": "Lease",
            "metadata": {"name": "readiness-gpu-b"},
            "spec": {
                "holderIdentity": "other/run/1",
                "renewTime": "2026-03-04T05:00:00Z",
                "leaseDurationSeconds": 60,
            },
        }
    )
    record = run(cluster, job(), deadline_seconds=0.3).record
    assert (record.outcome, codes(record)) == (RunOutcome.TIMED_OUT, ["INFRA_DEADLINE"])
    assert "passed while it waited for node gpu-b, which other/run/1 holds" in (
        record.failures[0].message
    )
    assert cluster.created == []


def test_deadline_ends_the_wait_in_a_queue() -> None:
    cluster = started()

    def suspend(c: FakeCluster) -> None:
        for item in c.of("Job"):
            item["spec"]["suspend"] = True

    cluster.before_look = suspend
    # The clock of scheduling, 0.3 s, stands still.
    record = run(cluster, job(), deadline_seconds=0.9).record
    assert codes(record) == ["INFRA_DEADLINE"]
    assert (record.ended - record.started).total_seconds() > 0.6
    assert_nothing_left(cluster)


@pytest.mark.parametrize(
    ("scheduler", "waits"), [("default-scheduler", False), ("kai-scheduler", True)]
)
def test_jobs_last_as_long_as_a_scheduler_may_let_them_wait(scheduler: str, *, waits: bool) -> None:
    cluster = started()
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 0))
    what = job(pod={"schedulerName": setting(scheduler)}, timeout_seconds=setting(60))
    assert run(cluster, what, deadline_seconds=7200).record.outcome is RunOutcome.COMPLETED
    (workers,) = (item for item in cluster.created if item["metadata"]["name"].count("-worker-"))
    assert (workers["spec"]["activeDeadlineSeconds"] > 7200) is waits


def test_deadline_ends_the_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READINESS_BACKOFF_SECONDS", "60")
    cluster = started()
    cluster.outputs["*"] = b"root@gpu-b: Permission denied (publickey).\n"
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 255))
    before = time.monotonic()
    record = run(cluster, job(), deadline_seconds=30).record
    assert time.monotonic() - before < 10
    assert record.attempt == 1
    assert codes(record) == ["INFRA_SSH_AUTH", "WorkloadFailed", "INFRA_DEADLINE"]
    assert record.outcome is RunOutcome.INFRASTRUCTURE


def test_run_that_ends_in_time_knows_of_no_deadline() -> None:
    cluster = started()
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 0))
    assert run(cluster, job(), deadline_seconds=60).record.outcome is RunOutcome.COMPLETED


def test_clock_begins_when_the_workflow_does_not_when_it_is_submitted() -> None:
    cluster = started(ago=5)
    begun = workflow_start(cluster, WORKFLOW)
    assert begun is not None
    assert 4 < (datetime.now(UTC) - begun).total_seconds() < 30
    del cluster.objects["Workflow", WORKFLOW.name]["status"]
    assert workflow_start(cluster, WORKFLOW) == datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert workflow_start(cluster, WorkflowRun("another", WORKFLOW.uid)) is None
    assert workflow_start(cluster, WorkflowRun(WORKFLOW.name, "u-2")) is None


def test_run_step_takes_the_deadline_of_the_plan() -> None:
    cluster = started(ago=7200)
    store = ConfigMapStore(cluster, WORKFLOW)
    made = plan([group(NODES)])
    bounds = made.bounds.model_copy(update={"deadline_seconds": 3600.0})
    store.put(made.model_copy(update={"bounds": bounds}))
    record = run_step(store, ALL_REDUCE, "full-scale-0")
    assert codes(record) == ["INFRA_DEADLINE"]
    assert "1h0m0s after its start" in record.failures[0].message


def test_without_a_deadline_time_is_endless() -> None:
    assert Deadline().left == float("inf")
    assert not Deadline().over
    assert Deadline(datetime.now(UTC) - timedelta(seconds=9), 5).over


def test_patience_that_pauses_does_not_run_out() -> None:
    patience = Patience(0.05)
    for _ in range(4):
        time.sleep(0.03)
        patience.pass_time(counts=False)
    assert not patience.over
    time.sleep(0.06)
    patience.pass_time()
    assert patience.over


GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


def pod(*conditions: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": spec, "status": {"conditions": list(conditions)}}


@pytest.mark.parametrize(
    ("suspend", "waiting", "queued"),
    [
        (True, pod(), True),
        (False, pod(), False),
        (False, pod(*UNSCHEDULABLE, **GATED), True),
        (False, pod(schedulerName="kai-scheduler"), True),
        (False, pod(*UNSCHEDULABLE, schedulerName="kai-scheduler"), False),
        (False, pod(schedulerName="volcano", nodeName="gpu-a"), False),
        (False, pod(schedulerName="default-scheduler"), False),
    ],
    ids=["suspended", "plain", "gated", "other-scheduler", "refused", "placed", "default"],
)
def test_what_is_a_queue(suspend: bool, waiting: dict[str, Any], queued: bool) -> None:
    assert is_queued({"spec": {"suspend": suspend}}, [waiting]) is queued


def gates(seconds: float) -> Script:
    begun = time.monotonic()

    def script(c: FakeCluster) -> None:
        c.starts = time.monotonic() - begun > seconds
        for item in c.of("Pod"):
            item["spec"].pop("schedulingGates", None)
            if not c.starts:
                item["spec"] |= GATED
        when_runs("launcher", lambda x: x.end("launcher", 0))(c)

    return script


def test_time_behind_scheduling_gates_does_not_count() -> None:
    cluster = FakeCluster(*NODES)
    cluster.before_look = gates(0.8)
    record = run(cluster, job(options={"maxConcurrent": setting(0)})).record
    assert record.outcome is RunOutcome.COMPLETED
