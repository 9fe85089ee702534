"""Telling from pods, Jobs and nodes why a run cannot go on; pure.

Everything found here speaks of us, the image or the cluster's services, so no node is ever blamed
for it; only `node_events` speaks of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from steps.cluster.mpi import NO_SSHD
from steps.documents import Entity, NodeEvent, RunFailure

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
AT_ONCE = frozenset({"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})
"""Waiting reasons that do not heal by waiting."""

_POD_REASONS = {
    "Evicted": "INFRA_EVICTED",
    "Preempting": "INFRA_PREEMPTED",
    "NodeLost": "INFRA_POD_LOST",
    "NodeShutdown": "INFRA_EVICTED",
    "Terminated": "INFRA_EVICTED",
    "UnexpectedAdmissionError": "INFRA_ADMISSION",
    "OutOfcpu": "INFRA_UNSCHEDULABLE",
    "OutOfmemory": "INFRA_UNSCHEDULABLE",
    "OutOfnvidia.com/gpu": "INFRA_UNSCHEDULABLE",
}
_DISRUPTIONS = {
    "PreemptionByScheduler": "INFRA_PREEMPTED",
    "DeletionByTaintManager": "INFRA_EVICTED",
    "EvictionByEvictionAPI": "INFRA_EVICTED",
    "TerminationByKubelet": "INFRA_EVICTED",
}


def name_of(thing: Object) -> str:
    """Return the name of an object."""
    return str(thing.get("metadata", {}).get("name", ""))


def node_of(pod: Object) -> str | None:
    """Return the node of a pod; None while it has none."""
    name = pod.get("spec", {}).get("nodeName")
    return str(name) if name else None


def is_ready(pod: Object) -> bool:
    """True when the pod is Ready and not on its way out."""
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return False
    return condition(pod, "Ready").get("status") == "True"


def condition(thing: Object, kind: str) -> Object:
    """Return a condition by its type; conditions are a list in any order."""
    for item in thing.get("status", {}).get("conditions") or []:
        if item.get("type") == kind:
            found: Object = item
            return found
    return {}


def finished(job: Object) -> bool | None:
    """Return True for a complete Job, False for a failed one, None while it runs."""
    if condition(job, "Complete").get("status") == "True":
        return True
    return False if condition(job, "Failed").get("status") == "True" else None


def pod_failure(pod: Object) -> RunFailure | None:
    """Return why a pod is broken for a reason that is not the tool's."""
    place = Entity(node=node_of(pod), device=f"pod {name_of(pod)}")
    status = pod.get("status", {})
    disruption = condition(pod, "DisruptionTarget")
    code = _POD_REASONS.get(str(status.get("reason")))
    if code is None and disruption.get("status") == "True":
        code = _DISRUPTIONS.get(str(disruption.get("reason")))
        status = disruption if code else status
    if code:
        return RunFailure(code=code, message=str(status.get("message") or code), entity=place)
    for container in _containers(pod):
        ended = container.get("state", {}).get("terminated") or {}
        if ended.get("reason") == "OOMKilled":
            text = f"container {container['name']} was killed for memory"
            return RunFailure(code="INFRA_OOM_KILLED", message=text, entity=place)
        if ended.get("exitCode") == NO_SSHD:
            text = f"image {container.get('image')} has no /usr/sbin/sshd"
            return RunFailure(code="INFRA_IMAGE_NO_SSHD", message=text, entity=place)
        if ended.get("reason") in {"StartError", "ContainerCannotRun"}:
            text = str(ended.get("message") or ended["reason"])
            return RunFailure(code="INFRA_CONTAINER_CONFIG", message=text, entity=place)
    return None


def waiting_failure(pod: Object, *, patience_over: bool) -> RunFailure | None:
    """Return why a pod does not start.

    Args:
        pod: the pod.
        patience_over: whether reasons that may heal by waiting count already.
    """
    place = Entity(node=node_of(pod), device=f"pod {name_of(pod)}")
    for container in _containers(pod):
        waiting = container.get("state", {}).get("waiting") or {}
        reason = str(waiting.get("reason"))
        if reason in _WAITING and (patience_over or reason in AT_ONCE):
            text = f"{reason}: {waiting.get('message') or container.get('image')}"
            return RunFailure(code=_WAITING[reason], message=text, entity=place)
    scheduled = condition(pod, "PodScheduled")
    if patience_over and scheduled.get("reason") == "Unschedulable":
        text = str(scheduled.get("message") or "Unschedulable")
        return RunFailure(code="INFRA_UNSCHEDULABLE", message=text, entity=place)
    return None


def creation_failure(events: Iterable[Object]) -> RunFailure | None:
    """Return why a Job cannot create its pods, from the events about it."""
    for event in events:
        if event.get("reason") != "FailedCreate":
            continue
        text = str(event.get("message"))
        code = "INFRA_QUOTA" if "exceeded quota" in text else "INFRA_ADMISSION"
        return RunFailure(code=code, message=text)
    return None


def exit_code(pods: Iterable[Object], container: str) -> int | None:
    """Return the exit code of the first pod whose container has ended."""
    for pod in pods:
        for item in _containers(pod):
            ended = item.get("state", {}).get("terminated")
            if item.get("name") == container and ended:
                return int(ended.get("exitCode", -1))
    return None


def images_of(pods: Iterable[Object], container: str) -> str | None:
    """Return the image digest that the container really ran."""
    for pod in pods:
        for item in _containers(pod):
            if item.get("name") == container and item.get("imageID"):
                return str(item["imageID"])
    return None


def node_events(
    nodes: Iterable[Object], before: Mapping[str, Object], when: datetime
) -> list[NodeEvent]:
    """Return what has happened to nodes since the run began.

    What was so before the run is no event of the run: detection has let it pass on purpose.
    """
    events = []
    for node in nodes:
        name = name_of(node)
        old = before.get(name, {})
        if node.get("spec", {}).get("unschedulable") and not old.get("spec", {}).get(
            "unschedulable"
        ):
            text = f"cordoned{_by(node)}"
            events.append(_event(name, when, "NODE_CORDONED", "node spec", text))
        ready = condition(node, "Ready")
        if ready.get("status") in {"False", "Unknown"} and _was_ready(old):
            text = f"Ready is {ready['status']}: {ready.get('reason')}: {ready.get('message')}"
            events.append(_event(name, when, "NODE_NOT_READY", "node condition", text))
    return events


def _by(node: Object) -> str:
    """Name the taints that stand beside the cordon; health agents explain themselves there."""
    taints = [
        f"{taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}"
        for taint in node.get("spec", {}).get("taints") or []
        if taint.get("key") != "node.kubernetes.io/unschedulable"
    ]
    return f", taints {', '.join(taints)}" if taints else ""


def _was_ready(node: Object) -> bool:
    return not node or condition(node, "Ready").get("status") in {"True", None}


def _event(node: str, when: datetime, code: str, source: str, text: str) -> NodeEvent:
    return NodeEvent(node=node, at=when, code=code, source=source, text=text)


def _containers(pod: Object) -> Sequence[Object]:
    status = pod.get("status", {})
    return [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
