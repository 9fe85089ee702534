"""Figures of single GPUs, from the rows of a diagnostic that name one."""

from __future__ import annotations

from collections.abc import Iterable

from steps.documents import DiagnosticRow
from steps.parse.dcgm.measured import BANDWIDTHS, bandwidths, count_tests
from steps.parse.dcgm.nvbandwidth import FIGURES
from steps.parse.dcgm.words import canonical


def by_gpu(rows: Iterable[DiagnosticRow]) -> dict[int, list[DiagnosticRow]]:
    """Return the rows of each GPU, in the order of their indexes."""
    found: dict[int, list[DiagnosticRow]] = {}
    for row in rows:
        if row.gpu is not None:
            found.setdefault(row.gpu, []).append(row)
    return dict(sorted(found.items()))


def gpu_figures(rows: Iterable[DiagnosticRow]) -> dict[str, float | int]:
    """Return the figures of the catalog as far as these rows of one GPU have them.

    Bandwidths in GB/s, the smallest that the GPU shows; tests are counted by their worst status.
    """
    mine = list(rows)
    found: dict[str, float | int] = {}
    for name, figure in count_tests(statuses(mine).values()).items():
        if isinstance(figure.value, int):
            found[name] = figure.value
    for name in (*BANDWIDTHS, *FIGURES):
        values = [value for _, value in bandwidth_rows(mine, name)]
        if values:
            found[name] = min(values)
    return found


def statuses(rows: Iterable[DiagnosticRow]) -> dict[str, set[str]]:
    """Return the statuses of each test, by DCGM 4's name of it."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(canonical(row.test), set()).add(row.status)
    return found


def bandwidth_rows(rows: Iterable[DiagnosticRow], figure: str) -> list[tuple[DiagnosticRow, float]]:
    """Return the rows that measured a bandwidth of the catalog, with the smallest in GB/s.

    DCGM's pcie test says it in words, nvbandwidth in numbers; kernels (sm) count only where no
    copy engine (ce) was measured, as in the figure of the node.
    """
    mine = list(rows)
    said = BANDWIDTHS.get(figure)
    spoken = [
        (row, min(values))
        for row in mine
        if said and row.text and (values := bandwidths(row.text, said))
    ]
    pattern = FIGURES.get(figure)
    if spoken or pattern is None:
        return spoken
    for engine in ("ce", "sm"):
        measured = [
            (row, row.value)
            for row in mine
            if (match := pattern.fullmatch(row.test)) and match[1] == engine and row.value
        ]
        if measured:
            return measured
    return []
