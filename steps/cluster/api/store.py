"""The record store on ConfigMaps.

Every document is compressed and cut into parts of one ConfigMap each (the API server refuses
objects over about 1 MiB). The first part, the head, is named after the run and the document's key;
the others after the content too. All are immutable. The Workflow owns them, so that they go with
it; the report is owned by nobody and stays.

What is read is checked against what it says of itself: the run by its uid, the key, the number of
parts, and a digest over all of these and the content. So a document of another run is never taken
for one of ours, whatever its name and labels are.
"""

from __future__ import annotations

import base64
import builtins
import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from catalog.errors import ClusterError, RecordError
from steps.cluster.api.client import Cluster, ConflictError, NotFoundError, Object, RefusedError
from steps.cluster.api.labels import LABEL_CATEGORY, LABEL_KIND, label_value
from steps.cluster.api.owner import WorkflowRun
from steps.documents import Document, Report, dump, load
from steps.store.store import key_of, noted

D = TypeVar("D", bound=Document)

PART_BYTES = 640 * 1024
"""Compressed bytes in one ConfigMap; base64 makes them 853 KiB, below etcd's 1.5 MiB."""

MAX_BYTES = 16 * 1024 * 1024
"""Most compressed bytes of one document; a log over it is cut in the middle by the launcher."""

OUTAGE_SECONDS = 300.0
"""An API server that does not answer is asked again for so long."""
_RETRY_SECONDS = 2.0

TEXT = "text"
"""Label of a document's kind where it is a text for people."""

_UID = "readiness/uid"
_WORKFLOW = "readiness/workflow"
_KEY = "readiness/key"
_PARTS = "readiness/parts"
_DIGEST = "readiness/sha256"


class ConfigMapStore:
    """Documents of one workflow as ConfigMaps.

    Args:
        cluster: connection to the namespace of the workflow.
        workflow: the run to which the documents belong.
        owned: whether documents go with the Workflow; without one they would go at once.
    """

    def __init__(self, cluster: Cluster, workflow: WorkflowRun, *, owned: bool = True) -> None:
        self.cluster = cluster
        self.workflow = workflow
        self.owner: Mapping[str, Any] | None = workflow.owner if owned else None

    def put(self, document: Document, category: str = "", part: str = "") -> None:
        """Write a document; a reader sees it whole or not at all.

        One that was written before with the same content is left as it is, other content of this
        run is replaced.

        Raises:
            RecordError: it is too big, or a document of another run lies in its place.
        """
        key = key_of(type(document), category, part)
        lasting = isinstance(document, Report)
        self._write(
            key, dump(document).encode(), type(document).__name__, category, lasting=lasting
        )

    def put_text(self, key: str, text: str) -> None:
        """Keep a text for people, for example report.html; it stays like the report."""
        self._write(key, text.encode(), TEXT, "", lasting=True)

    def get(self, kind: type[D], category: str = "", part: str = "") -> D | None:
        """Read a document, or None when it was never written.

        Raises:
            RecordError: it is damaged, incomplete, of another version or of another run.
        """
        key = key_of(kind, category, part)
        data = self._read(key)
        return None if data is None else load(data, kind, key)

    def list(
        self, kind: type[D], category: str, damaged: builtins.list[RecordError] | None = None
    ) -> Iterator[D]:
        """Read all documents of a kind and category, in name order.

        Args:
            kind: of the documents.
            category: its id.
            damaged: takes what is wrong with documents that cannot be read.

        Raises:
            RecordError: one is damaged, incomplete, of another version or of another run, and
                nobody takes that.
        """
        labels = {LABEL_KIND: kind.__name__}
        if category:
            labels[LABEL_CATEGORY] = label_value(category)
        chosen = ",".join(f"{name}={value}" for name, value in labels.items())
        found = self.cluster.find("ConfigMap", f"{self.workflow.selector},{chosen}")
        known = {str(item["metadata"]["name"]): item for item in found}
        heads = [(str(_notes(item).get(_KEY)), item) for item in found if _PARTS in _notes(item)]
        folder = key_of(kind, category, "x").rpartition("/")[0]
        for key, head in sorted(heads, key=lambda item: item[0]):
            with noted(damaged):
                self._check(key, head)
                name = head["metadata"]["name"]
                if name != object_name(self.workflow, key):
                    raise RecordError(f"{key}: ConfigMap {name} bears the name of another document")
                if category and key.rpartition("/")[0] != folder:
                    raise RecordError(
                        f"{key}: ConfigMap {name} bears the labels of another document"
                    )
                data = self._joined(key, head, known)
                if data is not None:
                    yield load(data, kind, key)

    def put_log(self, name: str, data: bytes) -> None:
        """Keep a raw output.

        Raises:
            RecordError: it is too big even compressed.
        """
        self._write(f"logs/{name}", data, "log", "", lasting=False)

    def get_log(self, name: str) -> bytes:
        """Read a raw output.

        Raises:
            RecordError: it is not there, damaged, or of another run.
        """
        data = self._read(f"logs/{name}")
        if data is None:
            raise RecordError(f"logs/{name}: is not in the record store")
        return data

    def _write(self, key: str, data: bytes, kind: str, category: str, *, lasting: bool) -> None:
        packed = gzip.compress(data, mtime=0)
        if len(packed) > MAX_BYTES:
            raise RecordError(
                f"{key}: {len(packed) / 2**20:.1f} MiB compressed, the record store takes at most "
                f"{MAX_BYTES // 2**20} MiB"
            )
        parts = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
        digest = _digest(self.workflow, key, packed)
        replaced: list[Object] = []
        # The head names the number and digest of all, so it is written last: a reader that finds
        # it finds the rest.
        for number in reversed(range(len(parts))):
            body: Object = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "immutable": True,
                "metadata": self._metadata(key, number, digest, kind, category, lasting=lasting),
                "binaryData": {"data": base64.b64encode(parts[number]).decode()},
            }
            if number == 0:
                body["metadata"]["annotations"][_PARTS] = str(len(parts))
            replaced += self._put(key, body)
        self._forget(key, digest, replaced)

    def _put(self, key: str, body: Object) -> Sequence[Object]:
        """Write an object and return what was in its place and says something else.

        An API that is away for a while must not cost hours of measuring.
        """
        end = time.monotonic() + OUTAGE_SECONDS
        replaced: list[Object] = []
        while True:
            try:
                self.cluster.create(body)
            except RefusedError:
                raise
            except ConflictError:
                found = self._try_get(body["metadata"]["name"])
                if found is None:
                    continue
                self._check(key, found)
                if _says_the_same(found, body):
                    return replaced
                if found in replaced:  # It was asked to go, and something keeps it.
                    if time.monotonic() > end:
                        raise RecordError(f"{key}: what it replaces does not go") from None
                    time.sleep(_RETRY_SECONDS)
                    continue
                replaced.append(found)
                with suppress(ConflictError):
                    version = str(found["metadata"].get("resourceVersion") or "")
                    self.cluster.delete("ConfigMap", body["metadata"]["name"], version=version)
            except ClusterError:
                if time.monotonic() > end:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return replaced

    def _forget(self, key: str, digest: str, replaced: Iterable[Object]) -> None:
        """Delete the parts of heads that were replaced; what remains goes with the workflow."""
        for old in replaced:
            seal, count = str(_notes(old).get(_DIGEST)), _count(old) or 0
            for number in range(1, count if seal != digest else 0):
                with suppress(ClusterError):
                    self.cluster.delete("ConfigMap", object_name(self.workflow, key, number, seal))

    def _metadata(
        self, key: str, number: int, digest: str, kind: str, category: str, *, lasting: bool
    ) -> dict[str, Any]:
        labels = {**self.workflow.labels, LABEL_KIND: kind}
        if category:
            labels[LABEL_CATEGORY] = label_value(category)
        metadata: dict[str, Any] = {
            "name": object_name(self.workflow, key, number, digest),
            "labels": labels,
            "annotations": {
                _UID: self.workflow.uid,
                _WORKFLOW: self.workflow.name,
                _KEY: key,
                _DIGEST: digest,
            },
        }
        if self.owner and not lasting:
            metadata["ownerReferences"] = [dict(self.owner)]
        return metadata

    def _read(self, key: str) -> bytes | None:
        head = self._try_get(object_name(self.workflow, key))
        return None if head is None else self._joined(key, head, {})

    def _joined(self, key: str, head: Object, known: Mapping[str, Object]) -> bytes | None:
        """Return the content; None when it was deleted, as happens to what is being replaced."""
        while True:
            data = self._content(key, head, known)
            if data is not None:
                return data
            # A part is gone: somebody puts another version in its place, or it is lost.
            again = self._try_get(object_name(self.workflow, key))
            if again is None:
                return None
            if _notes(again) == _notes(head):
                raise RecordError(f"{key}: a part of it is missing")
            head, known = again, {}

    def _content(self, key: str, head: Object, known: Mapping[str, Object]) -> bytes | None:
        """Put the parts of a document together; None when one of them is not there."""
        self._check(key, head)
        notes, count = _notes(head), _count(head)
        if count is None:
            raise RecordError(f"{key}: its ConfigMap does not say how many parts it has")
        digest = str(notes.get(_DIGEST))
        parts = [head]
        for number in range(1, count):
            name = object_name(self.workflow, key, number, digest)
            part = known.get(name) or self._try_get(name)
            if part is None:
                return None
            self._check(key, part)
            parts.append(part)
        try:
            packed = b"".join(
                base64.b64decode(item["binaryData"]["data"], validate=True) for item in parts
            )
            if _digest(self.workflow, key, packed) != digest:
                raise RecordError(f"{key}: its content is not what was written")
            return gzip.decompress(packed)
        except (KeyError, TypeError, ValueError, OSError, EOFError, zlib.error) as error:
            raise RecordError(f"{key}: its ConfigMaps are damaged") from error

    def _check(self, key: str, item: Object) -> None:
        """Make sure that an object is what it was taken for.

        Raises:
            RecordError: it belongs to another run, or is another document.
        """
        notes, name = _notes(item), item["metadata"]["name"]
        if _UID not in notes:
            raise RecordError(f"{key}: ConfigMap {name} does not say to which run it belongs")
        theirs = WorkflowRun(str(notes.get(_WORKFLOW)), str(notes[_UID]))
        owners = item["metadata"].get("ownerReferences") or []
        for owner in owners:
            if owner.get("kind") == "Workflow" and owner.get("uid") != self.workflow.uid:
                theirs = WorkflowRun(str(owner.get("name")), str(owner.get("uid")))
        if theirs != self.workflow:
            raise RecordError(f"{key}: belongs to another run, {theirs}, not to {self.workflow}")
        if notes.get(_KEY) != key:
            raise RecordError(f"{key}: ConfigMap {name} holds {notes.get(_KEY)} instead")

    def _try_get(self, name: str) -> Object | None:
        try:
            return self.cluster.get("ConfigMap", name)
        except NotFoundError:
            return None


def object_name(workflow: WorkflowRun, key: str, part: int = 0, digest: str = "") -> str:
    """Return the name of a ConfigMap; no two documents of any two runs share one.

    Args:
        workflow: the run.
        key: of the document.
        part: 0 for the head.
        digest: of the content; names all parts but the head.
    """
    identity = json.dumps([workflow.uid, workflow.name, key]).encode()
    start = workflow.name[:40].rstrip("-.")
    head = f"{start}-{hashlib.sha256(identity).hexdigest()[:24]}"
    return f"{head}-{digest[:12]}-{part}" if part else head


def _digest(workflow: WorkflowRun, key: str, packed: bytes) -> str:
    identity = json.dumps([workflow.uid, workflow.name, key]).encode()
    return hashlib.sha256(identity + b"\n" + packed).hexdigest()


def _notes(item: Object) -> Mapping[str, Any]:
    return item["metadata"].get("annotations") or {}


def _count(head: Object) -> int | None:
    """Return of how many parts a head speaks; None where it says nothing that can be."""
    text = str(_notes(head).get(_PARTS, ""))
    most = MAX_BYTES // PART_BYTES + 1
    return int(text) if text.isdecimal() and 1 <= int(text[:9]) <= most else None


def _says_the_same(found: Object, body: Object) -> bool:
    return found.get("binaryData") == body["binaryData"] and dict(_notes(found)) == dict(
        _notes(body)
    )
