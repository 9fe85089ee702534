"""The CPU stand-in moves and checks real data, and our parser reads its table."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from steps.documents import Completeness, Measurements
from steps.parse.api import ParseContext
from steps.parse.reader import parse_bytes

SOURCE = Path(__file__).parents[2] / "containers" / "standin" / "standin_perf.c"

pytestmark = pytest.mark.skipif(
    shutil.which("mpicc") is None or shutil.which("mpirun") is None,
    reason="needs mpicc and mpirun (Debian: openmpi-bin libopenmpi-dev)",
)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standin")
    binary = folder / "standin_perf"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["mpicc", *flags, "-o", binary, SOURCE], check=True, timeout=120)
    for name in ("all_reduce", "all_gather", "alltoall"):
        (folder / f"{name}_perf").symlink_to(binary)
        (folder / f"{name}_perf_mpi").symlink_to(binary)
    return folder


def perf(
    program: Path, options: str, processes: int = 2, timeout: float = 60, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a program under mpirun, or alone for 0 processes."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    mpirun = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    launcher = [*mpirun, "-np", str(processes)] if processes else []
    return subprocess.run(
        [*launcher, program, *options.split()],
        capture_output=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **root, **env},
    )


def read(output: bytes) -> Measurements:
    return parse_bytes(output, "standin.log", ParseContext(tool="nccl"))


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "alltoall"])
@pytest.mark.parametrize(
    ("processes", "local", "kind"),
    [(2, 1, "float"), (3, 2, "uint8"), (0, 4, "double")],
)
def test_every_value_arrives(
    programs: Path, operation: str, processes: int, local: int, kind: str
) -> None:
    sweep = f"-b 8 -e 64K -f 4 -n 2 -d {kind} -g {local}"
    done = perf(programs / f"{operation}_perf", sweep, processes=processes)
    assert done.returncode == 0, done.stderr
    found = read(done.stdout)
    assert found.operation == operation
    assert found.completeness is Completeness.COMPLETE
    assert len(found.ranks) == max(processes, 1) * local
    assert found.figures["wrongCount"].value == 0
    assert len(found.rows) == 7


def test_repeated_sweeps_are_cycles(programs: Path) -> None:
    done = perf(programs / "all_reduce_perf_mpi", "-b 1K -e 4K -f 2 -n 2 -N 3 -w 0")
    assert read(done.stdout).figures["cycleCount"].value == 3


def test_a_damaged_value_is_found_and_fails_the_run(programs: Path) -> None:
    sweep = "-b 1K -e 4K -f 2 -n 2"
    done = perf(programs / "all_reduce_perf", sweep, STANDIN_CORRUPT_RANK="1")
    assert done.returncode != 0
    found = read(done.stdout)
    assert found.figures["wrongCount"].value
    assert "NCCL_DATA_CORRUPTION" in {finding.code for finding in found.findings}


def test_without_check_nothing_is_claimed_about_the_data(programs: Path) -> None:
    done = perf(programs / "all_gather_perf", "-b 1K -e 4K -f 2 -n 2 -c 0")
    assert done.returncode == 0
    found = read(done.stdout)
    assert "wrongCount" not in found.figures
    assert "VALIDATION_OFF" in {finding.code for finding in found.findings}


def test_messages_that_do_not_fit_are_left_out_as_nccl_tests_does(programs: Path) -> None:
    sweep = "-b 64K -e 16G -f 2 -n 1 -w 0"
    done = perf(programs / "all_reduce_perf", sweep, STANDIN_MEMORY_MB="1")
    assert done.returncode == 0
    found = read(done.stdout)
    assert found.completeness is Completeness.COMPLETE
    assert found.rows[-1].size_bytes == 256 * 1024  # type: ignore[union-attr]


def test_the_network_of_the_ranks_can_be_named(programs: Path) -> None:
    sweep = "-b 1K -e 2K -f 2 -n 1"
    done = perf(programs / "all_reduce_perf", sweep, STANDIN_NETWORK="IB")
    assert done.stdout.count(b"NCCL INFO Using network IB") == 2
    assert read(done.stdout).completeness is Completeness.COMPLETE


def test_pause_makes_a_run_last(programs: Path) -> None:
    sweep = "-b 1K -e 2K -f 2 -n 2 -w 0"
    before = time.monotonic()
    done = perf(programs / "all_reduce_perf", sweep, STANDIN_PAUSE_MS="200")
    # Two sizes, out of place and in place, twice each.
    assert time.monotonic() - before > 8 * 0.2
    assert read(done.stdout).completeness is Completeness.COMPLETE


def test_hang_comes_after_the_rows_before_it(programs: Path) -> None:
    sweep = "-b 1K -e 8K -f 2 -n 1 -w 0"
    with pytest.raises(subprocess.TimeoutExpired) as hung:
        perf(programs / "all_reduce_perf", sweep, timeout=5, STANDIN_HANG_BYTES="4096")
    found = read(hung.value.stdout or b"")
    assert found.completeness is not Completeness.COMPLETE
    assert [row.size_bytes for row in found.rows] == [1024, 2048]  # type: ignore[union-attr]


@pytest.mark.parametrize("options", ["-b 0", "-d bfloat16", "-Z", "extra"])
def test_wrong_use_fails(programs: Path, options: str) -> None:
    done = perf(programs / "all_reduce_perf", options, processes=0)
    assert done.returncode != 0
    assert b"USAGE" in done.stderr
