"""Streaming the output of a pod into memory, bounded, and past broken connections."""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from catalog.errors import ClusterError
from steps.cluster.api.client import Cluster

MAX_LOG_BYTES = 64 * 1024 * 1024
"""Most that is kept of all outputs of one run."""

Listener = Callable[[bytes, bytes], None]
"""Told a line without its end, and the kubelet's time of it; see `time_of`."""

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}\S* ")
_NONE: Counter[int] = Counter()
_OVERLAP = timedelta(seconds=1)
"""Lines can be written so much later than others of a later time."""
_RETRY_SECONDS = 1.0
_LONGEST_LINE = 8 * 1024 * 1024
"""Bytes of a line without an end, such as a progress bar of hours; what is beyond is not kept."""


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
        self.gaps = 0

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

    def add_gap(self) -> None:
        """Say in the output that an unknown number of lines is missing here."""
        self.gaps += 1
        self.add(b"[readiness: lines of the output are missing here]\n")

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


class _Reading:
    """How far one reading of the output has come.

    Attributes:
        seen: how often each line has come in it, by second.
        joined: it has come to the last line that was taken before; what follows is new.
    """

    def __init__(self, *, joined: bool) -> None:
        self.seen: dict[bytes, Counter[int]] = {}
        self.joined = joined


class LogStream(threading.Thread):
    """Follows the output of one container until it ends.

    Every line is asked for with its time, which is taken off again. Times are not unique (CRI-O has
    one for all lines that it reads at once) and not in order (stdout and stderr are stamped
    apart). So after a break the API is asked for all since a second before the last line, and lines
    are known again by time and content: of those that are alike, as many are left out as were
    taken. The last line that was taken must be among them; where it is not, the kubelet has rotated
    the file away, and what is missing is said.

    Only one reading takes lines: the newest. A stream that hung while others read on is given up.

    Args:
        cluster: where the pod is.
        pod: its name.
        container: its container.
        limit: bytes to keep.
        listen: is told every line once, by several threads, but never by two at once. One that
            breaks is told no more, and is None from then on.
    """

    def __init__(
        self,
        cluster: Cluster,
        pod: str,
        container: str,
        limit: int,
        listen: Listener | None = None,
    ) -> None:
        super().__init__(name=f"log of {pod}", daemon=True)
        self._cluster = cluster
        self._pod = pod
        self._container = container
        self._log = BoundedLog(limit)
        self._at = datetime.min.replace(tzinfo=UTC)
        self._known: dict[bytes, Counter[int]] = {}
        self._last: tuple[bytes, int] | None = None
        self._reading: _Reading | None = None
        self.listen = listen
        self._taking = threading.Lock()
        self._beside = threading.Lock()
        self._ended = threading.Event()
        self._give_up = threading.Event()
        self.complete = False

    def run(self) -> None:
        """Read until the container has ended and its output is whole, or `finish` gives up."""
        while not self._give_up.is_set():
            # To be asked before reading: a stream that ends later than the container is whole.
            ended = self._ended.is_set()
            with suppress(ClusterError):
                with self._beside:
                    mine = self._begin()
                whole = self._read(mine, follow=not ended)
                if ended and whole:
                    self.complete = True
                    return
            if ended:
                self._give_up.wait(_RETRY_SECONDS)
            else:
                # The end of the container is worth a look at once.
                self._ended.wait(_RETRY_SECONDS)

    def catch_up(self) -> bool:
        """Take what was written by now, also while the stream hangs.

        Returns:
            False when the output cannot be read.
        """
        try:
            with self._beside:
                self._read(self._begin(), follow=False)
        except ClusterError:
            return False
        return True

    def end(self) -> None:
        """Tell that the container has ended: what is still to come is all there."""
        self._ended.set()

    def finish(self, patience: float) -> None:
        """Take what is still to come, for so many seconds, once the container has ended."""
        self.end()
        if self.is_alive():
            self.join(patience)
        self._give_up.set()

    @property
    def truncated(self) -> bool:
        """True when bytes are missing at the end or in the middle."""
        return not self.complete or bool(self._log.dropped or self._log.gaps)

    def data(self) -> bytes:
        """Return the output."""
        return self._log.data()

    def _begin(self) -> _Reading:
        """Begin a reading, which ends every other."""
        with self._taking:
            self._reading = _Reading(joined=self._last is None)
            return self._reading

    def _since(self) -> str:
        """Return from when on lines are asked for; the API counts in whole seconds."""
        if self._last is None:
            return ""
        return (self._at - _OVERLAP).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _read(self, mine: _Reading, *, follow: bool) -> bool:
        """Read to the end; False when another reading has begun meanwhile."""
        rest = bytearray()
        for chunk in self._cluster.logs(
            self._pod, self._container, follow=follow, timestamps=True, since=self._since()
        ):
            whole, newline, begun = chunk.rpartition(b"\n")
            if newline:
                for line in (bytes(rest) + whole).split(b"\n"):
                    self._take(line, b"\n", mine)
                rest.clear()
            if self._reading is not mine:
                return False
            room = max(_LONGEST_LINE - len(rest), 0)
            if len(begun) > room:
                self._log.gaps += 1
            rest += begun[:room]
        # Without a newline it is the last line, or the stream broke; then it is read again.
        if rest and self._ended.is_set():
            self._take(bytes(rest), b"", mine)
        return self._reading is mine

    def _take(self, line: bytes, ending: bytes, mine: _Reading) -> None:
        """Take a line, which has its time in front, unless it was taken before."""
        match = _STAMP.match(line)
        # Lines without a time are the kubelet's, such as that the file is gone.
        if match is None:
            return
        second, what = line[:19], hash(line)
        with self._taking:
            if self._reading is not mine:
                return
            count = mine.seen.setdefault(second, Counter())
            count[what] += 1
            known = self._known.get(second, _NONE)[what]
            if count[what] <= known:
                mine.joined |= self._last == (second, what) and count[what] == known
                return
            if not mine.joined:
                # The line that was taken last is not there any more.
                self._log.add_gap()
                mine.joined = True
            self._remember(second, what, match[0], mine)
            self._log.add(line[match.end() :] + ending)
            if self.listen:
                try:
                    self.listen(line[match.end() :], match[0])
                except Exception:  # noqa: BLE001  (a bug there must not cost the output)
                    self.listen = None

    def _remember(self, second: bytes, what: int, stamp: bytes, mine: _Reading) -> None:
        """Remember a line that was taken, and forget those that nobody asks for again."""
        if self._last is None or self._last[0] != second:
            self._at = time_of(stamp)
            oldest = (self._at - 3 * _OVERLAP).strftime("%Y-%m-%dT%H:%M:%S").encode()
            for counts in (self._known, mine.seen):
                for old in [key for key in counts if key < oldest]:
                    del counts[old]
        self._known.setdefault(second, Counter())[what] += 1
        self._last = (second, what)


def time_of(stamp: bytes) -> datetime:
    """Read a time of the kubelet's, which has nanoseconds."""
    text = stamp.decode().strip()
    return datetime.fromisoformat(text[:26] + text[29:])
