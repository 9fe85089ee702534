"""Mutations of real-looking outputs: nothing crashes, and nothing incomplete becomes complete."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steps.documents import Completeness, Measurements, dump, load
from steps.parse import parse_bytes
from tests.parse.test_samples_nccl import EXPECTED

FIXTURES = Path(__file__).parent / "fixtures" / "nccl"
ALL = {name: (FIXTURES / name).read_bytes() for name in EXPECTED}
# rccl-tests writes records without any closing mark, so a cut between two shows in nothing
CLOSED = {
    name: data
    for name, data in ALL.items()
    if EXPECTED[name].completeness is Completeness.COMPLETE and "records" not in name
}
INCOMPLETE = {
    name: data
    for name, data in ALL.items()
    if EXPECTED[name].completeness is not Completeness.COMPLETE
}

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 30)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def cut(data: bytes, chance: random.Random) -> bytes:
    start, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:start] if chance.random() < 0.5 else data[start:end]


def drop_lines(data: bytes, chance: random.Random) -> bytes:
    return b"".join(line for line in data.splitlines(keepends=True) if chance.random() < 0.8)


def shuffle_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def repeat_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(line * chance.choice([1, 1, 1, 2]) for line in lines)


def insert_noise(data: bytes, chance: random.Random) -> bytes:
    noise = [
        b"",
        b"{\n",
        b"]\n",
        b"\xff\xfe\x00\n",
        b"...\n",
        b"x:1:2 [0] NCCL INFO y\n",
        b"1 2 3\n",
    ]
    return b"".join(line + chance.choice(noise) for line in data.splitlines(keepends=True))


def tag_randomly(data: bytes, chance: random.Random) -> bytes:
    tags = [b"", b"[1,0]<stdout>:", b"0: ", b"[0]", b"node-b: ", b"[rank1]: ", b"\x1b[1m"]
    return b"".join(chance.choice(tags) + line for line in data.splitlines(keepends=True))


def glue_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines()
    return b"".join(line + chance.choice([b"\n", b"\n", b"", b"\r"]) for line in lines)


def break_gzip(data: bytes, chance: random.Random) -> bytes:
    packed = gzip.compress(data)
    return packed[: chance.randrange(3, len(packed))]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip,
    cut,
    drop_lines,
    shuffle_lines,
    repeat_lines,
    insert_noise,
    tag_randomly,
    glue_lines,
    break_gzip,
)


def check(found: Measurements) -> None:
    assert load(dump(found), Measurements, "again") == found
    if found.completeness is Completeness.COMPLETE:
        assert found.rows or not found.figures


@given(st.binary(max_size=2000))
@quick
def test_any_bytes_are_read(data: bytes) -> None:
    check(parse_bytes(data, "log", strict=True))


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@given(name=st.sampled_from(sorted(ALL)), seed=st.integers(0, 1 << 32))
@quick
def test_mutations_are_read(
    mutate: Callable[[bytes, random.Random], bytes], name: str, seed: int
) -> None:
    check(parse_bytes(mutate(ALL[name], random.Random(seed)), name, strict=True))  # noqa: S311


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@given(name=st.sampled_from(sorted(INCOMPLETE)), seed=st.integers(0, 1 << 32))
@quick
def test_nothing_incomplete_becomes_complete(
    mutate: Callable[[bytes, random.Random], bytes], name: str, seed: int
) -> None:
    found = parse_bytes(mutate(INCOMPLETE[name], random.Random(seed)), name, strict=True)  # noqa: S311
    assert not (found.completeness is Completeness.COMPLETE and found.figures)


# cut between its runs, two-runs.txt is the first one, whole
@given(name=st.sampled_from(sorted(CLOSED.keys() - {"two-runs.txt"})), part=st.floats(0, 1))
@settings(quick, max_examples=150)
def test_a_cut_anywhere_before_the_closing_line_shows(name: str, part: float) -> None:
    data = CLOSED[name]
    closing = next(mark for mark in (b'"out_of_bounds"', b"values : ", b"}}") if mark in data)
    end = int(data.rindex(closing) * part)
    found = parse_bytes(data[:end], name, strict=True)
    assert found.completeness is not Completeness.COMPLETE


@pytest.mark.parametrize(
    "tag",
    [b"[1,0]<stdout>:", b"0: ", b" 0: [1,0]<stdout>:", b"[pod/a-b/c] ", b"2025-01-02T03:04:05.6Z "],
)
@pytest.mark.parametrize("name", sorted(name for name in CLOSED if name.endswith(".txt")))
def test_a_tag_on_every_line_changes_nothing(name: str, tag: bytes) -> None:
    plain = parse_bytes(CLOSED[name], name)
    tagged = parse_bytes(
        b"".join(tag + line for line in CLOSED[name].splitlines(keepends=True)), name
    )
    assert tagged.completeness is plain.completeness
    if b"[1,0]" not in CLOSED[name]:
        assert tagged.figures == plain.figures
    assert {item.code for item in tagged.findings} == {item.code for item in plain.findings}
