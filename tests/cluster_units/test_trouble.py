"""Each way in which pods, Jobs and events say that a run cannot go on."""

from __future__ import annotations

from typing import Any

import pytest

from steps.cluster.objects.reading import finished, image_of, is_ready
from steps.cluster.watching.trouble import (
    creation_failure,
    exit_code,
    failed_before_loss,
    first_failure,
    is_confused,
    refusal_code,
    unready_failure,
    waiting_failure,
)

WORKER = "certify-full-scale-0-worker-3f-1-k8xqz"


def pod(name: str = WORKER, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeName": "gpu-07"}, "status": status}


def ended(code: int, container: str = "tool", **more: Any) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": "Error", **more}}
    return {"name": container, "image": "registry.example/nccl:1", "state": state}


def disruption(reason: str, message: str = "") -> list[dict[str, Any]]:
    found = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return [{"type": "Ready", "status": "False"}, found]


@pytest.mark.parametrize(
    ("broken", "code", "words"),
    [
        pytest.param(
            pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
            "INFRA_EVICTED",
            "low on resource: memory",
            id="evicted-by-kubelet",
        ),
        pytest.param(
            pod(conditions=disruption("EvictionByEvictionAPI", "Eviction API: evicting")),
            "INFRA_EVICTED",
            "evicting",
            id="drained",
        ),
        pytest.param(
            pod(conditions=disruption("PreemptionByScheduler", "default-scheduler: preempting")),
            "INFRA_PREEMPTED",
            "preempting",
            id="preempted",
        ),
        pytest.param(
            pod(conditions=disruption("DeletionByTaintManager", "Taint manager: deleting")),
            "INFRA_EVICTED",
            "Taint manager",
            id="taint-manager",
        ),
        pytest.param(
            pod(conditions=disruption("DeletionByPodGC", "PodGC: node no longer exists")),
            "INFRA_POD_LOST",
            "no longer exists",
            id="pod-gc",
        ),
        pytest.param(
            pod(phase="Failed", reason="UnexpectedAdmissionError", message="no healthy devices"),
            "INFRA_ADMISSION",
            "no healthy devices",
            id="device-plugin",
        ),
        pytest.param(
            pod(phase="Failed", reason="OutOfnvidia.com/gpu", message="requested: 8, used: 8"),
            "INFRA_UNSCHEDULABLE",
            "used: 8",
            id="taken-meanwhile",
        ),
        pytest.param(
            pod(containerStatuses=[ended(137, reason="OOMKilled")]),
            "INFRA_OOM_KILLED",
            "killed for memory",
            id="oom",
        ),
        pytest.param(
            pod(containerStatuses=[ended(67, message="the image has no /usr/sbin/sshd")]),
            "INFRA_IMAGE_NO_SSHD",
            "image registry.example/nccl:1 has no",
            id="no-sshd",
        ),
        pytest.param(
            pod(containerStatuses=[ended(128, reason="StartError", message="exec: not found")]),
            "INFRA_CONTAINER_CONFIG",
            "exec: not found",
            id="start-error",
        ),
        pytest.param(
            pod(initContainerStatuses=[ended(1, "plugin", message="cannot copy\nno space")]),
            "INFRA_CONTAINER_CONFIG",
            "container plugin of pod",
            id="init-container",
        ),
    ],
)
def test_broken_pod(broken: dict[str, Any], code: str, words: str) -> None:
    failure = first_failure([broken])
    assert failure is not None
    assert failure.code == code
    assert words in failure.message
    assert failure.entity is not None
    assert (failure.entity.node, failure.entity.device) == ("gpu-07", f"pod {WORKER}")


@pytest.mark.parametrize(
    "fine",
    [
        pod(phase="Running", containerStatuses=[{"name": "tool", "state": {"running": {}}}]),
        pod(phase="Failed", containerStatuses=[ended(226)]),
        pod(phase="Failed", containerStatuses=[ended(67)]),
        pod(phase="Pending", reason="SomethingNew"),
        pod(),
    ],
    ids=["running", "tool-failed", "tools-own-67", "unknown-reason", "no-status"],
)
def test_what_is_the_tools_or_not_known_is_no_broken_pod(fine: dict[str, Any]) -> None:
    assert first_failure([fine]) is None


def test_deleted_pod_is_lost() -> None:
    gone = pod(phase="Running")
    gone["metadata"]["deletionTimestamp"] = "2026-03-04T05:00:00Z"
    failure = first_failure([gone])
    assert failure is not None
    assert failure.code == "INFRA_POD_LOST"


def test_earliest_of_several_broken_pods_leads() -> None:
    late = pod("late", containerStatuses=[ended(1, "plugin", finishedAt="2026-03-04T05:00:09Z")])
    early = pod(
        "early",
        containerStatuses=[ended(137, reason="OOMKilled", finishedAt="2026-03-04T05:00:02Z")],
    )
    timeless = pod("timeless", reason="Evicted")
    failure = first_failure([late, timeless, early])
    assert failure is not None
    assert failure.code == "INFRA_OOM_KILLED"


def test_deletion_without_a_cause_is_the_echo_of_one_with_a_cause() -> None:
    """Of a preempted pod the Job deletes the rest in the same second, or an earlier one."""
    conditions = disruption("PreemptionByScheduler")
    conditions[1]["lastTransitionTime"] = "2026-03-04T05:00:10Z"
    for asked in ("2026-03-04T05:00:10Z", "2026-03-04T05:00:08Z"):
        rest = pod("rest", containerStatuses=[ended(143, "plugin")])
        rest["metadata"] |= {"deletionTimestamp": asked, "deletionGracePeriodSeconds": 0}
        failure = first_failure([rest, pod("preempted", conditions=conditions)])
        assert failure is not None
        assert failure.code == "INFRA_PREEMPTED"


@pytest.mark.parametrize(
    ("deletion", "echo"),
    [("2026-03-04T05:00:20Z", True), ("2026-03-04T05:00:10Z", False)],
    ids=["deleted-after-it-failed", "deleted-before-it-failed"],
)
def test_who_was_first_tells_failure_from_loss(deletion: str, *, echo: bool) -> None:
    failed = pod("failed", containerStatuses=[ended(1, finishedAt="2026-03-04T05:00:05Z")])
    lost = pod("lost")
    lost["metadata"] |= {"deletionTimestamp": deletion, "deletionGracePeriodSeconds": 10}
    assert failed_before_loss([lost, failed]) is echo


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(containerStatuses=[{"name": "tool", "image": "r.example/a:1", "state": state}])


@pytest.mark.parametrize(
    ("stuck", "at_once", "code"),
    [
        (waiting("InvalidImageName"), True, "INFRA_IMAGE_PULL"),
        (waiting("ImagePullBackOff", "code = NotFound: not found"), True, "INFRA_IMAGE_PULL"),
        (waiting("ErrImagePull", "401 Unauthorized"), True, "INFRA_IMAGE_PULL"),
        (waiting("ErrImagePull", "429 Too Many Requests: not found"), False, "INFRA_IMAGE_PULL"),
        (
            waiting("ErrImagePull", "lookup x: no such host"),
            False,
            "INFRA_IMAGE_PULL",
        ),
        (waiting("ImagePullBackOff", "dial tcp: no route"), False, "INFRA_IMAGE_PULL"),
        (waiting("CreateContainerConfigError", "no key"), True, "INFRA_CONTAINER_CONFIG"),
        (waiting("RunContainerError", "no space"), False, "INFRA_CONTAINER_CONFIG"),
        (
            pod(
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                ]
            ),
            False,
            "INFRA_UNSCHEDULABLE",
        ),
    ],
)
def test_pod_that_waits(stuck: dict[str, Any], *, at_once: bool, code: str) -> None:
    assert (waiting_failure(stuck, patience_over=False) is not None) is at_once
    failure = waiting_failure(stuck, patience_over=True)
    assert failure is not None
    assert failure.code == code


def test_pod_that_only_takes_long_is_not_ready_with_the_last_words_about_it() -> None:
    assert waiting_failure(waiting("ContainerCreating"), patience_over=True) is None
    events = [
        {"type": "Normal", "reason": "Scheduled", "message": "assigned"},
        {"type": "Warning", "reason": "FailedMount", "message": "volume not attached"},
    ]
    failure = unready_failure(pod(), events)
    assert failure.code == "INFRA_WORKERS_NOT_READY"
    assert failure.message.endswith("FailedMount: volume not attached")


@pytest.mark.parametrize(
    ("message", "code", "at_once"),
    [
        ('pods "a-0" is forbidden: exceeded quota: gpu, requested: 8', "INFRA_QUOTA", False),
        (
            'pods "a" is forbidden: status unknown for quota: gpu, resources: nvidia.com/gpu',
            "INFRA_QUOTA",
            False,
        ),
        ('admission webhook "k" denied the request: no', "INFRA_ADMISSION", True),
        ('pods "a" is forbidden: violates PodSecurity "baseline"', "INFRA_ADMISSION", True),
        ('failed calling webhook "k": connection refused', "INFRA_ADMISSION", False),
    ],
)
def test_job_that_cannot_create_pods(message: str, code: str, *, at_once: bool) -> None:
    events = [{"reason": "SuccessfulCreate"}, {"reason": "FailedCreate", "message": message}]
    assert (creation_failure(events, patience_over=False) is not None) is at_once
    failure = creation_failure(events, patience_over=True)
    assert failure is not None
    assert (failure.code, failure.message) == (code, message)


def test_of_what_can_heal_the_last_word_counts() -> None:
    """A new quota is not known for a moment."""
    texts = ("status unknown for quota: gpu", "exceeded quota: gpu")
    events = [{"reason": "FailedCreate", "message": text} for text in texts]
    failure = creation_failure(events, patience_over=True)
    assert failure is not None
    assert failure.message == texts[1]
    assert is_confused(f'jobs.batch "a" is forbidden: {texts[0]}, resources: count/jobs.batch')


def test_missing_permission_is_not_an_admission() -> None:
    text = 'jobs.batch is forbidden: User "system:serviceaccount:a:b" cannot create resource "jobs"'
    assert refusal_code(text) == "INFRA_API"


@pytest.mark.parametrize(
    ("conditions", "result"),
    [
        ([("Created", "True"), ("Running", "False"), ("Failed", "True")], False),
        ([("Failed", "True"), ("Suspended", "False"), ("Running", "True")], False),
        ([("SuccessCriteriaMet", "True"), ("Complete", "True")], True),
        ([("Failed", "False")], None),
        ([], None),
    ],
)
def test_end_of_a_job_is_read_by_type_wherever_it_stands(
    conditions: list[tuple[str, str]], *, result: bool | None
) -> None:
    found = [{"type": kind, "status": status} for kind, status in conditions]
    assert finished({"status": {"conditions": found}}) is result


def test_ready_pod_that_is_being_deleted_is_not_ready() -> None:
    ready = pod(conditions=[{"type": "Ready", "status": "True"}])
    assert is_ready(ready)
    ready["metadata"]["deletionTimestamp"] = "2026-03-04T05:00:00Z"
    assert not is_ready(ready)


def test_exit_code_is_that_of_the_first_to_fail() -> None:
    killed = pod(containerStatuses=[ended(143, finishedAt="2026-03-04T05:00:09Z")])
    failed = pod(containerStatuses=[ended(1, finishedAt="2026-03-04T05:00:02Z")])
    good = pod(containerStatuses=[ended(0, finishedAt="2026-03-04T05:00:01Z")])
    assert exit_code([good, killed, failed]) == 1
    assert exit_code([good]) == 0
    # By the clock of its node it ended before the one that made the Job delete it.
    asked = pod(containerStatuses=[ended(143, finishedAt="2026-03-04T05:00:00Z")])
    asked["metadata"]["deletionTimestamp"] = "2026-03-04T05:00:02Z"
    assert exit_code([asked, failed]) == 1
    assert exit_code([asked, good]) == 143
    assert exit_code([pod()]) is None


def test_image_is_told_by_digest() -> None:
    status = {"name": "tool", "imageID": "r.example/a@sha256:12", "state": {}}
    assert image_of([pod(), pod(containerStatuses=[status])]) == "r.example/a@sha256:12"
