"""What NCCL 2.28 prints with NCCL_DEBUG=INFO about its network and its communicator."""

from __future__ import annotations

from collections.abc import Iterator

from steps.simulator.machine import SOCKET, Machine, SimulatedRun

NCCL_VERSION = "2.28.9+cuda13.0"


def pid_of(run: SimulatedRun, rank: int, gpus_per_process: int = 1) -> int:
    """Return the process of a rank."""
    machine, _ = run.place(rank)
    first = run.random(f"pid {machine.name}").randrange(300, 9000)
    return first + rank % run.gpus_per_node // gpus_per_process


def info_lines(run: SimulatedRun, gpus_per_process: int = 1) -> Iterator[str]:
    """Yield the lines of all ranks."""
    network, first = run.network, run.machines[0]
    communicator = run.random("communicator").getrandbits(63)
    pid = pid_of(run, 0, gpus_per_process)
    yield f"{first.name}:{pid}:{pid} [0] NCCL INFO Bootstrap: Using eth0:{first.address}<0>"
    yield f"NCCL version {NCCL_VERSION}"
    for rank in range(run.ranks):
        machine, gpu = run.place(rank)
        local = rank % run.gpus_per_node
        head = line_head(run, rank, gpus_per_process)
        if local == 0:
            yield from (f"{head} NCCL INFO {text}" for text in _network_lines(run, machine))
        yield f"{head} NCCL INFO Using network {network}"
        bus = "".join(machine.pci(gpu).split(":")[1:]).lstrip("0") + "0"
        yield (
            f"{head} NCCL INFO ncclCommInitRank comm 0x{0x55D0_0000_0000 + rank * 0x1000:x} "
            f"rank {rank} nranks {run.ranks} cudaDev {local} nvmlDev {gpu} busId {bus} "
            f"commId 0x{communicator:x} - Init COMPLETE"
        )


def line_head(run: SimulatedRun, rank: int, gpus_per_process: int = 1) -> str:
    """Return the head of NCCL's lines of a rank: host, process, thread, device."""
    machine, _ = run.place(rank)
    pid = pid_of(run, rank, gpus_per_process)
    return f"{machine.name}:{pid}:{pid + 64} [{rank % run.gpus_per_node}]"


def _network_lines(run: SimulatedRun, machine: Machine) -> Iterator[str]:
    network = run.network
    nics = int(run.job.workload.nics_per_node.value or 0) or run.gpus_per_node
    if network == SOCKET:
        yield "NET/IB : No device found."
        yield f"NET/Socket : Using [0]eth0:{machine.address}<0>"
    elif network == "IB":
        devices = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(nics))
        yield f"NET/IB : Using {devices} [RO]; OOB eth0:{machine.address}<0>"
    elif "Libfabric" in network:
        yield "NET/OFI Initializing aws-ofi-nccl 1.16.3"
        yield f"NET/OFI Selected provider is efa, fabric is efa-direct (found {nics} nics)"
    yield f"Initialized NET plugin {network}"
