from __future__ import annotations

import gzip
import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.parse import parse_bytes, parse_stream, stream
from steps.parse.nccl.noise import CHUNKS
from steps.parse.stream import read_lines
from tests.bench.nccl_log import ROWS, open_log
from tests.parse.nccl_logs import log

SET_UP = "gpu-a{0}:71{0}:81{0} [{0}] NCCL INFO Channel 0{0}/0 : 1[{0}] -> 2[{0}] via P2P/IPC"


class Taken:
    def __init__(self) -> None:
        self.lines: list[tuple[int, bytes, bool]] = []

    def __call__(self, raw: bytes, number: int, *, ended: bool = True) -> None:
        self.lines.append((number, raw, ended))


class Dripping(io.RawIOBase):
    """A stream that hands out pieces of odd sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes, self._turn = data, sizes, 0

    def read(self, size: int = -1) -> bytes:
        self._turn += 1
        count = self._sizes[self._turn % len(self._sizes)]
        piece, self._data = self._data[:count], self._data[count:]
        return piece


@given(st.binary(max_size=400), st.lists(st.integers(1, 37), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_lines_do_not_depend_on_how_the_bytes_arrive(data: bytes, sizes: list[int]) -> None:
    data = data.removeprefix(b"\x1f\x8b")
    taken = Taken()
    reading = read_lines(Dripping(data, sizes), taken)  # type: ignore[arg-type]
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [raw for _, raw, _ in taken.lines] == expected
    assert [number for number, _, _ in taken.lines] == list(range(1, len(expected) + 1))
    assert reading.lines == len(expected)
    assert all(ended for _, _, ended in taken.lines[:-1])


def test_numbers_stay_exact_where_noise_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "EVERY_LINE_BYTES", 0)
    chance = random.Random(3)  # noqa: S311  # not for secrets
    lines = [SET_UP.format(chance.randrange(8)) for _ in range(60 * CHUNKS[0])]
    wanted = {
        chance.randrange(len(lines)): text
        for text in (
            "gpu-a1: Test NCCL failure common.cu:1 'internal error'",
            "Killed",
            "",
            "   1048576  262144  float  sum  -1  1.0  2.0  3.0  0  1.0  2.0  3.0  0",
            "gpu-a1:7:8 [0] NCCL INFO Using network Socket",
            "gpu-a1:7:8 [0] x.cc:1 NCCL WARN failed",
            "no-blank-in-this-line-that-is-longer-than-a-host-name",
            "[ 12.5] NVRM: Xid (PCI:0000:1b:00): 79",
        )
    }
    for index, text in wanted.items():
        lines[index] = text
    taken = Taken()
    reading = read_lines(io.BytesIO("\n".join(lines).encode()), taken)
    assert reading.lines == len(lines)
    assert len(taken.lines) < len(lines) / 4
    for number, raw, _ in taken.lines:
        assert raw.decode() == lines[number - 1]
    assert {index + 1 for index in wanted} <= {number for number, _, _ in taken.lines}


@pytest.mark.parametrize(
    "prefix", ["", "[1,0]<stdout>:", "7: ", "2025-11-23T04:05:06.1Z ", "a b c "]
)
def test_noise_is_skipped_behind_any_prefix(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "EVERY_LINE_BYTES", 0)
    lines = [prefix + SET_UP.format(index % 8) for index in range(20_000)]
    taken = Taken()
    assert read_lines(io.BytesIO("\n".join(lines).encode()), taken).lines == len(lines)
    assert len(taken.lines) < 400


def test_a_large_log_of_many_ranks_is_read_whole() -> None:
    found = parse_stream(open_log(24 << 20), "log")
    assert found.completeness == "complete"
    assert len(found.rows) == len(ROWS)
    assert len(found.ranks) == 4096
    assert found.facts["transport"] == "IB"
    assert found.facts["nicsPerNode"] == "8"


def test_gzip_is_transparent() -> None:
    plain, packed = log().encode(), gzip.compress(log().encode())
    assert parse_bytes(packed, "log") == parse_bytes(plain, "log")


def test_gzip_members_follow_each_other() -> None:
    text = log().encode()
    packed = gzip.compress(text[:900]) + gzip.compress(text[900:])
    assert parse_bytes(packed, "log") == parse_bytes(text, "log")


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9, 0.999])
def test_cut_gzip_is_read_as_far_as_it_goes(keep: float) -> None:
    packed = gzip.compress(log().encode(), compresslevel=0)
    found = parse_bytes(packed[: int(len(packed) * keep)], "log")
    assert found.completeness == "cut-off"
    assert "LOG_TRUNCATED" in {item.code for item in found.findings}
    assert found.ranks or keep < 0.5


def test_an_endless_line_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_DOCUMENT_BYTES", 1 << 20)
    taken = Taken()
    data = b"x" * (5 << 20) + b"\nnext\n"
    assert read_lines(io.BytesIO(data), taken).lines == 2
    assert len(taken.lines[0][1]) <= 3 << 20
    assert taken.lines[-1] == (2, b"next", True)


def test_an_endless_bar_keeps_its_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_DOCUMENT_BYTES", 1 << 20)
    taken = Taken()
    data = b"".join(b"step %d\r" % step for step in range(500_000)) + b"last\n"
    assert read_lines(io.BytesIO(data), taken).lines == 1
    assert taken.lines[-1][1].endswith(b"last")
