"""Why the pods of a group cannot start, found before they are made and while they wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steps.cluster.objects.reading import condition, is_ready, name_of, place_of
from steps.cluster.watching.fitting import never_fits
from steps.cluster.watching.patience import Patience
from steps.cluster.watching.trouble import (
    creation_failure,
    is_queued,
    pull_trouble,
    unready_failure,
    waiting_failure,
)
from steps.cluster.watching.watcher import Ended, Watcher
from steps.documents import Entity, RunFailure, RunOutcome

Object = Mapping[str, Any]

SURE_SECONDS = 45.0
"""After so many seconds of waiting what seldom heals is taken for lasting."""


def check_nodes(
    names: Sequence[str], nodes: Mapping[str, Object], *, tolerates_cordon: bool
) -> None:
    """Say at once what the scheduler could only say at the end of its deadline.

    Args:
        names: the group's nodes.
        nodes: those that exist, by name.
        tolerates_cordon: whether the pods may go on cordoned nodes.

    Raises:
        Ended: a node is gone, cordoned or not Ready.
    """
    for name in names:
        node, place = nodes.get(name), Entity(node=name)
        if node is None:
            code, text = "INFRA_NODE_GONE", f"node {name} is not in the cluster"
        elif (node.get("spec") or {}).get("unschedulable") and not tolerates_cordon:
            code, text = "INFRA_UNSCHEDULABLE", f"node {name} is cordoned"
        elif condition(node, "Ready").get("status") in {"False", "Unknown"}:
            said = condition(node, "Ready").get("message") or "no reason given"
            code, text = "INFRA_UNSCHEDULABLE", f"node {name} is not Ready: {said}"
        else:
            continue
        failure = RunFailure(code=code, message=f"{text}; nothing was started", entity=place)
        raise Ended(RunOutcome.INFRASTRUCTURE, failure)


def check_start(
    watcher: Watcher,
    pods: Sequence[Object],
    jobs: Mapping[str, Object],
    name: str,
    *,
    count: int,
    patience: Patience,
) -> None:
    """Look for reasons why the pods of a Job do not start.

    Args:
        watcher: reads events.
        pods: the pods that are there.
        jobs: all Jobs by name.
        name: the Job.
        count: pods that it should have.
        patience: how long they have waited, and whether what may heal by waiting counts already.

    Raises:
        Ended: one was found.
    """
    patience_over, lasting = patience.over, patience.passed >= SURE_SECONDS
    said = _said_of_image(watcher, pods)
    waiting = (
        waiting_failure(pod, patience_over=patience_over, lasting=lasting, said=said.get(i, ""))
        for i, pod in enumerate(pods)
    )
    failure = next((found for found in waiting if found), None)
    if failure is None and lasting:
        failure = _never_scheduled(watcher, pods)
    if failure is None and len(pods) < count:
        failure = creation_failure(watcher.events_about(name), patience_over=patience_over)
    if failure is None and patience_over:
        late = next((pod for pod in pods if not is_ready(pod)), None)
        if late is not None:
            failure = unready_failure(late, watcher.events_about(name_of(late)))
        else:
            queued = "; a queue holds it back" if is_queued(jobs.get(name, {}), pods) else ""
            text = f"Job {name} has {len(pods)} of {count} pods{queued}"
            failure = RunFailure(code="INFRA_WORKERS_NOT_READY", message=text)
    if failure:
        raise Ended(RunOutcome.INFRASTRUCTURE, failure)


def _said_of_image(watcher: Watcher, pods: Sequence[Object]) -> dict[int, str]:
    """Return what the kubelet told of the first image that cannot be got, by number of its pod.

    A pod that waits for the next try may no longer say why the last one failed.
    """
    for number, pod in enumerate(pods):
        if pull_trouble(pod) is not None:
            told = [str(event.get("message")) for event in watcher.events_about(name_of(pod))]
            return {number: next((text for text in reversed(told) if "ailed to pull" in text), "")}
    return {}


def _never_scheduled(watcher: Watcher, pods: Sequence[Object]) -> RunFailure | None:
    """Return why a pod can never be scheduled, although all nodes of its group are there."""
    waits = [pod for pod in pods if condition(pod, "PodScheduled").get("reason") == "Unschedulable"]
    why = never_fits(waits[0], watcher.nodes()) if waits else None
    if why is None:
        return None
    said = str(condition(waits[0], "PodScheduled").get("message") or "")
    text = f"{why}: {said}" if said not in why else why
    return RunFailure(
        code="INFRA_UNSCHEDULABLE", message=text, entity=place_of(waits[0]), permanent=True
    )
