"""What became of pods between two looks: who was first, and why one is gone, by nobody's clock."""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from catalog.entries.entry import Launcher
from catalog.errors import ClusterError
from steps.cluster.api.client import Change
from steps.cluster.watching.losses import failed_first
from steps.documents import RunOutcome
from tests.cluster_units.fake import FakeCluster, end_pod, event
from tests.cluster_units.running import NODES, TABLE, job, run, when_runs

Object = dict[str, Any]

SAME_SECOND = "2026-03-04T05:06:07Z"
"""When the tool fails in the cluster in memory."""


def pod(name: str, *, code: int | None = None, deleted: bool = False) -> Object:
    state: Object = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
    found: Object = {
        "metadata": {"name": name},
        "status": {"containerStatuses": [{"name": "tool", "state": state}]},
    }
    if deleted:
        found["metadata"]["deletionTimestamp"] = SAME_SECOND
    return found


FAILED, LOST, FINE = pod("a", code=1), pod("b", deleted=True), pod("b")


@pytest.mark.parametrize(
    ("before", "changes", "first"),
    [
        pytest.param([FINE], [("MODIFIED", FAILED), ("MODIFIED", LOST)], True, id="failed"),
        pytest.param([FINE], [("MODIFIED", LOST), ("MODIFIED", FAILED)], False, id="lost"),
        pytest.param([FINE, FAILED], [("MODIFIED", LOST)], True, id="failed-long-before"),
        pytest.param([FINE], [("DELETED", FINE), ("MODIFIED", FAILED)], False, id="by-force"),
        pytest.param(
            [FINE],
            [("MODIFIED", pod("b", code=143, deleted=True))],
            False,
            id="ended-because-it-was-asked-to",
        ),
        pytest.param([FINE], [("MODIFIED", pod("a", code=0))], None, id="neither"),
    ],
)
def test_who_was_first(
    before: list[Object], changes: list[tuple[str, Object]], *, first: bool | None
) -> None:
    assert failed_first(before, [Change(kind, item) for kind, item in changes]) is first


def story(*, tool_first: bool) -> Callable[[FakeCluster], None]:
    """Between two looks a torchrun worker fails and another is asked to go and gone."""

    def script(c: FakeCluster) -> None:
        fails, goes = c.pods_of("worker")
        end_pod(fails, 1)
        lost = copy.deepcopy(goes)
        lost["metadata"] |= {"deletionTimestamp": SAME_SECOND, "deletionGracePeriodSeconds": 0}
        del c.objects["Pod", goes["metadata"]["name"]]
        told = [Change("MODIFIED", copy.deepcopy(fails)), Change("MODIFIED", lost)]
        c.history = [*(told if tool_first else reversed(told)), Change("DELETED", lost)]
        c.job_of("worker")["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}

    return when_runs("worker", script)


@pytest.mark.parametrize(
    ("tool_first", "outcome", "code"),
    [
        (True, RunOutcome.FAILED, "WorkloadFailed"),
        (False, RunOutcome.INFRASTRUCTURE, "INFRA_POD_LOST"),
    ],
    ids=["tool-failed-first", "pod-lost-first"],
)
def test_failure_and_loss_within_a_second_are_told_apart(
    outcome: RunOutcome, code: str, *, tool_first: bool
) -> None:
    cluster = FakeCluster(*NODES)
    cluster.before_look = story(tool_first=tool_first)
    record = run(cluster, job(Launcher.TORCHRUN)).record
    assert (record.outcome, record.failures[0].code) == (outcome, code), record.failures
    if code == "INFRA_POD_LOST":
        assert "was deleted while it was needed" in record.failures[0].message


def test_pod_that_was_evicted_and_is_gone_before_the_next_look() -> None:
    cluster = FakeCluster(*NODES)

    def evict(c: FakeCluster) -> None:
        goes, rest = c.pods_of("worker")
        gone = copy.deepcopy(goes)
        gone["metadata"]["deletionTimestamp"] = SAME_SECOND
        why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        gone["status"]["conditions"] = [{**why, "message": "Eviction API: evicting"}]
        del c.objects["Pod", goes["metadata"]["name"]]
        rest["metadata"]["deletionTimestamp"] = SAME_SECOND
        c.history = [Change("MODIFIED", gone), Change("DELETED", gone)]

    cluster.before_look = when_runs("launcher", evict)
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.INFRASTRUCTURE
    assert record.failures[0].code == "INFRA_EVICTED"
    assert "Eviction API: evicting" in record.failures[0].message
    assert record.failures[0].entity is not None
    assert record.failures[0].entity.node == "gpu-a"


def test_history_is_asked_for_only_when_a_pod_is_lost() -> None:
    cluster = FakeCluster(*NODES)
    asked: list[str] = []

    def changes(kind: str, selector: str, since: str) -> Iterable[Change]:
        asked.append(since)
        raise ClusterError("too old resource version")

    cluster.changes = changes  # type: ignore[method-assign,assignment]
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 0))
    assert run(cluster, job()).record.outcome is RunOutcome.COMPLETED
    assert asked == []
    lose = story(tool_first=True)
    cluster.before_look = lose
    assert run(cluster, job(Launcher.TORCHRUN)).record.outcome is RunOutcome.FAILED
    assert len(asked) == 1


def test_output_that_begins_between_the_last_look_and_the_signal_is_kept() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = TABLE
    cluster.starts = False
    what = job(Launcher.PER_NODE, ("gpu-a",))

    def stop(c: FakeCluster) -> None:
        if c.of("Pod") and not c.starts:
            # It runs from the next look on, and before that the signal comes.
            signal.raise_signal(signal.SIGTERM)
            c.starts = True

    cluster.before_look = stop
    find, ticking = cluster.find, {"late": True}

    def late(kind: str, selector: str = "", field_selector: str = "") -> list[Object]:
        found = find(kind, selector, field_selector)
        if kind == "Pod" and cluster.starts and ticking.pop("late", False):
            for item in found:
                item["status"] = {"phase": "Pending"}
        return found

    cluster.find = late  # type: ignore[method-assign]
    result = run(cluster, what)
    assert result.record.outcome is RunOutcome.STOPPED
    assert list(result.logs.values()) == [TABLE]


def test_last_words_about_a_pod_are_the_latest_whoever_tells_them() -> None:
    """The scheduler writes another field for the time than kubelets do."""
    cluster = FakeCluster(*NODES)
    cluster.starts = False

    def tell(c: FakeCluster) -> None:
        for item in c.pods_of("worker"):
            about = item["metadata"]["name"]
            c.put(event(about, "FailedMount", "volume is busy", "Pod"))
            late = "2126-03-04T05:06:07.123456Z"
            c.put(
                event(about, "FailedBinding", "no claim", "Pod", lastTimestamp=None, eventTime=late)
            )

    cluster.before_look = tell
    record = run(cluster, job()).record
    assert record.failures[0].message.endswith("did not become Ready: FailedBinding: no claim")


def test_pod_that_is_gone_before_it_learns_its_place_is_lost() -> None:
    cluster = FakeCluster(*NODES)
    patch = cluster.patch

    def late(kind: str, name: str, body: Mapping[str, Any]) -> Object:
        cluster.objects.pop((kind, name), None)
        return patch(kind, name, body)

    cluster.patch = late  # type: ignore[method-assign]
    record = run(cluster, job(Launcher.TORCHRUN)).record
    assert record.outcome is RunOutcome.INFRASTRUCTURE
    assert record.failures[0].code == "INFRA_POD_LOST", record.failures
