"""How fast simulated hardware is: published figures, and a wire model where there are none.

Times follow ``t(S) = latency + ramp · S / (S + half) + S · f / rate``: S is the message size, f the
bus factor of the collective (nccl-tests doc/PERFORMANCE.md), ``rate`` the bus bandwidth of endless
messages. The ramp stands for the pipeline filling up; with it the curve of a published run of eight
H100 nodes (coreweave/nccl-tests README: 356 GB/s at 512M, 366 at 1G, 387 at 8G) is met within 2 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from catalog.bars.expected import expected_figure
from catalog.bars.physics import Unknown, physics
from steps.simulator.faults import SlowLink, SlowTraining, of_kind
from steps.simulator.machine import SOCKET, SimulatedRun

_REFERENCE_SIZE = 16 * 2**30
"""Published figures are those of messages of about this size, in bytes."""

_NIC_GBPS = 50.0
"""Network bandwidth per GPU in GB/s of hardware of which nothing is known: one 400G link."""
_NVLINK_GBPS = 480.0
"""All-reduce bus bandwidth inside a node of which nothing is known: NVLink 4."""
_SOCKET_GBPS = 3.1
"""Bus bandwidth over TCP on a 25G host network; what public reports of fall-backs show."""
_MODEL_FLOPS_SHARE = 0.43
"""Part of the peak that Megatron-LM reaches on dense models."""


def bus_factor(operation: str, ranks: int) -> float:
    """Return bus bandwidth divided by algorithm bandwidth for a collective."""
    if ranks < 2:
        return 1.0
    part = (ranks - 1) / ranks
    return 2 * part if operation == "all_reduce" else part


@dataclass(frozen=True, slots=True)
class Curve:
    """Time of a collective by message size.

    Attributes:
        latency_us: time of the smallest message, µs.
        ramp_us: time lost until the pipeline is full, µs.
        half_bytes: message size at which half of the ramp is lost.
        rate_gbps: bus bandwidth of endless messages, GB/s.
        factor: bus bandwidth divided by algorithm bandwidth.
    """

    latency_us: float
    ramp_us: float
    half_bytes: float
    rate_gbps: float
    factor: float

    def time_us(self, size: int) -> float:
        """Return the time of one collective of ``size`` bytes, in µs."""
        wire = size * self.factor / (self.rate_gbps * 1e3)
        return self.latency_us + self.ramp_us * size / (size + self.half_bytes) + wire


def collective_curve(run: SimulatedRun) -> Curve:
    """Return how long the collective of a run takes.

    A healthy group reaches the published figure for its size at large messages. Nobody is faster
    than the slowest member, so a slow link bounds the whole group.
    """
    across = len(run.machines) > 1 or run.entry.facts.get("path") == "nic"
    factor = bus_factor(run.entry.operation, run.ranks)
    latency = 20.0 + 6.0 * math.log2(max(2, run.ranks)) if across else 13.0
    ramp, half = (250.0, 64 * 2**20) if across else (70.0, 16 * 2**20)
    target = _target_gbps(run, across=across)
    # Chosen so that the curve passes through the target at the size that figures are given for.
    whole_us = _REFERENCE_SIZE * factor / (target * 1e3)
    lost_us = min(latency + ramp, 0.1 * whole_us)
    return Curve(
        latency_us=latency,
        ramp_us=ramp,
        half_bytes=half,
        rate_gbps=_REFERENCE_SIZE * factor / ((whole_us - lost_us) * 1e3),
        factor=factor,
    )


def _target_gbps(run: SimulatedRun, *, across: bool) -> float:
    if across and run.network == SOCKET:
        return _SOCKET_GBPS
    healthy = _healthy_gbps(run)
    speeds = [healthy * machine.performance for machine in run.machines]
    if across:
        speeds += [_bound(run, fault, healthy) for fault in of_kind(run.faults, SlowLink)]
    return min(speeds)


def _bound(run: SimulatedRun, fault: SlowLink, healthy: float) -> float:
    """Return the bus bandwidth that a group with a slow node can have.

    In a ring, bus bandwidth is what each node sends and receives in all. In all-to-all it is what
    each GPU sends, of which only the part for other nodes takes the link.
    """
    if fault.factor is not None:
        return fault.factor * healthy
    rate = fault.gbps or healthy
    if run.entry.operation != "alltoall":
        return min(rate, healthy)
    outside = (run.ranks - run.gpus_per_node) / max(1, run.ranks - 1)
    return min(rate / run.gpus_per_node / max(outside, 0.1), healthy)


def _healthy_gbps(run: SimulatedRun) -> float:
    """Return what a healthy group reaches: what is expected of it, or that of usual hardware."""
    nodes = len(run.machines)
    expected = expected_figure(
        run.entry,
        "busBandwidthGBps",
        run.job.workload.hardware,
        nodes=nodes,
    )
    if not isinstance(expected, Unknown):
        return expected.value
    share = physics().efficiency
    alltoall = run.entry.operation == "alltoall"
    if run.entry.facts.get("path") == "nic":
        return _NIC_GBPS * share.nic["all_reduce"]
    if nodes == 1:
        return _NVLINK_GBPS * (share.nvlink["alltoall"] if alltoall else 1.0)
    wire = _NIC_GBPS * share.fabric[run.entry.operation]
    return wire if alltoall else wire * run.gpus_per_node


def training_tflops(run: SimulatedRun) -> float:
    """Return TFLOP/s per GPU of a training run; the slowest node sets the pace of all."""
    hardware = run.job.workload.hardware
    expected = expected_figure(
        run.entry,
        "avgTFLOPsPerGPU",
        hardware,
        nodes=len(run.machines),
    )
    peaks = physics().training.tflops
    peak = peaks.get(hardware.gpu, max(peaks.values()))
    healthy = peak * _MODEL_FLOPS_SHARE
    if not isinstance(expected, Unknown) and expected.kind == "published":
        healthy = expected.value
    slow = [fault.factor for fault in of_kind(run.faults, SlowTraining)]
    return healthy * min([*slow, *(machine.performance for machine in run.machines)])
