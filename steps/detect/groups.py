"""Forming the node groups that jobs run on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Draft(NamedTuple):
    """A group before it has an id.

    Attributes:
        nodes: in rank order.
        domain: topology domain, where the group follows one.
        overflow: it borrowed nodes so that left-over ones are covered; it must not run at the
            same time as the group it borrowed from.
    """

    nodes: tuple[str, ...]
    domain: str | None = None
    overflow: bool = False


def fixed_size(nodes: Sequence[str], size: int) -> list[Draft]:
    """Cut nodes into groups of ``size``; left-over nodes borrow from the last full group.

    NVCRE's overflow rule: every group has the full size, so that all are judged by the same bar,
    and every node is in one. With fewer nodes than ``size`` they form one group.
    """
    if len(nodes) <= size:
        return [Draft(tuple(nodes))] if nodes else []
    full = len(nodes) // size * size
    groups = [Draft(tuple(nodes[start : start + size])) for start in range(0, full, size)]
    rest = tuple(nodes[full:])
    if rest:
        borrowed = groups[-1].nodes[: size - len(rest)]
        groups.append(Draft((*borrowed, *rest), overflow=True))
    return groups


def by_domain_order(nodes: Iterable[str], domains: Mapping[str, str]) -> list[str]:
    """Order nodes so that cutting them into groups crosses few domains.

    Large domains come first, as NVCRE packs them; nodes without a domain come last.
    """
    members: dict[str, list[str]] = {}
    for node in sorted(nodes):
        members.setdefault(domains.get(node, ""), []).append(node)
    order = sorted(members, key=lambda name: (name == "", -len(members[name]), name))
    return [node for name in order for node in members[name]]


def packed(nodes: Sequence[str], size: int, domains: Mapping[str, str]) -> list[Draft]:
    """Cut nodes into groups of ``size`` that stay inside a domain where they can.

    Domains are cut into full groups first; what is left over of them is put together.
    """
    members: dict[str, list[str]] = {}
    for node in by_domain_order(nodes, domains):
        members.setdefault(domains.get(node, ""), []).append(node)
    groups: list[Draft] = []
    rest: list[str] = []
    for domain, found in members.items():
        full = len(found) // size * size if domain else 0
        groups += [
            Draft(tuple(found[start : start + size]), domain) for start in range(0, full, size)
        ]
        rest += found[full:]
    if rest and groups and len(rest) < size:
        borrowed = groups[-1].nodes[: size - len(rest)]
        groups.append(Draft((*borrowed, *rest), overflow=True))
    else:
        groups += fixed_size(rest, size)
    return groups


def one_by_one(nodes: Sequence[str]) -> list[Draft]:
    """Form one group per node."""
    return [Draft((node,)) for node in nodes]


def per_domain(
    nodes: Sequence[str], domains: Mapping[str, str], size: int | None = None
) -> list[Draft]:
    """Form one group per domain, or groups of ``size`` inside each domain.

    Nodes without a domain are in no group; the caller excludes them.
    """
    members: dict[str, list[str]] = {}
    for node in sorted(nodes):
        if node in domains:
            members.setdefault(domains[node], []).append(node)
    return [
        draft._replace(domain=domain)
        for domain in sorted(members)
        for draft in fixed_size(members[domain], size or len(members[domain]))
    ]


def screening(nodes: Sequence[str], smallest: int = 2) -> list[Draft]:
    """Cut nodes into chunks of the square root of their number, to find bad ones among many.

    A last chunk below ``smallest`` joins the one before it: one node alone screens no fabric.
    """
    size = max(smallest, math.isqrt(max(len(nodes) - 1, 0)) + 1)
    chunks = [tuple(nodes[start : start + size]) for start in range(0, len(nodes), size)]
    if len(chunks) > 1 and len(chunks[-1]) < smallest:
        last = chunks.pop()
        chunks[-1] += last
    return [Draft(chunk) for chunk in chunks]


def valid_size(
    wanted: int, gpus_per_node: int, *, min_nodes: int, min_gpus: int, model_gpus: int
) -> int | None:
    """Return the largest size up to ``wanted`` that the workload can run at, or None.

    Args:
        wanted: nodes of a group that are asked for or at hand.
        gpus_per_node: GPUs used on each node.
        min_nodes: fewest nodes.
        min_gpus: fewest GPUs.
        model_gpus: GPUs of one copy of a model; they must divide the GPUs of the job.
    """
    for size in range(wanted, max(min_nodes, 1) - 1, -1):
        gpus = size * gpus_per_node
        if gpus >= min_gpus and gpus % model_gpus == 0:
            return size
    return None
