"""A run step that was lost with what it watched: what its leases and the nodes still tell.

A step that sits on a node of its group dies with it and cannot say so. Its leases stand until
somebody takes them over, and Kubernetes knows since when a node is NotReady.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from steps.cluster.api.client import Cluster, NotFoundError
from steps.cluster.attempts.leases import lease_name
from steps.cluster.objects.reading import condition
from steps.cluster.watching.events import told_at
from steps.documents import Group, NodeEvent, RunFailure, RunOutcome, RunRecord
from steps.jobs.failures import hardware_failure

Object = Mapping[str, Any]

_LASTS = timedelta(seconds=30)
"""A node that is NotReady for less may only have a kubelet that restarts."""
_CLOCKS = timedelta(seconds=60)
"""Clocks of the step that was lost and of the API server may be apart by so much."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A run step that was lost.

    Attributes:
        since: when it took its nodes.
        events: what has happened to these since.
    """

    since: datetime
    events: tuple[NodeEvent, ...]

    def record(self, category: str, cohort: str, group: Group, attempt: int = 1) -> RunRecord:
        """Return the record that the step could not write; a node that died leads."""
        text = "the run step was lost before it had written its record"
        died = RunFailure(code="INFRA_STEP_DIED", message=text)
        outcome = RunOutcome.HARDWARE if self.events else RunOutcome.INFRASTRUCTURE
        return RunRecord(
            category=category,
            cohort=cohort,
            group=group,
            attempt=attempt,
            started=self.since,
            ended=datetime.now(UTC),
            outcome=outcome,
            events=self.events,
            failures=(*map(hardware_failure, self.events), died),
        )


def find_lost(
    cluster: Cluster, run: str, group: Group, wait: Callable[[float], bool], pause: float
) -> Lost | None:
    """Find the run step that had a group before and is gone; None when there was none.

    Args:
        cluster: where.
        run: what holds the leases of the group.
        group: the group.
        wait: waits so many seconds; True means to give up.
        pause: seconds between two looks at a node that was NotReady for a moment only.

    Raises:
        ClusterError: the API refused or did not answer.
    """
    taken = [at for node in group.nodes if (at := _taken(cluster, node, run)) is not None]
    if not taken:
        return None
    since = min(taken)
    found = [_what_happened(cluster, node, since, wait, pause) for node in group.nodes]
    events = sorted((event for event in found if event), key=lambda event: event.at)
    return Lost(since, tuple(events))


def _taken(cluster: Cluster, node: str, run: str) -> datetime | None:
    """Return since when a run holds a node; None where it does not."""
    try:
        spec = cluster.get("Lease", lease_name(node)).get("spec") or {}
    except NotFoundError:
        return None
    if not str(spec.get("holderIdentity")).startswith(f"{run}/"):
        return None
    return _time(spec.get("acquireTime"))


def _what_happened(
    cluster: Cluster, name: str, since: datetime, wait: Callable[[float], bool], pause: float
) -> NodeEvent | None:
    lost = "the step that watched it was lost"
    while True:
        try:
            ready = condition(cluster.get("Node", name), "Ready")
        except NotFoundError:
            return None
        at = _time(ready.get("lastTransitionTime"))
        if ready.get("status") not in {"False", "Unknown"} or at is None or at < since - _CLOCKS:
            break
        if datetime.now(UTC) - at >= _LASTS:
            said = ready.get("message") or ready.get("reason") or "no reason given"
            text = f"node {name} became NotReady at {at:%H:%M:%SZ} ({said}); {lost}"
            return _event(name, max(at, since), "node condition", text)
        if wait(pause):
            return None
    about = f"involvedObject.kind=Node,involvedObject.name={name}"
    for event in cluster.find_everywhere("Event", about):
        told = told_at(event)
        if event.get("reason") == "Rebooted" and told is not None and told >= since:
            text = f"node {name} was booted anew by {told:%H:%M:%SZ}; {lost}"
            return _event(name, told, "event", text)
    return None


def _event(node: str, at: datetime, source: str, text: str) -> NodeEvent:
    return NodeEvent(
        node=node, at=min(at, datetime.now(UTC)), code="NODE_NOT_READY", source=source, text=text
    )


def _time(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
