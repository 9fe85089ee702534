"""Outputs that end at any byte: nothing is invented, and nothing counts as complete too early."""

from __future__ import annotations

import json

import pytest

from steps.documents import Completeness, Measurements, NcclRow
from steps.parse import parse_bytes
from tests.parse.nccl_logs import Table, log

SIZES = (1 << 28, 1 << 29, 1 << 30)
SPEEDS = (151.25, 162.5, 171.75)
INFO = tuple(
    f"gpu-a{rank // 8 + 1}:{7100 + rank}:{7200 + rank} [{rank % 8}] NCCL INFO {text}"
    for rank in (0, 15)
    for text in (
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.3.0.4<0>",
        "Using network IB",
        f"ncclCommInitRank comm 0x5c rank {rank} nranks 16 cudaDev 0 busId 1b000 - Init COMPLETE",
    )
)


def report() -> str:
    """Return a JSON report as nccl-tests writes it."""
    half = {"time": 3341.5, "alg_bw": 160.67, "bus_bw": 301.25, "nwrong": 0}
    rows = [
        {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
         "out_of_place": half, "in_place": half}
        for size in SIZES
    ]  # fmt: skip
    data = {
        "version": 3,
        "nccl_version": 22803,
        "args": ["all_reduce_perf"],
        "config": {"minimum_bytes": SIZES[0], "maximum_bytes": SIZES[-1], "step_factor": 2},
        "results": rows,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 301.25, "okay": "true"},
    }
    return json.dumps(data, indent=1)


def records() -> str:
    """Return JSON lines as rccl-tests writes them."""
    return "".join(
        json.dumps({"numCycle": 0, "name": "AllReduce", "ranks": 8, "size": size, "type": "float",
                    "redop": "sum", "inPlace": place, "time": 10.25, "algBw": 101.5,
                    "busBw": 177.62, "wrong": "0"}) + "\n"
        for size in SIZES for place in (0, 1)
    )  # fmt: skip


TEXTS = {
    "table": log(Table(sizes=SIZES, speeds=SPEEDS), before=INFO),
    "table without hash": log(Table(sizes=SIZES, speeds=SPEEDS, hash=False)),
    "table with statistics": log(Table(sizes=SIZES, speeds=SPEEDS, statistics=True)),
    "table of an old version": log(
        Table(sizes=SIZES, speeds=SPEEDS, columns=("type", "redop"), lead=("float", "sum"),
              check="error", wrong=("2e-07", "3e-07"))
    ),
    "report": report(),
}  # fmt: skip


def without_heading(text: str) -> str:
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if "busbw" not in line and "-place" not in line
    )


TEXTS["rows without a heading"] = without_heading(TEXTS["table"])


def numbers(found: Measurements) -> set[tuple[float | None, ...]]:
    return {
        (row.size_bytes, row.out_time_us, row.out_alg_gbps, row.out_bus_gbps, row.out_wrong,
         row.in_time_us, row.in_alg_gbps, row.in_bus_gbps, row.in_wrong)
        for row in found.rows if isinstance(row, NcclRow)
    }  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_log_that_is_cut_at_any_byte_is_not_complete_and_invents_nothing(name: str) -> None:
    data = TEXTS[name].encode()
    whole = parse_bytes(data, "log", strict=True)
    assert whole.completeness is Completeness.COMPLETE
    assert not whole.findings
    for end in range(len(data)):
        found = parse_bytes(data[:end], "log", strict=True)
        assert numbers(found) <= numbers(whole), end
        assert all(item.effect in {"inconclusive", "note"} for item in found.findings), end
        if found.completeness is Completeness.COMPLETE:
            # nothing but what follows the last digit that the rows can vouch for is lost
            assert found.figures.keys() == whole.figures.keys()
            for figure, value in found.figures.items():
                assert value.value == pytest.approx(whole.figures[figure].value, abs=0.006)
        elif found.rows:
            assert "LOG_TRUNCATED" in {item.code for item in found.findings}, end


def test_records_that_are_cut_inside_one_are_not_complete() -> None:
    data = records().encode()
    ends = {position + 1 for position, byte in enumerate(data) if byte == ord("\n")}
    for end in range(len(data)):
        found = parse_bytes(data[:end], "log", strict=True)
        if found.rows and end not in ends and end + 1 not in ends:
            assert found.completeness is Completeness.CUT_OFF, end
            assert "LOG_TRUNCATED" in {item.code for item in found.findings}, end


def test_the_first_closing_line_alone_does_not_close() -> None:
    text = TEXTS["table"]
    found = parse_bytes(text[: text.index("# Avg")].encode(), "log", strict=True)
    assert found.completeness is Completeness.CUT_OFF
    assert "Avg bus bandwidth" in next(iter(found.findings)).message


def test_a_torn_row_in_the_middle_is_dropped_and_its_absence_noted() -> None:
    lines = TEXTS["table"].splitlines()
    torn = next(index for index, line in enumerate(lines) if line.split()[:1] == [str(SIZES[1])])
    for cells in range(1, len(lines[torn].split())):
        lines_with_half = list(lines)
        lines_with_half[torn] = "  ".join(lines[torn].split()[:cells])
        found = parse_bytes("\n".join(lines_with_half).encode() + b"\n", "log", strict=True)
        assert len(found.rows) == 2
        assert {(item.code, item.effect.value) for item in found.findings} == {
            ("SIZE_MISSING", "note"),
        }


@pytest.mark.parametrize("cells", range(7, 13))
def test_a_torn_row_without_a_heading_is_not_shifted_into_other_columns(cells: int) -> None:
    lines = without_heading(TEXTS["table"]).splitlines()
    torn = next(index for index, line in enumerate(lines) if line.split()[:1] == [str(SIZES[1])])
    lines[torn] = "  ".join(lines[torn].split()[:cells])
    found = parse_bytes("\n".join(lines).encode() + b"\n", "log", strict=True)
    assert "NCCL_DATA_CORRUPTION" not in {item.code for item in found.findings}
    # with nine cells it is a whole half row
    assert len(found.rows) == (3 if cells == 9 else 2)
    assert {row[:5] for row in numbers(found)} <= {
        row[:5] for row in numbers(parse_bytes(TEXTS["table"].encode(), "log"))
    }
