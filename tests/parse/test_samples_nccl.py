"""Every kind of NCCL output: one row for each file, with what must be read from it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from catalog.hardware.hardware import Hardware
from steps.documents import Completeness, Measurements
from steps.parse import parse_bytes, parse_stream
from steps.parse.api import ParseContext

FIXTURES = Path(__file__).parent / "fixtures" / "nccl"

COMPLETE, CUT, ABORTED = Completeness.COMPLETE, Completeness.CUT_OFF, Completeness.ABORTED


class Reading(NamedTuple):
    completeness: Completeness
    operation: str | None
    rows: int
    bus: float | None
    codes: frozenset[str]


def expect(
    completeness: Completeness,
    operation: str | None,
    rows: int,
    bus: float | None,
    *codes: str,
) -> Reading:
    return Reading(completeness, operation, rows, bus, frozenset(codes))


EXPECTED = {
    "aborted-then-complete.txt": expect(COMPLETE, "all_reduce", 14, 393.75),
    "all-reduce-2-nodes-ib.txt": expect(COMPLETE, "all_reduce", 14, 393.75, "NCCL_NVLS_IN_USE"),
    "bad-size-argument.txt": expect(ABORTED, None, 0, None, "NO_RESULT_ROWS", "INFRA_BAD_ARGS"),
    "completion-error-new-wording.txt": expect(
        ABORTED, None, 0, None, "NO_RESULT_ROWS", "NCCL_REMOTE_ERROR", "NCCL_IB_COMPLETION_ERROR"
    ),
    "dip.txt": expect(COMPLETE, "all_reduce", 14, 196.88, "NCCL_BANDWIDTH_DIP"),
    "hydra-tags-inside-rows.txt": expect(COMPLETE, "all_reduce", 14, 393.75),
    "info-line-in-row.txt": expect(COMPLETE, "all_reduce", 14, 393.75),
    "internal-error.txt": expect(
        ABORTED, None, 0, None, "NO_RESULT_ROWS", "NCCL_ABORTED", "NCCL_REMOTE_ERROR"
    ),
    "kubectl-prefix-and-time.txt": expect(COMPLETE, "all_reduce", 14, 393.75),
    "mpirun-tags-and-ellipsis.txt": expect(COMPLETE, "all_reduce", 12, 393.75, "AVG_MISMATCH"),
    "old-all-gather-without-redop.txt": expect(COMPLETE, "all_gather", 14, 183.75),
    "old-all-reduce-rounding.txt": expect(COMPLETE, "all_reduce", 14, 367.5),
    "old-alltoall-blank-redop-in-place-error.txt": expect(COMPLETE, "alltoall", 14, 196.88),
    "old-broadcast-root-without-redop.txt": expect(COMPLETE, "broadcast", 14, 210.0),
    "old-reduce-unchecked.txt": expect(COMPLETE, "reduce", 14, 210.0, "VALIDATION_OFF"),
    "own-timeout.txt": expect(ABORTED, "all_reduce", 1, 356.25, "NCCL_TIMEOUT"),
    "rccl-algorithm-columns.txt": expect(COMPLETE, "all_reduce", 14, 367.5),
    "rccl-records-first-format.jsonl": expect(COMPLETE, "all_reduce", 3, 402.653),
    "rccl-records.csv": expect(COMPLETE, "all_reduce", 14, 393.75),
    "rccl-records.json": expect(COMPLETE, "all_reduce", 14, 393.75),
    "rccl-records.jsonl": expect(COMPLETE, "all_reduce", 14, 393.75),
    "report-2-indented-with-noise.json": expect(COMPLETE, "all_gather", 4, 325.078125),
    "report-3-cut-off.json": expect(CUT, "all_gather", 2, 309.609375, "LOG_TRUNCATED"),
    "report-3.json": expect(COMPLETE, "all_gather", 4, 325.078125),
    "report-4-unknown.json": expect(COMPLETE, "all_gather", 4, 325.078125, "SCHEMA_UNKNOWN"),
    "report-without-rows.json": expect(
        ABORTED, "all_gather", 0, None, "NO_RESULT_ROWS", "NCCL_ABORTED"
    ),
    "sendrecv-cut-off.txt": expect(CUT, "sendrecv", 2, 30.0, "LOG_TRUNCATED"),
    "seven-of-eight-gpus.txt": expect(ABORTED, None, 0, None, "NO_RESULT_ROWS", "GPU_MISSING"),
    "socket-although-efa.txt": expect(COMPLETE, "all_reduce", 14, 7.69, "NCCL_TRANSPORT_FALLBACK"),
    "srun-labels-no-footer.txt": expect(CUT, "all_reduce", 14, 393.75, "LOG_TRUNCATED"),
    "statistics-and-timestamps.txt": expect(COMPLETE, "all_reduce", 14, 393.75),
    "structured-output-with-noise.txt": expect(COMPLETE, "alltoall", 3, 19.906),
    "system-error-shm.txt": expect(
        ABORTED, None, 0, None, "NO_RESULT_ROWS", "NCCL_ABORTED", "INFRA_SHM"
    ),
    "three-cycles.txt": expect(COMPLETE, "all_reduce", 42, 401.623),
    "too-many-gpus-asked.txt": expect(ABORTED, None, 0, None, "NO_RESULT_ROWS", "INFRA_BAD_ARGS"),
    "two-runs.txt": expect(COMPLETE, "all_reduce", 14, 315.0, "MULTIPLE_RUNS"),
    "validation-0-prints-zeros.txt": expect(COMPLETE, "all_gather", 14, 196.88, "VALIDATION_OFF"),
    "wrong-values.txt": expect(COMPLETE, "all_reduce", 14, 393.75, "NCCL_DATA_CORRUPTION"),
}


def read(name: str, context: ParseContext | None = None) -> Measurements:
    with (FIXTURES / name).open("rb") as stream:
        return parse_stream(stream, name, context or ParseContext())


def test_every_fixture_is_in_the_table() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_reading(name: str) -> None:
    wanted = EXPECTED[name]
    found = read(name)
    bus = found.figures.get("busBandwidthGBps")
    got = Reading(
        found.completeness,
        found.operation,
        len(found.rows),
        bus.value if bus and isinstance(bus.value, float) else None,
        frozenset(item.code for item in found.findings),
    )
    print(f"{name}\n  expected {wanted}\n  got      {got}")  # noqa: T201  # the table of a failure
    assert got._replace(bus=None) == wanted._replace(bus=None)
    assert got.bus == pytest.approx(wanted.bus, abs=0.01) if wanted.bus else got.bus is None


def test_evidence_names_the_line_that_proves_it() -> None:
    lines = (FIXTURES / "wrong-values.txt").read_text().splitlines()
    (corruption,) = read("wrong-values.txt").findings
    (proof,) = corruption.evidence
    assert proof.line is not None
    assert proof.text == lines[proof.line - 1].strip() or proof.text == lines[proof.line - 1]
    assert proof.text.split()[0] == "536870912"


def test_a_program_built_with_mpi_in_its_name_tests_the_same_operation() -> None:
    text = (FIXTURES / "all-reduce-2-nodes-ib.txt").read_bytes()
    renamed = text.replace(b"all_reduce_perf", b"all_reduce_perf_mpi")
    assert renamed != text
    read, same = (parse_bytes(each, "out.log") for each in (renamed, text))
    assert (read.operation, read.figures) == ("all_reduce", same.figures)


def test_cycles_are_numbered_and_averaged() -> None:
    found = read("three-cycles.txt")
    assert [row.cycle for row in found.rows if row.kind == "nccl"] == [1] * 14 + [2] * 14 + [3] * 14
    assert found.figures["cycleCount"].value == 3
    spread = found.figures["cycleSpread"].value
    assert isinstance(spread, float)
    assert spread == pytest.approx(0.04 / 1.02, abs=0.001)


def test_secrets_of_the_environment_stay_out() -> None:
    text = read("report-3.json").model_dump_json()
    assert "hf_0123456789" not in text
    assert "s3cr3t" not in text
    assert '"env.NCCL_IB_HCA":"mlx5"' in text


def test_both_ends_of_a_failed_request_are_witnesses() -> None:
    found = [
        item
        for item in read("completion-error-new-wording.txt").findings
        if item.code == "NCCL_IB_COMPLETION_ERROR"
    ]
    assert all(item.witness for item in found)
    assert [[str(end) for end in item.entities] for item in found] == [
        ["gpu-a1 GPU 4 mlx5_4", "gpu-a2"],
        ["gpu-a2 GPU 4 mlx5_2", "gpu-a1"],
    ]


@pytest.mark.parametrize(
    ("name", "context", "code", "effect"),
    [
        (
            "seven-of-eight-gpus.txt",
            ParseContext(hardware=Hardware(gpus_per_node=8)),
            "GPU_MISSING",
            "fail",
        ),
        (
            "seven-of-eight-gpus.txt",
            ParseContext(hardware=Hardware(gpus_per_node=4)),
            "INFRA_BAD_ARGS",
            "inconclusive",
        ),
        (
            "too-many-gpus-asked.txt",
            ParseContext(hardware=Hardware(gpus_per_node=8)),
            "INFRA_BAD_ARGS",
            "inconclusive",
        ),
        (
            "all-reduce-2-nodes-ib.txt",
            ParseContext(hardware=Hardware(nics_per_node=16)),
            "NIC_MISSING",
            "warn",
        ),
        ("three-cycles.txt", ParseContext(max_bytes=16 << 30), "SIZE_MISSING", "inconclusive"),
        ("three-cycles.txt", ParseContext(exit_code=3), "EXIT_CODE_NONZERO", "inconclusive"),
        ("three-cycles.txt", ParseContext(gpus=32), "INFRA_BAD_ARGS", "inconclusive"),
        ("three-cycles.txt", ParseContext(tool="dcgm"), "NO_RESULT_ROWS", "inconclusive"),
        (
            "report-3.json",
            ParseContext(category="communication/nccl-all-reduce"),
            "NO_RESULT_ROWS",
            "inconclusive",
        ),
        (
            "socket-although-efa.txt",
            ParseContext(hardware=Hardware(transport=("AWS Libfabric",))),
            "NCCL_TRANSPORT_FALLBACK",
            "fail",
        ),
        (
            "all-reduce-2-nodes-ib.txt",
            ParseContext(hardware=Hardware(transport=("AWS Libfabric", "efa"))),
            "NCCL_TRANSPORT_FALLBACK",
            "warn",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_context_decides(name: str, context: ParseContext, code: str, effect: str) -> None:
    found = {item.code: item.effect for item in read(name, context).findings}
    assert found.get(code) == effect


@pytest.mark.parametrize(
    ("name", "context", "code"),
    [
        (
            "all-reduce-2-nodes-ib.txt",
            ParseContext(hardware=Hardware(transport=("IB",))),
            "NCCL_TRANSPORT_FALLBACK",
        ),
        (
            "all-reduce-2-nodes-ib.txt",
            ParseContext(hardware=Hardware(nics_per_node=8)),
            "NIC_MISSING",
        ),
        (
            "socket-although-efa.txt",
            ParseContext(hardware=Hardware(transport=("Socket",))),
            "NCCL_TRANSPORT_FALLBACK",
        ),
        ("three-cycles.txt", ParseContext(max_bytes=8 << 30, gpus=16), "SIZE_MISSING"),
        ("own-timeout.txt", ParseContext(exit_code=2), "EXIT_CODE_NONZERO"),
    ],
)
def test_context_that_fits_finds_nothing(name: str, context: ParseContext, code: str) -> None:
    assert code not in {item.code for item in read(name, context).findings}


def test_pod_names_become_node_names() -> None:
    names = {rank: f"rack1-n{rank // 8}" for rank in range(16)}
    found = read(
        "internal-error.txt", ParseContext(nodes=("rack1-n0", "rack1-n1"), rank_nodes=names)
    )
    assert {place.node for place in found.ranks} == {"rack1-n0", "rack1-n1"}
    aborted = next(item for item in found.findings if item.code == "NCCL_ABORTED")
    assert [entity.node for entity in aborted.entities] == ["rack1-n1"]
