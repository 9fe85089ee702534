"""Node objects and certifications for tests of detection."""

from __future__ import annotations

from typing import Any

import yaml

from catalog.certification import Certification, parse_certification
from catalog.reading.source import Source, parse_documents

H100 = "NVIDIA-H100-80GB-HBM3"
GB200 = "NVIDIA-GB200-NVL72"


def node(
    name: str,
    *,
    product: str | None = H100,
    provider: str | None = None,
    instance: str | None = None,
    gpus: int | None = 8,
    allocatable: dict[str, Any] | None = None,
    labels: dict[str, Any] | None = None,
    taints: list[dict[str, str]] | None = None,
    cordoned: bool = False,
    ready: str | None = "True",
    capacity: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build one Node object; None leaves a field out."""
    found: dict[str, Any] = {"kubernetes.io/hostname": name}
    if product is not None:
        found |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.present": "true"}
    if instance is not None:
        found["node.kubernetes.io/instance-type"] = instance
    spec: dict[str, Any] = {}
    if provider is not None:
        spec["providerID"] = provider
    if cordoned:
        spec["unschedulable"] = True
    if taints:
        spec["taints"] = taints
    amounts = {} if gpus is None else {"nvidia.com/gpu": str(gpus)}
    amounts |= allocatable or {}
    status: dict[str, Any] = {"allocatable": amounts} if amounts else {}
    if capacity is not None:
        status["capacity"] = capacity
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": ready}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": found | (labels or {})},
        "spec": spec,
        "status": status,
    }


def fleet(count: int, prefix: str = "gpu", **fields: Any) -> list[dict[str, Any]]:
    """Build nodes that differ only by name."""
    width = len(str(count))
    return [node(f"{prefix}-{number:0{width}d}", **fields) for number in range(1, count + 1)]


def certification(
    *categories: str,
    options: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    file: str = "certification.yaml",
) -> tuple[Certification, Source]:
    """Build a certification of the given categories; ``options`` go to each of them."""
    wanted = categories or ("communication/nccl-all-reduce",)
    data = {
        "kind": "Certification",
        "metadata": {"name": "test"},
        "spec": {
            **(spec or {}),
            "categories": [
                {
                    "domain": name.partition("/")[0],
                    "variant": name.partition("/")[2],
                    **({"options": options} if options else {}),
                }
                for name in wanted
            ],
        },
    }
    source = parse_documents(yaml.safe_dump(data, sort_keys=False), file)[0]
    return parse_certification(source), source
