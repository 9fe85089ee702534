"""Compares the ranks that a run had with the GPUs that it should have had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from steps.documents import Entity, Finding, RankPlace
from steps.parse.api import ParseContext
from steps.parse.findings import finding
from steps.parse.hosts import Hosts
from steps.parse.sightings import node_of_rank

SHOWN = 16


@dataclass(frozen=True, slots=True)
class Ranks:
    """What an output says about the ranks of its run.

    Attributes:
        devices: the table of devices, which lists every rank; empty where it is not there.
        logged: ranks that NCCL's own log named; not every rank logs.
        count: ranks of the communicator by NCCL's log or by the records; None if neither tells.
    """

    devices: Sequence[RankPlace] = ()
    logged: Sequence[RankPlace] = ()
    count: int | None = None

    @property
    def sure_size(self) -> int | None:
        """Number of ranks where the output tells it for sure."""
        if self.count is not None:
            return self.count
        numbers = {place.rank for place in self.devices}
        return len(numbers) if numbers and max(numbers) + 1 == len(numbers) else None

    @property
    def size(self) -> int | None:
        """Number of ranks, as far as anything tells."""
        numbers = [place.rank + 1 for place in (*self.devices, *self.logged)]
        if self.count is not None:
            numbers.append(self.count)
        return max(numbers, default=None)


def check_ranks(ranks: Ranks, context: ParseContext) -> list[Finding]:
    """Compare ranks with the group: a test of fewer GPUs than planned proves less than planned.

    Where some ranks are absent, their nodes are named. Where the whole layout is another, the
    launch is at fault.
    """
    wanted = context.gpus
    if wanted and ranks.size is None:
        return [
            finding("RANKS_UNKNOWN", f"the output does not say that it ran on all {wanted} GPUs")
        ]
    if ranks.devices and (found := _check_devices(ranks, context)):
        return [found]
    if wanted and ranks.count is not None and ranks.count != wanted:
        return [_other_layout(f"the test ran on {ranks.count} ranks", context)]
    return []


def _check_devices(ranks: Ranks, context: ParseContext) -> Finding | None:
    devices, per_node = ranks.devices, context.hardware.gpus_per_node
    if not context.gpus and not per_node:
        return None
    size = ranks.size or 0
    present = {place.rank for place in devices}
    hosts = Counter(place.node for place in devices if place.node)
    short = [host for host, count in hosts.items() if per_node and count < per_node]
    absent = size - len(present)
    few = bool(short) and len(short) < len(hosts) and not (context.gpus and size > context.gpus)
    if absent or few:
        numbers = list(islice(_absent(present, size), SHOWN))
        nodes = _nodes_of(numbers, short, context)
        which = f"; ranks that are not in it: {', '.join(map(str, numbers))}" if numbers else ""
        expected = context.gpus or size
        return finding(
            "GPU_MISSING",
            f"the table of devices lists {len(present)} of {expected} GPUs{which}",
            variant="line-lost",
            entities=[Entity(node=node) for node in nodes],
            count=max(absent, 1),
        )
    uneven = bool(per_node) and any(count != per_node for count in hosts.values())
    if (context.gpus and size != context.gpus) or uneven:
        each = "/".join(sorted({str(count) for count in hosts.values()}))
        where = f"each of {len(hosts)} hosts" if len(hosts) > 1 else "the only host"
        on = f" with {each} on {where}" if hosts else ""
        return _other_layout(f"the test ran on {size} ranks{on}", context)
    return None


def _absent(present: set[int], size: int) -> Iterator[int]:
    return (rank for rank in range(size) if rank not in present)


def _nodes_of(numbers: Sequence[int], short: Sequence[str], context: ParseContext) -> list[str]:
    hosts = Hosts(context)
    nodes = [hosts.node(host) or host for host in short]
    nodes += (
        [node for rank in numbers if (node := node_of_rank(rank, context))] if not short else []
    )
    return list(dict.fromkeys(nodes))


def _other_layout(says: str, context: ParseContext) -> Finding:
    gpus = context.hardware.gpus_per_node
    if context.gpus:
        per_node = f", {gpus} on a node" if gpus else ""
        return finding("INFRA_BAD_ARGS", f"{says}, the group has {context.gpus} GPUs{per_node}")
    return finding("INFRA_BAD_ARGS", f"{says}, the profile has {gpus} on a node")
