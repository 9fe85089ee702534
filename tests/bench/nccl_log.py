"""A made-up log of nccl-tests on many ranks with NCCL_DEBUG=INFO, as a stream of any size."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

RANKS = 4096
GPUS = 8
BLOCK_LINES = 40_000
ROWS = tuple(1 << power for power in range(13, 34))


class LogStream(io.RawIOBase):
    """Reads as a log of about ``size`` bytes; nothing is stored but one block of set-up lines.

    Attributes:
        lines: number of lines of what was read so far.
    """

    def __init__(self, size: int) -> None:
        self.lines = 0
        self._chunks = _chunks(size)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
            self.lines += chunk.count(b"\n")
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def open_log(size: int) -> io.BufferedReader:
    """Return the log as a buffered binary stream."""
    return io.BufferedReader(LogStream(size), buffer_size=1 << 20)


def _chunks(size: int) -> Iterator[bytes]:
    head, table = _head(), _table()
    yield head
    block = _set_up()
    left = size - len(head) - sum(map(len, table))
    between = max(left // (len(table) + 4), 0)
    yield from _bulk(block, left - between * len(table))
    for row in table:
        yield row
        yield from _bulk(block, between)
    yield b"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 171.25 \n#\n"


def _bulk(block: bytes, size: int) -> Iterator[bytes]:
    step = 1 << 18
    while size > 0:
        for start in range(0, len(block), step):
            piece = block[start : start + step]
            if start + step < len(block):
                piece = piece[: piece.rfind(b"\n") + 1]
            yield piece
            size -= len(piece)
            if size <= 0:
                return


def _node(rank: int) -> str:
    return f"h100-r{rank // 128:02d}-n{rank // GPUS % 16:02d}"


def _info(rank: int, message: str) -> str:
    return f"{_node(rank)}:{41_000 + rank}:{52_000 + rank} [{rank % GPUS}] NCCL INFO {message}"


def _head() -> bytes:
    lines = [
        "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807",
        "# Collective test starting: all_reduce_perf",
        f"# nThread 1 nGpus 1 minBytes {ROWS[0]} maxBytes {ROWS[-1]} step: 2(factor) "
        "warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
        "#",
        "# Using devices",
    ]
    for rank in range(RANKS):
        device = rank % GPUS
        lines.append(
            f"#  Rank {rank:2d} Group  0 Pid {41_000 + rank:6d} on {_node(rank):>10} "
            f"device {device:2d} [0000:{0x18 + 16 * device:02x}:00] NVIDIA H100 80GB HBM3"
        )
    for rank in range(RANKS):
        nics = " ".join(f"[{nic}]mlx5_{nic}:1/IB" for nic in range(GPUS))
        lines += [
            _info(rank, f"Bootstrap: Using eth0:10.{rank >> 11}.{rank // GPUS % 256}.7<0>"),
            _info(rank, "cudaDriverVersion 12080"),
            _info(rank, f"NET/IB : Using {nics} [RO]; OOB eth0:10.0.0.7<0>"),
            _info(rank, "Using network IB"),
            _info(
                rank,
                f"ncclCommInitRank comm 0x5581a9 rank {rank} nranks {RANKS} cudaDev {rank % GPUS} "
                "nvmlDev 0 busId 18000 commId 0x7a11 - Init START",
            ),
        ]
    lines += [
        "#",
        "#                                                              out-of-place"
        "                       in-place          ",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        "     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       "
        "     (us)  (GB/s)  (GB/s)       ",
    ]
    return ("\n".join(lines) + "\n").encode()


def _set_up() -> bytes:
    chance = random.Random(7)  # noqa: S311  # not for secrets
    lines = []
    for _ in range(BLOCK_LINES):
        rank, kind, channel = chance.randrange(RANKS), chance.random(), chance.randrange(32)
        device, peer = rank % GPUS, (rank + GPUS) % RANKS
        beside = rank - device + (device + 1) % GPUS
        if kind < 0.6:
            message = (
                f"Channel {channel:02d}/0 : {rank}[{device}] -> {peer}[{device}] "
                f"[send] via NET/IB/{device}/GDRDMA"
            )
        elif kind < 0.9:
            message = (
                f"Channel {channel:02d}/0 : {rank}[{device}] -> "
                f"{beside}[{beside % GPUS}] via P2P/CUMEM/read"
            )
        elif kind < 0.95:
            trees = f"{rank + 1}/-1/-1->{rank}->{rank - 1}"
            message = f"Trees [0] {trees} [1] {trees} [2] {trees} [3] {trees}"
        else:
            message = "Connected all rings, use ring PXN 0 GDR 1"
        lines.append(_info(rank, message))
    return ("\n".join(lines) + "\n").encode()


def _table() -> list[bytes]:
    rows = []
    for index, size in enumerate(ROWS):
        algbw = 180 * (index + 1) / len(ROWS)
        time, busbw = size / algbw / 1e3, algbw * 1.99
        half = f"  {time:7.1f}  {algbw:6.2f}  {busbw:6.2f}       0"
        rows.append(f"{size:12d}  {size // 4:12d}     float     sum      -1{half}{half}\n".encode())
    return rows
