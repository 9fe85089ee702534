"""What is known of the hardware of a run, and of the run before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.hardware.platforms import UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The nodes of a run; None and what is empty stand for what nobody knows.

    Attributes:
        platform: for example ``aws``.
        gpu: GPU architecture, for example ``h100``.
        instance_type: for example ``p5.48xlarge``.
        profile: name of the hardware profile.
        gpus: GPUs that each node has, used or not.
        gpus_per_node: GPUs of each node that the run uses.
        nics: network devices of each node that carry GPU traffic.
        nics_per_node: network devices of each node that the run asks for.
        nic_gbps: nominal rate of one of them, Gb/s per direction.
        nvlink: whether NVLink joins the GPUs of a node.
        mnnvl: whether NVLink across nodes is used.
        one_domain: whether the nodes of a group are in one NVLink domain, where NVLink spans nodes.
        transport: network names of which NCCL must show one; empty where any is right.
        software: versions of node software by name, for example ``tcpxo``.
    """

    platform: str = UNKNOWN
    gpu: str = UNKNOWN
    instance_type: str | None = None
    profile: str | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    nics: int | None = None
    nics_per_node: int | None = None
    nic_gbps: float | None = None
    nvlink: bool | None = None
    mnnvl: bool | None = None
    one_domain: bool = True
    transport: tuple[str, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it stands, for people: the instance type, else the platform."""
        return self.instance_type or self.platform


NOTHING_KNOWN = Hardware()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known of a run before it starts: what conditions and expressions may ask for.

    Attributes:
        hardware: the nodes.
        category: category id, ``domain/name``; empty when unknown, as all texts here.
        launcher: mpi, torchrun or per-node.
        stage: ``production``, …
        scale: ``full-scale``, ``intra-node``, …
        nodes: nodes of the group; None where nobody knows.
    """

    hardware: Hardware = NOTHING_KNOWN
    category: str = ""
    launcher: str = ""
    stage: str = ""
    scale: str = ""
    nodes: int | None = None

    def values(self) -> dict[str, float | int | str]:
        """Return the values by the names that expressions use.

        A text that nobody knows is empty; numbers that nobody knows are absent.
        """
        texts = {
            "gpu": self.hardware.gpu,
            "platform": self.hardware.platform,
            "instance_type": self.hardware.instance_type,
            "stage": self.stage,
            "scale": self.scale,
        }
        numbers = {"nodes": self.nodes, "gpus_per_node": self.hardware.gpus_per_node}
        return {
            **{name: "" if text in {None, UNKNOWN} else str(text) for name, text in texts.items()},
            **{name: number for name, number in numbers.items() if number is not None},
        }
