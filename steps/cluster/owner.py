"""Owner references: what a certification made goes when its Workflow goes."""

from __future__ import annotations

from steps.cluster.api import Cluster, NotFoundError, Object


def workflow_owner(cluster: Cluster, workflow: str) -> Object | None:
    """Return the owner reference to a Workflow, or None when it does not exist (any more).

    Raises:
        ClusterError: the API refused or did not answer.
    """
    try:
        found = cluster.get("Workflow", workflow)
    except NotFoundError:
        return None
    return {
        "apiVersion": found.get("apiVersion", "argoproj.io/v1alpha1"),
        "kind": "Workflow",
        "name": workflow,
        "uid": found["metadata"]["uid"],
        "blockOwnerDeletion": False,
    }
