"""The machines of a simulated fleet and the run that they take part in."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from catalog.entries.entry import Entry
from steps.jobs.job import Job
from steps.simulator.clock import stream
from steps.simulator.faults import Fault, SocketFallback, of_kind

DRIVER = "580.95.05"
"""Driver version that the simulated tools print."""

SOCKET = "Socket"

_PCI = {
    "h100": ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db"),
    "h200": ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db"),
    "b200": ("1b", "43", "52", "61", "9d", "c3", "d1", "df"),
    "a100": ("07", "0f", "47", "4e", "87", "90", "b7", "bd"),
}
_GRACE_PCI = ("0008:06", "0009:06", "0018:06", "0019:06")
"""Grace machines give each GPU a PCI domain of its own."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One node.

    Attributes:
        product: GPU product label.
        architecture: short GPU name, for example h100.
        gpus: whole GPUs that the machine has when all is well.
        lost: GPUs that were gone before anything ran.
        performance: its speed as a part of a healthy machine's.
        unavailable: why no pod can be scheduled on it; None when it can.
        address: its IPv4 address.
    """

    name: str
    product: str
    architecture: str
    gpus: int
    lost: frozenset[int] = frozenset()
    performance: float = 1.0
    unavailable: str | None = None
    address: str = "10.0.0.1"

    @property
    def present(self) -> tuple[int, ...]:
        """Indices of the GPUs that are there."""
        return tuple(gpu for gpu in range(self.gpus) if gpu not in self.lost)

    @property
    def gpu_name(self) -> str:
        """Product name as CUDA gives it."""
        return self.product.replace("-", " ") or "NVIDIA GPU"

    def pci(self, gpu: int) -> str:
        """PCI address of a GPU, ``0000:18:00``."""
        if self.architecture.startswith(("gb", "gh")):
            return f"{_GRACE_PCI[gpu % len(_GRACE_PCI)]}:00"
        known = _PCI.get(self.architecture, ())
        bus = known[gpu] if gpu < len(known) else f"{0x10 + 8 * gpu:02x}"
        return f"0000:{bus}:00"


@dataclass(frozen=True)
class SimulatedRun:
    """A job with everything that shapes what it prints.

    Attributes:
        machines: the machines of the group, in rank order.
        faults: faults of these machines that show in this category.
        seed: the fleet's seed.
    """

    job: Job
    entry: Entry
    machines: tuple[Machine, ...]
    faults: tuple[Fault, ...]
    seed: int
    argv: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "argv", flags(self.job.workload.command))

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node that the run uses."""
        return int(self.job.workload.gpus_per_node.value)

    @property
    def ranks(self) -> int:
        """GPUs of the whole run."""
        return self.gpus_per_node * len(self.machines)

    @property
    def timeout(self) -> float:
        """Seconds after which the launcher gives up."""
        return float(self.job.workload.timeout_seconds.value)

    @property
    def network(self) -> str:
        """The network that NCCL uses, in its own words."""
        if of_kind(self.faults, SocketFallback):
            return SOCKET
        names = self.job.workload.transport.value
        if isinstance(names, str):
            return names
        return str(names[0]) if names else "IB"

    def place(self, rank: int) -> tuple[Machine, int]:
        """Return the machine and the GPU index of a rank."""
        machine = self.machines[rank // self.gpus_per_node]
        local = rank % self.gpus_per_node
        present = machine.present
        return machine, present[local] if local < len(present) else local

    def rank_of(self, node: str, gpu: int) -> int:
        """Return the rank that uses a GPU of a node; the node's first when none does."""
        index = next(i for i, machine in enumerate(self.machines) if machine.name == node)
        local = gpu if gpu < self.gpus_per_node else 0
        return index * self.gpus_per_node + local

    def first(self, fault: Fault) -> Machine:
        """Return the first machine of the group that has a fault."""
        return next(machine for machine in self.machines if machine.name in fault.node)

    def random(self, name: str) -> random.Random:
        """Return a random stream of this run, the same whenever and wherever it runs."""
        group = self.job.group
        return stream(self.seed, self.job.category, group.id, group.iteration, name)


def flags(command: Iterable[str]) -> dict[str, str]:
    """Read a command line into its options: ``-e 16G``, ``--run 3``, ``--train-iters=50``.

    An option without a value gives the empty text. The last of several wins.
    """
    found: dict[str, str] = {}
    name: str | None = None
    for word in command:
        if word.startswith("-") and not word[1:2].isdigit():
            key, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            found[key] = value
            name = None if equals else key
        elif name is not None:
            found[name] = word
            name = None
    return found
