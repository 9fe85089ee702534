"""Reading node lists that ``kubectl get nodes -o yaml`` or ``-o json`` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from catalog.errors import InputError, Place
from catalog.source import read_documents, read_text

MAX_BYTES = 512 * 1024 * 1024
"""Bound on a node list; ten thousand nodes with all their images are about 150 MB of JSON."""


def read_nodes(path: Path) -> list[dict[str, Any]]:
    """Read Node objects: a List, a NodeList, single Nodes, or several documents of these.

    Raises:
        InputError: the file cannot be read, is damaged, or holds something else.
    """
    return read_objects(path, "Node")


def read_objects(path: Path, kind: str) -> list[dict[str, Any]]:
    """Read Kubernetes objects of one kind; see `read_nodes`.

    Raises:
        InputError: the file cannot be read, is damaged, or holds something else.
    """
    documents = _documents(path)
    if not any(document is not None for document in documents):
        raise InputError(f"is empty, expected {kind} objects", Place(str(path)))
    found: list[dict[str, Any]] = []
    for number, document in enumerate(documents):
        if document is None:
            continue
        is_list = isinstance(document, Mapping) and str(document.get("kind", "")).endswith("List")
        items = document.get("items") if is_list else [document]
        if not isinstance(items, list):
            raise _error(path, number, None, "items", "must be a list")
        for index, item in enumerate(items):
            _check(path, number, index if is_list else None, item, kind)
            found.append(item)
    _check_names(path, found, kind)
    return found


def _documents(path: Path) -> list[Any]:
    text = read_text(path, MAX_BYTES, "utf-8-sig")
    if text.lstrip().startswith("{"):
        try:
            return [json.loads(text)]
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
        raise InputError(f"is not valid YAML: {error.problem}", place) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"is not valid YAML: {error}", Place(str(path))) from error


def _check(path: Path, document: int, index: int | None, item: Any, kind: str) -> None:
    if not isinstance(item, Mapping):
        raise _error(path, document, index, None, f"must be a {kind} object")
    found = item.get("kind", kind)
    if found != kind:
        raise _error(path, document, index, "kind", f"is {found}, expected {kind}")
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping):
        raise _error(path, document, index, "metadata", "is required and must be a mapping")
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise _error(path, document, index, "metadata.name", "is required and must be text")
    for field in ("spec", "status"):
        if not isinstance(item.get(field, {}), Mapping | None):
            raise _error(path, document, index, field, "must be a mapping")


def _check_names(path: Path, items: list[dict[str, Any]], kind: str) -> None:
    seen: set[tuple[Any, str]] = set()
    for item in items:
        name = (item["metadata"].get("namespace"), item["metadata"]["name"])
        if name in seen:
            raise InputError(f"holds {kind} {name[1]} twice", Place(str(path)))
        seen.add(name)


def _error(
    path: Path, document: int, index: int | None, field: str | None, message: str
) -> InputError:
    """Build an error with its line; the lines are worth the second reading only here."""
    where = [] if index is None else ["items", str(index)]
    if field:
        where += field.split(".")
    line = None
    try:
        lines = read_documents(path)[document].lines
        probe: tuple[str | int, ...] = tuple(int(p) if p.isdecimal() else p for p in where)
        while probe and probe not in lines:
            probe = probe[:-1]
        line = lines.get(probe)
    except (InputError, IndexError):
        pass
    dotted = ".".join(where).replace("items.", "items[", 1)
    if index is not None:
        dotted = f"items[{index}]" + (f".{field}" if field else "")
    return InputError(message, Place(str(path), line, dotted or None))
