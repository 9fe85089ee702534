"""Where a run step may stand: not on a node that it is to watch, where another would take it.

A node under test may die and takes along what runs on it. The scheduler only prefers other nodes,
so that a step is never stuck where there are none; the step itself looks where it has come to, and
lets Argo start it again elsewhere. Groups can be hundreds of nodes: a list of them in the pod of
every step would be too long for a Workflow, and one of a few others could all be full.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from catalog.errors import ElsewhereError
from steps.cluster.api.client import Cluster
from steps.cluster.objects.reading import condition, name_of

Object = Mapping[str, Any]

_TOLERATED = frozenset({"nvidia.com/gpu"})
"""Taints that the pods of steps tolerate."""


def check_place(cluster: Cluster, here: str, nodes: Collection[str]) -> None:
    """Check that the step does not stand on a node of its group without need.

    Args:
        cluster: where.
        here: the node on which the step runs.
        nodes: those of the group.

    Raises:
        ElsewhereError: it does, and there are others.
        ClusterError: the API refused or did not answer.
    """
    if here not in nodes:
        return
    others = [node for node in cluster.find_everywhere("Node") if name_of(node) not in nodes]
    free = sorted(name_of(node) for node in others if takes_steps(node))
    if free:
        text = f"runs on {here}, a node of its own group; {free[0]} and others would take it"
        raise ElsewhereError(text if len(free) > 1 else text.replace(" and others", ""))


def takes_steps(node: Object) -> bool:
    """Say whether pods of steps may run on a node, as far as it tells itself."""
    spec = node.get("spec") or {}
    hard = [t for t in spec.get("taints") or [] if t.get("effect") in {"NoSchedule", "NoExecute"}]
    return (
        condition(node, "Ready").get("status") == "True"
        and not spec.get("unschedulable")
        and all(taint.get("key") in _TOLERATED for taint in hard)
    )
