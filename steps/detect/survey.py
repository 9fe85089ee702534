"""What is there: the nodes of a target, sorted into cohorts, before anything is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.certification import Target
from catalog.hardware.profile import LoadedProfile, Profiles
from steps.detect.cohorts import (
    CohortPlan,
    Identified,
    form,
    identify,
    leave_out,
    of_gpu_type,
    platforms_of,
)
from steps.detect.devices import devices_by_node, pods_by_node
from steps.detect.facts import Observed, observe
from steps.detect.target import describe, nearest_miss, select
from steps.documents import Exclusion, NodeFacts

NAMES_SHOWN = 10
"""Node names that a message lists before it counts the rest."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What detection found.

    Attributes:
        targeted: every node that the target names or selects, sorted.
        facts: facts of those that exist.
        cohorts: usable nodes; none when the platforms are mixed.
        excluded: the other targeted nodes.
        problems: what makes every verdict inconclusive, as code and message.
    """

    targeted: tuple[str, ...]
    facts: tuple[NodeFacts, ...]
    cohorts: tuple[CohortPlan, ...]
    excluded: tuple[Exclusion, ...]
    problems: tuple[tuple[str, str], ...]


def survey(
    nodes: Sequence[Mapping[str, Any]],
    profiles: Profiles,
    *,
    target: Target | None = None,
    stated: LoadedProfile | None = None,
    node_cap: int | None = None,
    domain_keys: Sequence[str] = (),
    resource_slices: Sequence[Mapping[str, Any]] = (),
    pods: Sequence[Mapping[str, Any]] = (),
) -> Survey:
    """Look at the nodes of a cluster.

    Args:
        nodes: Node objects of the whole cluster, as plain data.
        profiles: the hardware profiles.
        target: which nodes; all with GPUs when None.
        stated: profile that the certification states for all of them.
        node_cap: most nodes that may be used.
        domain_keys: topology labels to keep beside the usual ones.
        resource_slices: ResourceSlice objects.
        pods: pods of the cluster.
    """
    wanted = target or Target()
    observed = _observed(nodes, profiles, domain_keys, resource_slices, pods)
    selection = select(wanted, observed)
    problems: list[tuple[str, str]] = []
    if not selection.targeted:
        asked, why = describe(wanted), nearest_miss(wanted, observed)
        problems.append(("NO_NODES", f"no node matches {asked}; {why}"))
    identified = [identify(node, profiles, stated) for node in selection.usable]
    facts = {node.name: node.facts for node in observed}
    facts |= {item.node.name: item.node.facts for item in identified}
    kept, left_out = leave_out(identified, stated)
    kept, over_cap = _within_cap(kept, node_cap)
    mixed = _mixed(kept)
    if mixed:
        problems.append(mixed[0])
    cohorts = () if mixed else tuple(form(kept))
    problems += [_unknown(item) for item in cohorts if item.profile is None]
    return Survey(
        targeted=selection.targeted,
        facts=tuple(facts[name] for name in selection.targeted if name in facts),
        cohorts=cohorts,
        excluded=(*selection.excluded, *left_out, *over_cap, *(mixed[1] if mixed else ())),
        problems=tuple(problems),
    )


def _observed(
    nodes: Sequence[Mapping[str, Any]],
    profiles: Profiles,
    domain_keys: Sequence[str],
    slices: Sequence[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
) -> list[Observed]:
    devices, on_node = devices_by_node(slices), pods_by_node(pods)
    known = {loaded.profile.topology_key for loaded in profiles.all()} | set(domain_keys)
    keys = sorted(key for key in known if key)
    rules = profiles.platform_rules()
    found = [
        observe(
            node,
            devices=devices.get(node["metadata"]["name"]),
            pods=on_node.get(node["metadata"]["name"], ()),
            domain_keys=keys,
            rules=rules,
        )
        for node in nodes
    ]
    return [replace(node, has_gpus=node.has_gpus or of_gpu_type(node, profiles)) for node in found]


def _within_cap(
    nodes: Sequence[Identified], cap: int | None
) -> tuple[list[Identified], list[Exclusion]]:
    if cap is None or len(nodes) <= cap:
        return list(nodes), []
    message = f"{len(nodes)} nodes can be used, limits.nodeCap is {cap}"
    return list(nodes[:cap]), [
        Exclusion(node=item.node.name, code="NODE_EXCLUDED_NODE_CAP", message=message)
        for item in nodes[cap:]
    ]


def _mixed(nodes: Sequence[Identified]) -> tuple[tuple[str, str], list[Exclusion]] | None:
    """Refuse nodes of several platforms: no setting would be right for all of them."""
    platforms = platforms_of(nodes)
    if len(platforms) < 2:
        return None
    listed = "; ".join(f"{name}: {_listed(on)}" for name, on in sorted(platforms.items()))
    excluded = [
        Exclusion(
            node=item.node.name,
            code="PLATFORM_MIXED",
            message=f"is on {item.node.facts.platform} ({item.node.platform_why}), "
            "other target nodes are not",
        )
        for item in nodes
    ]
    return ("PLATFORM_MIXED", f"target nodes are on several platforms: {listed}"), excluded


def _unknown(item: CohortPlan) -> tuple[str, str]:
    found = item.cohort.hardware
    kind = f", instance type {found.instance_type}" if found.instance_type else ""
    return (
        "PLATFORM_UNKNOWN",
        f"no hardware profile fits platform {found.platform}, GPU {found.gpu}{kind} "
        f"({_listed(item.cohort.nodes)}); state one in options.profile",
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
