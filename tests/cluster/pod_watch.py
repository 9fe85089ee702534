"""Watching pods: what each was when, and from when to when it had its node."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tests.cluster.cluster import Cluster

Pod = dict[str, Any]

ENDED = {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What the API server said of a pod.

    Attributes:
        when: seconds since the epoch at which it was heard here.
        kind: ADDED, MODIFIED or DELETED.
        pod: the whole object.
    """

    when: float
    kind: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class Stay:
    """The time in which a pod had its node.

    Attributes:
        pod: name of the pod.
        node: where it was bound.
        labels: of the pod.
        gpus: how many GPUs it asked for.
        begin, end: seconds since the epoch; a pod that is still there has no end.
    """

    pod: str
    node: str
    labels: dict[str, str]
    gpus: int
    begin: float
    end: float


class PodWatch:
    """Hears every change of the pods that a selector selects, in a `with` block.

    Args:
        cluster: where.
        namespace: of the pods; None means all.
        selector: label selector.
    """

    def __init__(self, cluster: Cluster, namespace: str | None, selector: str) -> None:
        where = ["-n", namespace] if namespace else ["-A"]
        words = ["kubectl", "get", "pods", *where, "-l", selector, "-o", "json"]
        self._words = [*words, "--watch", "--output-watch-events"]
        self._env = cluster.env
        self._heard: list[Seen] = []
        self._lock = threading.Lock()

    def __enter__(self) -> PodWatch:
        self._process = subprocess.Popen(
            self._words, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._thread.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def heard(self) -> list[Seen]:
        """Everything so far, oldest first."""
        with self._lock:
            return list(self._heard)

    def stays(self) -> list[Stay]:
        """Return the stay of every pod that was bound to a node."""
        pods: dict[str, list[Seen]] = {}
        for seen in self.heard:
            pods.setdefault(seen.pod["metadata"]["uid"], []).append(seen)
        return [stay for events in pods.values() if (stay := _stay(events))]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            with self._lock:
                self._heard.append(Seen(time.time(), event["type"], event["object"]))


def _stay(events: list[Seen]) -> Stay | None:
    bound = [seen for seen in events if seen.pod["spec"].get("nodeName")]
    if not bound:
        return None
    first = bound[0].pod
    over = (s for s in events if s.kind == "DELETED" or s.pod["status"].get("phase") in ENDED)
    limits = [box["resources"].get("limits") or {} for box in first["spec"]["containers"]]
    return Stay(
        pod=first["metadata"]["name"],
        node=first["spec"]["nodeName"],
        labels=first["metadata"].get("labels") or {},
        gpus=sum(int(limit.get("nvidia.com/gpu", 0)) for limit in limits),
        begin=bound[0].when,
        end=next((seen.when for seen in over), float("inf")),
    )
