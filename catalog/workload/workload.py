"""The workload of a category on one kind of node, every value with the rule that set it."""

from __future__ import annotations

from catalog.entries.entry import Launcher
from catalog.hardware.hardware import NOTHING_KNOWN, Hardware
from catalog.reading.model import Model
from catalog.reading.setting import Setting


class Workload(Model):
    """Everything that a launch needs, resolved for one category on one kind of node.

    Attributes:
        launcher: how it is started.
        hardware: what it runs on, and what of that it uses.
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
        pod: further parts of the worker pod (capabilities, hostNetwork, privileged, shmSize,
            tolerations, annotations, volumes, volumeMounts, initContainers, sidecars,
            resourceClaims, …), by name; values are fragments of the Kubernetes API.
        launch: how the command is started on the ranks: mpirun, flags, mca, forwardEnv, unsetEnv,
            removePaths, sourceScripts; see `catalog.hardware.profile_model.LaunchParts`.
        timeout_seconds: bound of one job.
    """

    launcher: Launcher
    hardware: Hardware = NOTHING_KNOWN
    image: Setting
    command: tuple[str, ...]
    options: dict[str, Setting] = {}
    env: dict[str, Setting] = {}
    resources: dict[str, Setting] = {}
    gpus_per_node: Setting
    nics_per_node: Setting
    nic_resource: Setting
    transport: Setting
    pod: dict[str, Setting] = {}
    launch: dict[str, Setting] = {}
    timeout_seconds: Setting
