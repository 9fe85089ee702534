"""Waits that never end well are ended within a minute; those that may keep their patience."""

from __future__ import annotations

from typing import Any

import pytest

from steps.cluster.api.client import Object
from steps.cluster.watching import starting, telling
from steps.cluster.watching.fitting import never_fits
from steps.cluster.watching.telling import Telling, gathering
from steps.cluster.watching.trouble import waiting_failure
from steps.documents import RunOutcome, RunRecord
from tests.builders import setting
from tests.cluster_units.fake import FakeCluster, event
from tests.cluster_units.running import (
    HEADING,
    NODES,
    Script,
    assert_nothing_left,
    job,
    row,
    run,
    when_runs,
)

FULL = "0/9 nodes are available: 1 Insufficient nvidia.com/gpu, 8 node(s) didn't match."


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A patience of minutes, and a moment after which things count as lasting."""
    monkeypatch.setenv("READINESS_SCHEDULING_DEADLINE", "600")
    monkeypatch.setattr(starting, "SURE_SECONDS", 0.1)


def pulls(reason: str, message: str, told: str = "") -> Script:
    def script(c: FakeCluster) -> None:
        for pod in c.of("Pod"):
            state = {"waiting": {"reason": reason, "message": message}}
            statuses = [{"name": "tool", "image": "registry.exmaple/nccl:1", "state": state}]
            pod["status"]["containerStatuses"] = statuses
            if told:
                c.put(event(pod["metadata"]["name"], "Failed", told, "Pod"))

    return script


def unschedulable(message: str, **allocatable: str) -> Script:
    def script(c: FakeCluster) -> None:
        c.objects["Node", "gpu-b"]["status"]["allocatable"] = allocatable
        for pod in c.of("Pod"):
            scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            pod["spec"].pop("nodeName", None)
            pod["status"]["conditions"] = [scheduled | {"message": message}]

    return script


def gang(script: Script, **changed: Any) -> RunRecord:
    cluster = FakeCluster(*NODES)
    cluster.starts = False
    cluster.before_look = script
    record = run(cluster, job(**changed)).record
    assert_nothing_left(cluster) if not cluster.of("Event") else None
    return record


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        pytest.param(pulls("ErrImagePull", "nccl:1: not found"), "IMAGE_PULL", "not", id="no-tag"),
        pytest.param(pulls("InvalidImageName", "x"), "IMAGE_PULL", "exmaple", id="no-name"),
        pytest.param(
            pulls("ErrImagePull", "lookup registry.exmaple: no such host"),
            "IMAGE_PULL",
            "no such host",
            id="no-registry",
        ),
        pytest.param(
            pulls(
                "ImagePullBackOff",
                'Back-off pulling image "registry.exmaple/nccl:1"',
                'Failed to pull image "registry.exmaple/nccl:1": manifest unknown',
            ),
            "IMAGE_PULL",
            "manifest unknown",
            id="told-by-an-event",
        ),
        pytest.param(
            unschedulable(FULL, **{"nvidia.com/gpu": "4", "cpu": "64", "memory": "1Ti"}),
            "UNSCHEDULABLE",
            "node gpu-b has 4 nvidia.com/gpu, the pod asks 8",
            id="too-few-gpus",
        ),
        pytest.param(
            unschedulable('persistentvolumeclaim "data" not found'),
            "UNSCHEDULABLE",
            '"data" not found',
            id="no-volume",
        ),
    ],
)
def test_what_never_heals_ends_the_wait_and_is_not_tried_again(
    script: Script, code: str, words: str
) -> None:
    record = gang(script, resources={"nvidia.com/gpu": setting(8)})
    assert (record.outcome, record.attempt) == (RunOutcome.INFRASTRUCTURE, 1)
    assert record.failures[0].code == f"INFRA_{code}"
    assert words in record.failures[0].message
    assert record.failures[0].permanent
    assert record.events == ()


@pytest.mark.parametrize(
    "script",
    [
        pulls("ErrImagePull", "dial tcp 10.0.0.9:443: i/o timeout"),
        pulls("ErrImagePull", "429 Too Many Requests: toomanyrequests: not found in cache"),
        pulls("ImagePullBackOff", "Back-off pulling image"),
        pulls("ErrImagePull", "pull QPS exceeded"),
        unschedulable(FULL, **{"nvidia.com/gpu": "8"}),
        unschedulable(FULL),
    ],
    ids=["timeout", "rate-limit", "nobody-says", "kubelet-limit", "others-hold-gpus", "unknown"],
)
def test_what_may_heal_keeps_its_patience(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READINESS_SCHEDULING_DEADLINE", "0.3")
    record = gang(script, resources={"nvidia.com/gpu": setting(8)})
    assert (record.outcome, record.attempt) == (RunOutcome.INFRASTRUCTURE, 3)
    assert not record.failures[0].permanent


def test_registry_that_cannot_be_found_is_believed_only_where_that_lasts() -> None:
    state = {"waiting": {"reason": "ErrImagePull", "message": "lookup x: no such host"}}
    pod = {"metadata": {}, "status": {"containerStatuses": [{"name": "tool", "state": state}]}}
    assert waiting_failure(pod, patience_over=False) is None
    found = waiting_failure(pod, patience_over=False, lasting=True)
    assert found is not None
    assert found.permanent


def test_requests_of_containers_that_run_side_by_side_add_up() -> None:
    def pod(*amounts: str) -> Object:
        containers = [{"resources": {"requests": {"cpu": amount}}} for amount in amounts]
        return {"spec": {"containers": [*containers, {}]}, "status": {}}

    node = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "2"}}}
    assert never_fits(pod("1", "1000m"), [node]) is None
    assert never_fits(pod("1", "1001m"), [node]) == "node a has 2 cpu, the pod asks 2.001"


def test_progress_is_told_while_it_is_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "_PAUSE", 0.0)
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = HEADING + row(1 << 30, 2800)
    cluster.before_look = when_runs(
        "launcher", lambda c: c.end("launcher", 0) if c.looks > 30 else None
    )
    run(cluster, job())
    told = [line.split("Z ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert "2 of 2 workers Ready" in told
    assert "row 1G: 383.48 GB/s" in told
    assert len(told) == len(set(told))


def test_gang_that_waits_says_for_what() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}
    pulling = {
        "spec": {"nodeName": "gpu-07"},
        "status": {"containerStatuses": [{"name": "tool", "state": state}]},
    }
    starting_up = {"spec": {"nodeName": "gpu-08"}, "status": {}}
    assert (
        gathering([pulling], 3, 8) == "3 of 8 workers Ready; waiting for image on gpu-07: Back-off"
    )
    assert gathering([starting_up], 3, 8) == "3 of 8 workers Ready; starting on gpu-08"
    assert gathering([{"spec": {}}], 3, 8) == "3 of 8 workers Ready; a pod waits to be scheduled"


def test_lines_are_bounded_in_number_and_length(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "_PAUSE", 0.0)
    tell = Telling()
    for number in range(1000):
        tell.say(f"row {number} " + "x" * 1000)
        tell.say(f"row {number} " + "x" * 1000)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 200
    assert max(map(len, lines)) <= 210
    monkeypatch.setattr(telling, "_PAUSE", 60.0)
    quick = Telling()
    quick.say("first")
    quick.say("second")
    assert capsys.readouterr().out.splitlines()[0].endswith("Z first")
