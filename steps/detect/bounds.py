"""What a plan can cost at most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from steps.documents import Bounds, Group

ISOLATION_JOBS = 2
"""Follow-up jobs of a failed group that run one after the other; those of one round run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One category on one cohort, as far as it costs.

    Attributes:
        timeout_seconds: bound of one job, with the wait for its measurement.
        max_concurrent: groups at once; 0 is no bound.
        isolate: whether failed groups are followed by further jobs.
    """

    groups: Sequence[Group]
    timeout_seconds: float
    max_concurrent: int
    gpus_per_node: int
    isolate: bool


def bounds_of(categories: Sequence[Sequence[Cost]], deadline: float, node_cap: int) -> Bounds:
    """Bound a plan: every job runs into its timeout, every group fails and is isolated.

    Categories never share a GPU at the same time, so their times add up also where they may run
    in parallel on different nodes. Nothing runs past the deadline.
    """
    seconds = sum(_slowest(costs) for costs in categories)
    gpu_seconds = sum(
        sum(len(group.nodes) for group in cost.groups) * cost.gpus_per_node * _job_seconds(cost)
        for costs in categories
        for cost in costs
    )
    used: dict[str, int] = {}
    for costs in categories:
        for cost in costs:
            for group in cost.groups:
                for node in group.nodes:
                    used[node] = max(used.get(node, 0), cost.gpus_per_node)
    longest = min(seconds, deadline)
    return Bounds(
        longest_seconds=longest,
        gpu_hours=round(min(gpu_seconds, sum(used.values()) * longest) / 3600, 1),
        deadline_seconds=deadline,
        node_cap=node_cap,
    )


def _job_seconds(cost: Cost) -> float:
    return cost.timeout_seconds * (1 + (ISOLATION_JOBS if cost.isolate else 0))


def _slowest(costs: Sequence[Cost]) -> float:
    """Bound one category: its groups run at once, up to its limit, whatever their cohort."""
    groups = [group for cost in costs for group in cost.groups]
    if not groups:
        return 0.0
    iterations = max(group.iteration for group in groups)
    first = [group for group in groups if group.iteration == 1]
    at_once = max((cost.max_concurrent for cost in costs), default=0) or len(first)
    # A group that borrowed nodes waits for the group that it borrowed from.
    waits = 1 if any(group.overflow for group in first) else 0
    rounds = math.ceil(len(first) / at_once) + waits
    return iterations * rounds * max(_job_seconds(cost) for cost in costs)
