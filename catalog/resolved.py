"""What the resolver hands out: values that know which rule set them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from catalog.model import Model


class Origin(Model):
    """The rule that set a value.

    Attributes:
        rule: name of the rule, for example ``profile aws/p5.48xlarge`` or ``certification``.
        file: the file it stands in.
        line: 1-based line where known.
        source: public source of the figure or setting.
    """

    rule: str
    file: str
    line: int | None = None
    source: str | None = None


class Replaced(Model):
    """A value that a later rule replaced."""

    value: Any = None
    origin: Origin


class Setting(Model):
    """A resolved value with its history, oldest replaced value first; None is a value too."""

    value: Any = None
    origin: Origin
    replaced: tuple[Replaced, ...] = ()


class Launcher(StrEnum):
    """How a workload is started on the nodes of a group."""

    MPI = "mpi"
    TORCHRUN = "torchrun"
    PER_NODE = "per-node"


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
        nvlink: whether NVLink joins the GPUs of a node; None where no profile tells.
        mnnvl: whether NVLink across nodes is in use.
        pod: further parts of the worker pod (capabilities, hostNetwork, privileged, shmSize,
            tolerations, annotations, volumes, volumeMounts, initContainers, sidecars,
            resourceClaims, …), by name; values are fragments of the Kubernetes API.
        launch: how the command is started on the ranks: mpirun, flags, mca, forwardEnv, unsetEnv,
            removePaths, sourceScripts; see `catalog.profile_model.LaunchParts`.
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
    nvlink: bool | None = None
    mnnvl: bool | None = None
    pod: dict[str, Setting] = {}
    launch: dict[str, Setting] = {}
    timeout_seconds: Setting


class Bar(Model):
    """One expression that a measurement must meet.

    Attributes:
        key: NVCRE's threshold key or ours; names the bar in reports.
        expression: CEL over the entry's figures and ``bar`` values.
        values: constants that the expression may use, for example the reference and the fraction.
        code: the detail code to report when the expression is false.
        source: where the figure comes from.
        origin: the rule that set it.
        optional: a missing figure skips the bar instead of making the verdict inconclusive; only
            for figures that some tools do not print, never for the main figure of an entry.
    """

    key: str
    expression: str
    values: dict[str, float] = {}
    code: str = "ThresholdViolation"
    source: str | None = None
    origin: Origin
    optional: bool = False
