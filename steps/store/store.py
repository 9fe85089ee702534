"""The record store: where the documents of a run lie between the steps.

In a cluster these are ConfigMaps; here, a directory. Keys are paths such as
``records/communication-nccl-all-reduce/full-scale-0.json``.
"""

from __future__ import annotations

import builtins
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from catalog.errors import RecordError
from steps.documents import (
    Document,
    IsolationRound,
    Measurements,
    Plan,
    Report,
    RunRecord,
    Verdict,
    dump,
    load,
)

D = TypeVar("D", bound=Document)

KINDS: dict[type[Document], str] = {
    Plan: "plan.json",
    RunRecord: "records/{category}/{part}.json",
    Measurements: "measurements/{category}/{part}.json",
    IsolationRound: "isolation/{category}/{part}.json",
    Verdict: "verdicts/{category}.json",
    Report: "report.json",
}
"""Key of a document by its type."""


class RecordStore(Protocol):
    """Where documents and raw outputs are kept."""

    def put(self, document: Document, category: str = "", part: str = "") -> None:
        """Write a document; it is there whole or not at all."""

    def get(self, kind: type[D], category: str = "", part: str = "") -> D | None:
        """Read a document, or None when it was never written.

        Raises:
            RecordError: it is damaged or of another version.
        """

    def list(
        self, kind: type[D], category: str, damaged: builtins.list[RecordError] | None = None
    ) -> Iterator[D]:
        """Read all documents of a kind and category, in name order.

        Args:
            kind: of the documents.
            category: its id.
            damaged: takes what is wrong with documents that cannot be read.

        Raises:
            RecordError: one is damaged or of another version, and nobody takes that.
        """

    def put_text(self, key: str, text: str) -> None:
        """Keep a text for people, for example report.html."""

    def put_log(self, name: str, data: bytes) -> None:
        """Keep a raw output."""

    def get_log(self, name: str) -> bytes:
        """Read a raw output.

        Raises:
            RecordError: it is not there.
        """


def slug(text: str) -> str:
    """Turn a category or group id into a name for a file or object."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "x"


def key_of(kind: type[Document], category: str = "", part: str = "") -> str:
    """Return the key of a document."""
    return KINDS[kind].format(category=slug(category), part=slug(part))


@contextmanager
def noted(damaged: list[RecordError] | None) -> Iterator[None]:
    """Note what is wrong with a document and go on, where somebody takes it."""
    try:
        yield
    except RecordError as error:
        if damaged is None:
            raise
        damaged.append(error)


class DirectoryStore:
    """Documents as files below one directory, written atomically."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, document: Document, category: str = "", part: str = "") -> None:
        """Write a document; it is there whole or not at all."""
        self.put_text(key_of(type(document), category, part), dump(document))

    def put_text(self, key: str, text: str) -> None:
        """Keep a text for people, for example report.html."""
        self._write(key, text.encode())

    def get(self, kind: type[D], category: str = "", part: str = "") -> D | None:
        """Read a document, or None when it was never written.

        Raises:
            RecordError: it is damaged or of another version.
        """
        key = key_of(kind, category, part)
        return load(self._bytes(key), kind, key) if (self.root / key).exists() else None

    def list(
        self, kind: type[D], category: str, damaged: builtins.list[RecordError] | None = None
    ) -> Iterator[D]:
        """Read all documents of a kind and category, in name order.

        Args:
            kind: of the documents.
            category: its id.
            damaged: takes what is wrong with documents that cannot be read.

        Raises:
            RecordError: one is damaged or of another version, and nobody takes that.
        """
        folder = (self.root / key_of(kind, category, "x")).parent
        for path in sorted(folder.glob("*.json")):
            key = str(path.relative_to(self.root))
            with noted(damaged):
                yield load(self._bytes(key), kind, key)

    def put_log(self, name: str, data: bytes) -> None:
        """Keep a raw output below ``logs/``."""
        self._write(f"logs/{name}", data)

    def get_log(self, name: str) -> bytes:
        """Read a raw output.

        Raises:
            RecordError: it is not there.
        """
        return self._bytes(f"logs/{name}")

    def _bytes(self, key: str) -> bytes:
        try:
            return (self.root / key).read_bytes()
        except OSError as error:
            raise RecordError(f"{key}: cannot be read: {error.strerror}") from error

    def _write(self, key: str, data: bytes) -> None:
        path = self.root / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A reader must never see half a document, also when the disk fills up or we are killed.
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(path)
        except OSError as error:
            raise RecordError(f"{path}: cannot be written: {error.strerror}") from error
