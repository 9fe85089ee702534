"""Signs that a staged failure has shown, so that a run step's deadline need not be guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steps.cluster.objects.reading import condition
from steps.cluster.watching.patience import Patience
from tests.cluster.cluster import Cluster

Object = dict[str, Any]
Sign = Callable[[Sequence[Object], Sequence[Object]], bool]
"""Told the pods and the events of a namespace."""


class PatienceUntil(Patience):
    """Patience that is over once a sign has shown in a namespace, however long that takes.

    Args:
        seconds: when it is over without the sign.
        cluster: where.
        namespace: of the pods and events.
        sign: what must have shown.
    """

    def __init__(self, seconds: float, cluster: Cluster, namespace: str, sign: Sign) -> None:
        super().__init__(seconds)
        self._cluster, self._namespace, self._sign = cluster, namespace, sign
        self._shown = False

    @property
    def over(self) -> bool:
        """True from the second question after the sign: what was read before may be older."""
        before = self._shown
        if not before:
            kinds = ("pods", "events")
            found = (self._cluster.get(kind, "-n", self._namespace)["items"] for kind in kinds)
            self._shown = self._sign(*found)
        return before or super().over


def unschedulable(words: str) -> Sign:
    """The scheduler has said so of a pod."""

    def sign(pods: Sequence[Object], _: Sequence[Object]) -> bool:
        said = (condition(pod, "PodScheduled") for pod in pods)
        return any(c.get("status") == "False" and words in c.get("message", "") for c in said)

    return sign


def image_not_pulled(pods: Sequence[Object], _: Sequence[Object]) -> bool:
    """A kubelet has tried in vain to get an image."""
    boxes = (box for pod in pods for box in pod["status"].get("containerStatuses", []))
    reasons = {box["state"].get("waiting", {}).get("reason") for box in boxes}
    return not reasons.isdisjoint({"ErrImagePull", "ImagePullBackOff"})


def warned(words: str, objects: int = 1) -> Sign:
    """The last warnings about so many objects say so."""

    def sign(_: Sequence[Object], events: Sequence[Object]) -> bool:
        last = {
            event["involvedObject"].get("name"): str(event.get("message"))
            for event in sorted(events, key=lambda event: event.get("lastTimestamp") or "")
            if event.get("type") == "Warning"
        }
        return sum(words in message for message in last.values()) >= objects

    return sign
