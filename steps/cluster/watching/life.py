"""Signs of life of nodes after a run: heartbeats that came later than its end.

Kubernetes calls a node NotReady most of a minute after its last heartbeat, so a node that died
while its tool ended still looks well. Every kubelet renews a Lease of its node each ten seconds;
one that has changed since the end of the run was renewed by a node that has outlived it. Only
changes count and no times, since clocks of nodes differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from catalog.errors import ClusterError
from steps.cluster.api.client import Cluster, NotFoundError
from steps.cluster.objects.reading import condition, name_of

Object = Mapping[str, Any]

NAMESPACE = "kube-node-lease"
"""Where kubelets keep the Leases of their nodes."""

_FEW = 8
"""Leases of up to so many nodes are read one by one; of more, the whole list."""


class SignsOfLife:
    """Waits for a heartbeat of every node.

    Args:
        cluster: where.
        nodes: names of the nodes.
    """

    def __init__(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._cluster = cluster
        self._leases = cluster.in_namespace(NAMESPACE)
        self._first: dict[str, str] = {}
        self.silent = set(nodes)

    def begin(self) -> None:
        """Note the last heartbeats before the end; they count for nothing.

        Where they cannot be read now, those that are read first count for nothing.
        """
        with suppress(ClusterError):
            self.listen()

    def listen(self) -> None:
        """Read the heartbeats of the nodes that were silent so far.

        Raises:
            ClusterError: the API refused or did not answer.
        """
        for node, beat in self._beats().items():
            if beat and self._first.setdefault(node, beat) != beat:
                self.silent.discard(node)

    def _beats(self) -> dict[str, str]:
        """Return the time of the last heartbeat by node."""
        if len(self.silent) > _FEW:
            leases = self._leases.find("Lease")
            return {name: _renewed(x) for x in leases if (name := name_of(x)) in self.silent}
        return {node: self._beat(node) for node in sorted(self.silent)}

    def _beat(self, node: str) -> str:
        try:
            return _renewed(self._leases.get("Lease", node))
        except NotFoundError:
            pass
        try:
            # Nodes without a kubelet of the usual kind say so in their status, every few minutes.
            return str(condition(self._cluster.get("Node", node), "Ready").get("lastHeartbeatTime"))
        except NotFoundError:
            return ""


def _renewed(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("renewTime") or "")
