"""Cuts a stream of bytes into lines: one pass, bounded memory, exact line numbers, gzip or not."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from steps.parse.lines import MAX_DOCUMENT_BYTES
from steps.parse.nccl.noise import CHUNKS, Noise, is_noise

BLOCK_BYTES = 1 << 20
EVERY_LINE_BYTES = 1 << 20
"""So much of an output is read line by line before noise is skipped in bulk: the start holds the
header and one sample of everything that set-up logs."""
SAMPLE_EVERY = 16
"""Of so many skipped chunks the first line is read all the same."""

_GZIP = b"\x1f\x8b"


class Take(Protocol):
    """What is done with a line."""

    def __call__(self, raw: bytes, number: int, *, ended: bool = True) -> None:
        """Take a raw line without its newline, its 1-based number, and whether one ended it."""


@dataclass(slots=True)
class Reading:
    """What was read.

    Attributes:
        lines: number of lines.
        size: bytes, uncompressed.
        truncated: why the stream ends too early, if it does.
    """

    lines: int = 0
    size: int = 0
    truncated: str | None = None


def read_lines(stream: BinaryIO, take: Take) -> Reading:
    """Read a stream to its end and hand its lines to ``take``.

    Lines of NCCL's log that say nothing are not handed over, but they are counted. Lines longer
    than 16 MiB are cut.
    """
    reading = Reading()
    lines = _Lines(take)
    for block in _blocks(stream, reading):
        reading.size += len(block)
        lines.add(block)
    lines.close()
    reading.lines = lines.number
    return reading


class _Lines:
    def __init__(self, take: Take) -> None:
        self.number = 0
        self._take = take
        self._tail = b""
        self._cutting = False
        self._read = 0
        self._chunks = 0
        self._noise = Noise()

    def add(self, block: bytes) -> None:
        start = 0
        if self._cutting or self._tail:
            start = block.find(b"\n") + 1
            if not start:
                self._lengthen(block)
                return
            self._finish_line(block[: start - 1])
        end = block.rfind(b"\n") + 1
        self._scan(block, start, end)
        self._tail = block[end:]
        self._read += len(block)

    def _finish_line(self, rest: bytes) -> None:
        if self._cutting:
            self._cutting = False
            return
        self.number += 1
        self._take(self._tail + rest, self.number)
        self._tail = b""

    def _lengthen(self, block: bytes) -> None:
        """Take a block that is all inside one line; give up on the line when it gets too long."""
        if self._cutting:
            return
        self._tail += block
        if len(self._tail) <= MAX_DOCUMENT_BYTES:
            return
        # what a progress bar redrew is handed over; its last state may still be incomplete
        cut = self._tail.rfind(b"\r") + 1
        self._take(self._tail[: cut or None], self.number + 1)
        self._tail = self._tail[cut:] if cut else b""
        if not cut:
            self.number += 1
            self._cutting = True

    def close(self) -> None:
        if self._tail:
            self.number += 1
            self._take(self._tail, self.number, ended=False)

    def _scan(self, data: bytes, position: int, end: int) -> None:
        bulk = self._read >= EVERY_LINE_BYTES
        while position < end:
            if bulk:
                skipped, after = self._noise.skip(data, position, end)
                if skipped:
                    if self._chunks % SAMPLE_EVERY == 0:
                        self._take(data[position : data.find(b"\n", position)], self.number + 1)
                    self._chunks += 1
                    self.number += skipped
                    position = after
                    continue
            for _ in range(CHUNKS[-1]):
                stop = data.find(b"\n", position, end)
                self.number += 1
                raw = data[position:stop]
                if not (bulk and is_noise(raw)):
                    self._take(raw, self.number)
                position = stop + 1
                if position >= end:
                    break


def _blocks(stream: BinaryIO, reading: Reading) -> Iterator[bytes]:
    first = stream.read(BLOCK_BYTES)
    if first.startswith(_GZIP):
        yield from _unzipped(stream, first, reading)
        return
    while first:
        yield first
        first = stream.read(BLOCK_BYTES)


def _unzipped(stream: BinaryIO, first: bytes, reading: Reading) -> Iterator[bytes]:
    """Yield what can be unpacked; members may follow each other, as in rotated logs."""
    unpacker = zlib.decompressobj(wbits=31)
    packed = first
    try:
        while packed:
            block = unpacker.decompress(packed, BLOCK_BYTES)
            if block:
                yield block
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed = unpacker.unused_data or stream.read(BLOCK_BYTES)
                if packed.strip(b"\0"):
                    unpacker = zlib.decompressobj(wbits=31)
                else:
                    return
            packed = packed or stream.read(BLOCK_BYTES)
        rest = unpacker.flush()
        if rest:
            yield rest
        if not unpacker.eof:
            reading.truncated = "the gzip stream ends too early"
    except zlib.error as error:
        reading.truncated = f"the gzip stream is broken: {error}"
