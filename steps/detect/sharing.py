"""Why a node has no whole GPUs to test: it cuts them by MIG, or several pods share one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.hardware.platforms import is_mig_product, is_shared_product
from catalog.workload.needs import GPU, MIG_RESOURCE
from steps.detect.devices import DraDevices

SPLIT_ANNOTATIONS = ("hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register")
"""Annotations of the schedulers HAMi and Volcano, which hand out parts of GPUs."""
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"


def mig(
    labels: Mapping[str, str],
    allocatable: Mapping[str, int] | None,
    product: str | None,
    devices: DraDevices | None,
) -> str | None:
    """Say why a node is taken to be partitioned by MIG; None when nothing tells so."""
    return next(_mig(labels, allocatable or {}, product, devices), None)


def sharing(
    labels: Mapping[str, str],
    annotations: Mapping[str, Any],
    allocatable: Mapping[str, int] | None,
    product: str | None,
) -> str | None:
    """Say why the GPUs of a node are taken to be shared; None when nothing tells so."""
    return next(_sharing(labels, annotations, allocatable or {}, product), None)


def _mig(
    labels: Mapping[str, str],
    allocatable: Mapping[str, int],
    product: str | None,
    devices: DraDevices | None,
) -> Iterator[str]:
    if is_mig_product(product):
        yield f"GPU product is {product}"
    if devices and devices.mig:
        yield f"its ResourceSlice has {devices.mig} MIG devices"
    slices = sum(units for name, units in allocatable.items() if name.startswith(MIG_RESOURCE))
    if slices:
        yield f"{slices} MIG devices are allocatable"
    # GKE shows the parts as nvidia.com/gpu.
    if labels.get(GKE_PARTITION):
        yield f"label {GKE_PARTITION} is {labels[GKE_PARTITION]}"
    # The strategy label only says how MIG would be shown; the state label says that it is on. A
    # configuration that is being applied or has failed leaves the GPUs in between.
    wanted = labels.get("nvidia.com/mig.config", "")
    state = labels.get("nvidia.com/mig.config.state", "")
    if wanted and wanted != "all-disabled" and state:
        yield f"MIG configuration is {wanted}" + ("" if state == "success" else f" ({state})")


def _sharing(
    labels: Mapping[str, str],
    annotations: Mapping[str, Any],
    allocatable: Mapping[str, int],
    product: str | None,
) -> Iterator[str]:
    if is_shared_product(product):
        yield f"GPU product is {product}"
    strategy = labels.get("nvidia.com/gpu.sharing-strategy", "none")
    replicas = labels.get("nvidia.com/gpu.replicas", "1")
    if strategy not in {"none", ""}:
        yield f"sharing strategy is {strategy}, {replicas} pods per GPU"
    if replicas.isdecimal() and int(replicas) > 1:
        yield f"{replicas} pods share one GPU"
    if allocatable.get(f"{GPU}.shared"):
        yield f"{GPU}.shared is allocatable"
    if labels.get(GKE_SHARING):
        yield f"label {GKE_SHARING} is {labels[GKE_SHARING]}"
    if labels.get("nvidia.com/vgpu.present") == "true":
        yield "its GPUs are virtual (vGPU)"
    splitter = next((key for key in SPLIT_ANNOTATIONS if key in annotations), None)
    if splitter:
        yield f"annotation {splitter}: parts of GPUs are handed out"
    # A count that was labelled while a GPU was lost is one or two short, never by half.
    count, units = labels.get("nvidia.com/gpu.count", ""), allocatable.get(GPU, 0)
    if count.isdecimal() and 0 < 2 * int(count) <= units:
        yield f"{units} GPUs are allocatable, label nvidia.com/gpu.count says {count}"
