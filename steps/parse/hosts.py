"""Joins the host names that a tool prints with the nodes of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steps.documents import Finding, RankPlace
from steps.parse.api import ParseContext
from steps.parse.findings import finding

SHOWN = 8


class Hosts:
    """Finds the node of a host name.

    A host may print its short name where the cluster knows the full one, or the other way round;
    nccl-tests cuts every name at its first dot.

    Args:
        context: names the nodes of the group, and those of the plan beside it.
    """

    def __init__(self, context: ParseContext) -> None:
        self._own = _index(context.nodes) | {
            pod.lower(): node for pod, node in context.pod_nodes.items() if node in context.nodes
        }
        self._other = _index(context.other_nodes)

    def node(self, host: str) -> str | None:
        """Return the node of the group that the host is, if its name tells."""
        return _find(host, self._own)

    def other(self, host: str) -> str | None:
        """Return the node outside the group that the host is, if its name tells."""
        return None if self.node(host) else _find(host, self._other)


def _index(nodes: Iterable[str]) -> dict[str, str | None]:
    """Return the node by full and short name; None where a short name stands for several."""
    full = {node.lower(): node for node in nodes}
    short: dict[str, str | None] = {}
    for name, node in full.items():
        first = _short(name)
        short[first] = None if first in short else node
    return short | full


def _find(host: str, known: dict[str, str | None]) -> str | None:
    name = host.lower()
    if name in known:
        return known[name]
    found = known.get(_short(name))
    # two full names are of one host only where they are the same
    return found if found and ("." in found) != ("." in name) else None


def _short(name: str) -> str:
    first = name.partition(".")[0]
    return name if first.isdigit() else first  # an address has no short form


def node_names(ranks: Sequence[RankPlace], context: ParseContext) -> dict[str | None, str]:
    """Return the node by the host name that the tool printed.

    A host name that is no node's may be a pod's. Then the launcher's map of ranks tells, which is
    only believed where it joins every host with one node, and no host is known to be another node.
    """
    hosts = Hosts(context)
    named = {place.node: hosts.node(place.node) for place in ranks if place.node}
    by_name = {host: node for host, node in named.items() if node}
    if by_name or any(hosts.other(host) for host in named):
        return {host: node for host, node in by_name.items() if host != node}
    names: dict[str | None, str] = {}
    for place in ranks:
        node = context.rank_nodes.get(place.rank)
        if place.node and node and names.setdefault(place.node, node) != node:
            return {}
    return names if len(set(names.values())) == len(names) else {}


def check_hosts(ranks: Sequence[RankPlace], context: ParseContext) -> list[Finding]:
    """Compare the hosts of an output with the nodes of its group.

    Output of other machines proves nothing about these. Names of which none is a node's are those
    of pods where the launcher's map joins them, so that alone is only noted.

    Args:
        ranks: as the tool printed them.
        context: names the nodes.
    """
    printed = list(dict.fromkeys(place.node for place in ranks if place.node))
    if not context.nodes or not printed:
        return []
    hosts = Hosts(context)
    strange = [host for host in printed if not hosts.node(host)]
    if not strange:
        return []
    elsewhere = [host for host in strange if hosts.other(host)]
    if elsewhere:
        says = f"the output is from nodes outside the group: {_list(elsewhere)}"
    elif len(strange) < len(printed):
        says = f"only some hosts of the output are nodes of the group, not {_list(strange)}"
    elif context.rank_nodes and not node_names(ranks, context):
        says = f"hosts that cannot be joined one to one with the nodes: {_list(strange)}"
    else:
        says = f"no host of the output is a node of the group; pods of it may be: {_list(strange)}"
        return [finding("HOSTS_DIFFER", says)]
    return [finding("HOSTS_DIFFER", says, variant="elsewhere")]


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
