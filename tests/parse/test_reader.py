"""Recognition, merging and combining; each reader has tests of its own."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from catalog.facts.tools import output_kind
from steps.documents import Completeness, Measurements, dump, load
from steps.parse import combine, parse_bytes, parse_stream
from steps.parse.api import ParseContext
from tests.parse.nccl_logs import SIZES, SPEEDS, Table, log

FIXTURES = Path(__file__).parent / "fixtures" / "nccl"
XID = "[ 912.331] NVRM: Xid (PCI:0000:4b:00): 79, pid=0, GPU has fallen off the bus.\n"


def parse(text: str, context: ParseContext | None = None, name: str = "log") -> Measurements:
    return parse_bytes(text.encode(), name, context or ParseContext())


def codes(found: Measurements) -> set[str]:
    return {item.code for item in found.findings}


@pytest.mark.parametrize("data", [b"", b"\n\n", b"   \n\t\n", b"\x00\x00", b"\r\n\r\n"])
def test_blank_output_is_empty(data: bytes) -> None:
    found = parse_bytes(data, "log")
    assert found.completeness is Completeness.EMPTY
    assert codes(found) == {"LOG_EMPTY"}


@pytest.mark.parametrize(
    "text",
    ["hello world\n", "<html><body>404</body></html>", "1 2 3 4 5 6 7 8 9 10 11 12 13\n"],
)
def test_other_output_is_unreadable(text: str) -> None:
    found = parse(text)
    assert found.completeness is Completeness.UNKNOWN_SCHEMA
    assert codes(found) == {"LOG_UNREADABLE"}


@pytest.mark.parametrize("text", ['{"a": 1}', "[]", '[{"x": 2}]', '{"a":1}\n{"a":2}\n'])
def test_unknown_json_is_said_to_be_so(text: str) -> None:
    found = parse(text)
    assert found.completeness is Completeness.UNKNOWN_SCHEMA
    assert codes(found) <= {"SCHEMA_UNKNOWN", "LOG_UNREADABLE"}


def test_deep_json_does_not_break_the_reader() -> None:
    assert parse("[" * 100_000).completeness is not Completeness.COMPLETE
    assert parse('{"a":' * 50_000 + "1" + "}" * 50_000).completeness is not Completeness.COMPLETE


def test_findings_of_other_readers_are_merged() -> None:
    found = parse(log() + XID)
    assert found.mode is output_kind("nccl-table")
    assert found.completeness is Completeness.COMPLETE
    assert any(code.startswith(("XID_79", "GPU_FELL")) for code in codes(found))


def test_the_rank_of_a_tag_names_the_node() -> None:
    text = "".join(f"[1,0]<stdout>:{line}\n" for line in log().splitlines())
    found = parse(text + "[1,11]<stderr>:" + XID)
    entity = next(item for item in found.findings if item.entities).entities[0]
    assert (entity.node, entity.rank) == ("gpu-a2", 11)


def test_crlf_and_ansi_change_nothing() -> None:
    plain = parse(log())
    assert parse(log().replace("\n", "\r\n")).figures == plain.figures
    assert parse("\x1b[0;32m" + log().replace("\n", "\x1b[0m\n")).figures == plain.figures


def test_a_table_without_heading_reads_the_same() -> None:
    for table in (
        Table(sizes=SIZES, speeds=SPEEDS),
        Table(sizes=SIZES, speeds=SPEEDS, columns=("type",), lead=("float",)),
        Table(sizes=SIZES, speeds=SPEEDS, columns=("type", "redop"), lead=("float", "sum")),
        Table(sizes=SIZES, speeds=SPEEDS, columns=("type", "root"), lead=("half", "0")),
        Table(sizes=SIZES, speeds=SPEEDS, statistics=True),
        Table(sizes=SIZES, speeds=SPEEDS, timestamp=True),
        Table(sizes=SIZES, speeds=SPEEDS, statistics=True, timestamp=True),
    ):
        whole = log(table)
        bare = "".join(
            line + "\n" for line in whole.splitlines() if not line.startswith("# ") or ":" in line
        )
        assert "busbw" not in bare
        assert parse(bare).figures == parse(whole).figures


@pytest.mark.parametrize("word", ["error", "#wrong", "wrong"])
def test_headings_by_any_name_and_without_hash(word: str) -> None:
    table = Table(sizes=SIZES, speeds=SPEEDS, check=word, hash=word == "#wrong")
    assert parse(log(table)).figures["rowCount"].value == len(SIZES)


def test_only_in_place_half() -> None:
    lines = [
        "#  out-of-place".replace("out-of-place", "in-place"),
        "# size count type redop root time algbw busbw #wrong",
        "1048576 262144 float sum -1 20.5 51.15 95.91 0",
        "# Out of bounds values : 0 OK",
    ]
    (row,) = parse("\n".join(lines)).rows
    assert row.kind == "nccl"
    assert (row.out_bus_gbps, row.in_bus_gbps) == (None, 95.91)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("nan", "FIGURE_INVALID"),
        ("-3.00", "FIGURE_INVALID"),
        ("inf", "FIGURE_INVALID"),
        ("999999", "FIGURE_INVALID"),
    ],
)
def test_impossible_values_are_found(row: str, code: str) -> None:
    text = log().replace("  393.75", f"  {row:>6}", 1)
    found = parse(text)
    assert code in codes(found)
    peak = found.figures["peakBusBandwidthGBps"].value
    assert isinstance(peak, float)
    assert peak < 400


def test_sizes_that_go_down_are_found() -> None:
    lines = log().splitlines()
    first = next(index for index, line in enumerate(lines) if line.split()[:1] == ["4194304"])
    lines[first], lines[first + 1] = lines[first + 1], lines[first]
    assert "FIGURE_INVALID" in codes(parse("\n".join(lines)))


def test_a_log_that_was_read_twice_counts_rows_once() -> None:
    lines = log(closed=False).splitlines()
    again = [*lines, *lines[-4:], "# Out of bounds values : 0 OK"]
    found = parse("\n".join(again) + "\n")
    assert len(found.rows) == len(SIZES)
    assert "DUPLICATE_ROW" in codes(found)
    assert found.figures["cycleCount"].value == 1


def test_a_single_size_with_cycles() -> None:
    table = Table(sizes=[1 << 30] * 4, speeds=[200.0, 202.0, 198.0, 204.0])
    found = parse(log(table))
    assert found.figures["cycleCount"].value == 4
    assert found.figures["busBandwidthGBps"].value == pytest.approx(201.0 * 1.875, abs=0.01)


def test_an_earlier_attempt_that_failed_only_warns() -> None:
    failed = "gpu-a1: Test NCCL failure common.cu:1 'internal error / '\n"
    found = parse(log(closed=False) + failed + log())
    assert found.completeness is Completeness.COMPLETE
    effects = {item.code: item.effect for item in found.findings}
    assert effects["NCCL_ABORTED"] == "warn"
    after = parse(log() + failed)
    assert {item.code: item.effect for item in after.findings}["NCCL_ABORTED"] == "inconclusive"


def test_a_last_run_that_is_cut_off_spoils_the_first() -> None:
    second = log()
    found = parse(log() + second[: len(second) // 2])
    assert found.completeness is Completeness.CUT_OFF
    assert "LOG_TRUNCATED" in codes(found)


def test_tables_printed_side_by_side_are_told_apart() -> None:
    fast = log().splitlines()
    slow = log(Table(sizes=SIZES, speeds=[speed / 2 for speed in SPEEDS])).splitlines()
    mixed = [
        f"{rank}: {line}" for pair in zip(fast, slow, strict=True) for rank, line in enumerate(pair)
    ]
    found = parse("\n".join(mixed) + "\n")
    assert found.completeness is Completeness.COMPLETE
    assert found.figures["busBandwidthGBps"].value == pytest.approx(393.75 / 2, abs=0.01)
    assert "MULTIPLE_RUNS" in codes(found)


def test_half_a_number_in_the_last_line_is_not_taken() -> None:
    text = log()
    cut = text[: text.index("209.893") + 2]
    found = parse(cut)
    assert "avgBusBandwidthGBps" not in found.figures
    assert parse(text.rstrip("#\n ")).figures["avgBusBandwidthGBps"].value == 209.893


@pytest.mark.parametrize(
    "tail", ["# Out of bounds values : 1", "# Out of bounds values : 0 O", "# Out"]
)
def test_half_a_closing_line_does_not_close(tail: str) -> None:
    found = parse(log(closed=False) + tail)
    assert found.completeness is Completeness.CUT_OFF


def test_a_rounded_down_size_is_the_size_that_was_asked_for() -> None:
    size = (16 << 30) // (144 * 16) * 144 * 16
    assert size < 16 << 30
    table = Table(sizes=[size // 2, size], speeds=[300.0, 310.0])
    text = log(table).replace(f"maxBytes {size}", f"maxBytes {16 << 30}")
    found = parse(text, ParseContext(max_bytes=16 << 30))
    assert found.completeness is Completeness.COMPLETE
    assert "SIZE_MISSING" not in codes(found)
    by_size = found.figures["busBandwidthAtGBps"].value
    assert isinstance(by_size, dict)
    assert by_size["16G"] == pytest.approx(581.25)


def test_alltoall_in_place_errors_are_no_corruption() -> None:
    table = Table(sizes=SIZES, speeds=SPEEDS, wrong=("0", "7"), lead=("float", "none", "-1"))
    context = ParseContext(category="communication/nccl-alltoall")
    assert "NCCL_DATA_CORRUPTION" not in codes(parse(log(replace(table), wrong=7), context))
    bad = replace(table, wrong=("2", "7"))
    assert "NCCL_DATA_CORRUPTION" in codes(parse(log(bad, wrong=9), context))


def test_json_lines_and_text_beside_each_other() -> None:
    rows = "\n".join(
        json.dumps({"numCycle": 0, "name": "AllReduce", "size": size, "type": "float",
                    "redop": "sum", "inPlace": place, "time": 10.0, "algBw": 1.0, "busBw": 2.0,
                    "wrong": "N/A"})
        for size in (1 << 20, 1 << 21) for place in (0, 1)
    )  # fmt: skip
    found = parse("noise before\n" + rows + "\nnoise after\n")
    assert found.mode is output_kind("nccl-json")
    assert len(found.rows) == 2
    assert codes(found) == {"VALIDATION_OFF"}


class TestCombine:
    def test_a_kernel_log_adds_its_findings(self) -> None:
        both = combine([parse(log(), name="stdout"), parse(XID, name="dmesg")])
        assert both.files == ("stdout", "dmesg")
        assert both.figures == parse(log()).figures
        assert any(item.effect == "fail" for item in both.findings)

    def test_an_empty_stderr_does_not_spoil_the_result(self) -> None:
        both = combine([parse("", name="stderr"), parse(log(), name="stdout")])
        assert both.completeness is Completeness.COMPLETE
        assert codes(both) == set()

    def test_a_kernel_log_does_not_make_up_for_a_missing_result(self) -> None:
        both = combine([parse("", name="stdout"), parse(XID, name="dmesg")])
        assert both.completeness is not Completeness.COMPLETE
        assert "LOG_EMPTY" in codes(both)
        assert not both.figures

    def test_order_does_not_matter(self) -> None:
        one, two = parse(log(), name="a"), parse(XID, name="b")
        assert codes(combine([one, two])) == codes(combine([two, one]))
        assert combine([one, two]).figures == combine([two, one]).figures

    def test_a_second_result_that_is_cut_off_counts(self) -> None:
        both = combine([parse(log(), name="a"), parse(log(closed=False), name="b")])
        assert both.completeness is Completeness.CUT_OFF
        assert {"MULTIPLE_RUNS", "LOG_TRUNCATED"} <= codes(both)

    def test_nothing_to_combine(self) -> None:
        with pytest.raises(ValueError, match="nothing"):
            combine([])


class TestBrokenReader:
    def test_a_bug_costs_one_output_and_says_what_it_was(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("steps.parse.nccl.scanner.NcclScanner.finish", fail)
        found = parse(log())
        assert found.completeness is Completeness.UNKNOWN_SCHEMA
        (item,) = found.findings
        assert (item.code, item.effect) == ("LOG_UNREADABLE", "inconclusive")
        assert "ZeroDivisionError" in item.message
        with pytest.raises(ZeroDivisionError):
            parse_bytes(log().encode(), "log", strict=True)

    def test_a_stream_that_cannot_be_read_is_no_bug(self) -> None:
        class Broken(io.RawIOBase):
            def read(self, size: int = -1) -> bytes:
                raise OSError(size)

        with pytest.raises(OSError, match="1048576"):
            parse_stream(Broken(), "log")  # type: ignore[arg-type]


HOSTILE = ("nan", "inf", "-inf", "1e400", "-1", "9" * 400, "NaN", "Infinity", "1e308")


@pytest.mark.parametrize("number", HOSTILE, ids=lambda number: number[:9])
@pytest.mark.parametrize(
    "name",
    ["dip.txt", "report-3.json", "rccl-records.csv", "rccl-records-first-format.jsonl",
     "structured-output-with-noise.txt"],
)  # fmt: skip
def test_no_number_of_an_output_breaks_a_document(name: str, number: str) -> None:
    text = (FIXTURES / name).read_text()
    spans = [match.span() for match in re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", text)]
    for start, end in spans[:: max(len(spans) // 25, 1)]:
        changed = text[:start] + number + text[end:]
        found = parse_bytes(changed.encode(), name, strict=True)
        assert load(dump(found), Measurements, "again") == found


@pytest.mark.parametrize("number", ["nan", "inf", "-1.5", "1e400", "20989.3"])
def test_an_impossible_average_is_an_invalid_figure(number: str) -> None:
    found = parse(log().replace("209.893", number))
    assert "avgBusBandwidthGBps" not in found.figures
    assert {item.code: item.effect for item in found.findings}["FIGURE_INVALID"] == "inconclusive"


def test_a_busbw_that_its_algbw_contradicts_is_invalid() -> None:
    text = log().replace("393.75", "593.75", 1)
    assert "FIGURE_INVALID" in codes(parse(text))
    # two decimals of small numbers tell little
    small = Table(sizes=SIZES, speeds=[0.03 * (index + 1) for index in range(len(SIZES))])
    assert codes(parse(log(small))) == set()


def test_a_closing_line_that_contradicts_itself_counts_as_wrong_values() -> None:
    found = parse(log().replace("values : 0 OK", "values : 3 OK"))
    assert {item.code: item.effect for item in found.findings}["NCCL_DATA_CORRUPTION"] == "fail"


def test_rows_that_a_sweep_lacks_are_noted_unless_dots_stand_for_them() -> None:
    lines = log().splitlines()
    row = next(index for index, line in enumerate(lines) if line.split()[:1] == ["4194304"])
    gone = "\n".join(lines[:row] + lines[row + 1 :]) + "\n"
    assert {"SIZE_MISSING"} <= codes(parse(gone)) <= {"SIZE_MISSING", "AVG_MISMATCH"}
    dots = "\n".join([*lines[:row], "   ...", *lines[row + 1 :]]) + "\n"
    assert "SIZE_MISSING" not in codes(parse(dots))
    late = parse("\n".join(line for line in lines if line.split()[:1] != ["1048576"]) + "\n")
    assert {item.code: item.effect for item in late.findings}["SIZE_MISSING"] == "note"


@pytest.mark.parametrize(
    "line",
    [
        "mpirun noticed that process rank 3 with PID 0 on node gpu-a1 exited on signal 9 (Killed).",
        "bash: line 1:  7101 Segmentation fault      (core dumped) all_reduce_perf -b 8",
        "Segmentation fault (core dumped)",
        "[gpu-a1:07101] Signal: Segmentation fault (11)",
        "slurmstepd: error: *** JOB 5512 ON gpu-a1 CANCELLED AT 2025-11-02T03:04:05 ***",
        "slurmstepd: error: *** STEP 5512.0 ON gpu-a1 CANCELLED AT 2025-11-02T03:04:05 DUE TO ***",
        "srun: error: gpu-a2: task 11: Out Of Memory",
        "srun: error: gpu-a2: tasks 8-15: Killed",
        "srun: error: gpu-a2: task 9: Exited with exit code 3",
    ],
)
def test_a_process_that_ends_badly_after_the_table_spoils_it(line: str) -> None:
    found = parse(log() + line + "\n", ParseContext(exit_code=0))
    assert "inconclusive" in {item.effect for item in found.findings}
    retried = parse(line + "\n" + log(), ParseContext(exit_code=0))
    assert "inconclusive" not in {item.effect for item in retried.findings}


def test_a_complete_run_after_a_cut_one_counts_with_a_warning() -> None:
    text = log()
    cut = text[: text.index(f"{SIZES[-1]:12d}")]
    found = parse(cut + text)
    assert found.completeness is Completeness.COMPLETE
    assert {item.code: item.effect for item in found.findings} == {"MULTIPLE_RUNS": "warn"}


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x00in-place\x00\x00Rank\x00NCCL version\x00\xff\xfe\n",
        b"\x7fELF\x00out-of-place\nNCCL INFO \x00busbw\x00algbw\x00\nSegmentation fault\x00\n",
        b"\x00\x01# Avg bus bandwidth    : %g %s\n# Out of bounds values : %d %s\n",
    ],
)
def test_words_inside_a_program_are_no_table(data: bytes) -> None:
    assert parse_bytes(data, "all_reduce_perf").mode is not output_kind("nccl-table")
