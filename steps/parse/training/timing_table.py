"""The table of dgxc-benchmarking's parse_train_timing.sh: means over a range of iterations.

    Train Step Timing and TFLOPS Analysis (iterations 35-44)
    Experiment  Status  Time Mean (s)  Time Std (s)  TFLOPS_per_GPU Mean  TFLOPS_per_GPU Std

Newer releases print ``Elapsed Time (ms) and Throughput (TFLOP/s/GPU) Analysis``, in milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from steps.documents import Evidence, Figure, Finding
from steps.parse.findings import finding
from steps.parse.training.figures import MAX_SPREAD, possible

_TITLE = re.compile(
    r"\b(?:TFLOPS?|Throughput\b.*) Analysis \(iterations (?P<a>\d{1,9})-(?P<b>\d{1,9})\)", re.I
)
_HEADING = re.compile(r"\bStatus\s+Time Mean \((?P<unit>m?s)\)", re.I)
_ROW = re.compile(
    r"^\s*(?P<name>\S+)\s+(?P<status>Success|Failed)\b"
    r"(?:\s+(?P<time>[\d.]+)\s+(?P<time_std>[\d.]+)"
    r"(?:\s+(?P<tflops>-?[\d.]+)\s+(?P<tflops_std>[\d.]+))?)?"
)

WANTS = (_TITLE, _HEADING, _ROW)


@dataclass(frozen=True, slots=True)
class TimingRow:
    """One experiment: means and standard deviations, None where the experiment failed."""

    name: str
    success: bool
    steps: int
    line: int
    time_s: float | None = None
    time_std_s: float | None = None
    tflops: float | None = None
    tflops_std: float | None = None


class TimingTableReader:
    """Collects the rows of the table.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self.rows: list[TimingRow] = []
        self._steps = 0
        self._factor = 1.0
        self._inside = False

    def feed(self, text: str, number: int) -> bool:
        """Take a line; False when it is not of the table."""
        if title := _TITLE.search(text):
            self._inside = True
            self._steps = int(title["b"]) - int(title["a"]) + 1
            self._factor = 1e-3 if "(ms)" in text else 1.0
            return True
        if not self._inside:
            return False
        if heading := _HEADING.search(text):
            self._factor = 1e-3 if heading["unit"] == "ms" else 1.0
            return True
        match = _ROW.match(text)
        if not match:
            return bool(text.strip("-= \t")) is False
        numbers = [_float(match[name]) for name in ("time", "time_std", "tflops", "tflops_std")]
        time, time_std, tflops, tflops_std = numbers
        self.rows.append(
            TimingRow(
                name=match["name"],
                success=match["status"] == "Success" and bool(time),
                steps=self._steps,
                line=number,
                time_s=time * self._factor if time else None,
                time_std_s=time_std * self._factor if time_std is not None else None,
                tflops=tflops,
                tflops_std=tflops_std,
            )
        )
        return True

    def slowest(self) -> TimingRow | None:
        """Return the experiment whose figures count: with several, the slowest one."""
        good = [row for row in self.rows if row.success]
        return max(good, key=lambda row: row.time_s or 0.0, default=None)

    def figures(self, row: TimingRow) -> dict[str, Figure]:
        """Return the figures of one experiment."""
        time = row.time_s or 0.0
        found = {
            "avgStepTimeSec": Figure(value=time, unit="s", printed=True),
            "stepCount": Figure(value=row.steps, unit="count"),
        }
        if row.time_std_s is not None and time:
            found["stepTimeSpread"] = Figure(value=row.time_std_s / time, unit="ratio")
        if row.tflops is not None and _is_throughput(row):
            found["avgTFLOPsPerGPU"] = Figure(value=row.tflops, unit="TFLOP/s", printed=True)
        return found

    def doubts(self, row: TimingRow) -> list[Finding]:
        """Say what must be known about the figures of one experiment."""
        found = []
        good = len([each for each in self.rows if each.success])
        if good > 1:
            says = f"{good} experiments; the slowest, {row.name}, counts"
            found.append(finding("MULTIPLE_RUNS", says))
        if row.tflops is not None and not _is_throughput(row):
            says = f"{row.tflops:g} +- {row.tflops_std or 0:g} TFLOP/s/GPU"
            proof = [Evidence(file=self._file, line=row.line, text=says)]
            says += " is no throughput; treated as unknown"
            found.append(finding("THROUGHPUT_FIELD_INVALID", says, proof=proof))
        return found

    def failures(self) -> list[Finding]:
        """Return the experiments that failed."""
        return [
            finding(
                "TRAIN_CRASHED",
                f"experiment {row.name} failed",
                proof=[Evidence(file=self._file, line=row.line, text=f"{row.name} Failed")],
            )
            for row in self.rows
            if not row.success
        ]


def _is_throughput(row: TimingRow) -> bool:
    if not possible(row.tflops):
        return False
    return (row.tflops_std or 0.0) <= MAX_SPREAD * (row.tflops or 0.0)


def _float(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and value < 1e9 else None
