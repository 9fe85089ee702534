"""The record store on ConfigMaps.

Every document is compressed and cut into parts of one ConfigMap each (the API server refuses
objects over about 1 MiB). They carry labels, and the Workflow owns them, so that they go with it;
the report is owned by nobody and stays.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from catalog.errors import ClusterError, RecordError
from steps.cluster.api.client import Cluster, NotFoundError, Object, RefusedError
from steps.documents import Document, Report, dump, load
from steps.store.store import key_of, slug

D = TypeVar("D", bound=Document)

PART_BYTES = 640 * 1024
"""Compressed bytes in one ConfigMap; base64 makes them 853 KiB, below etcd's 1.5 MiB."""

MAX_BYTES = 16 * 1024 * 1024
"""Most compressed bytes of one document; a log over it is cut in the middle by the launcher."""

OUTAGE_SECONDS = 300.0
"""An API server that does not answer is asked again for so long."""
_RETRY_SECONDS = 2.0

LABEL_WORKFLOW = "readiness/workflow"
LABEL_KIND = "readiness/kind"
LABEL_CATEGORY = "readiness/category"
_KEY = "readiness/key"
_PARTS = "readiness/parts"
_DIGEST = "readiness/sha256"


class ConfigMapStore:
    """Documents of one workflow as ConfigMaps.

    Args:
        cluster: connection to the namespace of the workflow.
        workflow: name of the Workflow.
        owner: owner reference to the Workflow; None leaves the objects without an owner.
    """

    def __init__(
        self, cluster: Cluster, workflow: str, owner: Mapping[str, Any] | None = None
    ) -> None:
        self.cluster = cluster
        self.workflow = workflow
        self.owner = owner

    def put(self, document: Document, category: str = "", part: str = "") -> None:
        """Write a document; a reader sees it whole or not at all."""
        key = key_of(type(document), category, part)
        lasting = isinstance(document, Report)
        self._write(
            key, dump(document).encode(), type(document).__name__, category, lasting=lasting
        )

    def put_text(self, key: str, text: str) -> None:
        """Keep a text for people, for example report.html; it stays like the report."""
        self._write(key, text.encode(), "text", "", lasting=True)

    def get(self, kind: type[D], category: str = "", part: str = "") -> D | None:
        """Read a document, or None when it was never written.

        Raises:
            RecordError: it is damaged, incomplete or of another version.
        """
        key = key_of(kind, category, part)
        data = self._read(key)
        return None if data is None else load(data, kind, key)

    def list(self, kind: type[D], category: str) -> Iterator[D]:
        """Read all documents of a kind and category, in name order."""
        by_key: dict[str, list[Object]] = {}
        for item in self.cluster.find("ConfigMap", self._selector(kind.__name__, category)):
            by_key.setdefault(item["metadata"]["annotations"][_KEY], []).append(item)
        for key, parts in sorted(by_key.items()):
            parts.sort(key=lambda item: int(item["metadata"]["name"].rpartition("-")[2]))
            data = _join(key, parts)
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
            RecordError: it is not there, or damaged.
        """
        data = self._read(f"logs/{name}")
        if data is None:
            raise RecordError(f"logs/{name}: is not in the record store")
        return data

    def _selector(self, kind: str, category: str) -> str:
        labels = {LABEL_WORKFLOW: self.workflow, LABEL_KIND: kind}
        if category:
            labels[LABEL_CATEGORY] = slug(category)
        return ",".join(f"{name}={value}" for name, value in labels.items())

    def _name(self, key: str, part: int) -> str:
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        return f"{self.workflow[:40].rstrip('-.')}-{digest}-{part}"

    def _write(self, key: str, data: bytes, kind: str, category: str, *, lasting: bool) -> None:
        packed = gzip.compress(data, mtime=0)
        if len(packed) > MAX_BYTES:
            raise RecordError(
                f"{key}: {len(packed) / 2**20:.1f} MiB compressed, the record store takes at most "
                f"{MAX_BYTES // 2**20} MiB"
            )
        parts = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
        # The first part names the number and digest of all, so it is written last: a reader that
        # finds it finds the rest.
        for number in reversed(range(len(parts))):
            body: Object = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": self._metadata(key, number, kind, category, lasting=lasting),
                "binaryData": {"data": base64.b64encode(parts[number]).decode()},
            }
            if number == 0:
                body["metadata"]["annotations"][_PARTS] = str(len(parts))
                body["metadata"]["annotations"][_DIGEST] = hashlib.sha256(packed).hexdigest()
            self._apply(body)

    def _apply(self, body: Object) -> None:
        """Write an object; an API that is away for a while must not cost hours of measuring."""
        end = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                self.cluster.apply(body)
            except RefusedError:
                raise
            except ClusterError:
                if time.monotonic() > end:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _metadata(
        self, key: str, number: int, kind: str, category: str, *, lasting: bool
    ) -> dict[str, Any]:
        labels = {LABEL_WORKFLOW: self.workflow, LABEL_KIND: kind}
        if category:
            labels[LABEL_CATEGORY] = slug(category)
        metadata: dict[str, Any] = {
            "name": self._name(key, number),
            "labels": labels,
            "annotations": {_KEY: key},
        }
        if self.owner and not lasting:
            metadata["ownerReferences"] = [dict(self.owner)]
        return metadata

    def _read(self, key: str) -> bytes | None:
        try:
            parts = [self.cluster.get("ConfigMap", self._name(key, 0))]
            count = int(parts[0]["metadata"]["annotations"].get(_PARTS, "0"))
            parts += [
                self.cluster.get("ConfigMap", self._name(key, number)) for number in range(1, count)
            ]
        except NotFoundError:
            return None
        return _join(key, parts)


def _join(key: str, parts: Sequence[Object]) -> bytes | None:
    """Put the parts of a document together; None while its first part is not written yet."""
    annotations = parts[0]["metadata"]["annotations"]
    if _PARTS not in annotations:
        return None
    try:
        packed = b"".join(
            base64.b64decode(item["binaryData"]["data"], validate=True)
            for item in parts[: int(annotations[_PARTS])]
        )
        if hashlib.sha256(packed).hexdigest() != annotations[_DIGEST]:
            raise RecordError(f"{key}: its parts do not belong together")
        return gzip.decompress(packed)
    except (KeyError, ValueError, OSError, EOFError, zlib.error) as error:
        raise RecordError(f"{key}: its ConfigMaps are damaged") from error
