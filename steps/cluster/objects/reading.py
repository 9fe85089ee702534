"""What Pods and Jobs say of themselves; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from steps.cluster.objects.pods import TOOL
from steps.documents import Entity

Object = Mapping[str, Any]


def name_of(thing: Object) -> str:
    """Return the name of an object."""
    return str(thing.get("metadata", {}).get("name", ""))


def node_of(pod: Object) -> str | None:
    """Return the node of a pod; None while it has none."""
    name = pod.get("spec", {}).get("nodeName")
    return str(name) if name else None


def place_of(pod: Object) -> Entity:
    """Return where a pod is: a place, not a culprit."""
    return Entity(node=node_of(pod), device=f"pod {name_of(pod)}")


def is_ready(pod: Object) -> bool:
    """True when the pod is Ready and not on its way out."""
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return False
    return condition(pod, "Ready").get("status") == "True"


def is_deleted(pod: Object) -> bool:
    """True when a pod has been asked to go."""
    return bool(pod.get("metadata", {}).get("deletionTimestamp"))


def condition(thing: Object, kind: str) -> Object:
    """Return a condition by its type; conditions are a list in any order."""
    for item in thing.get("status", {}).get("conditions") or []:
        if item.get("type") == kind:
            found: Object = item
            return found
    return {}


def finished(job: Object) -> bool | None:
    """Return True for a complete Job, False for a failed one, None while it runs."""
    for kinds, result in ((("Complete", "SuccessCriteriaMet"), True), (("Failed",), False)):
        if any(condition(job, kind).get("status") == "True" for kind in kinds):
            return result
    return None


def image_of(pods: Iterable[Object], container: str = TOOL) -> str | None:
    """Return the image that the container really ran, by digest where the runtime tells it."""
    for pod in pods:
        for item in containers_of(pod):
            if item.get("name") == container and item.get("imageID"):
                return str(item["imageID"])
    return None


def containers_of(pod: Object) -> Sequence[Object]:
    """Return the states of all containers of a pod, those that prepare it first."""
    status = pod.get("status", {})
    return [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
