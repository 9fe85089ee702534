"""The Plan: what will run, on which nodes, with which values, and why."""

from __future__ import annotations

from typing import Any, Literal

from catalog.bars.bar import Bar, Missing
from catalog.hardware.hardware import Hardware
from catalog.reading.model import Model
from catalog.workload.workload import Workload
from steps.documents.base import Document


class NodeFacts(Model):
    """What detection found about one node.

    Attributes:
        name: node name.
        platform: aws, gcp, azure, oci, onprem, togetherai, mistral, forge, nscale, coreweave, …
        instance_type: label node.kubernetes.io/instance-type, where it says something.
        gpu_product: label nvidia.com/gpu.product or the ResourceSlice's productName.
        gpu: h100, gb200, …; ``unknown`` when nothing tells.
        gpus: allocatable whole GPUs; None when the node reports none.
        nics: allocatable NIC devices by extended resource.
        domains: topology domains by label key, for grouping by rack or block.
        notes: what was odd, for people.
    """

    name: str
    platform: str
    instance_type: str | None = None
    gpu_product: str | None = None
    gpu: str = "unknown"
    gpus: int | None = None
    nics: dict[str, int] = {}
    domains: dict[str, str] = {}
    notes: tuple[str, ...] = ()


class Exclusion(Model):
    """A targeted node that no group holds, with the reason.

    Attributes:
        node: node name.
        code: a NODE_EXCLUDED_* or other coverage code.
        message: what was found and what is needed, for people: ``has 1, needs 2``.
        category: the category it is excluded from; None means from all.
    """

    node: str
    code: str
    message: str
    category: str | None = None


class Cohort(Model):
    """Nodes alike in platform, instance type and GPU, which one resolved workload fits.

    Attributes:
        id: short name, unique in the plan, for example ``aws-p5.48xlarge-h100``.
        hardware: what the nodes are; where no profile is known, no verdict can be PASS.
        profile_origin: why this profile.
        nodes: node names, sorted.
    """

    id: str
    hardware: Hardware
    profile_origin: str | None = None
    nodes: tuple[str, ...]


class Group(Model):
    """Nodes that one job runs on.

    Attributes:
        id: unique in the category, for example ``full-scale-0`` or ``pair-gpu-node-07``.
        nodes: node names in rank order.
        purpose: ``measure`` for planned groups, ``isolate`` for follow-up runs.
        domain: topology domain, where groups follow domains.
        overflow: the group borrowed nodes from another so that left-over nodes are covered.
        iteration: 1-based repeat.
    """

    id: str
    nodes: tuple[str, ...]
    purpose: Literal["measure", "isolate"] = "measure"
    domain: str | None = None
    overflow: bool = False
    iteration: int = 1


class BarSet(Model):
    """The bars for groups of one size; the reference moves with the number of nodes.

    Attributes:
        nodes: size of the group.
        bars: what must hold.
        missing: bars that there are not, which makes the verdict inconclusive.
    """

    nodes: int
    bars: tuple[Bar, ...] = ()
    missing: tuple[Missing, ...] = ()


class PlannedPart(Model):
    """One category on one cohort.

    Attributes:
        bars: one set for every size that a group can have, isolation runs included.
    """

    cohort: str
    workload: Workload
    bars: tuple[BarSet, ...] = ()
    groups: tuple[Group, ...]


class PlannedCategory(Model):
    """One category of the certification.

    Attributes:
        id: ``domain/name``.
        scale: full-scale, intra-node, intra-rack or pairs.
        parts: one per cohort.
        max_concurrent: groups at once; 0 is no bound.
        isolate: whether failed groups are followed by pair runs.
    """

    id: str
    scale: str
    parts: tuple[PlannedPart, ...]
    max_concurrent: int = 0
    isolate: bool = True


class Bounds(Model):
    """What the certification can cost at most.

    Attributes:
        longest_seconds: wall clock if every job runs into its timeout, isolation included.
        gpu_hours: GPUs times that wall clock, at most.
        deadline_seconds: total deadline after which nothing new is started and all is stopped.
        node_cap: greatest number of nodes that may be used.
    """

    longest_seconds: float
    gpu_hours: float
    deadline_seconds: float
    node_cap: int


class Plan(Document):
    """Written by detect: what will run.

    Attributes:
        certification: its name.
        stage: the stage whose bars judge.
        source: where nodes and runs come from: cluster, recorded or simulated.
        targeted: every node the target names or selects, sorted; none of them is ever lost.
        nodes: facts of the targeted nodes.
        excluded: targeted nodes that are in no group.
        problems: codes that make every verdict inconclusive, with a message, for example
            PLATFORM_UNKNOWN.
        annotations: further facts for people, for example versions.
    """

    kind: Literal["Plan"] = "Plan"
    certification: str
    stage: str
    source: Literal["cluster", "recorded", "simulated"]
    source_note: str | None = None
    targeted: tuple[str, ...]
    nodes: tuple[NodeFacts, ...]
    cohorts: tuple[Cohort, ...]
    categories: tuple[PlannedCategory, ...]
    excluded: tuple[Exclusion, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    bounds: Bounds
    annotations: dict[str, Any] = {}


class PlannedPair(Model):
    """A pair of nodes to run for isolation, and the cohort whose workload it takes."""

    cohort: str
    group: Group


class IsolationRound(Document):
    """Written by isolate: the pairs of one round, empty when nothing is left to learn."""

    kind: Literal["IsolationRound"] = "IsolationRound"
    category: str
    round: int
    pairs: tuple[PlannedPair, ...] = ()
