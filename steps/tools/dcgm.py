"""DCGM diagnostics: what their results prove, of the node and of each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from steps.documents import DiagnosticRow, Measurements
from steps.parse.dcgm.measured import BANDWIDTHS, bandwidths, count_tests
from steps.parse.dcgm.nvbandwidth import FIGURES
from steps.parse.dcgm.words import canonical
from steps.simulator.clock import Script
from steps.simulator.dcgm import VERSIONS, dcgm_script
from steps.simulator.machine import SimulatedRun
from steps.tools.tool import FindRows, ToolSteps, amount, whole_number

_COUNTED = {
    "testsPassed": "pass",
    "testsFailed": "fail",
    "testsWarned": "warn",
    "testsSkipped": "skip",
}
"""Status of the results behind a count of tests."""


class _Dcgm(ToolSteps[DiagnosticRow]):
    name = "dcgm"
    row_type = DiagnosticRow
    versions = VERSIONS
    results_outweigh_exit = True
    columns = ("test", "GPU", "status", "error", "value", "text")

    def row_name(self, row: DiagnosticRow) -> str:
        return row.test if row.gpu is None else f"{row.test} GPU {row.gpu}"

    def row_parts(self, row: DiagnosticRow) -> Iterable[str | None]:
        return (row.status, amount(row.value, row.unit or ""))

    def cells(self, row: DiagnosticRow) -> tuple[str, ...]:
        return (
            row.test,
            "-" if row.gpu is None else str(row.gpu),
            row.status,
            "" if row.error_id is None else str(row.error_id),
            "" if row.value is None else f"{row.value:.6g} {row.unit or ''}",
            row.text or "",
        )

    def quote(
        self, row: DiagnosticRow, figure: str | None, read: Measurements
    ) -> tuple[int | None, str]:
        line, text = super().quote(row, figure, read)
        said = BANDWIDTHS.get(figure or "")
        if said and row.text:
            values = bandwidths(row.text, said)
            if values:
                text = f"{self.row_name(row)}: {row.status}, {said} {min(values):g} GB/s"
            # A row knows the line of its first text only, and a table has it below the status.
            if read.mode.name != "dcgm-json" or "; " in row.text:
                line = None
        return line, text

    def rows_lost(self, read: Measurements) -> str | None:
        rows = self.rows(read)
        for name, figure in count_tests(_statuses(rows).values()).items():
            told = read.figures.get(name)
            if told is None or told.value != figure.value:
                says = "an unknown number" if told is None else told.value
                return f"{name} is {says}, the results that are here have {figure.value}"
        gpus = set(_by_gpu(rows))
        seen = whole_number(read.figures.get("gpusSeen"))
        # Where only tests have results, the GPUs stand in the list of the tool alone.
        if gpus and seen is not None and seen != len(gpus):
            return f"{len(gpus)} of {seen} GPUs have results here"
        tested: dict[str, set[int]] = {}
        for row in rows:
            # DCGM 3 names the GPU of a deployment check only where it has an error.
            singled_out = (row.category or "").lower() == "deployment" and row.entity_group is None
            if row.gpu is not None and not singled_out:
                tested.setdefault(canonical(row.test), set()).add(row.gpu)
        for test, have in tested.items():
            if have != gpus:
                names = ", ".join(str(gpu) for gpu in sorted(gpus - have))
                return f"GPU {names} has no result of {test}"
        return None

    def figures_lost(self, read: Measurements) -> str | None:
        """A preflight check says how many tests passed and lists only what is wrong."""
        return None if _is_preflight(read) else self.rows_lost(read)

    def rightly_absent(self, figure: str, read: Measurements) -> bool:
        rows = self.rows(read)
        if figure == "gpusSeen":
            # A preflight check names only the GPUs of its pod, so their number says nothing.
            shown = _is_preflight(read) or (bool(rows) and not _by_gpu(rows))
        else:
            measured = figure in BANDWIDTHS or figure in FIGURES
            shown = measured and bool(rows) and not _bandwidth_rows(rows, figure)
        return shown and self.figures_lost(read) is None

    def find_rows(self, read: Measurements) -> FindRows:
        rows = self.rows(read)
        return lambda name, _sizes: _behind(name, rows)

    def gpus(
        self, read: Measurements
    ) -> dict[int, tuple[Mapping[str, float | int], list[DiagnosticRow]]]:
        return {gpu: (_gpu_figures(rows), rows) for gpu, rows in _by_gpu(self.rows(read)).items()}

    def unexplained(self, read: Measurements) -> str | None:
        failed = [row for row in self.rows(read) if row.status in {"fail", "unknown"}]
        if not failed:
            return None
        return f"{failed[0].test} has status {failed[0].status}, which no finding explains"

    def play(self, run: SimulatedRun) -> Script:
        return dcgm_script(run)


def _is_preflight(read: Measurements) -> bool:
    return (read.tool or "").startswith("preflight")


def _behind(name: str, rows: Sequence[DiagnosticRow]) -> Sequence[DiagnosticRow]:
    if name in _COUNTED:
        # A test counts once, by its worst result.
        counted = {
            test for test, found in _statuses(rows).items() if count_tests([found])[name].value
        }
        wanted = _COUNTED[name]
        return [row for row in rows if row.status == wanted and canonical(row.test) in counted]
    if name == "gpusFailed":
        return [row for row in rows if row.status == "fail"]
    if name == "gpusSeen":
        seen = {row.gpu: row for row in reversed(rows) if row.gpu is not None}
        return [seen[max(seen)]] if seen else ()
    values = sorted(_bandwidth_rows(rows, name), key=lambda item: item[1])
    return [row for row, _ in values[:1]]


def _by_gpu(rows: Iterable[DiagnosticRow]) -> dict[int, list[DiagnosticRow]]:
    """Return the rows of each GPU, in the order of their indexes."""
    found: dict[int, list[DiagnosticRow]] = {}
    for row in rows:
        if row.gpu is not None:
            found.setdefault(row.gpu, []).append(row)
    return dict(sorted(found.items()))


def _gpu_figures(rows: Sequence[DiagnosticRow]) -> dict[str, float | int]:
    """Return the figures of the catalog as far as these rows of one GPU have them.

    Bandwidths in GB/s, the smallest that the GPU shows; tests are counted by their worst status.
    """
    found: dict[str, float | int] = {}
    for name, figure in count_tests(_statuses(rows).values()).items():
        if isinstance(figure.value, int):
            found[name] = figure.value
    for name in (*BANDWIDTHS, *FIGURES):
        values = [value for _, value in _bandwidth_rows(rows, name)]
        if values:
            found[name] = min(values)
    return found


def _statuses(rows: Iterable[DiagnosticRow]) -> dict[str, set[str]]:
    """Return the statuses of each test, by DCGM 4's name of it."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(canonical(row.test), set()).add(row.status)
    return found


def _bandwidth_rows(
    rows: Sequence[DiagnosticRow], figure: str
) -> list[tuple[DiagnosticRow, float]]:
    """Return the rows that measured a bandwidth of the catalog, with the smallest in GB/s.

    DCGM's pcie test says it in words, nvbandwidth in numbers; kernels (sm) count only where no
    copy engine (ce) was measured, as in the figure of the node.
    """
    said = BANDWIDTHS.get(figure)
    spoken = [
        (row, min(values))
        for row in rows
        if said and row.text and (values := bandwidths(row.text, said))
    ]
    pattern = FIGURES.get(figure)
    if spoken or pattern is None:
        return spoken
    for engine in ("ce", "sm"):
        measured = [
            (row, row.value)
            for row in rows
            if (match := pattern.fullmatch(row.test)) and match[1] == engine and row.value
        ]
        if measured:
            return measured
    return []


TOOL = _Dcgm()
