"""Telling why pods were deleted from what stands beside them: events about them and their Jobs.

A pod can be gone before anybody reads its conditions, and its Job deletes the rest of the gang
without giving a cause. Losses are told from their echoes by the order in which they happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from catalog.errors import ClusterError
from steps.cluster.api.client import Change, Cluster
from steps.cluster.objects.reading import is_deleted, name_of, place_of
from steps.cluster.watching.trouble import tool_failed
from steps.documents import RunFailure

Object = Mapping[str, Any]

_REASONS = {
    "Preempted": "INFRA_PREEMPTED",
    "TaintManagerEviction": "INFRA_EVICTED",
    "Evicted": "INFRA_EVICTED",
}
"""Reasons of events about a pod that somebody took away: scheduler, taint manager, kubelet."""


def cause_of_loss(cluster: Cluster, selector: str, pods: Mapping[str, Object]) -> RunFailure | None:
    """Return why pods of a run were deleted; None when nobody tells, or cannot be asked.

    Args:
        cluster: where.
        selector: label selector of the run's Jobs.
        pods: all the run's pods by name, also those that are gone.
    """
    try:
        return _from_events(cluster, pods) or _from_jobs(cluster.find("Job", selector))
    except ClusterError:
        return None


def failed_first(before: Iterable[Object], changes: Iterable[Change]) -> bool | None:
    """Tell whether the tool failed by itself in one pod before any other was asked to go; pure.

    A Job whose pod fails deletes the others at once, often within the second; their loss is then
    only the echo.

    Args:
        before: the pods as they were before the first loss was seen.
        changes: of them since then.

    Returns:
        None when neither has happened.
    """
    if any(tool_failed(pod) for pod in before):
        return True
    for change in changes:
        if change.kind == "DELETED" or is_deleted(change.item):
            return False
        if tool_failed(change.item):
            return True
    return None


def _from_events(cluster: Cluster, pods: Mapping[str, Object]) -> RunFailure | None:
    for reason, code in _REASONS.items():
        wanted = f"involvedObject.kind=Pod,reason={reason}"
        for event in cluster.find("Event", field_selector=wanted):
            name = str(event["involvedObject"].get("name"))
            # A taint's eviction is also told when it is called off.
            if name in pods and "Cancelling" not in str(event.get("message")):
                text = f"pod {name}: {reason}: {event.get('message')}"
                return RunFailure(code=code, message=text, entity=place_of(pods[name]))
    return None


def _from_jobs(jobs: Iterable[Object]) -> RunFailure | None:
    """Kueue takes its quota back by suspending the Job, which deletes its pods."""
    for job in jobs:
        if job.get("spec", {}).get("suspend"):
            text = f"Job {name_of(job)} was suspended in mid-run, as queues do that preempt it"
            return RunFailure(code="INFRA_PREEMPTED", message=text)
    return None
