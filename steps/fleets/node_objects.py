"""Node and Pod objects of a fleet, as the Kubernetes API gives them."""

from __future__ import annotations

import copy
import hashlib
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from catalog.hardware.platforms import architecture_of
from catalog.reading.quantity import parse_quantity
from catalog.reading.source import Source
from catalog.workload.needs import GPU
from steps.fleets.fleet_document import NodeSet
from steps.nodes.labels import CORDON_TAINT, PRODUCT_LABEL

INSTANCE_TYPE = "node.kubernetes.io/instance-type"

_DOMAIN_LABELS = {
    "aws": "topology.k8s.aws/network-node-layer-1",
    "gcp": "cloud.google.com/gce-topology-block",
    "azure": "kubernetes.azure.com/ppg",
}
_CLIQUE = "nvidia.com/gpu.clique"
"""GPU feature discovery's label of an NVLink domain, on machines that have one across nodes."""
_LEAF = "network.topology.nvidia.com/leaf"
"""Topograph's label of the leaf switch, where the platform has no label of its own."""

_PLATFORM_LABELS = {
    "togetherai": {"node-role.together.ai/worker": ""},
    "forge": {"nke.nvidia.com/site-name": "site-1"},
    "coreweave": {"node.coreweave.cloud/class": "gpu"},
}


def make_nodes(sets: Iterable[NodeSet]) -> list[dict[str, Any]]:
    """Expand node sets into Node objects, in the order of the file."""
    return [_node(item, name) for item in sets for name in item.names]


def make_pods(sets: Iterable[NodeSet]) -> list[dict[str, Any]]:
    """Return the pods that hold GPUs of the nodes in the sets."""
    return [_pod(name, item.busy_gpus) for item in sets if item.busy_gpus for name in item.names]


def names_of(source: Source, nodes: Sequence[dict[str, Any]]) -> list[str]:
    """Return the node names.

    Raises:
        InputError: two nodes have the same name, or there is no node at all.
    """
    names = [str(node["metadata"]["name"]) for node in nodes]
    if not names:
        raise source.error("needs nodes or nodesFile", ("spec",))
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise source.error(f"the fleet has two nodes {name!r}", ("spec", "nodes"))
        seen.add(name)
    return names


def labels_of(node: dict[str, Any]) -> dict[str, str]:
    """Return the labels of a Node object that may be incomplete."""
    labels = node["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


def gpus_of(node: dict[str, Any]) -> int:
    """Return the allocatable GPUs of a Node object, 0 where it says nothing sensible."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    try:
        return max(0, int(parse_quantity(allocatable.get(GPU, 0))))
    except (ValueError, OverflowError):
        return 0


def without_gpu(node: dict[str, Any]) -> dict[str, Any]:
    """Return the node after its device plugin found a GPU unhealthy: one less is allocatable."""
    changed = copy.deepcopy(node)
    changed["status"]["allocatable"][GPU] = str(gpus_of(node) - 1)
    return changed


def cordoned(node: dict[str, Any]) -> dict[str, Any]:
    """Return the node after ``kubectl cordon``."""
    changed = copy.deepcopy(node)
    changed["spec"] = {**(changed.get("spec") or {}), "unschedulable": True}
    _taint(changed, CORDON_TAINT)
    return changed


def not_ready(node: dict[str, Any], message: str) -> dict[str, Any]:
    """Return the node after its kubelet fell silent."""
    changed = copy.deepcopy(node)
    status = dict(changed.get("status") or {})
    others = [c for c in status.get("conditions") or [] if c.get("type") != "Ready"]
    ready = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": message.removeprefix("NodeStatusUnknown: "),
    }
    changed["status"] = {**status, "conditions": [*others, ready]}
    _taint(changed, "node.kubernetes.io/unreachable")
    return changed


def _taint(node: dict[str, Any], key: str) -> None:
    spec = node.get("spec") or {}
    taints = [*(spec.get("taints") or []), {"key": key, "effect": "NoSchedule"}]
    node["spec"] = {**spec, "taints": taints}


def address_of(name: str) -> str:
    """Return an IPv4 address for a node, the same whatever other nodes there are."""
    digest = hashlib.sha256(name.encode()).digest()
    return f"10.{16 + digest[0] % 112}.{digest[1]}.{1 + digest[2] % 254}"


def _node(item: NodeSet, name: str) -> dict[str, Any]:
    devices = {GPU: item.gpus} if item.gpus else {}
    devices |= item.nics
    quantities = {"cpu": "192", "memory": "2113396720Ki", "pods": "110"}
    quantities |= {resource: str(count) for resource, count in devices.items()}
    spec: dict[str, Any] = {}
    provider = _provider_id(item, name)
    if provider:
        spec["providerID"] = provider
    if item.taints:
        spec["taints"] = [taint.to_data() for taint in item.taints]
    metadata: dict[str, Any] = {
        "name": name,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        "labels": _labels(item, name),
    }
    if item.annotations:
        metadata["annotations"] = dict(item.annotations)
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {
            "capacity": dict(quantities),
            "allocatable": quantities,
            "addresses": [
                {"type": "InternalIP", "address": address_of(name)},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficient"},
                {"type": "Ready", "status": "True", "reason": "KubeletReady"},
            ],
        },
    }
    if item.cordoned:
        node = cordoned(node)
    return node if item.ready else not_ready(node, "Kubelet stopped posting node status.")


def _labels(item: NodeSet, name: str) -> dict[str, str]:
    architecture = architecture_of(item.gpu_product)
    grace = architecture.startswith(("gb", "gh"))
    labels = {
        "kubernetes.io/arch": "arm64" if grace else "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
    if item.instance_type:
        labels[INSTANCE_TYPE] = item.instance_type
    if item.gpus:
        labels |= {
            "nvidia.com/gpu.count": str(item.gpus),
            "nvidia.com/gpu.present": "true",
            PRODUCT_LABEL: item.gpu_product,
        }
    if item.domain:
        key = _CLIQUE if grace else _DOMAIN_LABELS.get(item.platform, _LEAF)
        labels[key] = item.domain
    return labels | _PLATFORM_LABELS.get(item.platform, {}) | item.labels


def _provider_id(item: NodeSet, name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return {
        "aws": f"aws:///us-west-2a/i-{digest[:17]}",
        "gcp": f"gce://example-project/us-central1-a/{name}",
        "azure": "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/"
        f"example/providers/Microsoft.Compute/virtualMachines/{name}",
        "oci": f"ocid1.instance.oc1.us-ashburn-1.{digest[:32]}",
        "togetherai": f"kubevirt://{name}",
        "nscale": f"openstack:///{digest[:8]}-{digest[8:12]}",
        "mistral": f"metal3://{name}",
    }.get(item.platform, "")


def _pod(node: str, gpus: int) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"training-{node}", "namespace": "research"},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "train", "image": "example/train", "resources": resources}],
        },
        "status": {"phase": "Running"},
    }
