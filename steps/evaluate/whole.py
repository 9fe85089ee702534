"""Whether all rows of a measurement are there, and whether a figure is rightly absent.

An expression over many rows can become true because the one row that made it false was lost. So
the rows are held against what the figures, the findings and each other say of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from catalog.facts.reasons import Effect
from steps.documents import Completeness, Figure, Measurements, NcclRow, TrainingStep
from steps.evaluate.gpus import bandwidth_rows, by_gpu, statuses
from steps.evaluate.rows import diagnostics
from steps.parse.dcgm.measured import count_tests
from steps.parse.dcgm.words import canonical
from steps.parse.nccl.figures import LARGE_BYTES, SMALL_BYTES
from steps.parse.nccl.sizes import size_name


def rows_lost(read: Measurements, tool: str) -> str | None:
    """Say why rows of single runs or results are missing, or may be; None when all are there."""
    check = {"nccl": _lost_repeats, "dcgm": _lost_results, "training": _lost_steps}.get(tool)
    return check(read) if check else None


def figures_lost(read: Measurements, tool: str) -> str | None:
    """Say why the figures rest on fewer rows than there were; None when they do not.

    A preflight check says how many tests passed and lists only what is wrong, so its figures do
    not rest on rows.
    """
    return None if _is_preflight(read) else rows_lost(read, tool)


def _is_preflight(read: Measurements) -> bool:
    return (read.tool or "").startswith("preflight")


def sizes_lost(read: Measurements) -> str | None:
    """Say which message sizes of an NCCL sweep are missing, as the parser found out."""
    found = next((item for item in read.findings if item.code == "SIZE_MISSING"), None)
    return found.message if found else None


def largest_lost(read: Measurements) -> str | None:
    """Say which sizes at the end of an NCCL sweep are missing; None when it got to its end."""
    for item in read.findings:
        # Sizes that are missing on the way are a note.
        if item.code == "SIZE_MISSING" and item.effect is Effect.INCONCLUSIVE:
            return item.message
    asked = read.facts.get("maxBytes", "")
    if read.completeness is Completeness.COMPLETE or not asked.isdecimal():
        return None
    largest = max((row.size_bytes for row in read.rows if isinstance(row, NcclRow)), default=0)
    if largest >= int(asked):
        return None
    return f"the largest size is {size_name(largest)} of {size_name(int(asked))}"


def _lost_repeats(read: Measurements) -> str | None:
    rows = [row for row in read.rows if isinstance(row, NcclRow)]
    told = whole_number(read.figures.get("rowCount"))
    if told != len(rows):
        return f"{len(rows)} of {'an unknown number of' if told is None else told} rows are here"
    repeats = Counter((r.size_bytes, r.type, r.redop, r.root) for r in rows if r.size_bytes)
    cycles = max((row.cycle for row in rows), default=0)
    lost = sum(max(cycles - times, 0) for times in repeats.values())
    # Rows that equal an earlier one value by value were taken for repeats of the log.
    known = sum(item.count for item in read.findings if item.code == "DUPLICATE_ROW")
    if lost > known:
        count = lost - known
        return f"of {cycles} cycles, {'1 row is' if count == 1 else f'{count} rows are'} missing"
    return None


def _lost_results(read: Measurements) -> str | None:
    rows = diagnostics(read)
    for name, figure in count_tests(statuses(rows).values()).items():
        told = read.figures.get(name)
        if told is None or told.value != figure.value:
            says = "an unknown number" if told is None else told.value
            return f"{name} is {says}, the results that are here have {figure.value}"
    gpus = set(by_gpu(rows))
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


def _lost_steps(read: Measurements) -> str | None:
    rows = [row for row in read.rows if isinstance(row, TrainingStep)]
    counted = [row for row in rows if not row.warmup]
    told = whole_number(read.figures.get("stepCount"))
    widths = [after.step - before.step for before, after in pairwise(rows)]
    interval = min((width for width in widths if width > 0), default=1)
    # A line stands for the steps since the one before it; each redraw of a bar, for one step.
    if told not in {len(counted) * interval, len(counted)}:
        says = "an unknown number of" if told is None else told
        return f"{len(counted) * interval} of {says} steps are here"
    return None


def whole_number(figure: Figure | None) -> int | None:
    """Return the value of a figure that counts; None where it is absent or no count."""
    return figure.value if figure is not None and isinstance(figure.value, int) else None


def rightly_absent(name: str, read: Measurements, tool: str) -> bool:
    """True when the output shows that this figure was not to be had, so that nothing was lost."""
    reason = _ABSENT.get(name)
    return reason is not None and reason(read) and figures_lost(read, tool) is None


def _has_finding(code: str) -> Callable[[Measurements], bool]:
    return lambda read: any(item.code == code for item in read.findings)


def _no_size(low: int, high: int) -> Callable[[Measurements], bool]:
    def none_there(read: Measurements) -> bool:
        return not any(isinstance(r, NcclRow) and low <= r.size_bytes <= high for r in read.rows)

    return none_there


def _no_bandwidth(name: str) -> Callable[[Measurements], bool]:
    return lambda read: bool(read.rows) and not bandwidth_rows(diagnostics(read), name)


def _no_gpu_listed(read: Measurements) -> bool:
    # A preflight check names only the GPUs of its pod, so their number says nothing.
    return _is_preflight(read) or (bool(read.rows) and not by_gpu(diagnostics(read)))


def _one_step_time(read: Measurements) -> bool:
    steps = [r for r in read.rows if isinstance(r, TrainingStep) and not r.warmup]
    return sum(step.step_time_s is not None for step in steps) < 2


def _no_throughput(read: Measurements) -> bool:
    steps = [r for r in read.rows if isinstance(r, TrainingStep)]
    told = any(item.code == "THROUGHPUT_FIELD_INVALID" for item in read.findings)
    return told or not any(step.tflops_per_gpu is not None for step in steps)


_MOST_BYTES = 1 << 62
"""More than any message has."""

_ABSENT: dict[str, Callable[[Measurements], bool]] = {
    "wrongCount": _has_finding("VALIDATION_OFF"),
    "fabricHostCount": lambda read: "transport" not in read.facts,
    "cycleSpread": lambda read: whole_number(read.figures.get("cycleCount")) == 1,
    "minLargeBusBandwidthGBps": _no_size(LARGE_BYTES, _MOST_BYTES),
    "smallMessageLatencyUs": _no_size(1, SMALL_BYTES),
    "gpusSeen": _no_gpu_listed,
    "hostToDeviceMinGBps": _no_bandwidth("hostToDeviceMinGBps"),
    "deviceToHostMinGBps": _no_bandwidth("deviceToHostMinGBps"),
    "deviceToDeviceMinGBps": _no_bandwidth("deviceToDeviceMinGBps"),
    "stepTimeSpread": _one_step_time,
    "avgTFLOPsPerGPU": _no_throughput,
}
"""What shows that a figure was not to be had, by figure; any other absence is a loss."""
