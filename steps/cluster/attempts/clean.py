"""Deleting what runs created, by label, and checking that it is gone.

The clean step does it for a whole workflow; what stays are its documents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from catalog.errors import ClusterError, InputError, Place, RecordError
from steps.cluster.api.client import Cluster, NotFoundError, Object, RefusedError
from steps.cluster.api.labels import LABEL_GROUP, LABEL_LEASE
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts.leases import run_name
from steps.cluster.attempts.lost import find_lost
from steps.cluster.objects.companions import COMPANION_KINDS
from steps.cluster.objects.pods import GRACE_SECONDS, gpus_of
from steps.cluster.objects.reading import name_of, node_of
from steps.cluster.watching.times import Times
from steps.documents import Entity, Plan, RunFailure, RunRecord
from steps.store.runs import all_groups
from steps.store.store import RecordStore

_KINDS = ("Job", "Pod", *COMPANION_KINDS)
_FIRST_POLL, _LONGEST_POLL = 0.1, 2.0

RUN_STEPS = "workflows.argoproj.io/workflow={workflow},app.kubernetes.io/component=run"
"""Label selector of the pods in which Argo runs the run steps of a workflow."""

_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Left:
    """Something that is still there after clean-up.

    Attributes:
        text: one line for people.
        node: the node whose kubelet has not ended the pod that it is; None where it is no pod, or
            one that has ended and is kept by others, such as by a finalizer.
    """

    text: str
    node: str | None = None

    def __str__(self) -> str:
        return self.text


def everything_of(workflow: WorkflowRun) -> str:
    """Return the selector of all that the runs of a workflow created, and no document of it."""
    return f"{workflow.selector},{LABEL_GROUP}"


def remove(
    cluster: Cluster,
    selector: str,
    patience: float,
    sleep: Callable[[float], object] = time.sleep,
) -> list[Left]:
    """Delete what a selector selects and wait until it is gone.

    Nothing is deleted by force: a pod that its kubelet does not confirm may still hold its GPUs.

    Args:
        cluster: where.
        selector: label selector.
        patience: seconds to wait.
        sleep: waits between looks; what it returns is true when there is no time for more.

    Returns:
        What is still there, and what could not be found out; empty when all is gone.
    """
    end = time.monotonic() + patience
    wait = _FIRST_POLL
    asked: set[tuple[str, str]] = set()
    while True:
        left, problems = _delete(cluster, selector, asked)
        if not left and not problems:
            return []
        if time.monotonic() >= end or sleep(min(wait, max(end - time.monotonic(), 0.0))):
            return [*left, *problems]
        wait = min(2 * wait, _LONGEST_POLL)


def failures_of(left: Sequence[Left]) -> list[RunFailure]:
    """Return what clean-up left as failures; a pod that its node does not end speaks of it."""
    found = [
        RunFailure(
            code="INFRA_NOT_FREED",
            message=f"still there after clean-up: {item}",
            entity=Entity(node=item.node),
        )
        for item in left
        if item.node
    ]
    others = [str(item) for item in left if not item.node]
    if others:
        text = f"still there after clean-up: {'; '.join(others)}"
        found.append(RunFailure(code="INFRA_CLEANUP", message=text))
    return found


def _delete(
    cluster: Cluster, selector: str, asked: set[tuple[str, str]]
) -> tuple[list[Left], list[Left]]:
    """Ask once for the deletion of everything, and return what is there and what went wrong."""
    left, problems = [], []
    for kind in _KINDS:
        try:
            for item in _find(cluster, kind, selector):
                left.append(_left(kind, item))
                key = (kind, str(item["metadata"].get("uid") or name_of(item)))
                if key not in asked and not item["metadata"].get("deletionTimestamp"):
                    grace = GRACE_SECONDS if kind == "Pod" else None
                    cluster.delete(kind, name_of(item), grace)
                    asked.add(key)
        except ClusterError as error:
            problems.append(Left(f"{kind}: {error}"))
    return left, problems


def _find(cluster: Cluster, kind: str, selector: str) -> list[Object]:
    try:
        return cluster.find(kind, selector)
    except NotFoundError:
        # The API server does not have this kind (ComputeDomain, claims of older clusters).
        return []
    except RefusedError:
        # Kinds that an account may not even read it has not made.
        if kind in COMPANION_KINDS:
            return []
        raise


def _left(kind: str, item: Object) -> Left:
    text = f"{kind} {name_of(item)}"
    if kind != "Pod":
        return Left(text)
    gpus, node = gpus_of(item), node_of(item)
    held = f", holds {gpus} GPUs" if gpus else ""
    ended = item.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return Left(f"{text} on {node or 'no node'}{held}", None if ended else node)


def clean_step(store: RecordStore) -> str:
    """Delete Jobs, Pods, Secrets and the like of all runs of a workflow; safe to repeat.

    Argo calls this while run steps that were told to stop are still at it. They clean up better
    than a stranger can and have a record to write, so they are waited for.

    Args:
        store: the store of the workflow, on its cluster.

    Returns:
        One line for people.

    Raises:
        InputError: the store is not that of a workflow.
        ClusterError: something is still there after the waiting time.
    """
    if not isinstance(store, ConfigMapStore):
        raise InputError("needs configmap:NAMESPACE/WORKFLOW/UID", Place("--store"))
    times = Times.from_environment()
    _wait_for_run_steps(store.cluster, store.workflow.name, times.last_words)
    _write_for_lost_steps(store, times)
    left = remove(store.cluster, everything_of(store.workflow), times.cleanup)
    for lease in store.cluster.find("Lease", f"{store.workflow.selector},{LABEL_LEASE}"):
        store.cluster.delete("Lease", name_of(lease))
    if left:
        raise ClusterError(f"INFRA_CLEANUP: still there: {'; '.join(map(str, left))}")
    return f"{store.workflow.name}: nothing is left of its runs, their GPUs are free"


def _write_for_lost_steps(store: ConfigMapStore, times: Times) -> None:
    """Write a record for every run step that took its nodes and was lost before it had written one.

    Those that ended have given their leases back.
    """
    of_workflow = f"{store.workflow.selector},{LABEL_LEASE}"
    holders = [
        str((lease.get("spec") or {}).get("holderIdentity")).rpartition("/")[0]
        for lease in store.cluster.find("Lease", of_workflow)
    ]
    try:
        plan = store.get(Plan) if holders else None
    except RecordError:
        # Without it nobody knows the groups; the report says so.
        return
    end = time.monotonic() + times.life

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return time.monotonic() >= end

    for planned in plan.categories if plan else ():
        for part, group in all_groups(store, planned, []):
            run = run_name(store.workflow, planned.id, group.id)
            # Damage to one group must cost neither the others nor the cleaning.
            with suppress(RecordError):
                if run not in holders:
                    continue
                before = store.get(RunRecord, planned.id, group.id)
                lost = find_lost(store.cluster, run, group, wait, times.poll)
                # A step that took its nodes after the record ran again what had been stopped.
                if lost and (before is None or before.ended < lost.since):
                    attempt = before.attempt + 1 if before else 1
                    record = lost.record(planned.id, part.cohort, group, attempt)
                    store.put(record, planned.id, group.id)


def _wait_for_run_steps(cluster: Cluster, workflow: str, patience: float) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        pods = cluster.find("Pod", RUN_STEPS.format(workflow=workflow))
        if not any(pod.get("status", {}).get("phase") == "Running" for pod in pods):
            return
        time.sleep(_POLL_SECONDS)
