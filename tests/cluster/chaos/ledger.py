"""What the cluster was seen to have on record, whatever became of it later."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import zlib
from contextlib import suppress
from datetime import datetime
from typing import Any

from tests.cluster.chaos.oracle import Measured

Object = dict[str, Any]

WORKFLOW, KIND = "readiness/workflow", "readiness/kind"
_LASTING = {"Report", "text"}


class Ledger:
    """Remembers the run records of every workflow as they were first written."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()

    def hear(self, kind: str, item: Object) -> None:
        """Take notice of a change in the cluster."""
        labels = item["metadata"].get("labels") or {}
        if kind != "ConfigMap" or labels.get(KIND) != "RunRecord" or WORKFLOW not in labels:
            return
        record = body_of(item)
        if record is None:
            return
        where = (item["metadata"]["namespace"], labels[WORKFLOW])
        with self._lock:
            self._records.setdefault(where, {})[str(record["group"]["id"])] = record

    def measured(
        self, namespace: str, workflow: str, lost: set[str] | frozenset[str] = frozenset()
    ) -> tuple[Measured, ...]:
        """Return the runs of a workflow that ended well, isolation apart."""
        with self._lock:
            records = dict(self._records.get((namespace, workflow), {}))
        return tuple(
            Measured(
                nodes=tuple(record["group"]["nodes"]),
                ended=datetime.fromisoformat(record["ended"]).timestamp(),
                lost=name in lost,
            )
            for name, record in records.items()
            if record["outcome"] == "completed"
            and not record.get("failures")
            and record["group"].get("purpose", "measure") == "measure"
        )


def body_of(item: Object) -> dict[str, Any] | None:
    """Return the document in a ConfigMap; None when it is damaged or not all of it."""
    with suppress(KeyError, ValueError, OSError, EOFError, zlib.error):
        found = json.loads(gzip.decompress(base64.b64decode(item["binaryData"]["data"])))
        return found if isinstance(found, dict) else None
    return None


def unowned(maps: list[Object], workflow: str) -> list[str]:
    """Name documents that would stay when their workflow goes."""
    return [
        f"ConfigMap/{item['metadata']['name']} has no owner"
        for item in maps
        if (item["metadata"].get("labels") or {}).get(WORKFLOW) == workflow
        and (item["metadata"].get("labels") or {}).get(KIND, "Report") not in _LASTING
        and not item["metadata"].get("ownerReferences")
    ]
