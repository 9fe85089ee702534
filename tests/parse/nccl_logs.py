"""Prints tables as nccl-tests prints them, for tests that need many variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def number(value: float, width: int) -> str:
    """Print a number as the tool does: fewer decimals the larger it is."""
    digits = len(str(int(value)))
    if digits < width - 2:
        return f"{value:{width}.2f}"
    return f"{value:{width}.1f}" if digits < width - 1 else f"{value:{width}.0f}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a run on ``ranks`` GPUs.

    Attributes:
        columns: lead columns after size and count.
        lead: their values, blank ones included.
        check: heading of the check column.
        wrong: values of the check columns, out of place and in place.
        factor: busbw / algbw.
        statistics: print the columns of -I.
        timestamp: print the column of -S.
        hash: print the leading '#'.
    """

    sizes: Sequence[int]
    speeds: Sequence[float]
    columns: tuple[str, ...] = ("type", "redop", "root")
    lead: tuple[str, ...] = ("float", "sum", "-1")
    check: str = "#wrong"
    wrong: tuple[str, str] = ("0", "0")
    factor: float = 1.875
    statistics: bool = False
    timestamp: bool = False
    hash: bool = True

    def heading(self) -> list[str]:
        mark = "#" if self.hash else " "
        half = ["time", "algbw", "busbw", self.check]
        units = ["(us)", "(GB/s)", "(GB/s)", ""]
        if self.statistics:
            half += ["i_min", "i_max", "i_p99", "i_cv%"]
            units += ["(us)", "(us)", "(us)", "(%)"]
        names = [*self.columns, *half, *half] + (["timestamp"] if self.timestamp else [])
        lead = f"{mark} {'size':>10}  {'count':>12}"
        return [
            f"{mark} {'':60} out-of-place                       in-place          ",
            lead + "".join(f"  {name:>7}" for name in names),
            f"{mark} {'(B)':>10}  {'(elements)':>12}"
            + "".join(f"  {name:>7}" for name in ["" for _ in self.columns] + units + units),
        ]

    def row(self, size: int, algbw: float) -> str:
        time = size / algbw / 1e3 if algbw else 12.5
        busbw = algbw * self.factor
        halves = ""
        for scale, wrong in zip((1.0, 1.01), self.wrong, strict=True):
            halves += f"  {number(time * scale, 7)}  {number(algbw / scale, 6)}"
            halves += f"  {number(busbw / scale, 6)}  {wrong:>6}"
            if self.statistics:
                halves += "".join(f"  {number(time * part, 7)}" for part in (0.9, 1.2, 1.1))
                halves += f"  {4.25:7.2f}"
        lead = "".join(f"  {value:>7}" for value in self.lead)
        stamp = "  2025-11-23 04:05:06" if self.timestamp else ""
        return f"{size:12d}  {size // 4:12d}{lead}{halves}{stamp}"

    def rows(self) -> list[str]:
        return [self.row(size, speed) for size, speed in zip(self.sizes, self.speeds, strict=True)]

    def average(self) -> float:
        speeds = [speed * self.factor * part for speed in self.speeds for part in (1, 1 / 1.01)]
        return sum(speeds) / len(speeds)


def config(
    minimum: int, maximum: int, *, validation: int | None = 1, step: str = "2(factor)"
) -> str:
    checked = "" if validation is None else f" validation: {validation}"
    return (
        f"# nThread 1 nGpus 1 minBytes {minimum} maxBytes {maximum} step: {step} "
        f"warmup iters: 5 iters: 20 agg iters: 1{checked} graph: 0"
    )


def devices(
    nodes: Sequence[str], gpus: int = 8, product: str = "NVIDIA H100 80GB HBM3"
) -> list[str]:
    return ["# Using devices"] + [
        f"#  Rank {rank:2d} Group  0 Pid {7100 + rank:6d} on {nodes[rank // gpus]:>10} "
        f"device {rank % gpus:2d} [0000:{0x1B + 16 * (rank % gpus):02x}:00] {product}"
        for rank in range(len(nodes) * gpus)
    ]


def footer(average: float, wrong: int = 0) -> list[str]:
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {average:g} ",
        "#",
    ]


SIZES = tuple(1 << power for power in range(20, 34))
SPEEDS = tuple(round(210 * (index + 1) / len(SIZES), 2) for index in range(len(SIZES)))


def log(
    table: Table | None = None,
    *,
    nodes: Sequence[str] = ("gpu-a1", "gpu-a2"),
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    validation: int | None = 1,
    closed: bool = True,
    wrong: int = 0,
) -> str:
    """Print a whole run."""
    table = table or Table(sizes=SIZES, speeds=SPEEDS)
    lines = [config(table.sizes[0], table.sizes[-1], validation=validation), "#"]
    lines += [*devices(nodes), *before, "#", *table.heading(), *table.rows()]
    lines += footer(table.average(), wrong) if closed else []
    return "\n".join([*lines, *after]) + "\n"
