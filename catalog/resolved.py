"""What the resolver hands out: values that know which rule set them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from catalog.model import Model

Scope = Literal["group", "node", "gpu", "row"]
"""What an expression is evaluated for: once a group, a node or a GPU, or on every row."""

BarKind = Literal["rule", "published", "derived", "yours"]


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
        machine_gpus: GPUs of a node by its hardware profile, used or not; None where none tells.
        machine_nics: NIC devices of a node likewise.
        nic_gbps: nominal rate of one of them, Gb/s per direction; None where no profile tells.
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
    machine_gpus: int | None = None
    machine_nics: int | None = None
    nic_gbps: float | None = None
    nvlink: bool | None = None
    mnnvl: bool | None = None
    pod: dict[str, Setting] = {}
    launch: dict[str, Setting] = {}
    timeout_seconds: Setting


class Bar(Model):
    """One expression that a measurement must meet.

    Attributes:
        key: NVCRE's threshold key or ours; names the bar in reports.
        expression: CEL over the figures of the entry's tool and ``values``.
        scope: what the expression is evaluated for; see `steps.evaluate.scopes`.
        values: constants that the expression may use, for example ``expected`` and ``fraction``.
        code: the detail code to report when the expression is false.
        kind: where its height comes from: ``rule`` (the same for all hardware), ``published`` (a
            figure of the same hardware), ``derived`` (from physics, where nothing is published) or
            ``yours`` (a threshold or a bar file).
        source: where the figure comes from, with its date.
        reasoning: why that figure is the one to compare with.
        origin: the rule that set it.
        optional: a missing figure skips the bar instead of making the verdict inconclusive; only
            for figures that some tools do not print, never for the main figure of an entry.
    """

    key: str
    expression: str
    scope: Scope = "group"
    values: dict[str, float] = {}
    code: str = "ThresholdViolation"
    kind: BarKind = "rule"
    source: str | None = None
    reasoning: str | None = None
    origin: Origin
    optional: bool = False
