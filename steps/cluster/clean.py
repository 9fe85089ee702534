"""The clean step: what a workflow's runs left behind is deleted, its documents are not."""

from __future__ import annotations

from catalog.errors import ClusterError, InputError, Place
from steps.cluster.cleanup import everything_of, remove
from steps.cluster.store import ConfigMapStore
from steps.cluster.times import Times
from steps.programs.stores import open_store


def clean_step(store_address: str) -> str:
    """Delete Jobs, Pods, Secrets and the like of all runs of a workflow; safe to repeat.

    Args:
        store_address: ``configmap:NAMESPACE/WORKFLOW``.

    Returns:
        One line for people.

    Raises:
        InputError: the address is not that of a workflow.
        ClusterError: something is still there after the waiting time.
    """
    store = open_store(store_address)
    if not isinstance(store, ConfigMapStore):
        raise InputError("needs configmap:NAMESPACE/WORKFLOW", Place("--store"))
    left = remove(store.cluster, everything_of(store.workflow), Times.from_environment().cleanup)
    if left:
        raise ClusterError(f"INFRA_CLEANUP: still there: {'; '.join(left)}")
    return f"{store.workflow}: nothing is left of its runs, their GPUs are free"
