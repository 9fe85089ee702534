"""Recognises the mass of NCCL's log lines that nobody needs, fast and without decoding.

A run of 4,096 ranks with NCCL_DEBUG=INFO logs gigabytes, nearly all of it connection set-up. One
possessive regular expression steps over many such lines at a time in C; ``[^ ]`` and ``.`` are
single-character tests, which the engine scans several times faster than character sets.
"""

from __future__ import annotations

import re
from functools import cache

CHUNKS = (256, 16)
"""Lines that are skipped at a time; the smaller number near the end of a block or a line that is
wanted."""
MAX_WORDS = 4

_INFO = b" NCCL INFO "

# Set-up messages: Channel, Check, Trees, Connected all, P2P Chunksize, Setting affinity, Ring,
# threadThresholds, "32 coll channels"; but not CollNet. Few letters are faster to test than words.
# "Channel … via NET/…" also tells the network, but so does "Using network …", which each rank logs
# once and which is never skipped.
_SET_UP = rb"(?:Ch|Tr|Connected all|P2P|Se|Ri|th|[0-9])"

_SET_UP_LINE = re.compile(rb" NCCL INFO " + _SET_UP)


@cache
def _chunk(words: int, lines: int) -> re.Pattern[bytes]:
    """Return the pattern for so many lines with so many words before ``[device] NCCL INFO``."""
    prefix = rb"[^ ]*+ " * words
    line = prefix + rb"\[[^]]*+\] NCCL INFO " + _SET_UP + rb".*+\n"
    return re.compile(rb"(?:%b){%d}+" % (line, lines))


class Noise:
    """Skips runs of set-up lines in a block."""

    def __init__(self) -> None:
        self._words = 1

    def skip(self, data: bytes, position: int, end: int) -> tuple[int, int]:
        """Return how many lines from here on are noise, and where they end."""
        for lines in CHUNKS:
            match = _chunk(self._words, lines).match(data, position, end)
            # "[^ ]" runs over a line end where a line has no blank; then more lines matched
            if match and _count_lines(match[0]) == lines:
                return lines, match.end()
        self._learn(data, position, end)
        return 0, position

    def _learn(self, data: bytes, position: int, end: int) -> None:
        """Adapt to what stands before the device: timestamps and tags add words."""
        stop = data.find(b"\n", position, end)
        info = data.find(_INFO, position, stop)
        if info > 0:
            words = data.rfind(b" [", position, info)
            count = data.count(b" ", position, words + 1)
            if words > 0 and 1 <= count <= MAX_WORDS:
                self._words = count


def _count_lines(data: bytes) -> int:
    """Count line ends; deleting them takes less than half the time of ``bytes.count``."""
    return len(data) - len(data.replace(b"\n", b""))


def is_noise(raw: bytes) -> bool:
    """Whether a line is a set-up message of NCCL's log."""
    # a line that begins with a blank may be a table row that the log broke into
    return _SET_UP_LINE.search(raw) is not None and raw[:1] not in b" #"
