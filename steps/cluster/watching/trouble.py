"""Telling from pods, Jobs and events why a run cannot go on; pure.

Everything found here speaks of us, the image or the cluster's services, so no node is ever blamed
for it. What nodes say of themselves is in `steps.cluster.watching.health`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from steps.cluster.objects.mpi import NO_SSHD
from steps.cluster.objects.pods import TOOL
from steps.cluster.objects.reading import (
    condition,
    containers_of,
    is_deleted,
    name_of,
    node_of,
    place_of,
)
from steps.documents import RunFailure

Object = Mapping[str, Any]

_WAITING = {
    "ErrImagePull": "INFRA_IMAGE_PULL",
    "ImagePullBackOff": "INFRA_IMAGE_PULL",
    "ErrImageNeverPull": "INFRA_IMAGE_PULL",
    "InvalidImageName": "INFRA_IMAGE_PULL",
    "ImageInspectError": "INFRA_IMAGE_PULL",
    "CreateContainerConfigError": "INFRA_CONTAINER_CONFIG",
    "CreateContainerError": "INFRA_CONTAINER_CONFIG",
    "RunContainerError": "INFRA_CONTAINER_CONFIG",
}
_AT_ONCE = frozenset({"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})
"""Waiting reasons that do not heal by waiting."""

_NO_SUCH_IMAGE = re.compile(
    r"not found|manifest unknown|does not exist|no match for platform|unauthorized|access denied",
    re.IGNORECASE,
)
"""A registry's definite no."""
_NO_SUCH_REGISTRY = re.compile(
    r"no such host|\b40[13]\b|forbidden|denied|x509|HTTP response to HTTPS client",
    re.IGNORECASE,
)
"""What does not heal where it lasts, such as a registry whose name is mistyped."""
_PASSES = re.compile(
    r"\b429\b|toomanyrequests|rate limit|QPS exceeded|time(d )?out|connection re(set|fused)|"
    r"no route|\bEOF\b|\b50[0234]\b|server misbehaving|temporary failure|deadline exceeded",
    re.IGNORECASE,
)
"""A registry, or the way to it, that is away or busy for a while."""

_REFUSED = re.compile(r"denied the request|violates PodSecurity|is forbidden|is invalid")

_NEW_QUOTA = "status unknown for quota"
"""Said until the controller of quotas has seen a new one, which takes it a moment."""
_QUOTA = re.compile(f"exceeded quota|{_NEW_QUOTA}")

_POD_REASONS = {
    "Evicted": "INFRA_EVICTED",
    "Preempting": "INFRA_PREEMPTED",
    "NodeLost": "INFRA_POD_LOST",
    "NodeShutdown": "INFRA_EVICTED",
    "Terminated": "INFRA_EVICTED",
    "UnexpectedAdmissionError": "INFRA_ADMISSION",
    "NodeAffinity": "INFRA_UNSCHEDULABLE",
}
_DISRUPTIONS = {
    "PreemptionByScheduler": "INFRA_PREEMPTED",
    "DeletionByTaintManager": "INFRA_EVICTED",
    "EvictionByEvictionAPI": "INFRA_EVICTED",
    "TerminationByKubelet": "INFRA_EVICTED",
    "DeletionByPodGC": "INFRA_POD_LOST",
}
DEFAULT_SCHEDULER = "default-scheduler"
_STARTED_BADLY = frozenset({"StartError", "ContainerCannotRun"})


def is_queued(job: Object, pods: Iterable[Object] = ()) -> bool:
    """True while a queue holds the Job or one of its pods back.

    Kueue suspends the Job, or puts scheduling gates on its pods. Schedulers with queues of their
    own (KAI, Run:ai, Volcano) leave a pod without a word until its turn comes.
    """
    if job.get("spec", {}).get("suspend"):
        return True
    return any(
        pod.get("spec", {}).get("schedulingGates")
        or (
            pod.get("spec", {}).get("schedulerName") not in {None, "", DEFAULT_SCHEDULER}
            and node_of(pod) is None
            and not condition(pod, "PodScheduled")
        )
        for pod in pods
    )


def first_failure(pods: Iterable[Object]) -> RunFailure | None:
    """Return the earliest failure among pods that is not the tool's.

    A deletion without a cause counts only where no pod tells one: Jobs delete the rest of a gang
    within the second, and the clocks of nodes and API server differ.
    """
    pods = list(pods)
    found = [(_when(pod), failure) for pod in pods if (failure := _told_failure(pod))]
    found = found or [(_when(pod), failure) for pod in pods if (failure := _deletion(pod))]
    # Times without a value come last: what has a time is the better witness.
    found.sort(key=lambda item: (not item[0], item[0]))
    return found[0][1] if found else None


def _told_failure(pod: Object) -> RunFailure | None:
    """Return the cause that a pod itself tells."""
    place, status = place_of(pod), pod.get("status", {})
    disruption = condition(pod, "DisruptionTarget")
    reason = str(status.get("reason"))
    code = _POD_REASONS.get(reason) or ("INFRA_UNSCHEDULABLE" if _out_of(reason) else None)
    words = status
    if code is None and disruption.get("status") == "True":
        code, words = _DISRUPTIONS.get(str(disruption.get("reason"))), disruption
    if code:
        text = str(words.get("message") or words.get("reason") or code)
        return RunFailure(code=code, message=f"pod {name_of(pod)}: {text}", entity=place)
    for container in containers_of(pod):
        failure = _container_failure(pod, container)
        if failure:
            return failure
    return None


def _deletion(pod: Object) -> RunFailure | None:
    if not is_deleted(pod):
        return None
    text = f"pod {name_of(pod)} was deleted while it was needed"
    return RunFailure(code="INFRA_POD_LOST", message=text, entity=place_of(pod))


def _out_of(reason: str) -> bool:
    """The kubelet's word for resources that were taken between scheduling and start."""
    return reason.startswith("OutOf")


def _container_failure(pod: Object, container: Object) -> RunFailure | None:
    ended = container.get("state", {}).get("terminated") or {}
    name, place = container.get("name"), place_of(pod)
    if ended.get("reason") == "OOMKilled":
        text = f"container {name} of pod {name_of(pod)} was killed for memory"
        return RunFailure(code="INFRA_OOM_KILLED", message=text, entity=place)
    if ended.get("exitCode") == NO_SSHD and name == TOOL and "sshd" in str(ended.get("message")):
        text = f"image {container.get('image')} has no /usr/sbin/sshd"
        return RunFailure(code="INFRA_IMAGE_NO_SSHD", message=text, entity=place)
    if ended.get("reason") in _STARTED_BADLY:
        text = str(ended.get("message") or ended["reason"])
        return RunFailure(code="INFRA_CONTAINER_CONFIG", message=text, entity=place)
    # Beside the tool all containers of a deleted pod are told to end, each with its own code.
    if ended.get("exitCode") and name != TOOL and not is_deleted(pod):
        text = f"container {name} of pod {name_of(pod)} ended with {_ending(ended)}"
        return RunFailure(code="INFRA_CONTAINER_CONFIG", message=text, entity=place)
    return None


def failed_before_loss(pods: Iterable[Object]) -> bool:
    """True when the tool failed by itself in one pod before any other was asked to go.

    As far as clocks of nodes and API server tell, which count in seconds; where the API server
    still knows what happened in which order, `steps.cluster.watching.losses` tells it for sure.
    """
    failed, lost = [], []
    for pod in pods:
        if is_deleted(pod):
            lost.append(_deleted_at(pod))
        else:
            failed += _failed_at(pod)
    return bool(failed) and (not lost or min(failed) <= min(lost))


def tool_failed(pod: Object) -> bool:
    """True when the tool has failed in a pod that nobody had asked to go."""
    return not is_deleted(pod) and bool(_failed_at(pod))


def _failed_at(pod: Object) -> list[str]:
    """Return when the tool failed in a pod; empty when it has not."""
    ends = [
        item.get("state", {}).get("terminated") or {}
        for item in containers_of(pod)
        if item.get("name") == TOOL
    ]
    return [str(ended.get("finishedAt") or "~") for ended in ends if ended.get("exitCode")]


def ended_early(pod: Object) -> RunFailure | None:
    """Return the failure of a worker that should still serve and whose container has ended."""
    for container in containers_of(pod):
        ended = container.get("state", {}).get("terminated")
        if ended and container.get("name") == TOOL:
            text = f"worker pod {name_of(pod)} ended with {_ending(ended)}"
            return RunFailure(code="INFRA_POD_LOST", message=text, entity=place_of(pod))
    return None


def pull_trouble(pod: Object) -> str | None:
    """Return what a pod says of an image that it cannot get; None where it has no such trouble."""
    for container in containers_of(pod):
        waiting = container.get("state", {}).get("waiting") or {}
        if _WAITING.get(str(waiting.get("reason"))) == "INFRA_IMAGE_PULL":
            return str(waiting.get("message") or "")
    return None


def waiting_failure(
    pod: Object, *, patience_over: bool, lasting: bool = False, said: str = ""
) -> RunFailure | None:
    """Return why a pod does not start.

    Args:
        pod: the pod.
        patience_over: whether reasons that may heal by waiting count already.
        lasting: whether it has waited for so long that what seldom heals counts.
        said: what events say of the image that it cannot get.
    """
    place = place_of(pod)
    for container in containers_of(pod):
        waiting = container.get("state", {}).get("waiting") or {}
        reason = str(waiting.get("reason"))
        if reason not in _WAITING:
            continue
        message = str(waiting.get("message") or container.get("image"))
        pulls = _WAITING[reason] == "INFRA_IMAGE_PULL"
        if pulls and said and said not in message:
            message += f"; {said}"
        hopeless = reason in _AT_ONCE or (pulls and _is_hopeless(message, lasting=lasting))
        if patience_over or hopeless:
            text = f"{reason}: image {container.get('image')}: {message}"
            return RunFailure(code=_WAITING[reason], message=text, entity=place, permanent=hopeless)
    scheduled = condition(pod, "PodScheduled")
    if patience_over and scheduled.get("status") == "False":
        text = str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")
        return RunFailure(code="INFRA_UNSCHEDULABLE", message=text, entity=place)
    return None


def _is_hopeless(message: str, *, lasting: bool) -> bool:
    if _PASSES.search(message):
        return False
    return bool(_NO_SUCH_IMAGE.search(message) or (lasting and _NO_SUCH_REGISTRY.search(message)))


def unready_failure(pod: Object, events: Iterable[Object]) -> RunFailure:
    """Return the failure of a pod that was given enough time, with what was last said of it."""
    warnings = [event for event in events if event.get("type") == "Warning"]
    said = f": {warnings[-1].get('reason')}: {warnings[-1].get('message')}" if warnings else ""
    text = f"pod {name_of(pod)} did not become Ready{said}"
    return RunFailure(code="INFRA_WORKERS_NOT_READY", message=text, entity=place_of(pod))


def creation_failure(events: Iterable[Object], *, patience_over: bool) -> RunFailure | None:
    """Return why a Job cannot create its pods, from the events about it.

    A quota can become free and a webhook can come back, so only a plain no counts at once; of what
    may heal, the last word counts.
    """
    last = None
    for event in events:
        if event.get("reason") != "FailedCreate":
            continue
        text = str(event.get("message"))
        if _QUOTA.search(text):
            last = RunFailure(code="INFRA_QUOTA", message=text)
            continue
        last = RunFailure(code="INFRA_ADMISSION", message=text)
        if _REFUSED.search(text):
            return last
    return last if patience_over else None


def refusal_code(message: str) -> str:
    """Return the code of an API server's refusal to create an object."""
    if _QUOTA.search(message):
        return "INFRA_QUOTA"
    # Missing permissions of our own account; the objects themselves were never looked at.
    ours = "cannot create resource" in message or is_confused(message)
    return "INFRA_API" if ours else "INFRA_ADMISSION"


def is_confused(message: str) -> bool:
    """True for a refusal by an API server that does not know its users, roles or quotas (yet)."""
    return message == "Unauthorized" or ": RBAC: " in message or _NEW_QUOTA in message


def exit_code(pods: Iterable[Object], container: str = TOOL) -> int | None:
    """Return the exit code of the pod that failed first; 0 when all succeeded, None when unknown.

    Pods that were asked to go come last: a Job deletes the others when one fails, within the second
    and by another clock.

    An exit code that the kubelet made up for a container that it lost (255, 137 without a
    process of ours) is still returned; the failures beside it tell the story.
    """
    ends = []
    for pod in pods:
        for item in containers_of(pod):
            ended = item.get("state", {}).get("terminated")
            if item.get("name") == container and ended and ended.get("exitCode") is not None:
                when = str(ended.get("finishedAt") or "~")
                ends.append((is_deleted(pod), when, int(ended["exitCode"])))
    failed = sorted(end for end in ends if end[-1])
    if failed:
        return failed[0][-1]
    return 0 if ends else None


def _ending(ended: Object) -> str:
    signal = f", signal {ended['signal']}" if ended.get("signal") else ""
    words = str(ended.get("message") or "").strip().splitlines()
    said = f": {words[-1][:200]}" if words else ""
    return f"exit code {ended.get('exitCode')}{signal}{said}"


def _when(pod: Object) -> str:
    """Return when a pod broke, as far as it says so (RFC 3339 texts sort by time)."""
    times = [
        str(item["state"]["terminated"].get("finishedAt") or "")
        for item in containers_of(pod)
        if item.get("state", {}).get("terminated")
    ]
    times.append(str(condition(pod, "DisruptionTarget").get("lastTransitionTime") or ""))
    times.append(_deleted_at(pod))
    return min((time for time in times if time), default="")


def _deleted_at(pod: Object) -> str:
    """Return when the deletion was asked for; the object tells when its grace period ends."""
    metadata = pod.get("metadata", {})
    try:
        end = datetime.fromisoformat(str(metadata.get("deletionTimestamp")))
    except ValueError:
        return ""
    asked = end - timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
    return asked.strftime("%Y-%m-%dT%H:%M:%SZ")
