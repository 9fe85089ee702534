"""Single parameters of a workflow, laid over the certification that it carries as text; pure."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from catalog.bars.bar_file import KIND as BARS
from catalog.errors import InputError, Place
from catalog.hardware.profile_model import KIND as PROFILES
from catalog.reading.source import Source, only_mapping, parse_documents

NAME = "certification"
"""How errors call the text that arrives as a parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a submitter may set without writing YAML; the empty text keeps what the YAML says.

    Attributes:
        name: name of the certification; ``fallback_name`` is used when nothing names it.
        categories: category ids separated by commas; they replace the list of the YAML, keeping
            the options of those that stand there too.
        node_selector: ``key=value`` pairs separated by commas.
        node_names: node names separated by commas.
        deadline: for a certification whose YAML states none; the only one that replaces nothing.
    """

    name: str = ""
    fallback_name: str = "certification"
    stage: str = ""
    scale: str = ""
    categories: str = ""
    node_selector: str = ""
    node_names: str = ""
    nodes_per_job: str = ""
    gpus_per_node: str = ""
    image: str = ""
    timeout_per_job: str = ""
    node_cap: str = ""
    deadline: str = ""
    parallel_categories: str = ""


def with_parameters(text: str, given: Parameters) -> Source:
    """Return the certification with the parameters laid over it.

    Args:
        text: the certification; profiles and bars beside it are left to `documents_in`.
        given: the parameters.

    Raises:
        InputError: the text is no YAML mapping, or a parameter is malformed.
    """
    beside = {PROFILES, BARS}
    found = documents_in(text)
    rest = [item for kind, items in found.items() if kind not in beside for item in items]
    source = only_mapping(rest, NAME) if rest else Source(NAME, {})
    data = copy.deepcopy(source.data)
    data.setdefault("kind", "Certification")
    metadata, spec = _mapping(data, "metadata"), _mapping(data, "spec")
    if given.name or "name" not in metadata:
        metadata["name"] = given.name or given.fallback_name
    _set(spec, "stage", given.stage)
    _set(spec, "testScale", given.scale)
    _set(spec, "image", given.image)
    _set(spec, "timeoutPerJob", given.timeout_per_job)
    _set(spec, "nodesPerJob", _count("nodes-per-job", given.nodes_per_job))
    _set(spec, "gpusPerNode", _count("gpus-per-node", given.gpus_per_node))
    _set(spec, "parallelCategories", _flag("parallel-categories", given.parallel_categories))
    if given.node_cap:
        _mapping(spec, "limits")["nodeCap"] = _count("node-cap", given.node_cap)
    if given.deadline and "deadline" not in _mapping(spec, "limits"):
        _mapping(spec, "limits")["deadline"] = given.deadline
    if given.node_selector:
        _mapping(spec, "target")["nodeSelector"] = _pairs(given.node_selector)
    if given.node_names:
        _mapping(spec, "target")["nodeNames"] = _listed(given.node_names)
    wanted = list(dict.fromkeys(_listed(given.categories)))
    if wanted:
        spec["categories"] = _categories(spec.get("categories"), wanted)
    return Source(source.file, data, source.lines)


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


def _set(data: dict[str, Any], name: str, value: str | int | None) -> None:
    if value not in {"", None}:
        data[name] = value


def _count(name: str, text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal():
        raise InputError(f"must be a whole number, not {text!r}", Place(name))
    return int(text)


def _flag(name: str, text: str) -> bool | None:
    if text not in {"", "true", "false"}:
        raise InputError(f"must be true or false, not {text!r}", Place(name))
    return text == "true" if text else None


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _listed(text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InputError(f"must be key=value,key=value, not {text!r}", Place("node-selector"))
        found[key.strip()] = value.strip()
    return found


def _categories(known: Any, wanted: list[str]) -> list[dict[str, Any]]:
    """Keep the options of categories that the YAML names."""
    found = []
    for name in wanted:
        domain, _, variant = name.partition("/")
        same = [
            item
            for item in (known if isinstance(known, list) else ())
            if isinstance(item, dict)
            and (item.get("domain"), item.get("variant")) == (domain, variant)
        ]
        found.append(same[0] if same else {"domain": domain, "variant": variant})
    return found
