"""The workload of a category on one kind of node, every value with the rule that set it."""

from __future__ import annotations

from catalog.entries.entry import Launcher
from catalog.hardware.hardware import Hardware
from catalog.reading.model import Model
from catalog.reading.setting import Setting


class Workload(Model):
    """Everything that a launch needs, resolved for one category on one kind of node.

    Attributes:
        launcher: how it is started.
        image: container image.
        command: the tool's command line, as it runs on one rank (mpi), one node (others).
        options: the tunables that shaped the command, by NVCRE option name.
        env: environment of the ranks, by variable.
        resources: extended and other resources of one worker pod, by resource name.
        gpus_per_node: GPUs of each node that the run uses.
        nics_per_node: NIC devices of each node that carry the traffic; 0 where none is asked for.
            ``resources`` says how many units are requested, which can differ (``rdma/ib: 1``).
        nic_resource: extended resource of the NICs, value None when none is requested.
        transport: network names that NCCL prints when the fabric of the platform is in use; empty
            where any is right.
        machine_gpus: GPUs of a node by its hardware profile, used or not; None where none tells.
        machine_nics: NIC devices of a node likewise.
        nic_gbps: nominal rate of one of them, Gb/s per direction; None where no profile tells.
        nvlink: whether NVLink joins the GPUs of a node; None where no profile tells.
        mnnvl: whether NVLink across nodes is in use.
        pod: further parts of the worker pod (capabilities, hostNetwork, privileged, shmSize,
            tolerations, annotations, volumes, volumeMounts, initContainers, sidecars,
            resourceClaims, …), by name; values are fragments of the Kubernetes API.
        launch: how the command is started on the ranks: mpirun, flags, mca, forwardEnv, unsetEnv,
            removePaths, sourceScripts; see `catalog.hardware.profile_model.LaunchParts`.
        timeout_seconds: bound of one job.
    """

    launcher: Launcher
    image: Setting
    command: tuple[str, ...]
    options: dict[str, Setting] = {}
    env: dict[str, Setting] = {}
    resources: dict[str, Setting] = {}
    gpus_per_node: Setting
    nics_per_node: Setting
    nic_resource: Setting
    transport: Setting
    machine_gpus: int | None = None
    machine_nics: int | None = None
    nic_gbps: float | None = None
    nvlink: bool | None = None
    mnnvl: bool | None = None
    pod: dict[str, Setting] = {}
    launch: dict[str, Setting] = {}
    timeout_seconds: Setting


def hardware_of_workload(
    workload: Workload,
    *,
    platform: str,
    instance_type: str | None,
    gpu_architecture: str,
    profile: str | None,
) -> Hardware:
    """Return the hardware that a resolved workload runs on.

    A number of network devices that the certification states is how a person asks for them, which
    need not be how many there are (``rdma/ib: 1`` gives all of a node), so it is not taken.
    """
    stated = workload.options.get("mlnxPerNode")
    nics = 0 if stated is not None else int(workload.nics_per_node.value)
    return Hardware(
        platform=platform,
        instance_type=instance_type,
        gpu_architecture=gpu_architecture,
        gpus_per_node=int(workload.gpus_per_node.value),
        profile=profile,
        machine_gpus=workload.machine_gpus,
        nvlink=workload.nvlink,
        nics=nics or workload.machine_nics,
        nic_gbps=workload.nic_gbps,
        transport=tuple(workload.transport.value or ()),
    )
