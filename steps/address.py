"""Opening the record store that a step was told to use."""

from __future__ import annotations

from pathlib import Path

from catalog.errors import InputError, Place
from steps.store.store import DirectoryStore, RecordStore

PREFIX = "configmap:"


def open_store(address: str) -> RecordStore:
    """Open a store by its address: a directory, or ``configmap:NAMESPACE/WORKFLOW``.

    Raises:
        InputError: the address is malformed.
        ClusterError: the cluster or the Workflow cannot be reached.
    """
    if not address.startswith(PREFIX):
        return DirectoryStore(Path(address))
    namespace, _, workflow = address.removeprefix(PREFIX).partition("/")
    if not namespace or not workflow:
        hint = "write configmap:NAMESPACE/WORKFLOW"
        raise InputError(f"{address!r} is no record store", Place("--store"), hint)
    # Only here, so that the laptop needs no kubernetes client.
    from steps.cluster.api.client import Cluster  # noqa: PLC0415
    from steps.cluster.api.owner import workflow_owner  # noqa: PLC0415
    from steps.cluster.api.store import ConfigMapStore  # noqa: PLC0415

    cluster = Cluster.connect(namespace)
    return ConfigMapStore(cluster, workflow, workflow_owner(cluster, workflow))
