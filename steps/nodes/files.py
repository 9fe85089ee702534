"""Reading node lists that ``kubectl get nodes -o yaml`` or ``-o json`` wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from catalog.errors import InputError, Place
from catalog.reading.source import Path_, dotted, parse_documents, read_text

MAX_BYTES = 512 * 1024 * 1024
"""Bound on a node list; ten thousand nodes with all their images are about 150 MB of JSON."""
_VISIBLE = re.compile(r"\S")


def read_objects(path: Path, kind: str) -> list[dict[str, Any]]:
    """Read Kubernetes objects of one kind: a List, single objects, or several documents of these.

    A list without a wrapper, as ``jq .items`` leaves it, is read too.

    Raises:
        InputError: the file cannot be read, is damaged, or holds something else.
    """
    return parse_objects(read_text(path, MAX_BYTES, "utf-8-sig"), str(path), kind)


def parse_objects(text: str, file: str, kind: str) -> list[dict[str, Any]]:
    """Read Kubernetes objects from a text, see `read_objects`; ``file`` is its name in errors.

    Raises:
        InputError: the text is damaged, or holds something else.
    """
    given = _Given(text, file, kind)
    documents = _documents(given)
    if not any(document is not None for document in documents):
        raise InputError(f"is empty, expected {kind} objects", Place(file))
    found: list[dict[str, Any]] = []
    for number, document in enumerate(documents):
        if document is None:
            continue
        for at, item in _items(given, number, document):
            _check(given, number, at, item)
            found.append(item)
    _check_names(given, found)
    return found


class _Given(NamedTuple):
    """What is read, its name in errors, and the kind of object that it should hold."""

    text: str
    file: str
    kind: str

    def error(self, number: int, at: Path_, message: str) -> InputError:
        """Build an error with its line; the lines are worth the second reading only here."""
        line = None
        try:
            lines = parse_documents(self.text, self.file)[number].lines
            probe = at
            while probe and probe not in lines:
                probe = probe[:-1]
            line = lines.get(probe)
        except (InputError, IndexError):
            pass
        return InputError(message, Place(self.file, line, dotted(at) or None), self.hint)

    @property
    def hint(self) -> str:
        """How people get such a file."""
        return f"kubectl get {self.kind.lower()}s -o json writes such a file"


def _items(given: _Given, number: int, document: Any) -> Iterator[tuple[Path_, Any]]:
    """Yield what a document lists, each with its place in the document."""
    if isinstance(document, list):
        yield from (((index,), item) for index, item in enumerate(document))
    elif isinstance(document, Mapping) and document.get("kind") in ("List", f"{given.kind}List"):
        items = document.get("items")
        if not isinstance(items, list):
            raise given.error(number, ("items",), "must be a list")
        yield from ((("items", index), item) for index, item in enumerate(items))
    else:
        yield (), document


def _documents(given: _Given) -> list[Any]:
    text, file = given.text, given.file
    if text.lstrip().startswith(("{", "[")):
        try:
            return _json_documents(text)
        except json.JSONDecodeError as error:
            # YAML's flow style starts with a brace too, and several JSON documents can follow.
            if not file.endswith((".yaml", ".yml")):
                message = f"is not valid JSON: {error.msg}"
                raise InputError(message, Place(file, error.lineno)) from error
        except RecursionError as error:
            raise InputError("is nested too deeply", Place(file)) from error
    loader = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader
    try:
        return list(yaml.load_all(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1 if mark else None)
        raise InputError(f"is not valid YAML: {error.problem}", place, given.hint) from error
    except RecursionError as error:
        raise InputError("is nested too deeply", Place(file)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"is not valid YAML: {error}", Place(file)) from error


def _json_documents(text: str) -> list[Any]:
    """Read JSON documents one after the other, as repeated calls of kubectl append them."""
    decoder, found, end = json.JSONDecoder(), [], 0
    while start := _VISIBLE.search(text, end):
        document, end = decoder.raw_decode(text, start.start())
        found.append(document)
    return found


def _check(given: _Given, number: int, at: Path_, item: Any) -> None:
    kind = given.kind
    if not isinstance(item, Mapping):
        raise given.error(number, at, f"must be a {kind} object")
    found = item.get("kind", kind)
    if found != kind:
        raise given.error(number, (*at, "kind"), f"is {found}, expected {kind}")
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping):
        raise given.error(number, (*at, "metadata"), "is required and must be a mapping")
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        where = (*at, "metadata", "name")
        raise given.error(number, where, "is required and must be text")
    for field in ("spec", "status"):
        if not isinstance(item.get(field, {}), Mapping | None):
            raise given.error(number, (*at, field), "must be a mapping")


def _check_names(given: _Given, items: list[dict[str, Any]]) -> None:
    seen: set[tuple[Any, str]] = set()
    for item in items:
        name = (item["metadata"].get("namespace"), item["metadata"]["name"])
        if name in seen:
            raise InputError(f"holds {given.kind} {name[1]} twice", Place(given.file))
        seen.add(name)
