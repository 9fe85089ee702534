"""What the nodes pretend to be: labels, provider id and devices of real GPU machines.

Devices are extended resources written into a node's status. The scheduler and quotas treat them
as real; containers get nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.cluster.cluster import Cluster

_REMEMBERED = "lab.readiness/dress"
"""Annotation that names what a dress has set, so that the next one can take it off."""


@dataclass(frozen=True)
class Dress:
    """The look of one kind of node. In texts, {index} is the node's number."""

    labels: Mapping[str, str]
    resources: Mapping[str, int]
    provider_id: str | None = None
    taints: tuple[Mapping[str, str], ...] = field(default=())


_H100 = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.family": "hopper",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.compute.major": "9",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "single",
    "nvidia.com/cuda.driver-version.full": "570.133.20",
    "nvidia.com/cuda.runtime-version.full": "12.8",
}

AWS_P5 = Dress(
    labels=_H100
    | {
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "topology.kubernetes.io/region": "us-west-2",
        "topology.kubernetes.io/zone": "us-west-2a",
        "topology.k8s.aws/network-node-layer-1": "nn-1a",
        "topology.k8s.aws/network-node-layer-2": "nn-2a",
        "topology.k8s.aws/network-node-layer-3": "nn-3a",
        "nvidia.com/gpu.machine": "p5.48xlarge",
    },
    resources={"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32},
    provider_id="aws:///us-west-2a/i-0{index:016x}",
)

ONPREM_H100 = Dress(
    labels=_H100
    | {
        "nvidia.com/gpu.machine": "DGXH100",
        "feature.node.kubernetes.io/rdma.available": "true",
        "feature.node.kubernetes.io/rdma.capable": "true",
        "feature.node.kubernetes.io/pci-15b3.present": "true",
    },
    resources={"nvidia.com/gpu": 8, "rdma/ib": 8, "nvidia.com/mlnxnics": 8},
)

CPU = Dress(labels={}, resources={})
"""A node without GPUs."""

DRESSES = {"aws": AWS_P5, "onprem": ONPREM_H100, "cpu": CPU}


def needs_new_node(cluster: Cluster, name: str, index: int, dress: Dress) -> bool:
    """Tell whether the node object must be made anew, because its provider id cannot change."""
    have = cluster.get("node", name)["spec"].get("providerID", "")
    return bool(have) and have != _provider_id(dress, index)


def wears(cluster: Cluster, name: str, index: int, dress: Dress) -> bool:
    """Tell whether a node looks like this already, whoever made it so."""
    node = cluster.get("node", name)
    labels = {key: value.format(index=index) for key, value in dress.labels.items()}
    remembered = json.loads(node["metadata"].get("annotations", {}).get(_REMEMBERED, "{}"))
    return (
        remembered == _remembered(dress)
        and labels.items() <= node["metadata"]["labels"].items()
        and node["spec"].get("providerID", "") == _provider_id(dress, index)
        and all(
            node["status"]["allocatable"].get(key) == str(count)
            for key, count in dress.resources.items()
        )
    )


def put_on(cluster: Cluster, name: str, index: int, dress: Dress) -> None:
    """Give a node this look and take the former one off."""
    node = cluster.get("node", name)
    former = json.loads(node["metadata"].get("annotations", {}).get(_REMEMBERED, "{}"))
    labels: dict[str, str | None] = dict.fromkeys(former.get("labels", []))
    labels |= {key: value.format(index=index) for key, value in dress.labels.items()}
    remembered = _remembered(dress)
    # Kubernetes' own taints, such as that of a cordon, are not part of the look.
    kept = [t for t in node["spec"].get("taints", []) if "node.kubernetes.io/" in t["key"]]
    spec: dict[str, object] = {"taints": [*kept, *(dict(taint) for taint in dress.taints)]}
    if provider_id := _provider_id(dress, index):
        spec["providerID"] = provider_id
    metadata = {"labels": labels, "annotations": {_REMEMBERED: json.dumps(remembered)}}
    _patch(cluster, name, {"metadata": metadata, "spec": spec})
    resources: dict[str, str | None] = dict.fromkeys(former.get("resources", []))
    resources |= {key: str(count) for key, count in dress.resources.items()}
    set_resources(cluster, name, resources)


def set_resources(cluster: Cluster, name: str, resources: Mapping[str, str | None]) -> None:
    """Set extended resources of a node, or remove those given as None.

    Allocatable is set too, since the kubelet would follow only with its next status update.
    """
    status = {"capacity": dict(resources), "allocatable": dict(resources)}
    _patch(cluster, name, {"status": status}, "--subresource=status")


def _remembered(dress: Dress) -> dict[str, list[str]]:
    return {"labels": list(dress.labels), "resources": list(dress.resources)}


def _provider_id(dress: Dress, index: int) -> str:
    return (dress.provider_id or "").format(index=index + 1)


def _patch(cluster: Cluster, name: str, patch: object, *flags: str) -> None:
    cluster.kubectl("patch", "node", name, "--type=merge", *flags, "-p", json.dumps(patch))
