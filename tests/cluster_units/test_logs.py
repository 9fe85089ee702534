"""Streaming outputs: bounded, whole across broken connections, without secrets."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import ClusterError
from steps.cluster.watching.logs import BoundedLog, LogStream, time_of
from steps.cluster.watching.redaction import without_secrets
from steps.parse.secrets import redact
from tests.cluster_units.fake import FakeCluster

LINES = [b"line %d\n" % number for number in range(6)]


class Flaky(FakeCluster):
    """Serves a log in pieces; each request is answered by the next item of a plan."""

    def __init__(self, plan: list[tuple[int, bool]], lines: list[bytes]) -> None:
        super().__init__()
        self.plan = plan
        self.lines = lines
        self.since: list[str] = []

    def logs(
        self,
        pod: str,
        container: str = "",
        *,
        follow: bool = False,
        timestamps: bool = False,
        since: str = "",
    ) -> Iterator[bytes]:
        self.since.append(since)
        upto, breaks = self.plan.pop(0) if self.plan else (len(self.lines), False)
        for number, line in enumerate(self.lines[:upto]):
            stamp = b"2026-03-04T05:06:%02d.%09dZ " % (number // 3, number)
            # As the API does, by whole seconds.
            if not since or stamp[:19] >= since[:19].encode():
                yield stamp + line
        if breaks:
            yield b"2026-03-04T05:06:59.000000000Z half a li"
            raise ClusterError("connection reset")


def stream(cluster: FakeCluster, wait: float = 0.1) -> LogStream:
    found = LogStream(cluster, "pod", "tool", 1 << 20)
    found.start()
    time.sleep(wait)
    found.finish(5)
    return found


def test_whole_output_is_whole() -> None:
    found = stream(Flaky([], LINES))
    assert found.data() == b"".join(LINES)
    assert not found.truncated


def test_stream_goes_on_behind_the_last_whole_line_after_a_break() -> None:
    cluster = Flaky([(2, True), (4, True)], LINES)
    found = stream(cluster)
    assert found.data() == b"".join(LINES)
    assert not found.truncated
    assert cluster.since[:2] == ["", "2026-03-04T05:05:59Z"]


class Told(FakeCluster):
    """Serves stamped lines; each request sees the next part, as (from, up to), of a plan."""

    def __init__(self, lines: list[tuple[str, bytes]], *plan: tuple[int, int]) -> None:
        super().__init__()
        self.lines = [(f"2026-03-04T05:06:{stamp}Z ".encode(), text) for stamp, text in lines]
        self.plan = list(plan)

    def logs(self, *_: object, since: str = "", **more: object) -> Iterator[bytes]:
        first, end = self.plan.pop(0) if self.plan else (0, len(self.lines))
        self.plan = self.plan or [(first, len(self.lines))]
        for stamp, text in self.lines[first:end]:
            if not since or stamp[:19] >= since[:19].encode():
                yield stamp + text
        if end < len(self.lines):
            raise ClusterError("connection reset")


BURST = [
    ("07.000000000", b"first\n"),
    # CRI-O stamps what it reads at once, containerd stdout and stderr apart.
    ("08.000000004", b"row 1\n"),
    ("08.000000004", b"row 2\n"),
    ("08.000000004", b"row 2\n"),
    ("08.000000009", b"row 4\n"),
    ("08.000000007", b"warning\n"),
    ("08.000000009", b"last\n"),
]


@pytest.mark.parametrize("breaks", [(), (3,), (2, 5), (6, 6), (1, 2, 3, 4, 5, 6)])
def test_lines_of_one_time_or_out_of_order_are_kept_once_whatever_breaks(
    breaks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steps.cluster.watching.logs._RETRY_SECONDS", 0.001)
    found = stream(Told(BURST, *((0, end) for end in breaks)))
    assert found.data() == b"".join(text for _, text in BURST)
    assert not found.truncated


def test_two_readers_at_once_take_every_line_once() -> None:
    cluster = Told(BURST, (0, 3), (0, 7))
    heard: list[bytes] = []
    found = LogStream(cluster, "pod", "tool", 1 << 20, lambda raw, _: heard.append(raw))
    assert not found.catch_up()
    assert found.catch_up()
    # The stream that hung goes on from where it was.
    found.start()
    found.finish(5)
    assert heard == [text.rstrip(b"\n") for _, text in BURST]


@pytest.mark.parametrize(
    ("upto", "begin", "mark"),
    [
        pytest.param(2, 4, True, id="lines-are-gone"),
        pytest.param(5, 4, False, id="only-lines-that-were-read-are-gone"),
        pytest.param(1, 1, True, id="maybe"),
    ],
)
def test_lines_that_the_kubelet_rotated_away_leave_a_mark(
    upto: int, begin: int, *, mark: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steps.cluster.watching.logs._RETRY_SECONDS", 0.001)
    lines = [(f"09.00000000{number}", b"line %d\n" % number) for number in range(7)]
    found = stream(Told(lines, (0, upto), (begin, 6)))
    missing = [b"[readiness: lines of the output are missing here]\n"] if mark else []
    texts = [text for _, text in lines]
    assert found.data() == b"".join([*texts[:upto], *missing, *texts[max(begin, upto) :]])
    assert found.truncated is mark


class Rotated(FakeCluster):
    """Serves a file that the kubelet rotates; each request sees a part of it, as (from, up to)."""

    def __init__(self, lines: list[tuple[bytes, bytes]], plan: list[tuple[int, int]]) -> None:
        super().__init__()
        self.lines, self.plan = lines, plan

    def logs(self, *_: object, since: str = "", **more: object) -> Iterator[bytes]:
        first, end = self.plan.pop(0)
        for stamp, text in self.lines[first:end]:
            if not since or time_of(stamp) >= datetime.fromisoformat(since):
                yield stamp + text
        if end < len(self.lines):
            raise ClusterError("connection reset")


WRITTEN = [
    # Many within a second, alike but for the time, out of order, and with a long pause.
    *[(f"2026-03-04T05:06:07.{number:09d}Z ".encode(), b"step\n") for number in range(3)],
    (b"2026-03-04T05:06:08.000000009Z ", b"row 1\n"),
    (b"2026-03-04T05:06:08.000000009Z ", b"row 2\n"),
    (b"2026-03-04T05:06:07.999999999Z ", b"warning\n"),
    (b"2026-03-04T05:06:09.000000000Z ", b"row 3\n"),
    (b"2026-03-04T05:16:00.000000000Z ", b"row 4\n"),
    (b"2026-03-04T05:16:00.000000001Z ", b"step\n"),
]
GAP = b"[readiness: lines of the output are missing here]\n"


@pytest.mark.parametrize("zone", [b"Z ", b"+02:00 "], ids=["utc", "zone"])
@pytest.mark.parametrize("beside", [False, True], ids=["one-reader", "beside-a-stream-that-hangs"])
def test_no_line_is_taken_twice_or_lost_unsaid_wherever_the_file_is_rotated(
    zone: bytes, *, beside: bool
) -> None:
    lines = [(_in_zone(stamp, zone), text) for stamp, text in WRITTEN]
    count = len(lines)
    for first in range(count + 1):
        for start, second in itertools.combinations_with_replacement(range(count + 1), 2):
            for again in range(start, count + 1):
                plan = [(0, first), (start, max(second, start)), (again, count)]
                found = LogStream(Rotated(lines, plan), "pod", "tool", 1 << 20)
                found.end()
                for _ in range(3):
                    if beside:
                        stale = found._begin()
                    found.catch_up()
                    if beside:
                        # What a stream that was given up still brings is not taken.
                        found._take(b"".join(lines[0]), b"\n", stale)
                expected: list[bytes] = []
                upto = 0
                for begin, end in ((0, first), (start, max(second, start)), (again, count)):
                    new = range(max(begin, upto), end)
                    if new and upto and begin > upto - 1:
                        expected.append(GAP)
                    expected += [lines[number][1] for number in new]
                    upto = max(upto, end if new else upto)
                assert found.data() == b"".join(expected), plan


def _in_zone(stamp: bytes, zone: bytes) -> bytes:
    """Write a time in UTC as nodes in another zone do."""
    return stamp if zone == b"Z " else stamp.replace(b"T05:", b"T07:")[:-2] + zone


def test_line_that_never_ends_is_bounded_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steps.cluster.watching.logs._LONGEST_LINE", 1 << 20)

    class Bar(FakeCluster):
        def logs(self, *_: object, **__: object) -> Iterator[bytes]:
            yield b"2026-03-04T05:06:07.000000001Z "
            for number in range(40_000):
                yield b"step %08d of many, and so on to make it long\r" % number

    before = time.monotonic()
    found = stream(Bar(), 0)
    assert time.monotonic() - before < 2
    assert len(found.data()) <= 1 << 20
    assert found.truncated


def test_last_line_without_a_newline_is_kept() -> None:
    found = stream(Flaky([], [b"one\n", b"the end"]))
    assert found.data() == b"one\nthe end"


def test_words_of_the_kubelet_are_no_output() -> None:
    cluster = FakeCluster()
    cluster.logs = lambda *_, **__: iter([b"unable to retrieve container logs for containerd://1"])  # type: ignore[method-assign]
    assert stream(cluster).data() == b""


def test_output_that_cannot_be_read_to_its_end_is_truncated() -> None:
    cluster = Flaky([(3, True)] * 99, LINES)
    found = LogStream(cluster, "pod", "tool", 1 << 20)
    found.start()
    time.sleep(0.05)
    found.finish(0.2)
    assert found.data() == b"".join(LINES[:3])
    assert found.truncated


def test_stream_of_a_pod_that_still_runs_is_not_waited_for() -> None:
    class Quiet(FakeCluster):
        def logs(self, *_: object, **__: object) -> Iterator[bytes]:
            yield b"2026-03-04T05:06:07.000000001Z hello\n"
            time.sleep(1)

    found = LogStream(Quiet(), "pod", "tool", 1 << 20)
    found.start()
    time.sleep(0.05)
    before = time.monotonic()
    found.finish(0)
    assert time.monotonic() - before < 0.5
    assert found.data() == b"hello\n"
    assert found.truncated


def test_long_output_keeps_its_beginning_and_its_end() -> None:
    log = BoundedLog(1000)
    for number in range(1000):
        log.add(b"line %04d\n" % number)
    data = log.data()
    assert data.startswith(b"line 0000\n")
    assert data.endswith(b"line 0999\n")
    assert log.dropped > 8000
    assert b"[readiness: " in data
    # No line is cut in half at the gap.
    assert all(len(line) in {9, 0} or line.startswith(b"[") for line in data.split(b"\n"))


@given(st.lists(st.binary(max_size=40), max_size=50), st.integers(20, 400))
def test_bounded_log_is_bounded_and_loses_nothing_below_the_bound(
    chunks: list[bytes], limit: int
) -> None:
    log = BoundedLog(limit)
    for chunk in chunks:
        log.add(chunk)
    whole = b"".join(chunks)
    if len(whole) <= limit // 2:
        assert log.data() == whole
    assert len(log.data()) <= limit + max(map(len, chunks), default=0) + 80
    if not log.dropped:
        assert log.data() == whole


SECRETS = [
    '{"env": {"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwx", "PATH": "/bin"}}',
    "Authorization: Bearer abc.def.ghi-jkl",
    "cloning https://user:hunter2@git.example/a.git",
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG",
    "aws id AKIAIOSFODNN7EXAMPLE here",
    "--password swordfish --verbose",
    "NGC_API_KEY=nvapi-abcdefghijklmnopqrstuvwxyz",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_every_secret_that_evidence_hides_is_hidden_in_kept_outputs(secret: str) -> None:
    data = b"first\n" + secret.encode() + b"\nlast \xff line\n"
    kept = without_secrets(data)
    assert kept == b"first\n" + redact(secret).encode() + b"\nlast \xff line\n"
    assert redact(secret) != secret


@pytest.mark.parametrize("tag", ["", "[1,0]<stdout>:"], ids=["plain", "tagged"])
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_environment_in_json_of_nccl_tests_is_not_kept(tag: str, *, cut: bool) -> None:
    lines = [
        *("{", '  "args": ["all_reduce_perf", "-b", "8"],', '  "env": [', '    "HOME=/root",'),
        *('    "NCCL_IB_HCA=mlx5",', '    "LICENSE_KEY=q1 \\"w2\\" ]e3",', '    "DB=r4t5'),
    ]
    if not cut:
        lines[-1] += '"'
        lines += ["  ],", '  "nccl_version": 22902, "list": ["HOME=/root"]', "}"]
    kept = without_secrets("\n".join(tag + line for line in lines).encode()).decode()
    assert not [word for word in ("LICENSE", "q1", "e3", "DB", "r4t5") if word in kept]
    assert '"NCCL_IB_HCA=mlx5"' in kept
    assert '"all_reduce_perf"' in kept
    assert kept.count("/root") == (0 if cut else 1)
    assert cut or json.loads(kept.replace(tag, ""))["nccl_version"] == 22902


def test_private_key_over_many_lines_is_hidden() -> None:
    block = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\nbnNz\n-----END OPENSSH PRIVATE KEY-----"
    assert without_secrets(b"a\n" + block + b"\nb\n") == b"a\n***\nb\n"


def test_output_without_secrets_is_unchanged_and_quick() -> None:
    line = b"gpu-07:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via NET/IB/0/GDRDMA key comm\n"
    data = line * (4 * 1024 * 1024 // len(line))
    before = time.monotonic()
    assert without_secrets(data) is data
    assert time.monotonic() - before < 5
