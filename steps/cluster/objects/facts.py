"""What a record tells beside the end of a run: which pod was where, which versions ran; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steps.cluster.objects.reading import image_of, name_of, node_of

Object = Mapping[str, Any]

_LABELS = {"driver": "nvidia.com/cuda.driver-version.full"}
_INFO = {
    "kernel": "kernelVersion",
    "containerRuntime": "containerRuntimeVersion",
    "kubelet": "kubeletVersion",
}


def placements(pods: Iterable[Object]) -> dict[str, str]:
    """Return the node by name of every pod that has one."""
    return {name_of(pod): str(node_of(pod)) for pod in pods if node_of(pod)}


def versions(pods: Iterable[Object], nodes: Iterable[Object], image: str) -> dict[str, str]:
    """Return the versions of image and nodes.

    Args:
        pods: the run's pods; they tell the image by its digest.
        nodes: the group's nodes.
        image: the image that was asked for, where no pod tells more.
    """
    nodes = list(nodes)
    found = {"image": image_of(pods) or image}
    for name, label in _LABELS.items():
        found |= _joined(name, (n["metadata"].get("labels", {}).get(label) for n in nodes))
    for name, key in _INFO.items():
        infos = ((n.get("status") or {}).get("nodeInfo") or {} for n in nodes)
        found |= _joined(name, (info.get(key) for info in infos))
    return found


def _joined(name: str, values: Iterable[Any]) -> dict[str, str]:
    """Return a version; several of it stand side by side, since that is worth knowing."""
    found = sorted({str(value) for value in values if value})
    return {name: ", ".join(found)} if found else {}
