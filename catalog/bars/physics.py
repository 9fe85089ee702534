"""What hardware should reach by physics, where nobody has published a figure.

Bus bandwidth is what nccl-tests prints (its doc/PERFORMANCE.md): made so that it compares with the
wire whatever the number of ranks. With ``n`` ranks, ``g`` of them on each node, NVLink ``L`` GB/s
for each GPU and network devices ``W`` GB/s for each node:

- Rings (all-reduce, all-gather) inside a node: each GPU sends what it receives, so ``L``.
- Rings across nodes: each ring enters and leaves a node once, through a device of its own, so all
  rings together are bound by ``W``; and by ``L`` inside the nodes. Two nodes can exceed ``W``, as
  trees cross the wire less often; nothing rests on that here.
- All-to-all: a rank sends 1/n of its buffer to each of the n - 1 others, and n - g of these are on
  other nodes. Bus bandwidth is the rate at which a rank sends to all n - 1; of that the part
  (n - g) / (n - 1) takes its share ``W / g`` of the devices. So ``W / g · (n - 1) / (n - g)``: 94
  GB/s on two nodes of 8 x 400 Gb/s, towards 50 with many.
- Loopback through the devices of one node: the ring goes from GPU to GPU through a device each, so
  ``W / g``.

Each is multiplied by the efficiency that the least of the healthy published clusters has shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from catalog.bars.references import path_of
from catalog.entries.entry import Entry
from catalog.facts.tools import TOOLS
from catalog.hardware.hardware import Hardware
from catalog.reading.model import Model
from catalog.reading.quantity import parse_size
from catalog.reading.source import shipped


class _Rates(Model):
    source: str
    gbytes: dict[str, float]


class _Efficiency(Model):
    nvlink: dict[str, float]
    fabric: dict[str, float]
    nic: dict[str, float]
    pcie: float
    peer: float


class _Many(Model):
    nodes: int
    factor: float


class _Training(Model):
    source: str
    tflops: dict[str, float]
    model_flops: dict[str, dict[str, float]]
    least_network: float


class Physics(Model):
    """The numbers of ``physics.yaml``, which says what they mean."""

    nvlink: _Rates
    bridges: dict[str, float]
    domains: dict[str, int]
    pcie: _Rates
    efficiency: _Efficiency
    slow_fabrics: dict[str, float]
    many: _Many
    no_loopback: tuple[str, ...]
    sizes: dict[str, float]
    training: _Training


@dataclass(frozen=True, slots=True)
class Derived:
    """A figure from physics.

    Attributes:
        value: in the unit of the figure.
        how: the calculation, in words and numbers.
        limit: what links or cores would give without any loss.
    """

    value: float
    how: str
    limit: float


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing can be derived, and why."""

    why: str


@cache
def physics() -> Physics:
    """Return the numbers."""
    return Physics.model_validate(shipped("bars/physics.yaml").data)


def derive(
    entry: Entry,
    figure: str,
    hardware: Hardware,
    *,
    nodes: int,
    scale: str = "",
) -> Derived | Unknown:
    """Work out what a figure should reach at large messages.

    Args:
        entry: whose figure it is.
        figure: ``busBandwidthGBps`` of NCCL, ``avgTFLOPsPerGPU``, or a bandwidth of DCGM.
        hardware: the nodes.
        nodes: how many of them a group has.
        scale: intra-rack groups are in one NVLink domain, whatever the labels say.
    """
    expected = TOOLS[entry.tool].expected
    if expected is None:
        return Unknown(f"nobody knows what bounds {entry.tool}")
    if expected.by == "copies":
        return _copy(figure, hardware)
    if nodes < 1:
        return Unknown("the number of nodes is not known")
    across = bool(hardware.mnnvl) and _in_one_domain(hardware, nodes, scale)
    if expected.by == "model":
        return _training(entry, hardware, nodes, across=across)
    path = path_of(entry, nodes)
    if path == "nvlink" or (path == "fabric" and across):
        return _nvlink(entry.operation, hardware, nodes)
    return _nic(hardware) if path == "nic" else _fabric(entry.operation, hardware, nodes)


def size_factor(largest: int) -> float | None:
    """Return the part of the bus bandwidth of 16G that a largest message of so many bytes reaches.

    None where it is too small to say much about the hardware.
    """
    known = {parse_size(name): factor for name, factor in physics().sizes.items()}
    below = [size for size in known if size <= largest]
    return known[max(below)] if below else None


def _in_one_domain(hardware: Hardware, nodes: int, scale: str) -> bool:
    gpus = physics().domains.get(hardware.gpu, 0)
    inside = nodes > 1 and nodes * (hardware.gpus_per_node or 0) <= gpus
    return inside and (hardware.one_domain or scale == "intra-rack")


def _nvlink_rate(hardware: Hardware) -> float | None:
    """Return GB/s of NVLink that a GPU has in each direction, or None where it is not known."""
    known = physics()
    bridge = known.bridges.get(hardware.profile or "")
    return bridge or known.nvlink.gbytes.get(hardware.gpu)


def _nvlink(operation: str, hardware: Hardware, nodes: int) -> Derived | Unknown:
    gpu = hardware.gpu
    rate = _nvlink_rate(hardware)
    if rate is None or not hardware.nvlink:
        return Unknown(f"no NVLink is known to join the GPUs ({gpu}) of a node")
    if hardware.gpus_per_node == 1 and nodes == 1:
        return Unknown("a single GPU has no other to talk to")
    part = physics().efficiency.nvlink[operation]
    return Derived(part * rate, f"{part:g} x {rate:g} GB/s of NVLink for each GPU", rate)


def _wire(hardware: Hardware) -> float | None:
    """Return GB/s of network devices for each GPU, or None where it is not known.

    Each GPU has its share of the devices, so a run on half of the GPUs has half of the wire.
    """
    gpus = hardware.gpus or hardware.gpus_per_node
    if not hardware.nics or not hardware.nic_gbps or not gpus:
        return None
    return hardware.nics * hardware.nic_gbps / 8 / gpus


def _devices(hardware: Hardware) -> str:
    gpus = hardware.gpus or hardware.gpus_per_node
    return f"{hardware.nics} x {hardware.nic_gbps:g} Gb/s of network devices for {gpus} GPUs"


def _fabric(operation: str, hardware: Hardware, nodes: int) -> Derived | Unknown:
    wire, gpus = _wire(hardware), hardware.gpus_per_node
    if nodes < 2 or wire is None or gpus is None:
        return Unknown("number or rate of the network devices is not known")
    known = physics()
    part = known.efficiency.fabric[operation]
    how = f"{part:g} x {_devices(hardware)}"
    limit = wire
    if operation == "alltoall":
        ranks = nodes * gpus
        limit *= (ranks - 1) / (ranks - gpus)
        how += f" x {ranks - 1}/{ranks - gpus} (peers / peers on other nodes)"
    else:
        limit *= gpus
        how += f" x {gpus}"
    slow = known.slow_fabrics.get(hardware.profile or "", 1.0)
    many = known.many.factor if nodes > known.many.nodes else 1.0
    value = part * limit * slow * many
    how += f" x {slow:g} ({hardware.profile})" if slow < 1 else ""
    how += f" x {many:g} (more than {known.many.nodes} nodes)" if many < 1 else ""
    inside = _nvlink(operation, hardware, nodes)
    if isinstance(inside, Derived) and inside.value < value:
        return inside
    return Derived(value, how, limit)


def _nic(hardware: Hardware) -> Derived | Unknown:
    wire, gpus = _wire(hardware), hardware.gpus_per_node
    if hardware.platform in physics().no_loopback:
        return Unknown(f"whether a loopback leaves the node on {hardware.platform} is not known")
    if wire is None or gpus is None or gpus < 2:
        return Unknown("number or rate of the network devices is not known")
    part = physics().efficiency.nic["all_reduce"]
    return Derived(part * wire, f"{part:g} x {_devices(hardware)}", wire)


def _copy(figure: str, hardware: Hardware) -> Derived | Unknown:
    """Copies of one GPU: to and from the host over PCIe, to another GPU over NVLink."""
    known, gpu = physics(), hardware.gpu
    if not hardware.nvlink:
        return Unknown("only for boards with NVLink it is known how the GPUs are attached")
    peer = figure == "deviceToDeviceMinGBps"
    rate = _nvlink_rate(hardware) if peer else known.pcie.gbytes.get(gpu)
    if rate is None:
        return Unknown(f"the rate of its links is not known for {gpu}")
    part = known.efficiency.peer if peer else known.efficiency.pcie
    link = "NVLink" if peer else "PCIe"
    return Derived(part * rate, f"{part:g} x {rate:g} GB/s of {link}", rate)


def _training(entry: Entry, hardware: Hardware, nodes: int, *, across: bool) -> Derived | Unknown:
    known, gpu = physics().training, hardware.gpu
    peak, part = known.tflops.get(gpu), known.model_flops.get(entry.operation, {}).get(gpu)
    if peak is None or part is None or not hardware.nvlink:
        return Unknown(f"what {entry.operation} reaches on {gpu} without NVLink is not known")
    wire = _wire(hardware) or 0.0
    if nodes > 1 and not across and wire < known.least_network:
        least = f"{known.least_network:g} GB/s for each GPU"
        return Unknown(f"gradients need a network of {least}, which this is not known to have")
    how = f"{part:g} x {peak:g} TFLOP/s, the dense BF16 peak of {gpu}"
    return Derived(part * peak, how, peak)
