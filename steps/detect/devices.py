"""What the objects beside a Node tell about it: ResourceSlices its devices, pods what they use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.reading.quantity import parse_quantity
from catalog.workload.needs import GPU, MIG_RESOURCE

GPU_DRIVER = "gpu.nvidia.com"
TCPXO_IMAGE = "nccl-plugin-gpudirecttcpx-dev"


@dataclass(frozen=True, slots=True)
class DraDevices:
    """What ResourceSlices tell about one node.

    Attributes:
        counts: whole devices by driver.
        product: name of the GPU.
        mig: MIG devices that exist; those that a driver could yet cut have no UUID.
    """

    counts: Mapping[str, int]
    product: str | None = None
    mig: int = 0


def devices_by_node(slices: Iterable[Mapping[str, Any]]) -> dict[str, DraDevices]:
    """Count the devices of ResourceSlices by node and driver.

    Devices given to virtual machines (vfio) do not count.
    """
    counts: dict[str, dict[str, int]] = {}
    products: dict[str, str] = {}
    cut: dict[str, int] = {}
    for node, driver, found in _pools(slices):
        usable = [device for device in found if _attribute(device, "type") != "vfio"]
        whole = [
            d for d in usable if driver != GPU_DRIVER or _attribute(d, "type") in {None, "gpu"}
        ]
        by_driver = counts.setdefault(node, {})
        by_driver[driver] = by_driver.get(driver, 0) + len(whole)
        if driver == GPU_DRIVER:
            uuids = [_attribute(d, "uuid") for d in usable if _attribute(d, "type") == "mig"]
            cut[node] = cut.get(node, 0) + sum(bool(uuid) for uuid in uuids)
        if driver == GPU_DRIVER and node not in products:
            name = next((n for d in usable if (n := _attribute(d, "productName"))), None)
            if name:
                products[node] = "-".join(name.split())
    return {
        node: DraDevices(found, products.get(node), cut.get(node, 0))
        for node, found in counts.items()
    }


def _pools(
    slices: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, str, list[Mapping[str, Any]]]]:
    """Yield node, driver and devices of every pool, of its newest generation only."""
    newest: dict[tuple[str, str, str], tuple[int, list[Mapping[str, Any]]]] = {}
    for item in slices:
        spec = part(item, "spec")
        node, driver = spec.get("nodeName"), spec.get("driver")
        if not node or not driver:
            continue
        pool = part(spec, "pool")
        generation = int(pool.get("generation") or 0)
        key = (str(node), str(driver), str(pool.get("name") or node))
        held = newest.get(key)
        if held is None or generation > held[0]:
            newest[key] = (generation, items(spec, "devices"))
        elif generation == held[0]:
            held[1].extend(items(spec, "devices"))
    for (node, driver, _), (_, devices) in newest.items():
        yield node, driver, devices


def pods_by_node(pods: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Sort pods that still hold resources by the node they are on."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        node = part(pod, "spec").get("nodeName")
        if node and part(pod, "status").get("phase") not in {"Succeeded", "Failed"}:
            found.setdefault(str(node), []).append(pod)
    return found


def part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping below another; empty when it is missing or no mapping."""
    part = value.get(name)
    return part if isinstance(part, Mapping) else {}


def items(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list below a mapping; none when it is missing or no list."""
    found = value.get(name)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _attribute(device: Mapping[str, Any], name: str) -> str | None:
    # resource.k8s.io/v1beta1 has one level more than v1: devices[].basic.attributes.
    attributes = part(device, "attributes") or part(part(device, "basic"), "attributes")
    value = attributes.get(name, attributes.get(f"{GPU_DRIVER}/{name}"))
    return str(value["string"]) if isinstance(value, Mapping) and "string" in value else None


def gpu_users(pods: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, int], ...]:
    """List the pods that hold GPUs, each with a count."""
    found = []
    for pod in pods:
        spec, metadata = part(pod, "spec"), part(pod, "metadata")
        first = items(spec, "initContainers")
        sidecars = [item for item in first if item.get("restartPolicy") == "Always"]
        together = sum(map(_container_gpus, [*items(spec, "containers"), *sidecars]))
        # As the scheduler counts: the other init containers run before, each alone.
        count = max([together, *map(_container_gpus, first)])
        if count:
            found.append((f"{metadata.get('namespace', 'default')}/{metadata.get('name')}", count))
    return tuple(found)


def _container_gpus(container: Mapping[str, Any]) -> int:
    resources = part(container, "resources")
    amounts = {**part(resources, "requests"), **part(resources, "limits")}
    total = 0
    for name, amount in amounts.items():
        if name in {GPU, f"{GPU}.shared"} or name.startswith(MIG_RESOURCE):
            try:
                total += int(parse_quantity(amount))
            except (ValueError, OverflowError):
                total += 1  # written by hand; some GPU it does use
    return total


def node_software(pods: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Read versions of node software from its pods: GKE's TCPXO plugin from its installer."""
    for pod in pods:
        spec = part(pod, "spec")
        if part(pod, "status").get("phase") not in {None, "Running"}:
            continue
        if not str(part(pod, "metadata").get("name", "")).startswith("nccl-tcpxo-installer"):
            continue
        for container in items(spec, "initContainers"):
            name, _, tag = str(container.get("image") or "").rpartition(":")
            if name.endswith(TCPXO_IMAGE):
                return {"tcpxo": tag.removeprefix("v").partition("-")[0]}
    return {}
