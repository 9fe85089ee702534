"""The Workflow of a certification: what it owns goes when it goes, and its start is the clock's."""

from __future__ import annotations

from datetime import datetime

from steps.cluster.api.client import Cluster, NotFoundError, Object


def workflow_owner(cluster: Cluster, workflow: str) -> Object | None:
    """Return the owner reference to a Workflow, or None when it does not exist (any more).

    Raises:
        ClusterError: the API refused or did not answer.
    """
    found = _find(cluster, workflow)
    if found is None:
        return None
    return {
        "apiVersion": found.get("apiVersion", "argoproj.io/v1alpha1"),
        "kind": "Workflow",
        "name": workflow,
        "uid": found["metadata"]["uid"],
        "blockOwnerDeletion": False,
    }


def workflow_start(cluster: Cluster, workflow: str) -> datetime | None:
    """Return when a Workflow began to run, or None when it does not exist (any more).

    As for Argo's own deadline, the time that it waited for its turn in a node pool does not count.

    Raises:
        ClusterError: the API refused or did not answer.
    """
    found = _find(cluster, workflow)
    if found is None:
        return None
    text = (found.get("status") or {}).get("startedAt") or found["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(str(text))


def _find(cluster: Cluster, workflow: str) -> Object | None:
    try:
        return cluster.get("Workflow", workflow)
    except NotFoundError:
        return None
