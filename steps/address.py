"""Opening the record store that a step was told to use."""

from __future__ import annotations

import re
from pathlib import Path

from catalog.errors import InputError, Place
from steps.store.store import DirectoryStore, RecordStore

PREFIX = "configmap:"
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def open_store(address: str) -> RecordStore:
    """Open a store by its address: a directory, or ``configmap:NAMESPACE/WORKFLOW/UID``.

    Raises:
        InputError: the address is malformed.
        ClusterError: the cluster cannot be reached.
    """
    if not address.startswith(PREFIX):
        return DirectoryStore(Path(address))
    parts = address.removeprefix(PREFIX).split("/")
    # Also what Argo did not fill in: {{workflow.uid}}.
    if len(parts) != 3 or not all(_WORD.fullmatch(part) for part in parts):
        hint = "write configmap:NAMESPACE/WORKFLOW/UID"
        raise InputError(f"{address!r} is no record store", Place("--store"), hint)
    namespace, workflow, uid = parts
    # Only here, so that the laptop needs no kubernetes client.
    from steps.cluster.api.client import Cluster  # noqa: PLC0415
    from steps.cluster.api.owner import WorkflowRun  # noqa: PLC0415
    from steps.cluster.api.store import ConfigMapStore  # noqa: PLC0415

    return ConfigMapStore(Cluster.connect(namespace), WorkflowRun(workflow, uid))
