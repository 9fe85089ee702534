"""What is in the cluster now, kept up to date by watches that survive a restart of the API server.

Asking with kubectl again and again costs a processor more than everything else in a long test.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.shell import LabError

Object = dict[str, Any]
Heard = Callable[[str, Object], None]
"""Told the kind and the object of every change, as it comes."""

KINDS = {
    "Pod": "/api/v1/pods",
    "ConfigMap": "/api/v1/configmaps",
    "Node": "/api/v1/nodes",
    "Workflow": "/apis/argoproj.io/v1alpha1/workflows",
}
_AGAIN_SECONDS = 0.5
_READ_SECONDS = 20


class Live:
    """All pods, ConfigMaps, nodes and workflows, in a `with` block.

    Args:
        cluster: where.
        heard: called with every change, from the threads of the watches.
    """

    def __init__(self, cluster: Cluster, heard: Heard | None = None) -> None:
        config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
        server = config["clusters"][0]["cluster"]
        self._address = urlsplit(server["server"])
        self._context = ssl.create_default_context(cafile=server["certificate-authority"])
        self._token = config["users"][0]["user"]["token"]
        self._heard = heard
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self._changed = threading.Condition()
        self._over = threading.Event()

    def __enter__(self) -> Live:
        for kind in KINDS:
            threading.Thread(target=self._follow, args=[kind], daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()

    def all(self, kind: str, namespace: str | None = None) -> list[Object]:
        """Return what is there of a kind."""
        with self._changed:
            found = list(self._objects[kind].values())
        return [o for o in found if namespace in {None, o["metadata"].get("namespace")}]

    def wait(self, probe: Callable[[], Any], *, timeout: float) -> Any:
        """Wait until a probe returns something true, and return it; None when time is up."""
        end = time.monotonic() + timeout
        while True:
            if found := probe():
                return found
            left = end - time.monotonic()
            if left <= 0:
                return None
            with self._changed:
                self._changed.wait(min(left, 1.0))

    def _follow(self, kind: str) -> None:
        while not self._over.is_set():
            with suppress(OSError, http.client.HTTPException, ValueError, LabError):
                self._list_and_watch(kind)
            self._over.wait(_AGAIN_SECONDS)

    def _list_and_watch(self, kind: str) -> None:
        listed = json.loads(b"".join(self._lines(kind, {})))
        now = {item["metadata"]["uid"]: item for item in listed["items"]}
        with self._changed:
            self._objects[kind] = now
            self._changed.notify_all()
        for item in now.values():
            self._tell(kind, item)
        version = listed["metadata"]["resourceVersion"]
        # The API server ends the watch by itself, so that one that went dumb is noticed too.
        words = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "600"}
        words |= {"allowWatchBookmarks": "true"}
        for line in self._lines(kind, words):
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise LabError(str(event["object"]))
            if event["type"] == "BOOKMARK":
                continue
            self._take(kind, event["type"], event["object"])

    def _take(self, kind: str, what: str, item: Object) -> None:
        with self._changed:
            if what == "DELETED":
                self._objects[kind].pop(item["metadata"]["uid"], None)
            else:
                self._objects[kind][item["metadata"]["uid"]] = item
            self._changed.notify_all()
        if what != "DELETED":
            self._tell(kind, item)

    def _tell(self, kind: str, item: Object) -> None:
        if self._heard is not None:
            self._heard(kind, item)

    def _lines(self, kind: str, words: dict[str, str]) -> Iterator[bytes]:
        host, port = self._address.hostname or "", self._address.port
        timeout = 620 if words else _READ_SECONDS
        link = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._context)
        try:
            head = {"Authorization": f"Bearer {self._token}"}
            link.request("GET", f"{KINDS[kind]}?{urlencode(words)}", headers=head)
            answer = link.getresponse()
            if answer.status != http.client.OK:
                raise LabError(f"{kind}: {answer.status}")
            yield from iter(answer.readline, b"")
        finally:
            link.close()
