"""Waiting for one's turn: a Lease for each node, and one for each place where runs are limited.

The scheduler alone would not do: of two gangs that share nodes each could get half of its pods and
wait for the other for ever.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from catalog.errors import ClusterError
from steps.cluster.api.client import Cluster, ConflictError, NotFoundError, Object, RefusedError
from steps.cluster.api.labels import LABEL_LEASE
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.objects.pods import metadata

DURATION_SECONDS = 60.0
"""A holder that was killed keeps others waiting for so long."""

MANY_NODES = 64
"""Groups of more nodes hold their leases five times as long, to spare the API server."""


def lease_name(node: str) -> str:
    """Return the name of the lease of a node."""
    return f"readiness-{node}"


def run_name(workflow: WorkflowRun, category: str, group: str) -> str:
    """Return what holds the leases of a group, whichever step and attempt."""
    return f"{workflow.name}/{workflow.uid}/{category}/{group}"


def duration_for(nodes: int) -> float:
    """Return the duration of the leases of a group."""
    return DURATION_SECONDS if nodes <= MANY_NODES else 5 * DURATION_SECONDS


class Leases:
    """The leases of one run.

    Args:
        cluster: where they are.
        workflow: to which they belong.
        run: what holds them (`run_name`); one that was killed is followed by its namesake.
        owner: owner reference; the leases go with the Workflow.
        duration: seconds without renewal after which a lease is free.
        outage: seconds for which an API that does not answer is borne while we wait.
    """

    def __init__(
        self,
        cluster: Cluster,
        workflow: WorkflowRun,
        run: str,
        owner: Mapping[str, Any] | None,
        *,
        duration: float,
        outage: float = 0.0,
    ) -> None:
        self._cluster = cluster
        self._workflow = workflow
        self._run = run
        self._holder = f"{self._run}/{secrets.token_hex(4)}"
        self._owner = owner
        self._duration = duration
        self._held: list[str] = []
        self._seen: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()
        self._outage = outage
        self._over = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="leases", daemon=True)

    def take(
        self,
        nodes: Sequence[str],
        places: Sequence[str],
        wait: Callable[[float], bool],
        pause: float,
    ) -> str | None:
        """Wait until one of the places and all nodes are ours.

        Nodes are taken in the order of their names, so that two groups never wait for each other.

        Args:
            nodes: names of nodes.
            places: names of leases of which one is needed; empty when there is no limit.
            wait: waits so many seconds; True means to give up.
            pause: seconds between two tries.

        Returns:
            None when all is ours, else what was waited for when `wait` said to give up.

        Raises:
            ClusterError: the API refused or did not answer.
        """
        self._renewer.start()
        if places and not self._take_one(places, wait, pause):
            return "a free place (maxConcurrent)"
        for node in sorted(nodes):
            if not self._take_one([lease_name(node)], wait, pause):
                return f"node {node}, which {self._holder_of(lease_name(node))} holds"
        return None

    def release(self) -> None:
        """Give everything back; what cannot be given back runs out by itself."""
        self._over.set()
        with self._lock:
            for name in self._held:
                with suppress(ClusterError):
                    found = self._cluster.get("Lease", name)
                    if found["spec"].get("holderIdentity") == self._holder:
                        # Unless another run of our group takes it over at this moment.
                        version = str(found["metadata"].get("resourceVersion") or "")
                        self._cluster.delete("Lease", name, version=version)
            self._held.clear()

    def _take_one(self, names: Sequence[str], wait: Callable[[float], bool], pause: float) -> bool:
        answered = time.monotonic()
        while True:
            try:
                for name in names:
                    if self._try(name):
                        with self._lock:
                            self._held.append(name)
                        return True
                answered = time.monotonic()
            except RefusedError:
                raise
            except ClusterError:
                if time.monotonic() - answered > self._outage:
                    raise
                # Holders could not renew meanwhile: their time begins anew.
                self._seen.clear()
            if wait(pause):
                return False

    def _try(self, name: str) -> bool:
        body = self._lease(name)
        try:
            self._cluster.create(body)
        except ConflictError:
            pass
        else:
            return True
        try:
            found = self._cluster.get("Lease", name)
        except NotFoundError:
            return False
        if not self._is_ours(found) and not self._expired(name, found):
            return False
        body["metadata"]["resourceVersion"] = found["metadata"].get("resourceVersion", "")
        try:
            self._cluster.replace(body)
        except (ConflictError, NotFoundError):
            return False
        return True

    def _is_ours(self, found: Object) -> bool:
        """True when we hold it, or a run of the same group that was killed before us did."""
        return str(found["spec"].get("holderIdentity")).startswith(f"{self._run}/")

    def _expired(self, name: str, found: Object) -> bool:
        """Judge by our own clock how long the holder has not renewed; clocks may differ."""
        renewed, now = str(found["spec"].get("renewTime")), time.monotonic()
        known, since = self._seen.get(name, ("", now))
        if known != renewed:
            self._seen[name] = (renewed, now)
            return False
        return now - since > float(found["spec"].get("leaseDurationSeconds") or DURATION_SECONDS)

    def _renew(self) -> None:
        while not self._over.wait(self._duration / 4):
            with self._lock:
                for name in self._held:
                    with suppress(ClusterError):
                        self._renew_one(name)

    def _renew_one(self, name: str) -> None:
        found = self._cluster.get("Lease", name)
        if found["spec"].get("holderIdentity") == self._holder:
            found["spec"]["renewTime"] = _now()
            self._cluster.replace(found)

    def _holder_of(self, name: str) -> str:
        try:
            return str(self._cluster.get("Lease", name)["spec"].get("holderIdentity"))
        except ClusterError:
            return "nobody"

    def _lease(self, name: str) -> Object:
        labels = {**self._workflow.labels, LABEL_LEASE: "run"}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata(name, labels, self._owner),
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": max(1, round(self._duration)),
                "acquireTime": _now(),
                "renewTime": _now(),
            },
        }


def place_names(workflow: WorkflowRun, category: str, count: int) -> list[str]:
    """Return the names of the places of a category; empty when there is no limit."""
    digest = hashlib.sha256(f"{workflow.uid}\0{workflow.name}\0{category}".encode()).hexdigest()[
        :12
    ]
    return [f"readiness-place-{digest}-{number}" for number in range(count)]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
