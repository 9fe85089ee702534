"""Deleting old reports: nobody owns them, so that they outlive their workflow."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from steps.cluster.api.client import Cluster, NotFoundError, Object
from steps.cluster.api.labels import LABEL_KIND, LABEL_UID, LABEL_WORKFLOW
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import TEXT


def forget_reports(cluster: Cluster, ours: WorkflowRun, *, keep: int, days: float) -> int:
    """Delete the reports that are too many or too old.

    The report of a workflow that still exists is never deleted, whether it runs or has ended, and
    neither is our own. They count, so that no more than `keep` stay because of their number.

    Args:
        cluster: connection to the namespace.
        ours: the workflow that cleans up.
        keep: how many reports stay, 1 or more.
        days: after how many days a report goes.

    Returns:
        How many reports were deleted.

    Raises:
        ClusterError: the API refused or did not answer.
    """
    oldest = datetime.now(UTC) - timedelta(days=days)
    by_run: dict[WorkflowRun, list[Object]] = {}
    for kind in ("Report", TEXT):
        for item in cluster.find("ConfigMap", f"{LABEL_UID},{LABEL_KIND}={kind}"):
            run = _run_of(item)
            if run is not None:
                by_run.setdefault(run, []).append(item)
    newest_first = sorted(by_run, key=lambda run: _written(by_run[run]), reverse=True)
    count = 0
    for place, run in enumerate(newest_first):
        too_old = _written(by_run[run]) < oldest
        if run == ours or not (too_old or place >= keep) or _exists(cluster, run):
            continue
        for item in by_run[run]:
            with suppress(NotFoundError):
                cluster.delete("ConfigMap", str(item["metadata"]["name"]))
        count += 1
    return count


def _run_of(item: Object) -> WorkflowRun | None:
    """Return whose report it is a part of; None where labels and annotations do not agree on it."""
    metadata = item["metadata"]
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    uid, name = notes.get(LABEL_UID), notes.get(LABEL_WORKFLOW)
    if not uid or not name or labels.get(LABEL_UID) != uid or metadata.get("ownerReferences"):
        return None
    return WorkflowRun(str(name), str(uid))


def _written(parts: Iterable[Object]) -> datetime:
    """Return when a report was written last; without a time it counts as new."""
    latest = datetime.min.replace(tzinfo=UTC)
    for item in parts:
        try:
            time = datetime.fromisoformat(str(item["metadata"]["creationTimestamp"]))
        except (KeyError, ValueError):
            return datetime.max.replace(tzinfo=UTC)
        latest = max(latest, time if time.tzinfo else time.replace(tzinfo=UTC))
    return latest


def _exists(cluster: Cluster, run: WorkflowRun) -> bool:
    try:
        found = cluster.get("Workflow", run.name)
    except NotFoundError:
        return False
    return bool(found["metadata"].get("uid") == run.uid)
