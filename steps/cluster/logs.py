"""Streaming the output of a pod into memory, bounded, and past broken connections."""

from __future__ import annotations

import re
import threading
from collections import deque
from contextlib import suppress

from catalog.errors import ClusterError
from steps.cluster.api import Cluster

MAX_LOG_BYTES = 64 * 1024 * 1024
"""Most that is kept of all outputs of one run."""

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}\S* ")
_RETRY_SECONDS = 1.0


class BoundedLog:
    """Keeps the beginning and the end of an output.

    Args:
        limit: bytes to keep; half of them are the beginning.
    """

    def __init__(self, limit: int = MAX_LOG_BYTES) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Append bytes."""
        if not self._tail:
            room = self._half - len(self._head)
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
        while self._tail_size - len(self._tail[0] if self._tail else b"") >= self._half:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self.dropped += gone

    def data(self) -> bytes:
        """Return what was kept; a line of its own says where bytes are missing."""
        tail = b"".join(self._tail)
        if not self.dropped:
            return bytes(self._head) + tail
        # What is left of a line that begins in the gap would be read as a line.
        tail = tail[tail.find(b"\n") + 1 :]
        head = bytes(self._head[: self._head.rfind(b"\n") + 1])
        mark = f"[readiness: {self.dropped} bytes of the output are not kept]\n"
        return head + mark.encode() + tail


class LogStream(threading.Thread):
    """Follows the output of one container until it ends.

    Every line is asked for with its time, so that after a break the stream goes on behind the last
    whole line; the times are taken off again.

    Args:
        cluster: where the pod is.
        pod: its name.
        container: its container.
        limit: bytes to keep.
    """

    def __init__(self, cluster: Cluster, pod: str, container: str, limit: int) -> None:
        super().__init__(name=f"log of {pod}", daemon=True)
        self._cluster = cluster
        self._pod = pod
        self._container = container
        self._log = BoundedLog(limit)
        self._last = b""
        self._ended = threading.Event()
        self._give_up = threading.Event()
        self.complete = False

    def run(self) -> None:
        """Read until the container has ended and its output is whole, or `finish` gives up."""
        while not self._give_up.is_set():
            # To be asked before reading: a stream that ends later than the container is whole.
            ended = self._ended.is_set()
            with suppress(ClusterError):
                self._read(follow=not ended)
                if ended:
                    self.complete = True
                    return
            if ended:
                self._give_up.wait(_RETRY_SECONDS)
            else:
                # The end of the container is worth a look at once.
                self._ended.wait(_RETRY_SECONDS)

    def finish(self, patience: float) -> None:
        """Take what is still to come, for so many seconds, once the container has ended."""
        self._ended.set()
        if self.is_alive():
            self.join(patience)
        self._give_up.set()

    @property
    def truncated(self) -> bool:
        """True when bytes are missing at the end or in the middle."""
        return not self.complete or bool(self._log.dropped)

    def data(self) -> bytes:
        """Return the output."""
        return self._log.data()

    def _read(self, *, follow: bool) -> None:
        # The API counts in whole seconds; the zone stands behind nine digits.
        since = (self._last[:19] + self._last[29:].strip()).decode()
        rest = b""
        for chunk in self._cluster.logs(
            self._pod, self._container, follow=follow, timestamps=True, since=since
        ):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._take(line, b"\n")
        # Without a newline it is the last line, or the stream broke; then it is read again.
        if rest and self._ended.is_set():
            self._take(rest, b"")

    def _take(self, line: bytes, ending: bytes) -> None:
        match = _STAMP.match(line)
        # Lines without a time are the kubelet's, such as that the file is gone.
        if match is None or match[0] <= self._last:
            return
        self._last = match[0]
        self._log.add(line[match.end() :] + ending)
