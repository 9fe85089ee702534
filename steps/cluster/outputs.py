"""The outputs of a run: who is followed, under which name they are kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from steps.cluster.api import Cluster
from steps.cluster.logs import MAX_LOG_BYTES, LogStream
from steps.cluster.pods import TOOL
from steps.cluster.redaction import without_secrets
from steps.cluster.trouble import name_of, node_of
from steps.documents import LogFile
from steps.run.job import Job, log_name

_LEAST_BYTES = 1024 * 1024
_FIRST_WORDS = 2.0
"""Seconds to read a running container for the first time."""


class Outputs:
    """The outputs of the pods that run the tool.

    Args:
        cluster: where they run.
        job: what is run.
        count: how many pods there will be.
    """

    def __init__(self, cluster: Cluster, job: Job, count: int) -> None:
        self._cluster = cluster
        self._job = job
        self._count = count
        self._streams: dict[str, tuple[str | None, LogStream]] = {}

    def follow(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Follow every pod whose container has started and that is not followed yet."""
        limit = max(MAX_LOG_BYTES // self._count, _LEAST_BYTES)
        for pod in pods:
            name = name_of(pod)
            if name not in self._streams and _has_started(pod):
                stream = LogStream(self._cluster, name, TOOL, limit)
                self._streams[name] = (node_of(pod), stream)
                stream.start()

    def finish(self, pods: Iterable[Mapping[str, Any]], patience: float) -> None:
        """Stop following.

        What containers that have ended still have to say is waited for; of one that runs on, no
        more than the first words, where none were read yet.
        """
        pods = list(pods)
        self.follow(pods)
        ended = {name_of(pod) for pod in pods if has_ended(pod)}
        end = time.monotonic() + patience
        for name, (_, stream) in self._streams.items():
            left = max(end - time.monotonic(), 0.0)
            if name not in ended:
                left = min(left, 0.0 if stream.data() else _FIRST_WORDS)
            stream.finish(left)

    def collect(self) -> tuple[tuple[LogFile, ...], dict[str, bytes]]:
        """Return the outputs without secrets, by name, and what the record says of them."""
        files, logs = [], {}
        alone = len(self._job.group.nodes) == 1
        for node, stream in self._streams.values():
            single = self._count == 1
            name = log_name(self._job, "output.log" if single else f"{node}.log")
            logs[name] = without_secrets(stream.data())
            files.append(
                LogFile(
                    name=name,
                    node=node if alone or not single else None,
                    bytes=len(logs[name]),
                    truncated=stream.truncated,
                )
            )
        return tuple(files), logs


def has_ended(pod: Mapping[str, Any]) -> bool:
    """True when the container of the tool has ended."""
    return "terminated" in _state(pod)


def _has_started(pod: Mapping[str, Any]) -> bool:
    return bool({"running", "terminated"} & set(_state(pod)))


def _state(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    for item in pod.get("status", {}).get("containerStatuses") or []:
        if item.get("name") == TOOL:
            found: Mapping[str, Any] = item.get("state") or {}
            return found
    return {}
