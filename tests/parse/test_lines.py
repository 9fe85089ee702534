from __future__ import annotations

import pytest

from steps.parse.lines import MAX_LINE_BYTES, clean_line, is_host


@pytest.mark.parametrize(
    ("raw", "text", "rank", "host"),
    [
        ("[1,7]<stdout>:# Using devices", "# Using devices", 7, None),
        ("[1,7]<stderr>: late", "late", 7, None),
        ("[prterun-a-12@1,3]<stdout>:ok", "ok", 3, None),
        (" 12: hello", "hello", 12, None),
        ("3:", "", 3, None),
        ("[rank5]: Traceback", "Traceback", 5, None),
        ("[default0]:[rank4]: x", "x", 4, None),
        ("[2]      1024   256", "      1024   256", 2, None),
        ("node-b: Test NCCL failure x", "Test NCCL failure x", None, "node-b"),
        ("0: gpu-12: loss", "loss", 0, "gpu-12"),
        ("[pod/run-1/main] text", "text", None, None),
        ("2025-03-04T05:06:07.123456789Z text", "text", None, None),
        ("2025-03-04T05:06:07.1Z stdout F [1,0]<stdout>:text", "text", 0, None),
        ("[pod/a/b] 2025-03-04T05:06:07+02:00 [1,2]<stdout>:n-1: x", "x", 2, "n-1"),
        ("run-launcher-x8k2p main # nThread 1", "# nThread 1", None, None),
        ("\x1b[32mgreen\x1b[0m", "green", None, None),
        ("a\x00b", "ab", None, None),
        ("\ufeff# first", "# first", None, None),
        # content that only looks like a tag
        ("node-b:12:34 [5] NCCL INFO x", "node-b:12:34 [5] NCCL INFO x", None, None),
        (
            " [2025-11-23 04:05:06] iteration 3/9",
            " [2025-11-23 04:05:06] iteration 3/9",
            None,
            None,
        ),
        ("[   12.345678] NVRM: Xid", "[   12.345678] NVRM: Xid", None, None),
        ("mpirun: not found", "mpirun: not found", None, None),
        ("all_reduce_perf: Test timeout", "all_reduce_perf: Test timeout", None, None),
        ("nvidia-modeset: WARNING", "nvidia-modeset: WARNING", None, None),
        ("ib0: lost carrier", "ib0: lost carrier", None, None),
        ("mlx5_0: link", "mlx5_0: link", None, None),
    ],
)
def test_tags_come_off_and_content_stays(
    raw: str, text: str, rank: int | None, host: str | None
) -> None:
    (line,) = clean_line(raw.encode(), 4)
    assert (line.text, line.rank, line.host, line.number) == (text, rank, host, 4)


def test_tags_inside_a_row_come_off() -> None:
    raw = (
        b"[0]  1048576  262144  float  sum  -1[0]  1626.5  0.64  1.24  0[0]  2302.3  0.46  0.87  0"
    )
    (line,) = clean_line(raw, 1)
    assert line.text.split()[4:7] == ["-1", "1626.5", "0.64"]
    assert len(line.text.split()) == 13


def test_a_redrawn_bar_gives_each_of_its_states() -> None:
    lines = list(clean_line(b"step 1\rstep 2\r[rank3]: Traceback\r", 9))
    assert [line.text for line in lines] == ["step 1", "step 2", "Traceback"]
    assert {line.number for line in lines} == {9}
    assert lines[-1].rank == 3


def test_only_the_last_state_is_unended() -> None:
    assert [line.ended for line in clean_line(b"a\rb", 1, ended=False)] == [True, False]


def test_long_lines_are_cut_but_json_is_not() -> None:
    (text,) = clean_line(b"x" * (3 * MAX_LINE_BYTES), 1)
    assert len(text.text) == MAX_LINE_BYTES
    (document,) = clean_line(b'{"a": "' + b"x" * (3 * MAX_LINE_BYTES) + b'"}', 1)
    assert document.text.endswith('"}')


def test_broken_utf8_is_replaced() -> None:
    (line,) = clean_line(b"ok \xff\xfe end", 1)
    assert line.text.startswith("ok ")
    assert line.text.endswith(" end")


@pytest.mark.parametrize(
    "name", ["node-b", "ip-10-0-41-23", "gpu-node-0012", "node002", "worker1", "dgx17.lab.local"]
)
def test_host_names(name: str) -> None:
    assert is_host(name)


@pytest.mark.parametrize(
    "name",
    ["Warning", "mpirun", "ib6", "eth0", "nvidia-smi", "libfabric-1", "rank12", "gpu07", "kernel"],
)
def test_words_that_are_no_hosts(name: str) -> None:
    assert not is_host(name)
