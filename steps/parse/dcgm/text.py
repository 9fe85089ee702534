"""Scans text for DCGM: the tables of ``dcgmi``, why it gave up, link states, node conditions."""

from __future__ import annotations

import re

from catalog.facts import dcgm
from catalog.facts.tools import output_kind
from steps.parse.api import Line, ParseContext, Part
from steps.parse.dcgm import words
from steps.parse.dcgm.measured import to_part
from steps.parse.dcgm.results import Complaint, DiagnosticRun, TestResult
from steps.parse.dcgm.table import DiagTable

_GAVE_UP = re.compile(
    r".*\b(?:diagnostic could not be run|unable to complete (?:the )?diagnostic"
    r"|diagnostic can only be performed|unable to (?:connect to|start an embedded) host ?engine"
    r"|host engine connection|dcgm diagnostic subprocess was terminated|DCGM_ST_[A-Z_]+"
    r"|MIG configuration is incompatible with the diagnostic|not found among possible test choices"
    r"|diag instance is already running)\b.*|.*Return: \(-\d+\).*",
    re.IGNORECASE,
)
_POD = re.compile(r"Executing in Pod (?P<pod>\S+) on Host (?P<host>\S+)")
_LINK_GPU = re.compile(r"\s*gpuId (\d+):\s*")
_LINK_STATES = re.compile(r"\s+((?:[UDX_] )*[UDX_])\s*")
_CONDITION = re.compile(
    r"\s*(?P<watch>\w+) = (?P<value>True|False|Unknown)\b.*reason=(?P<reason>\w+)"
)
_CONDITION_ERROR = re.compile(
    r"ErrorCode:DCGM_FR_(?P<name>[A-Z0-9_]+)\s+GPU:(?P<gpu>\d+)(?:\s+PCI:(?P<pci>[0-9A-Fa-f:.]+))?"
    r"(?P<rest>.*)"
)
_AROUND = re.compile(
    r"(?P<many>ulti-node diagnostic)|ran diagnostic for group|runs of the diagnostic"
)
"""What stands before and after a table."""
_MOST_ERRORS = 20


class DcgmTextScanner:
    """Reads the text of ``dcgmi diag`` and ``dcgmi mndiag``, also cut off or from many hosts.

    Besides tables it knows ``dcgmi nvlink --link-status`` and NVSentinel's node conditions.

    Args:
        file: name of the output.
    """

    wants: tuple[re.Pattern[str], ...] = (
        re.compile(r"\||\+--|\+=="),
        _GAVE_UP,
        _AROUND,
        _POD,
        _LINK_GPU,
        re.compile("[UDX_] [UDX_]"),
        _CONDITION,
        _CONDITION_ERROR,
        re.compile("GPU_UUID:"),
    )

    def __init__(self, file: str) -> None:
        self._run = DiagnosticRun(mode=output_kind("dcgm-text"), tool="dcgmi diag", file=file)
        self._tables: dict[str | None, DiagTable] = {}
        self._link_gpu: int | None = None
        self._watch = "node_condition"
        self._condition: TestResult | None = None
        self._last_line = 0

    def feed(self, line: Line) -> None:
        """Take one line."""
        in_table = line.text.lstrip()[:1] in {"|", "+"} and self._in_table(line)
        if in_table or self._other(line, line.text):
            self._run.claimed += 1
            self._last_line = line.number

    def finish(self, context: ParseContext) -> Part:
        """Return what was found."""
        run = self._run
        for table in self._tables.values():
            table.finish()
        tables = [table for table in self._tables.values() if table.tables]
        run.runs = max((table.tables for table in tables), default=1)
        if any(table.open for table in tables):
            run.truncated = Complaint(
                text="the table has no closing border: the output is cut off", line=self._last_line
            )
        elif any(table.headless for table in tables):
            run.truncated = Complaint(
                text="the table has no heading: the beginning of the output is missing"
            )
        run.whole_run = bool(tables or run.runtime_errors)
        if run.multi_node:
            run.tool = "dcgmi mndiag"
        code = dcgm.return_code(context.exit_code)
        if run.claimed == 0 and context.tool == "dcgm" and code:
            # An exit code without results is all that some failures leave behind.
            run.claimed, run.whole_run = 1, True
            text = (
                f"no result in the output; exit code {context.exit_code} is DCGM status "
                f"{code.code} (DCGM_ST_{code.name}): {code.says}"
            )
            run.runtime_errors.append(Complaint(text=text))
        return to_part(run, context)

    def _in_table(self, line: Line) -> bool:
        table = self._tables.get(line.host)
        if table is None:
            table = self._tables[line.host] = DiagTable(self._run, line.host)
        return table.feed(line)

    def _other(self, line: Line, text: str) -> bool:
        # Cheap tests first: most lines of a log are none of these.
        if ("gpuId " in text or self._link_gpu is not None) and self._link(line, text):
            return True
        if ("DCGM_FR_" in text or "reason=" in text or self._condition) and self._node_condition(
            line, text
        ):
            return True
        pod = _POD.search(text) if "Executing in Pod" in text else None
        if pod:
            self._run.facts.update(pod=pod["pod"], host=pod["host"])
            return True
        return self._said(line, text)

    def _said(self, line: Line, text: str) -> bool:
        """Read what the tool says before, after or instead of its table."""
        if around := _AROUND.search(text):
            self._run.multi_node = self._run.multi_node or bool(around["many"])
            return True
        if _GAVE_UP.fullmatch(text.strip()):
            if len(self._run.runtime_errors) < _MOST_ERRORS:
                error = Complaint(text=text.strip().removeprefix("Error: "), line=line.number)
                self._run.runtime_errors.append(error)
            return True
        return False

    def _link(self, line: Line, text: str) -> bool:
        gpu = _LINK_GPU.fullmatch(text)
        if gpu:
            self._link_gpu = words.gpu_index(gpu[1])
            return True
        states = _LINK_STATES.fullmatch(text)
        if states and self._link_gpu is not None:
            self._run.links[self._link_gpu] = (states[1].replace(" ", ""), line.number)
            self._link_gpu = None
            return True
        return False

    def _node_condition(self, line: Line, text: str) -> bool:
        """Read NVSentinel's condition: the watch, then one error over one or two lines."""
        watch = _CONDITION.match(text)
        if watch:
            self._watch = words.snake(watch["watch"])
        error = _CONDITION_ERROR.search(text)
        if error:
            known = dcgm.errors_by_name().get(error["name"])
            index = words.gpu_index(error["gpu"])
            said = f"DCGM_FR_{error['name']}: {error['rest'].strip()}"
            self._condition = TestResult(
                test=self._watch,
                category="Condition",
                status="fail",
                word="unhealthy",
                gpus=() if index is None else (index,),
                host=line.host,
                complaints=[
                    Complaint(text=said, error_id=known.id if known else None, line=line.number)
                ],
                line=line.number,
            )
            self._run.results.append(self._condition)
            return True
        if self._condition and text.strip().startswith("GPU_UUID:"):
            self._condition.complaints[-1].text += " " + text.strip()
            self._condition = None
            return True
        return watch is not None
