"""The table of nccl-tests 2.17: settings of a sweep, rows and their sums.

Format: src/util.cu of NVIDIA/nccl-tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from catalog.reading.quantity import parse_size
from steps.simulator.machine import SimulatedRun
from steps.simulator.physics import bus_factor

HEADINGS = (
    f"# {'':>10}  {'':>12}  {'':>8}  {'':>6}  {'':>6}           "
    "out-of-place                       in-place          ",
    f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
    + f"  {'time':>7}  {'algbw':>6}  {'busbw':>6}  {'#wrong':>6}" * 2
    + " ",
    f"# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}"
    + f"  {'(us)':>7}  {'(GB/s)':>6}  {'(GB/s)':>6}  {'':>6}" * 2
    + " ",
)

_ELEMENT_BYTES = {"double": 8, "int64": 8, "uint64": 8, "half": 2, "bfloat16": 2}
_ELEMENT_BYTES |= {"int8": 1, "uint8": 1}
_DEFAULT_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Sweep:
    """The settings of a run, from its command line.

    Attributes:
        operation: all_reduce, all_gather or alltoall.
        factor: the size grows by this factor; 1 lets it grow by 1 MiB.
        cycles: times that the sweep is run, ``-N``.
        checks: whether the data are checked.
    """

    program: str
    operation: str
    ranks: int
    min_bytes: int
    max_bytes: int
    factor: int
    iterations: int
    cycles: int
    warmup: int
    gpus_per_process: int
    type: str
    checks: bool

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth divided by algorithm bandwidth."""
        return bus_factor(self.operation, self.ranks)

    def sizes(self) -> Iterator[int]:
        """Yield the sizes that are asked for, in bytes."""
        size = self.min_bytes
        while size <= self.max_bytes:
            yield size
            size = size * self.factor if self.factor > 1 else size + 2**20

    def shape(self, asked: int) -> tuple[int, int]:
        """Return size and count as they are printed for a size that was asked for."""
        element = _ELEMENT_BYTES.get(self.type, 4)
        count = asked // element
        if self.operation == "all_reduce":
            return count * element, count
        # Each rank's part is rounded down to 16 bytes, so small sizes print as 0.
        step = max(1, 16 // element)
        part = count // self.ranks // step * step
        return part * self.ranks * element, part


def sweep_of(run: SimulatedRun) -> Sweep:
    """Read the settings of a run from its command line; defaults are those of nccl-tests."""
    argv = run.argv

    def number(flag: str, default: int) -> int:
        text = argv.get(flag, "")
        return int(text) if text.isdigit() else default

    def size(flag: str) -> int:
        return parse_size(argv[flag]) if argv.get(flag) else _DEFAULT_BYTES

    words = run.job.workload.command
    program = next((word for word in words if "_perf" in word), f"{run.entry.operation}_perf")
    return Sweep(
        program=program.rpartition("/")[2],
        operation=run.entry.operation,
        ranks=run.ranks,
        min_bytes=size("-b"),
        max_bytes=size("-e"),
        factor=number("-f", 1),
        iterations=number("-n", 20),
        cycles=max(1, number("-N", 1)),
        warmup=number("-w", 1),
        gpus_per_process=max(1, number("-g", 1)),
        type=argv.get("-d") or "float",
        checks=number("-c", 1) > 0,
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One row; times are of the out-of-place and the in-place form, in µs."""

    size: int
    count: int
    times_us: tuple[float, float]
    wrong: int

    def text(self, sweep: Sweep) -> str:
        """Return the line."""
        redop = "sum" if sweep.operation == "all_reduce" else "none"
        text = f"{self.size:12d}  {self.count:12d}  {sweep.type:>8}  {redop:>6}  {-1:6d}"
        for place, time in enumerate(self.times_us):
            rate = _gbps(self.size, time)
            checked = sweep.checks and not (place == 1 and sweep.operation == "alltoall")
            mark = str(self.wrong) if checked else "N/A"
            text += f"  {_time(time):>7}  {rate:6.2f}  {rate * sweep.bus_factor:6.2f}  {mark:>6}"
        return text


@dataclass(slots=True)
class Totals:
    """What the footer sums up."""

    rows: int = 0
    wrong: int = 0
    bandwidths: list[float] = field(default_factory=list)

    def add(self, row: Row, sweep: Sweep) -> None:
        """Count a row."""
        self.rows += 1
        # All-to-all has no in-place form, so its data are checked once.
        self.wrong += row.wrong * (1 if sweep.operation == "alltoall" else 2)
        self.bandwidths += [_gbps(row.size, time) * sweep.bus_factor for time in row.times_us]

    def footer(self, sweep: Sweep) -> tuple[str, ...]:
        """Return the closing lines."""
        average = sum(self.bandwidths) / len(self.bandwidths) if self.bandwidths else 0.0
        return (
            f"# Out of bounds values : {self.wrong} {'FAILED' if self.wrong else 'OK'}",
            f"# Avg bus bandwidth    : {average:g} ",
            "#",
            f"# Collective test concluded: {sweep.program}",
            "#",
            "",
        )


def _gbps(size: int, time_us: float) -> float:
    return size / time_us * 1e-3


def _time(time_us: float) -> str:
    """Write a time in seven columns, as getFloatStr does."""
    decimals = 2 if time_us < 9999.995 else 1 if time_us < 99999.95 else 0
    return f"{time_us:.{decimals}f}"
