"""What detection needs of a cluster: nodes, DRA devices, and the pods that hold GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.errors import ClusterError
from steps.cluster.api.client import Cluster, Object
from steps.cluster.api.labels import LABEL_WORKFLOW


@dataclass(frozen=True)
class Inventory:
    """Objects of the Kubernetes API as plain dicts."""

    nodes: list[Object]
    pods: list[Object] = field(default_factory=list)
    resource_slices: list[Object] = field(default_factory=list)


def read_inventory(cluster: Cluster) -> Inventory:
    """Read nodes, running pods and ResourceSlices.

    Pods that a certification started are left out, since they do not make a node busy.
    ResourceSlices are absent on clusters without DRA, which is no error.

    Raises:
        ClusterError: nodes or pods cannot be read.
    """
    pods = [
        pod
        for pod in cluster.find_everywhere("Pod")
        if pod.get("status", {}).get("phase") in {"Pending", "Running"}
        and LABEL_WORKFLOW not in (pod["metadata"].get("labels") or {})
    ]
    try:
        slices = cluster.find_everywhere("ResourceSlice")
    except ClusterError:
        slices = []
    return Inventory(cluster.find_everywhere("Node"), pods, slices)
