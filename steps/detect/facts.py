"""What one Node object tells: platform, GPU, devices, state.

Allocatable decides and labels inform: labels stay behind when MIG is switched on or a GPU is lost.
A field that is missing is not known; it is never taken for a zero or a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.hardware.platforms import PlatformRule, architecture_of, is_other_make, platform_of
from catalog.reading.quantity import parse_quantity
from catalog.workload.needs import GKE_NETWORK, GPU, MIG_RESOURCE
from steps.detect.devices import GPU_DRIVER, DraDevices, gpu_users, items, node_software, part
from steps.detect.sharing import mig, sharing
from steps.documents import NodeFacts
from steps.nodes.labels import CORDON_TAINT, PRODUCT_LABEL

PRESENT_LABEL = "nvidia.com/gpu.present"
ACCELERATOR_LABELS = (
    "cloud.google.com/gke-accelerator",
    "gpu.nvidia.com/model",
    "gpu.nvidia.com/class",
    "crusoe.ai/accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
)
"""Labels in which GKE, CoreWeave, Crusoe, EKS and Karpenter name the GPU, on nodes where GPU
feature discovery does not run."""
PCI_LABELS = (
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
)
"""Labels of node feature discovery that tell a GPU of NVIDIA, whether or not a driver is there."""
INSTANCE_LABELS = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "node.coreweave.cloud/type",
)
DOMAIN_LABELS = (
    "nvidia.com/gpu.clique",
    "topology.nks.nscale.com/accelerator-domain",
    "ds.coreweave.com/nvlink.domain",
    "topology.k8s.aws/network-node-layer-1",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "kubernetes.azure.com/ppg",
    "topology.kubernetes.io/zone",
)
"""Topology domains that the plan records; a ``topologyKey`` of the certification is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """One taint of a node."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One node as detection sees it.

    Attributes:
        facts: what the plan keeps.
        labels: node labels.
        taints: node taints; a cordoned node has the taint that Kubernetes gives it.
        cordoned: ``spec.unschedulable``.
        ready: the Ready condition; None when the node has no such condition.
        has_gpus: whether it is a GPU node at all.
        gpus_registered: GPUs that were ever registered or labelled, healthy or not; 0 if none.
        allocatable: units by extended resource and DRA driver; None when the node does not tell.
        networks: GKE pod networks.
        mig: why it is taken to be partitioned by MIG.
        shared: why its GPUs are taken to be shared.
        busy: pods that use its GPUs, each with a count.
        software: versions of node software.
        platform_why: the rule that told the platform.
        platform_told: whether a provider id told it; else it is a guess from labels.
    """

    facts: NodeFacts
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    cordoned: bool
    ready: bool | None
    has_gpus: bool
    gpus_registered: int
    allocatable: Mapping[str, int] | None
    networks: tuple[str, ...]
    mig: str | None
    shared: str | None
    busy: tuple[tuple[str, int], ...]
    software: Mapping[str, str]
    platform_why: str
    platform_told: bool

    @property
    def name(self) -> str:
        """The node's name."""
        return self.facts.name


def observe(
    node: Mapping[str, Any],
    *,
    rules: Iterable[PlatformRule],
    devices: DraDevices | None = None,
    pods: Sequence[Mapping[str, Any]] = (),
    domain_keys: Iterable[str] = (),
) -> Observed:
    """Read one Node object.

    Args:
        node: the Node as plain data; may lack any field but ``metadata.name``.
        rules: by which platforms are told.
        devices: what ResourceSlices tell about it.
        pods: pods on this node.
        domain_keys: further topology labels to keep.
    """
    metadata, spec, status = part(node, "metadata"), part(node, "spec"), part(node, "status")
    labels = {str(key): _text(value) for key, value in part(metadata, "labels").items()}
    notes: list[str] = []
    counts = dict(devices.counts) if devices else {}
    allocatable = _amounts(status.get("allocatable"), notes)
    if allocatable is not None or counts:
        allocatable = {**counts, **(allocatable or {})}
    else:
        notes.append("the node reports no allocatable resources")
    capacity = _amounts(status.get("capacity"), notes)
    product = _product(labels, devices, notes)
    architecture = architecture_of(product)
    guess = platform_of(
        str(spec.get("providerID") or ""),
        labels,
        allocatable or {},
        counts,
        architecture,
        rules=rules,
    )
    if guess.note:
        notes.append(guess.note)
    gpus = _gpus(allocatable, counts)
    labelled = _labelled(labels, gpus, notes)
    domains = {key: labels[key] for key in (*DOMAIN_LABELS, *domain_keys) if labels.get(key)}
    cordoned = bool(spec.get("unschedulable"))
    ready = _ready(status, notes)
    return Observed(
        facts=NodeFacts(
            name=str(metadata["name"]),
            platform=guess.platform,
            instance_type=_instance_type(labels, guess.platform),
            gpu_product=product,
            gpu=architecture,
            gpus=gpus,
            nics=_nics(allocatable),
            domains=domains,
            notes=tuple(notes),
        ),
        labels=labels,
        taints=_taints(spec, cordoned=cordoned),
        cordoned=cordoned,
        ready=ready,
        has_gpus=_has_gpus(labels, allocatable, capacity, counts, product),
        gpus_registered=max((capacity or {}).get(GPU, 0), labelled),
        allocatable=allocatable,
        networks=_networks(allocatable),
        mig=mig(labels, allocatable, product, devices),
        shared=sharing(labels, part(metadata, "annotations"), allocatable, product),
        busy=gpu_users(pods),
        software=node_software(pods),
        platform_why=guess.why,
        platform_told=bool(spec.get("providerID")),
    )


def _product(labels: Mapping[str, str], devices: DraDevices | None, notes: list[str]) -> str | None:
    """Return the name of the GPU, and note who else tells it where its own label is missing."""
    if labels.get(PRODUCT_LABEL):
        return labels[PRODUCT_LABEL]
    if devices and devices.product:
        notes.append("GPU told by its ResourceSlice")
        return devices.product
    for key in ACCELERATOR_LABELS:
        if labels.get(key) and not is_other_make(labels[key]):
            notes.append(f"GPU told by label {key}")
            return labels[key]
    return None


def _instance_type(labels: Mapping[str, str], platform: str) -> str | None:
    """Return the instance type; SageMaker HyperPod's ``ml.p5.48xlarge`` is EC2's p5.48xlarge."""
    found = next((labels[key] for key in INSTANCE_LABELS if labels.get(key)), None)
    return found.removeprefix("ml.") if found and platform == "aws" else found


def _text(value: Any) -> str:
    """Labels are text; YAML that was written by hand may hold a number or a boolean."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _amounts(value: Any, notes: list[str]) -> dict[str, int] | None:
    """Read extended resources and huge pages; CPU, memory and pods do not matter here."""
    if not isinstance(value, Mapping):
        return None
    amounts: dict[str, int] = {}
    for name, amount in ((str(name), amount) for name, amount in value.items()):
        if "/" in name or name.startswith("hugepages-"):
            try:
                amounts[name] = int(parse_quantity(amount))
            except (ValueError, OverflowError):
                notes.append(f"{name} is {amount!r}, which is no quantity; taken as 0")
                amounts[name] = 0
    return amounts


def _gpus(allocatable: Mapping[str, int] | None, counts: Mapping[str, int]) -> int | None:
    if allocatable is None:
        return None
    if GPU in allocatable:
        # Where DRA hands the GPUs out, the device plugin may be off and still report zero.
        return allocatable[GPU] or counts.get(GPU_DRIVER, 0)
    return counts.get(GPU_DRIVER, 0)


def _labelled(labels: Mapping[str, str], gpus: int | None, notes: list[str]) -> int:
    """Return the count that GPU feature discovery labelled; note where it is another."""
    label = labels.get("nvidia.com/gpu.count", "")
    if not label.isdecimal():
        return 0
    if gpus is not None and int(label) != gpus:
        notes.append(f"label nvidia.com/gpu.count says {label}, allocatable says {gpus}")
    return int(label)


def _has_gpus(
    labels: Mapping[str, str],
    allocatable: Mapping[str, int] | None,
    capacity: Mapping[str, int] | None,
    counts: Mapping[str, int],
    product: str | None,
) -> bool:
    if product or "true" in {labels.get(key) for key in (PRESENT_LABEL, *PCI_LABELS)}:
        return True
    amounts = [*(allocatable or {}).items(), *(capacity or {}).items()]
    return bool(counts.get(GPU_DRIVER)) or any(
        amount > 0 and name.startswith((GPU, MIG_RESOURCE)) for name, amount in amounts
    )


def _nics(allocatable: Mapping[str, int] | None) -> dict[str, int]:
    """Keep the resources that may stand for network devices."""
    prefixes = (
        "rdma/",
        "vpc.amazonaws.com/efa",
        "nvidia.com/mlnxnics",
        "nvidia.com/rdma",
        "nvidia.com/hostdev",
        "nvidia.com/sriov",
        "nscale.com/",
        "rdma.nscale.com",
        "roce.networking.k8s.aws",
        "openshift.io/",
        GKE_NETWORK,
    )
    return {
        name: amount
        for name, amount in (allocatable or {}).items()
        if name.startswith(prefixes) and not name.endswith(".IP")
    }


def _networks(allocatable: Mapping[str, int] | None) -> tuple[str, ...]:
    """Return GKE's pod networks; ``NAME.IP`` and ``default`` carry no GPU traffic."""
    names = (
        name.removeprefix(GKE_NETWORK) for name in allocatable or {} if name.startswith(GKE_NETWORK)
    )
    return tuple(sorted(name for name in names if name != "default" and not name.endswith(".IP")))


def _taints(spec: Mapping[str, Any], *, cordoned: bool) -> tuple[Taint, ...]:
    taints = [
        Taint(
            key=_text(item.get("key")),
            value=_text(item.get("value")),
            effect=_text(item.get("effect")),
        )
        for item in items(spec, "taints")
    ]
    if cordoned and not any(taint.key == CORDON_TAINT for taint in taints):
        taints.append(Taint(key=CORDON_TAINT, value="", effect="NoSchedule"))
    return tuple(taints)


def _ready(status: Mapping[str, Any], notes: list[str]) -> bool | None:
    for item in items(status, "conditions"):
        if item.get("type") == "Ready":
            return _text(item.get("status")).lower() == "true"
    notes.append("the node has no Ready condition")
    return None
