"""The outputs of a run: who is followed, what is heard in them, how they are kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from catalog.entries.entry import find_entry
from steps.cluster.api.client import Cluster
from steps.cluster.api.labels import LABEL_ROLE
from steps.cluster.objects.pods import TOOL
from steps.cluster.objects.reading import name_of, node_of
from steps.cluster.watching.kernel_lines import KernelLines
from steps.cluster.watching.logs import MAX_LOG_BYTES, LogStream
from steps.cluster.watching.redaction import without_secrets
from steps.documents import LogFile, NodeEvent, RunFailure
from steps.jobs.job import Job, log_name
from steps.parse.api import ParseContext
from steps.tools.stall import Progress, StallRules

_LEAST_BYTES = 1024 * 1024
_FIRST_WORDS = 2.0
"""Seconds to read a running container for the first time."""
_CATCHING_UP = 15.0
"""Seconds to read outputs beside their streams."""
_AT_ONCE = 16
"""So many outputs are read beside their streams at once; a big gang has hundreds."""
_LONGEST_RUN = timedelta(days=7)
"""Kernel lines with a later time than that are not of the run."""


@dataclass(frozen=True, slots=True)
class _Followed:
    node: str | None
    stream: LogStream
    progress: Progress
    kernel: KernelLines


class Outputs:
    """The outputs of the pods that run the tool.

    Args:
        cluster: where they run.
        job: what is run.
        count: how many pods there will be.
        since: when the run began.
    """

    def __init__(self, cluster: Cluster, job: Job, count: int, since: datetime) -> None:
        self._cluster = cluster
        self._job = job
        self._count = count
        self._since = since
        self._tool = find_entry(job.category).tool
        self._stall_rules = StallRules.of(job.workload, self._tool)
        self._followed: dict[str, _Followed] = {}

    def follow(
        self, pods: Iterable[Mapping[str, Any]], placements: Mapping[str, str] | None = None
    ) -> None:
        """Follow every pod whose container has started and that is not followed yet.

        Args:
            pods: the pods that run the tool.
            placements: node by name of all pods of the run; their names may stand in outputs.
        """
        limit = max(MAX_LOG_BYTES // self._count, _LEAST_BYTES)
        for pod in pods:
            name = name_of(pod)
            if name in self._followed or not _has_started(pod):
                continue
            progress = Progress(self._tool, time.monotonic())
            kernel = KernelLines(
                name,
                self._context(pod),
                since=self._since,
                nodes=self._job.group.nodes,
                pod_nodes=placements or {},
            )

            def listen(
                raw: bytes,
                stamp: bytes,
                progress: Progress = progress,
                kernel: KernelLines = kernel,
            ) -> None:
                progress.take(raw, time.monotonic())
                kernel.take(raw, stamp)

            stream = LogStream(self._cluster, name, TOOL, limit, listen)
            self._followed[name] = _Followed(node_of(pod), stream, progress, kernel)
            stream.start()

    def _context(self, pod: Mapping[str, Any]) -> ParseContext:
        """Tell what lines say about nodes: all of a worker's are its node's own, a launcher's not.

        The lines that a launcher collects belong to a node only where they are tagged.
        """
        nodes, gpus = self._job.group.nodes, int(self._job.workload.gpus_per_node.value)
        ended = self._since + _LONGEST_RUN
        if (pod["metadata"].get("labels") or {}).get(LABEL_ROLE) == "launcher":
            ranks = {rank: nodes[rank // gpus] for rank in range(gpus * len(nodes))}
            return ParseContext(rank_nodes=ranks, started=self._since, ended=ended)
        return ParseContext(node=node_of(pod), started=self._since, ended=ended)

    def hardware_events(self) -> list[NodeEvent]:
        """Return what kernel lines in the outputs say against nodes, earliest first."""
        found = [event for item in self._followed.values() for event in item.kernel.events()]
        return sorted(found, key=lambda event: event.at)

    def stall(self) -> RunFailure | None:
        """Return the failure of a run that makes no progress for longer than its rules allow.

        Before it is believed, every output is read up to now: a stream may hang while the tool
        prints on. What cannot be read proves nothing.
        """
        if self._stall_rules is None or self._stalled() is None:
            return None
        heard = all(item.stream.listen for item in self._followed.values())
        return self._stalled() if heard and self.catch_up() else None

    def catch_up(self) -> bool:
        """Read every output up to now, as long as that does not take long.

        Returns:
            False when one could not be read.
        """
        readers = ThreadPoolExecutor(_AT_ONCE)
        reads = [readers.submit(item.stream.catch_up) for item in self._followed.values()]
        done, late = wait(reads, _CATCHING_UP)
        readers.shutdown(wait=False, cancel_futures=True)
        return not late and all(read.result() for read in done)

    def told(self) -> str:
        """Return how far the tool has come, by the output that came furthest; empty at first."""
        progress = [item.progress for item in self._followed.values()]
        return max(progress, key=_how_far).told if progress else ""

    def _stalled(self) -> RunFailure | None:
        """Ask the output that came furthest: in a gang one rank prints for all."""
        if self._stall_rules is None or not self._followed:
            return None
        progress = [item.progress for item in self._followed.values()]
        furthest = max(progress, key=_how_far)
        return self._stall_rules.failure(furthest, time.monotonic())

    def finish(self, pods: Iterable[Mapping[str, Any]], patience: float) -> None:
        """Stop following.

        What containers that have ended still have to say is waited for; of one that runs on, no
        more than the first words, where none were read yet.
        """
        pods = list(pods)
        self.follow(pods)
        ended = {name_of(pod) for pod in pods if has_ended(pod)}
        # All before the first is waited for: one node that is gone must not cost the others theirs.
        for name in ended & set(self._followed):
            self._followed[name].stream.end()
        end = time.monotonic() + patience
        for name, item in self._followed.items():
            left = max(end - time.monotonic(), 0.0)
            if name not in ended:
                left = min(left, 0.0 if item.stream.data() else _FIRST_WORDS)
            item.stream.finish(left)

    def collect(self) -> tuple[tuple[LogFile, ...], dict[str, bytes]]:
        """Return the outputs without secrets, by name, and what the record says of them."""
        files, logs = [], {}
        alone = len(self._job.group.nodes) == 1
        for item in self._followed.values():
            single = self._count == 1
            name = log_name(self._job, "output.log" if single else f"{item.node}.log")
            logs[name] = without_secrets(item.stream.data())
            files.append(
                LogFile(
                    name=name,
                    node=item.node if alone or not single else None,
                    bytes=len(logs[name]),
                    truncated=item.stream.truncated,
                )
            )
        return tuple(files), logs


def _how_far(progress: Progress) -> tuple[bool, float]:
    return progress.last is not None, progress.at


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
