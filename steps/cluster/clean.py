"""The clean step: what a workflow's runs left behind is deleted, its documents are not."""

from __future__ import annotations

import time

from catalog.errors import ClusterError, InputError, Place
from steps.cluster.api import Cluster
from steps.cluster.cleanup import everything_of, remove
from steps.cluster.leases import LABEL_LEASE
from steps.cluster.store import LABEL_WORKFLOW, ConfigMapStore
from steps.cluster.times import Times
from steps.cluster.trouble import name_of
from steps.programs.stores import open_store

RUN_STEPS = "workflows.argoproj.io/workflow={workflow},app.kubernetes.io/component=run"
"""Label selector of the pods in which Argo runs the run steps of a workflow."""

_POLL_SECONDS = 1.0


def clean_step(store_address: str) -> str:
    """Delete Jobs, Pods, Secrets and the like of all runs of a workflow; safe to repeat.

    Argo calls this while run steps that were told to stop are still at it. They clean up better
    than a stranger can and have a record to write, so they are waited for.

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
    times = Times.from_environment()
    _wait_for_run_steps(store.cluster, store.workflow, times.last_words)
    left = remove(store.cluster, everything_of(store.workflow), times.cleanup)
    for lease in store.cluster.find("Lease", f"{LABEL_WORKFLOW}={store.workflow},{LABEL_LEASE}"):
        store.cluster.delete("Lease", name_of(lease))
    if left:
        raise ClusterError(f"INFRA_CLEANUP: still there: {'; '.join(left)}")
    return f"{store.workflow}: nothing is left of its runs, their GPUs are free"


def _wait_for_run_steps(cluster: Cluster, workflow: str, patience: float) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        pods = cluster.find("Pod", RUN_STEPS.format(workflow=workflow))
        if not any(pod.get("status", {}).get("phase") == "Running" for pod in pods):
            return
        time.sleep(_POLL_SECONDS)
