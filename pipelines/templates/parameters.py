"""Workflow parameters: everything a person may set, with the text that Argo shows beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hera.workflows import Parameter

from catalog.bars.stages import stages
from catalog.certification import Limits
from catalog.entries.entry import Entry, builtin_entries
from pipelines.templates.names import parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunable:
    """A workflow parameter.

    Attributes:
        name: its name, and that of the flag of `steps detect` unless in `NOT_FOR_DETECT`.
        description: tooltip in the Argo UI.
        default: its value unless given; the empty text keeps what the certification says.
        choices: values that the Argo UI offers; none makes it a text field.
    """

    name: str
    description: str
    default: str = ""
    choices: tuple[str, ...] = ()

    def build(self) -> Parameter:
        """Return it for `arguments` of a workflow."""
        choices = list(self.choices) or None
        return Parameter(
            name=self.name, description=self.description, value=self.default, enum=choices
        )


CERTIFICATION_TEXT = Tunable(
    name="certification",
    description=(
        "The certification as YAML. Leave it empty to certify what the fields below say; "
        "with it, fields that are not empty replace what it says."
    ),
)
NAME = Tunable(
    name="name",
    description="Name of the certification in its report; empty: that of the YAML or workflow.",
)
STAGE = Tunable(
    name="stage",
    description="Stage whose bars judge; empty: as in the YAML, else production.",
    choices=("", *stages()),
)
CATEGORY = Tunable(
    name="category",
    description="One category to certify; for several, use categories.",
    choices=("", *builtin_entries()),
)
CATEGORIES = Tunable(
    name="categories",
    description=(
        "Categories to certify, separated by commas, for example "
        "communication/nccl-all-reduce, diagnostics/dcgm-level2. Empty: those of the YAML."
    ),
)
NODE_SELECTOR = Tunable(
    name="node-selector",
    description=(
        "Node labels that select the targets, as key=value,key=value; empty: as in the YAML, "
        "else every node with GPUs."
    ),
)
NODE_NAMES = Tunable(
    name="node-names",
    description="Names of the target nodes, separated by commas; empty: no restriction by name.",
)
NODES_PER_JOB = Tunable(
    name="nodes-per-job",
    description="Nodes of one job; empty: all usable nodes, or as in the YAML.",
)
GPUS_PER_NODE = Tunable(
    name="gpus-per-node",
    description="GPUs to use on each node; empty: as many as the nodes have.",
)
IMAGE = Tunable(
    name="image",
    description="Image of the workload, for example of a mirror; empty: as in the catalog.",
)
TIMEOUT_PER_JOB = Tunable(
    name="timeout-per-job",
    description="Longest time of one job, for example 45m; empty: as in the catalog.",
)
NODE_CAP = Tunable(
    name="node-cap",
    description=(
        "Most nodes that may be used, the others are reported as excluded; empty: as in the YAML, "
        f"else {Limits().node_cap}."
    ),
)
DEADLINE = Tunable(
    name="deadline",
    description=(
        "After this time nothing new is started and what runs is stopped, for example 12h. "
        "A deadline in the YAML goes before; no job takes longer than this one. Argo ends every "
        "workflow after 73h unless `readiness submit` or `readiness render` made it."
    ),
    default=str(Limits().deadline),
)
NODE_POOL = Tunable(
    name="node-pool",
    description=(
        "Name of the pool of nodes that is tested. Workflows of the same pool wait for each other, "
        "so that no two of them share a GPU."
    ),
    default="default",
)
PARALLEL_CATEGORIES = Tunable(
    name="parallel-categories",
    description=(
        "true runs all categories at once, false one after another; empty: as in the YAML, "
        "else false."
    ),
    choices=("", "false", "true"),
)


def scale(allowed: Iterable[str]) -> Tunable:
    """Return the parameter ``scale`` with the scales to choose from."""
    return Tunable(
        name="scale",
        description="Which nodes one job spans; empty: as in the YAML, else that of the catalog.",
        choices=("", *allowed),
    )


COMMON = (
    NODE_SELECTOR,
    NODE_NAMES,
    NODES_PER_JOB,
    GPUS_PER_NODE,
    IMAGE,
    TIMEOUT_PER_JOB,
    NODE_CAP,
    DEADLINE,
)


def of_certification() -> tuple[Tunable, ...]:
    """Return the parameters of a whole certification, in the order of the form."""
    entries = builtin_entries().values()
    scales = dict.fromkeys(name for entry in entries for name in entry.scales)
    return (
        CERTIFICATION_TEXT,
        STAGE,
        CATEGORY,
        CATEGORIES,
        scale(scales),
        NAME,
        *COMMON,
        PARALLEL_CATEGORIES,
        NODE_POOL,
    )


def of_entry(entry: Entry) -> tuple[Tunable, ...]:
    """Return the parameters of one category that is submitted alone."""
    unused = {NODES_PER_JOB.name} if "nodesPerJob" not in entry.options else set()
    common = (tunable for tunable in COMMON if tunable.name not in unused)
    return (CERTIFICATION_TEXT, STAGE, scale(entry.scales), NAME, *common, NODE_POOL)


NOT_FOR_DETECT = {CERTIFICATION_TEXT.name, CATEGORY.name, CATEGORIES.name, NODE_POOL.name}
"""Parameters that `steps detect` does not take as a flag of the same name."""


def flags(tunables: Iterable[Tunable]) -> list[str]:
    """Return the flags of `steps detect` that hand the parameters over."""
    return [
        f"--{tunable.name}={parameter(tunable.name)}"
        for tunable in tunables
        if tunable.name not in NOT_FOR_DETECT
    ]
