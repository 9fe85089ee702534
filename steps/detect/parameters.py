"""What a submitter may set without writing YAML: one table, and its values laid over a text; pure.

The parameters of our workflows are made from the table, and `steps detect --set NAME=VALUE` takes
them, so that one is added here and nowhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.bars.bar_file import KIND as BARS
from catalog.bars.stages import stages
from catalog.certification import Limits
from catalog.errors import InputError, Place
from catalog.hardware.profile_model import KIND as PROFILES
from catalog.reading.source import Source, only_mapping, parse_documents

NAME = "certification"
"""How errors call the text that arrives as a parameter."""

Data = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter.

    Attributes:
        name: its name.
        description: what the Argo UI shows beside it.
        lay: puts a value into the data of a certification, under the parameter's name for errors.
        default: its value unless given; the empty text keeps what the certification says.
        choices: values that the Argo UI offers; none makes it a text field.
        whole: it is for certifications of several categories.
    """

    name: str
    description: str
    lay: Callable[[Data, str, str], None]
    default: str = ""
    choices: tuple[str, ...] = ()
    whole: bool = False


def with_parameters(
    text: str, given: Mapping[str, str], fallback_name: str = "certification"
) -> Source:
    """Return the certification with parameters laid over it.

    Args:
        text: the certification; profiles and bars beside it are left to `documents_in`.
        given: values by the names of `PARAMETERS`; the empty text keeps what the YAML says.
        fallback_name: name of a certification that nothing names.

    Raises:
        InputError: the text is no YAML mapping, a parameter is malformed or unknown.
    """
    beside = {PROFILES, BARS}
    found = documents_in(text)
    rest = [item for kind, items in found.items() if kind not in beside for item in items]
    source = only_mapping(rest, NAME) if rest else Source(NAME, {})
    data = copy.deepcopy(source.data)
    data.setdefault("kind", "Certification")
    _mapping(data, "spec")
    _mapping(data, "metadata").setdefault("name", fallback_name)
    for name, value in given.items():
        if name not in PARAMETERS:
            raise InputError("is no parameter", Place(name), f"one of {', '.join(PARAMETERS)}")
        if value:
            PARAMETERS[name].lay(data, value, name)
    return Source(source.file, data, source.lines)


def named_nodes(text: str, given: Mapping[str, str]) -> list[str]:
    """Return the nodes that a certification names; none where it cannot be read."""
    try:
        spec = with_parameters(text, given).data.get("spec")
    except InputError:
        return []
    target = spec.get("target") if isinstance(spec, dict) else None
    names = target.get("nodeNames") if isinstance(target, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def documents_in(text: str) -> dict[str | None, list[Source]]:
    """Return the certification and the documents that stand beside it, by their kind.

    Raises:
        InputError: the text is no YAML.
    """
    found: dict[str | None, list[Source]] = {}
    for document in parse_documents(text, NAME):
        kind = document.data.get("kind") if isinstance(document.data, dict) else None
        found.setdefault(kind if isinstance(kind, str) else None, []).append(document)
    return found


def _mapping(data: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the mapping below ``name``; what is no mapping is left for validation to refuse."""
    if data.get(name) is None:
        data[name] = {}
    return data[name] if isinstance(data[name], dict) else {}


def _text(_: str, text: str) -> str:
    return text


def _count(name: str, text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"must be a whole number, not {text!r}", Place(name))
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise InputError(f"must be true or false, not {text!r}", Place(name))
    return text == "true"


def _listed(_: str, text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(name: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _listed(name, text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InputError(f"must be key=value,key=value, not {text!r}", Place(name))
        found[key.strip()] = value.strip()
    return found


def _at(
    *path: str, read: Callable[[str, str], Any] = _text, replaces: bool = True
) -> Callable[[Data, str, str], None]:
    """Return what puts a value at a path; ``replaces`` tells whether over what stands there."""

    def lay(data: Data, text: str, name: str) -> None:
        place = data
        for key in path[:-1]:
            place = _mapping(place, key)
        if replaces or path[-1] not in place:
            place[path[-1]] = read(name, text)

    return lay


def _lay_categories(data: Data, text: str, name: str) -> None:
    """Replace the list of the YAML, keeping the options of those that it names too."""
    spec = _mapping(data, "spec")
    known = spec.get("categories")
    found = []
    for wanted in dict.fromkeys(_listed(name, text)):
        domain, _, variant = wanted.partition("/")
        same = [
            item
            for item in (known if isinstance(known, list) else ())
            if isinstance(item, dict)
            and (item.get("domain"), item.get("variant")) == (domain, variant)
        ]
        found.append(same[0] if same else {"domain": domain, "variant": variant})
    if found:
        spec["categories"] = found


_TABLE = (
    Parameter(
        name="stage",
        description="Stage whose bars judge; empty: as in the YAML, else production.",
        choices=("", *stages()),
        lay=_at("spec", "stage"),
    ),
    Parameter(
        name="categories",
        description=(
            "Categories to certify, separated by commas, for example "
            "communication/nccl-all-reduce, diagnostics/dcgm-level2. Empty: those of the YAML."
        ),
        whole=True,
        lay=_lay_categories,
    ),
    Parameter(
        name="scale",
        description="Which nodes one job spans; empty: as in the YAML, else that of the catalog.",
        lay=_at("spec", "testScale"),
    ),
    Parameter(
        name="name",
        description=(
            "Name of the certification in its report; empty: that of the YAML or workflow."
        ),
        lay=_at("metadata", "name"),
    ),
    Parameter(
        name="node-selector",
        description=(
            "Node labels that select the targets, as key=value,key=value; empty: as in the YAML, "
            "else every node with GPUs."
        ),
        lay=_at("spec", "target", "nodeSelector", read=_pairs),
    ),
    Parameter(
        name="node-names",
        description=(
            "Names of the target nodes, separated by commas; empty: no restriction by name."
        ),
        lay=_at("spec", "target", "nodeNames", read=_listed),
    ),
    Parameter(
        name="nodes-per-job",
        description="Nodes of one job; empty: all usable nodes, or as in the YAML.",
        lay=_at("spec", "nodesPerJob", read=_count),
    ),
    Parameter(
        name="gpus-per-node",
        description="GPUs to use on each node; empty: as many as the nodes have.",
        lay=_at("spec", "gpusPerNode", read=_count),
    ),
    Parameter(
        name="image",
        description="Image of the workload, for example of a mirror; empty: as in the catalog.",
        lay=_at("spec", "image"),
    ),
    Parameter(
        name="timeout-per-job",
        description="Longest time of one job, for example 45m; empty: as in the catalog.",
        lay=_at("spec", "timeoutPerJob"),
    ),
    Parameter(
        name="node-cap",
        description=(
            "Most nodes that may be used, the others are reported as excluded; empty: as in the "
            f"YAML, else {Limits().node_cap}."
        ),
        lay=_at("spec", "limits", "nodeCap", read=_count),
    ),
    Parameter(
        name="deadline",
        description=(
            "After this time nothing new is started and what runs is stopped, for example 12h. "
            "A deadline in the YAML goes before; no job takes longer than this one. Argo ends "
            "every workflow after 73h unless `readiness submit` or `readiness render` made it."
        ),
        default=str(Limits().deadline),
        lay=_at("spec", "limits", "deadline", replaces=False),
    ),
    Parameter(
        name="parallel-categories",
        description=(
            "true runs all categories at once, false one after another; empty: as in the YAML, "
            "else false."
        ),
        choices=("", "false", "true"),
        whole=True,
        lay=_at("spec", "parallelCategories", read=_flag),
    ),
)

PARAMETERS = {item.name: item for item in _TABLE}
"""All parameters by name, in the order in which forms show them."""
