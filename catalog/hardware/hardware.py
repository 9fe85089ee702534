"""What a bar depends on besides entry, stage and group size: the hardware of the nodes."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.hardware.profile import LoadedProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The nodes of a run; None and the empty tuple stand for what nobody knows.

    Attributes:
        platform: for example ``aws``.
        gpu_architecture: for example ``h100``.
        gpus_per_node: GPUs of each node that the run uses.
        machine_gpus: GPUs that each node has, used or not.
        instance_type: for example ``p5.48xlarge``.
        profile: name of the hardware profile.
        nvlink: whether NVLink joins the GPUs of a node.
        nics: network devices of each node that carry GPU traffic.
        nic_gbps: nominal rate of one of them, Gb/s per direction.
        transport: network names of which NCCL must show one; empty where any is right.
        one_domain: whether the nodes of a group are in one NVLink domain, where NVLink spans nodes.
    """

    platform: str
    gpu_architecture: str
    gpus_per_node: int | None
    instance_type: str | None = None
    profile: str | None = None
    machine_gpus: int | None = None
    nvlink: bool | None = None
    nics: int | None = None
    nic_gbps: float | None = None
    transport: tuple[str, ...] = ()
    one_domain: bool = True

    @property
    def place(self) -> str:
        """Where it stands, for people: the instance type, else the platform."""
        return self.instance_type or self.platform


def hardware_of_profile(
    loaded: LoadedProfile, gpu_architecture: str, *, instance_type: str | None = None
) -> Hardware:
    """Return the hardware that a profile stands for; of its only instance type, if it has one."""
    profile = loaded.profile
    on_nvlink = profile.mnnvl and profile.nics.count == 0
    if instance_type is None and len(profile.instance_types) == 1:
        only = profile.instance_types[0]
        instance_type = None if set(only) & set("*?[") else only
    return Hardware(
        platform=profile.platform,
        instance_type=instance_type,
        gpu_architecture=gpu_architecture,
        gpus_per_node=profile.gpus,
        profile=profile.name,
        machine_gpus=profile.gpus,
        nvlink=profile.nvlink,
        nics=profile.nics.count or None,
        nic_gbps=profile.nic_gbps,
        transport=() if on_nvlink else profile.transport,
    )
