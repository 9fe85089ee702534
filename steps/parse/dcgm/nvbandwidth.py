"""Reads nvbandwidth, JSON (``-j``) and text: bandwidth of every GPU to the host and to its peers.

Formats: https://github.com/NVIDIA/nvbandwidth, v0.4 to v0.10. A matrix has a row and a column per
CPU or GPU; its values are strings in JSON, and ``N/A`` where a GPU would copy to itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from catalog.facts.tools import OutputKind, output_kind
from steps.documents import Completeness, DiagnosticRow, Entity, Figure
from steps.parse.api import Line, ParseContext, Part
from steps.parse.dcgm import words
from steps.parse.dcgm.collect import Findings
from steps.parse.dcgm.diag_json import is_cut_off
from steps.parse.dcgm.measured import count, count_tests
from steps.parse.dcgm.results import Status

_DEVICE = re.compile(r"(\d+):\s*(.+?)(?:\s*\(([0-9A-Fa-f:.]+)\))?(?::?\s*\(([^()]+)\))?\s*")
_UNIT = re.compile(r"\((GB/s|GiB/s|ns|us)\)")
_STATUS: dict[str, Status] = {"passed": "pass", "waived": "skip", "error": "fail", "failed": "fail"}
FIGURES = {
    "hostToDeviceMinGBps": re.compile(r"host_to_device_memcpy_(ce|sm)"),
    "deviceToHostMinGBps": re.compile(r"device_to_host_memcpy_(ce|sm)"),
    "deviceToDeviceMinGBps": re.compile(r"device_to_device_memcpy_(?:read|write)_(ce|sm)"),
}


@dataclass(slots=True)
class _Case:
    """One test case; the matrix is by row and column, missing values are None."""

    name: str
    status: Status = "unknown"
    word: str = ""
    description: str = ""
    matrix: list[list[float | None]] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    total: float | None = None
    why: str = ""
    line: int | None = None

    @property
    def unit(self) -> str:
        """Unit of the values."""
        match = _UNIT.search(self.description)
        return match[1] if match else "GB/s"

    def by_gpu(self) -> Iterator[tuple[int, float]]:
        """Yield the smallest value of every GPU, by position in the device list."""
        if "GPU(column)" in self.description or "GPU(row)" not in self.description:
            width = max((len(row) for row in self.matrix), default=0)
            for index in range(width):
                cells = [row[index] for row in self.matrix if index < len(row)]
                values = [cell for cell in cells if cell is not None]
                if values:
                    yield self._column(index), min(values)
            return
        for index, row in enumerate(self.matrix):
            values = [cell for cell in row if cell is not None]
            if values:
                yield index, min(values)

    def _column(self, index: int) -> int:
        return self.columns[index] if index < len(self.columns) else index

    @property
    def values(self) -> list[float]:
        """Every value that was measured."""
        return [cell for row in self.matrix for cell in row if cell is not None]


@dataclass(slots=True)
class _Run:
    file: str
    mode: OutputKind
    claimed: int = 0
    cases: list[_Case] = field(default_factory=list)
    devices: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    errors: list[tuple[str, int | None]] = field(default_factory=list)
    cut_off: str | None = None
    last_line: int | None = None


def read_nvbandwidth(
    data: dict[str, Any], text: str, name: str, context: ParseContext
) -> Part | None:
    """Read nvbandwidth's JSON; None when ``data`` is none.

    Args:
        data: the parsed JSON.
        text: the same as text.
        name: of the output.
        context: what is known about the run.
    """
    if "nvbandwidth" not in data:
        return None
    body = data["nvbandwidth"]
    run = _Run(name, output_kind("nvbandwidth-json"), claimed=max(1, text.count("\n")))
    if is_cut_off(text):
        run.cut_off = "the JSON document is cut off"
    if not isinstance(body, dict):
        run.problems.append("nvbandwidth is no object")
        return _to_part(run, context)
    names = {"version": "nvbandwidth", "Driver Version": "driver", "CUDA Runtime Version": "cuda"}
    for key, version in names.items():
        if isinstance(body.get(key), (str, int)):
            run.versions[version] = str(body[key])
    devices = body.get("GPU Device list")
    for position, device in enumerate(devices if isinstance(devices, list) else []):
        if isinstance(device, str):
            _device(run, device, position)
    if isinstance(body.get("error"), str):
        run.errors.append((body["error"], None))
    cases = body.get("testcases")
    if isinstance(cases, list):
        for case in cases:
            _case(run, case)
    elif cases is not None or not run.errors:
        run.problems.append("nvbandwidth has no list of testcases")
    return _to_part(run, context)


def _case(run: _Run, data: object) -> None:
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        run.problems.append("a test case has no name")
        return
    word = data.get("status")
    case = _Case(
        name=data["name"], word=str(word), status=_STATUS.get(str(word).lower(), "unknown")
    )
    if case.status == "unknown":
        run.problems.append(f"{case.name}: unknown status {str(word)[:40]!r}")
    described = data.get("bandwidth_description")
    case.description = described if isinstance(described, str) else ""
    matrix = data.get("bandwidth_matrix", [])
    rows = matrix if isinstance(matrix, list) else None
    if rows is None or not all(isinstance(row, list) for row in rows):
        run.problems.append(f"{case.name}: the matrix is no list of lists")
        rows = []
    case.matrix = [[_value(run, case.name, cell) for cell in row] for row in rows]
    case.total = words.number(data.get("sum"))
    case.why = str(data.get("error") or data.get("message") or "")
    run.cases.append(case)


def _value(run: _Run, name: str, cell: object) -> float | None:
    value = words.number(cell)
    if value is None and cell not in {None, "N/A", "n/a", ""} and isinstance(cell, (str, float)):
        run.problems.append(f"{name}: {str(cell)[:40]!r} is no bandwidth")
    if value is not None and value <= 0:
        run.problems.append(f"{name}: {value} is no bandwidth")
        return None
    return value


def _device(run: _Run, text: str, position: int) -> None:
    match = _DEVICE.fullmatch(text.strip())
    if match:
        host = match[4] or None
        run.devices[position] = (match[1], host)


class NvbandwidthTextScanner:
    """Reads nvbandwidth's text output.

    Args:
        file: name of the output.
    """

    # the rows of a matrix hold nothing but numbers in columns
    wants: tuple[re.Pattern[str], ...] = (
        re.compile(
            r"nvbandwidth|unning |Version: |Device |bandwidth|\(row\)|  |SUM |Waived|Error|"
            r"Invalid value",
            re.I,
        ),
    )

    def __init__(self, file: str) -> None:
        self._run = _Run(file, output_kind("dcgm-text"))
        self._case: _Case | None = None
        self._columns: list[int] | None = None

    def feed(self, line: Line) -> None:
        """Take one line."""
        text = line.text.strip()
        if self._run.claimed == 0 and not text.startswith(("nvbandwidth Version", "Running ")):
            return
        if not text:
            return
        if self._take(line, text):
            self._run.claimed += 1
            self._run.last_line = line.number

    def _take(self, line: Line, text: str) -> bool:
        run = self._run
        running = re.fullmatch(r"[Rr]unning ([a-z0-9_]+_(?:ce|sm|tma|copy|latency\w*))\.?", text)
        if running:
            self._end()
            self._case = _Case(name=running[1], line=line.number)
            run.cases.append(self._case)
            return True
        heading = re.match(r"(nvbandwidth|Driver|CUDA Runtime) Version: (\S+)", text)
        if heading:
            run.versions["cuda" if "CUDA" in heading[1] else heading[1].lower()] = heading[2]
            return True
        device = re.fullmatch(r"Device (\d+:.*)", text)
        if device:
            _device(run, device[1], len(run.devices))
            return True
        if re.match(r"(ERROR|Error|\[?CUDA_ERROR|Invalid value)", text):
            if self._case:
                self._case.status, self._case.word, self._case.why = "fail", "ERROR", text
            run.errors.append((text, line.number))
            return True
        return self._case is not None and self._of_case(self._case, text)

    def _of_case(self, case: _Case, text: str) -> bool:
        total = re.fullmatch(rf"SUM {re.escape(case.name)} (\S+)", text)
        if total:
            case.total = words.number(total[1])
            case.status, case.word = (
                ("pass", "SUM")
                if case.status == "unknown"
                else (
                    case.status,
                    case.word,
                )
            )
            return True
        if text.startswith("Waived"):
            case.status, case.word = "skip", "Waived"
            return True
        if "bandwidth" in text or "(row)" in text:
            case.description = text
            self._columns = None
            return True
        cells = text.split()
        if not all(re.fullmatch(r"\d+(\.\d+)?|N/A", cell) for cell in cells):
            return False
        if self._columns is None:
            self._columns = [int(cell) for cell in cells if cell.isdecimal()]
            case.columns = self._columns
        elif cells[0].isdecimal():
            case.matrix.append([_value(self._run, case.name, cell) for cell in cells[1:]])
        return True

    def _end(self) -> None:
        case, self._case, self._columns = self._case, None, None
        if case and case.status == "unknown" and not self._run.cut_off:
            self._run.cut_off = f"{case.name} has no sum: the output is cut off"

    def finish(self, context: ParseContext) -> Part:
        """Return what was found."""
        self._end()
        return _to_part(self._run, context)


def _to_part(run: _Run, context: ParseContext) -> Part:
    hosts = {host for _, host in run.devices.values() if host}
    findings = Findings(run.file, context.node or (hosts.copy().pop() if len(hosts) == 1 else None))
    if run.claimed == 0:
        return Part(mode=run.mode, tool="nvbandwidth")
    for problem in run.problems:
        findings.add("SCHEMA_UNKNOWN", problem, text=problem)
    for text, line in run.errors:
        findings.add("NVBANDWIDTH_ERROR", text, text=text, line=line)
    rows = [row for case in run.cases for row in _rows(run, case)]
    for case in run.cases:
        _weigh(case, findings)
    if run.cut_off:
        findings.add("LOG_TRUNCATED", run.cut_off, text=run.cut_off, line=run.last_line)
    if not any(case.values for case in run.cases):
        findings.add("NO_RESULT_ROWS", "no test case measured anything")
    _gpus(run, findings, context)
    facts = {"hosts": ", ".join(sorted(hosts))} if hosts else {}
    return Part(
        mode=run.mode,
        claimed=run.claimed,
        tool="nvbandwidth",
        operation="nvbandwidth",
        completeness=_completeness(run),
        figures=_figures(run),
        rows=list(rows),
        findings=findings.finish(),
        versions=run.versions,
        facts=facts,
    )


def _weigh(case: _Case, findings: Findings) -> None:
    said = f"{case.name}: {case.word or case.status}"
    if case.status == "fail":
        why = f": {case.why}" if case.why else ""
        findings.add(
            "NVBANDWIDTH_ERROR",
            f"{case.name} could not be run{why}",
            text=said,
            line=case.line,
        )
    elif case.status == "skip":
        findings.add("DCGM_TEST_SKIPPED", f"{case.name} was waived", text=said, line=case.line)
    elif case.status == "pass" and not case.values:
        findings.add(
            "DCGM_INCONSISTENT",
            f"{case.name} passed, but has no values",
            text=said,
            line=case.line,
        )


def _gpus(run: _Run, findings: Findings, context: ParseContext) -> None:
    """Compare the devices of every host with the profile; CUDA numbers them without gaps."""
    if not context.hardware.gpus_per_node or not run.devices or run.cut_off:
        return
    hosts: dict[str | None, int] = {}
    for index, host in run.devices.values():
        # An excerpt of the list still shows by its last index how many there are.
        hosts[host] = max(hosts.get(host, 0) + 1, int(index) + 1 if len(index) < 4 else 0)
    for host, number in hosts.items():
        if number < context.hardware.gpus_per_node:
            node = host if len(hosts) > 1 else context.node or host
            findings.add(
                "DCGM_GPU_MISSING",
                f"nvbandwidth saw {number} of {context.hardware.gpus_per_node} GPUs",
                entities=(Entity(node=node),) if node else (),
            )


def _completeness(run: _Run) -> Completeness:
    if run.cut_off:
        return Completeness.CUT_OFF
    if run.problems:
        return Completeness.UNKNOWN_SCHEMA
    if any(case.values for case in run.cases):
        return Completeness.COMPLETE
    return Completeness.ABORTED if run.errors or run.cases else Completeness.EMPTY


def _rows(run: _Run, case: _Case) -> Iterator[DiagnosticRow]:
    measured = list(case.by_gpu())
    for position, value in measured:
        index, host = run.devices.get(position, (str(position), None))
        yield DiagnosticRow(
            test=words.snake(case.name),
            category="nvbandwidth",
            status=case.status,
            entity_group="GPU",
            gpu=words.gpu_index(index),
            value=value,
            unit=case.unit,
            text=host,
            line=case.line,
        )
    if not measured:
        yield DiagnosticRow(
            test=words.snake(case.name),
            category="nvbandwidth",
            status=case.status,
            text=case.word or None,
            line=case.line,
        )


def _figures(run: _Run) -> dict[str, Figure]:
    figures = count_tests({case.status} for case in run.cases)
    if run.devices:
        figures |= count("gpusSeen", len(run.devices), "GPUs in the device list")
    figures |= count("gpusFailed", 0, "nvbandwidth compares with no limit")
    for name, pattern in FIGURES.items():
        # Copy engines (ce) are what NCCL and training use; kernels (sm) only where nothing else is.
        for engine in ("ce", "sm"):
            values = [
                value
                for case in run.cases
                if (match := pattern.fullmatch(case.name)) and match[1] == engine
                for value in case.values
            ]
            if values:
                figures[name] = Figure(value=min(values), unit="GB/s", printed=True)
                break
    return figures
