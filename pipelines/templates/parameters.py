"""Workflow parameters: those of `steps.detect.parameters`, and those that only Argo has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hera.workflows import Parameter as Argument

from catalog.entries.entry import Entry, builtin_entries
from pipelines.templates.names import parameter
from steps.detect.parameters import PARAMETERS, Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class OfArgo:
    """A workflow parameter that is no part of a certification; see `Parameter`."""

    name: str
    description: str
    default: str = ""
    choices: tuple[str, ...] = ()


CERTIFICATION_TEXT = OfArgo(
    name="certification",
    description=(
        "The certification as YAML. Leave it empty to certify what the fields below say; "
        "with it, fields that are not empty replace what it says."
    ),
)
CATEGORY = OfArgo(
    name="category",
    description="One category to certify; for several, use categories.",
    choices=("", *builtin_entries()),
)
NODE_POOL = OfArgo(
    name="node-pool",
    description=(
        "Name of the pool of nodes that is tested. Workflows of the same pool wait for each other, "
        "so that no two of them share a GPU."
    ),
    default="default",
)
DEADLINE = PARAMETERS["deadline"]

Tunable = Parameter | OfArgo


def of_certification() -> tuple[Tunable, ...]:
    """Return the parameters of a whole certification, in the order of the form."""
    entries = builtin_entries().values()
    stage, *others = _for_entries(entries)
    return (CERTIFICATION_TEXT, stage, CATEGORY, *others, NODE_POOL)


def of_entry(entry: Entry) -> tuple[Tunable, ...]:
    """Return the parameters of one category that is submitted alone."""
    unused = {"nodes-per-job"} if "nodesPerJob" not in entry.options else set()
    found = (item for item in _for_entries([entry]) if not item.whole and item.name not in unused)
    return (CERTIFICATION_TEXT, *found, NODE_POOL)


def _for_entries(entries: Iterable[Entry]) -> list[Parameter]:
    """Return the parameters of a certification with the scales that the entries have."""
    scales = dict.fromkeys(name for entry in entries for name in entry.scales)
    known = PARAMETERS | {"scale": replace(PARAMETERS["scale"], choices=("", *scales))}
    return list(known.values())


def build(tunables: Iterable[Tunable]) -> list[Argument]:
    """Return parameters for `arguments` of a workflow."""
    return [
        Argument(
            name=item.name,
            description=item.description,
            value=item.default,
            enum=list(item.choices) or None,
        )
        for item in tunables
    ]


def flags(tunables: Iterable[Tunable]) -> list[str]:
    """Return the flags of `steps detect` that hand the parameters over."""
    return [_flag(item) for item in tunables if isinstance(item, Parameter)]


def _flag(item: Parameter) -> str:
    value = parameter(item.name)
    if item.name == "categories":
        # One of the list or several as text: empty ones are passed over.
        value = f"{parameter(CATEGORY.name)},{value}"
    return f"--set={item.name}={value}"
