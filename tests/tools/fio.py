"""A tool that does not ship: a small one in the manner of fio, which reads from disks.

All that is known of it stands here, as it would in ``tools.yaml``, ``catalog/entries``,
``steps/parse/fio.py`` and ``steps/tools/fio.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from catalog.entries.entry import Entry, builtin_entries
from catalog.facts.tools import TOOLS, output_kind, tool_of
from steps.documents import Completeness, Figure, Measurements, NamedRow
from steps.parse.api import KindReader, Line, ParseContext, Part
from steps.parse.findings import finding
from steps.parse.kinds import KINDS, check_readers
from steps.simulator.clock import Script
from steps.simulator.faults import NoOutput, of_kind
from steps.simulator.machine import SimulatedRun
from steps.tools import TOOL_STEPS
from steps.tools.tool import FindRows, ToolSteps, amount, whole_number

CATEGORY = "storage/fio-read"
_JOB = re.compile(r"fio job (\S+): read bw=([\d.]+) GB/s")
_END = re.compile(r"fio done: (\d+) jobs")

_TOOL = tool_of(
    "fio",
    {
        "outputs": {"fio-text": {}},
        "figures": {
            "slowestReadGBps": {"type": "double", "unit": "GB/s", "says": "slowest job"},
            "jobCount": {"type": "int", "unit": "count", "says": "jobs that were run"},
        },
        "rows": {"read_gbps": {"type": "double", "unit": "GB/s", "says": "read bandwidth"}},
    },
)
_ENTRY = {
    "id": CATEGORY,
    "title": "Reads of local disks",
    "description": "Reads.",
    "tool": "fio",
    "operation": "read",
    "launcher": "per-node",
    "scale": "intra-node",
    "scales": ["intra-node"],
    "image": "registry.example/fio:3",
    "command": ["fio", "--rw=read"],
    "options": {"timeoutPerJob": "15m", "repeatCount": 1, "maxConcurrent": 0, "thresholds": None},
    "bars": [
        {"key": "slowestReadGBps", "expression": "value >= 5.0"},
        {"key": "eachJob", "expression": "row.read_gbps < 100.0", "scope": "row"},
    ],
    "source": "test",
}


class _Scanner:
    wants: tuple[re.Pattern[str], ...] = (re.compile("fio "),)

    def __init__(self, name: str) -> None:
        self._rows: list[NamedRow] = []
        self._jobs: int | None = None

    def feed(self, line: Line) -> None:
        if found := _JOB.match(line.text):
            values = {"read_gbps": float(found[2])}
            self._rows.append(NamedRow(name=found[1], values=values, line=line.number))
        elif found := _END.match(line.text):
            self._jobs = int(found[1])

    def finish(self, context: ParseContext) -> Part:
        part = Part(mode=output_kind("fio-text"), claimed=len(self._rows), tool="fio")
        part.rows += self._rows
        if self._rows:
            slowest = min(float(row.values["read_gbps"]) for row in self._rows)
            part.figures["slowestReadGBps"] = Figure(value=slowest, unit="GB/s")
        if self._jobs is None:
            part.completeness = Completeness.CUT_OFF
            part.findings.append(finding("LOG_TRUNCATED", "there is no end"))
        else:
            part.completeness = Completeness.COMPLETE
            part.figures["jobCount"] = Figure(value=self._jobs, unit="count", printed=True)
        return part


class _Fio(ToolSteps[NamedRow]):
    name = "fio"
    row_type = NamedRow
    versions = {"fio": "3.36"}
    printed = frozenset({"jobCount"})

    def row_name(self, row: NamedRow) -> str:
        return row.name

    def row_parts(self, row: NamedRow) -> Iterable[str | None]:
        return (amount(float(row.values["read_gbps"]), "GB/s"),)

    def rows_lost(self, read: Measurements) -> str | None:
        told, have = whole_number(read.figures.get("jobCount")), len(self.rows(read))
        return None if told == have else f"{have} of {told} jobs are here"

    def find_rows(self, read: Measurements) -> FindRows:
        rows = sorted(self.rows(read), key=lambda row: row.values["read_gbps"])
        return lambda _name, _sizes: rows[:1]

    def play(self, run: SimulatedRun) -> Script:
        script = Script("fio.txt")
        if not of_kind(run.faults, NoOutput):
            for job in range(4):
                speed = 12.0 * run.machines[0].performance
                script.say(f"fio job disk-{job}: read bw={speed:.2f} GB/s", after=30.0)
            script.say("fio done: 4 jobs")
        return script


@contextmanager
def registered() -> Iterator[None]:
    """Have the tool, its kind of output and its category for a while."""
    readers = (KindReader(name="fio-text", scanners=(lambda name, _: _Scanner(name),)),)
    with ExitStack() as stack:
        stack.enter_context(TOOLS.registered(_TOOL))
        check_readers("fio", readers)
        stack.enter_context(KINDS.registered(*readers))
        stack.enter_context(TOOL_STEPS.registered(_Fio()))
        entry = Entry.model_validate(_ENTRY)
        stack.enter_context(mock.patch.dict(builtin_entries(), {CATEGORY: entry}))
        yield
