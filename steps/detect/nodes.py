"""Reading node lists that ``kubectl get nodes -o yaml`` or ``-o json`` wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from catalog.errors import InputError, Place
from catalog.source import Path_, read_documents, read_text

MAX_BYTES = 512 * 1024 * 1024
"""Bound on a node list; ten thousand nodes with all their images are about 150 MB of JSON."""
_VISIBLE = re.compile(r"\S")


def read_nodes(path: Path) -> list[dict[str, Any]]:
    """Read Node objects: a List, a NodeList, single Nodes, or several documents of these.

    A list without a wrapper, as ``jq .items`` leaves it, is read too.

    Raises:
        InputError: the file cannot be read, is damaged, or holds something else.
    """
    return read_objects(path, "Node")


def read_objects(path: Path, kind: str) -> list[dict[str, Any]]:
    """Read Kubernetes objects of one kind; see `read_nodes`.

    Raises:
        InputError: the file cannot be read, is damaged, or holds something else.
    """
    documents = _documents(path, kind)
    if not any(document is not None for document in documents):
        raise InputError(f"is empty, expected {kind} objects", Place(str(path)))
    found: list[dict[str, Any]] = []
    for number, document in enumerate(documents):
        if document is None:
            continue
        for at, item in _items(path, number, document, kind):
            _check(path, number, at, item, kind)
            found.append(item)
    _check_names(path, found, kind)
    return found


def _items(path: Path, number: int, document: Any, kind: str) -> Iterator[tuple[Path_, Any]]:
    """Yield what a document lists, each with its place in the document."""
    if isinstance(document, list):
        yield from (((index,), item) for index, item in enumerate(document))
    elif isinstance(document, Mapping) and document.get("kind") in ("List", f"{kind}List"):
        items = document.get("items")
        if not isinstance(items, list):
            raise _error(path, number, ("items",), "must be a list", kind)
        yield from ((("items", index), item) for index, item in enumerate(items))
    else:
        yield (), document


def _documents(path: Path, kind: str) -> list[Any]:
    text = read_text(path, MAX_BYTES, "utf-8-sig")
    if text.lstrip().startswith(("{", "[")):
        try:
            return _json_documents(text)
        except json.JSONDecodeError as error:
            # YAML's flow style starts with a brace too, and several JSON documents can follow.
            if not path.name.endswith((".yaml", ".yml")):
                message = f"is not valid JSON: {error.msg}"
                raise InputError(message, Place(str(path), error.lineno)) from error
    loader = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader
    try:
        return list(yaml.load_all(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(str(path), mark.line + 1 if mark else None)
        raise InputError(f"is not valid YAML: {error.problem}", place, _hint(kind)) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"is not valid YAML: {error}", Place(str(path))) from error


def _json_documents(text: str) -> list[Any]:
    """Read JSON documents one after the other, as repeated calls of kubectl append them."""
    decoder, found, end = json.JSONDecoder(), [], 0
    while start := _VISIBLE.search(text, end):
        document, end = decoder.raw_decode(text, start.start())
        found.append(document)
    return found


def _check(path: Path, document: int, at: Path_, item: Any, kind: str) -> None:
    if not isinstance(item, Mapping):
        raise _error(path, document, at, f"must be a {kind} object", kind)
    found = item.get("kind", kind)
    if found != kind:
        raise _error(path, document, (*at, "kind"), f"is {found}, expected {kind}", kind)
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping):
        where = (*at, "metadata")
        raise _error(path, document, where, "is required and must be a mapping", kind)
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        where = (*at, "metadata", "name")
        raise _error(path, document, where, "is required and must be text", kind)
    for field in ("spec", "status"):
        if not isinstance(item.get(field, {}), Mapping | None):
            raise _error(path, document, (*at, field), "must be a mapping", kind)


def _check_names(path: Path, items: list[dict[str, Any]], kind: str) -> None:
    seen: set[tuple[Any, str]] = set()
    for item in items:
        name = (item["metadata"].get("namespace"), item["metadata"]["name"])
        if name in seen:
            raise InputError(f"holds {kind} {name[1]} twice", Place(str(path)))
        seen.add(name)


def _error(path: Path, document: int, at: Path_, message: str, kind: str) -> InputError:
    """Build an error with its line; the lines are worth the second reading only here."""
    line = None
    try:
        lines = read_documents(path)[document].lines
        probe = at
        while probe and probe not in lines:
            probe = probe[:-1]
        line = lines.get(probe)
    except (InputError, IndexError):
        pass
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at)
    return InputError(message, Place(str(path), line, dotted.lstrip(".") or None), _hint(kind))


def _hint(kind: str) -> str:
    return f"kubectl get {kind.lower()}s -o json writes such a file"
