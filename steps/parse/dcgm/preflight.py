"""Reads the JSON lines of NVSentinel's preflight check, which runs DCGM before a workload.

The log names tests that fail or warn and ends with counts; tests that pass are only counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.facts import dcgm
from catalog.facts.tools import output_kind
from steps.documents import Figure
from steps.parse.api import ParseContext, Part
from steps.parse.dcgm import words
from steps.parse.dcgm.measured import count, to_part
from steps.parse.dcgm.results import Complaint, DiagnosticRun, TestResult

_TEST = re.compile(r"test (fail|warn|skip|pass)\w*", re.IGNORECASE)
_RUNNING = re.compile(r"Running DCGM diagnostic level=(\d+)(?: gpus=\[([\d, ]*)\])?")
_KNOWN = re.compile(r"Test (fail|warn|skip|pass|result)|Diagnostic summary|Running DCGM diagnostic")
_COUNTS = {
    "passed": "testsPassed",
    "failed": "testsFailed",
    "warned": "testsWarned",
    "skipped": "testsSkipped",
}


def read_preflight(events: Sequence[object], name: str, context: ParseContext) -> Part | None:
    """Read the events of one preflight check; None when they are of something else.

    Args:
        events: the JSON objects, one per line.
        name: of the output.
        context: what is known about the run.
    """
    known = [event for event in events if isinstance(event, dict) and _is_preflight(event)]
    if not known:
        return None
    reader = _Reader(name)
    for number, event in enumerate(events, 1):
        if isinstance(event, dict):
            reader.read(event, number)
    return reader.finish(context)


def _is_preflight(event: Mapping[str, Any]) -> bool:
    said = event.get("event")
    module = event.get("module")
    check = event.get("check_name")
    named = (isinstance(module, str) and "dcgm-diag" in module) or (
        isinstance(check, str) and check.lower().startswith("dcgm")
    )
    return isinstance(said, str) and (named or _KNOWN.match(said) is not None)


class _Reader:
    def __init__(self, name: str) -> None:
        self.run = DiagnosticRun(
            mode=output_kind("dcgm-json"), tool="preflight-dcgm-diag", file=name, lists_all=False
        )
        self._indices: dict[str, int] = {}
        self._uuids: list[tuple[TestResult, str]] = []
        self._said: set[str] = set()
        self._counts: dict[str, int] | None = None

    def read(self, event: dict[str, Any], line: int) -> None:
        """Take one event."""
        said = event.get("event")
        if not isinstance(said, str):
            return
        self.run.claimed += 1
        running = _RUNNING.match(said)
        test = _TEST.fullmatch(said.strip())
        if running:
            self.run.level = int(running[1])
            gpus = words.gpu_list(running[2] or "")
            self.run.entities.update((None, gpu) for gpu in gpus)
        elif test:
            self._test(event, test[1], line)
        elif said == "Test result":
            self._test(event, event.get("status"), line)
        elif said == "Diagnostic summary":
            counts = {key: event.get(key) for key in _COUNTS}
            self._counts = {
                key: value
                for key, value in counts.items()
                if isinstance(value, int) and not isinstance(value, bool) and value >= 0
            }
        elif said == "Sending health event":
            self._health_event(event, line)
        elif event.get("level") in {"error", "critical", "fatal"}:
            self._error(event, said, line)

    def _test(self, event: dict[str, Any], status: object, line: int) -> None:
        name = event.get("test")
        detail = event.get("detail") or event.get("error") or ""
        self._add(
            test=words.snake(name) if isinstance(name, str) else "unnamed",
            status=status,
            text=str(detail),
            code=event.get("error_code"),
            gpu=event.get("gpu"),
            line=line,
        )

    def _health_event(self, event: dict[str, Any], line: int) -> None:
        """Read what is reported to the cluster; mostly a test that was named before."""
        text = str(event.get("event_message") or "")
        if event.get("is_healthy") is not False or text in self._said:
            return
        code = str(event.get("error_code") or "")
        if code.startswith("DCGM_ST_"):
            self._gave_up(f"{code}: {text}", line)
            return
        check = str(event.get("check_name") or "diagnostic")
        self._add(
            test=words.snake(re.sub(r"(?i)^dcgm_?diagnostic", "", check) or "diagnostic"),
            status="fail" if event.get("is_fatal") else "warn",
            text=text,
            code=code,
            gpu=event.get("gpu"),
            line=line,
        )

    def _error(self, event: dict[str, Any], said: str, line: int) -> None:
        message = event.get("message")
        if isinstance(message, str) and any(text and text in message for text in self._said):
            return
        why = event.get("error") or message or event.get("detail")
        self._gave_up(f"{said}: {why}" if why else said, line)

    def _gave_up(self, text: str, line: int) -> None:
        if all(error.text != text for error in self.run.runtime_errors):
            self.run.runtime_errors.append(Complaint(text=text, line=line))

    def _add(
        self, *, test: str, status: object, text: str, code: object, gpu: object, line: int
    ) -> None:
        self._said.add(text)
        named = words.gpus_named(text)
        index = words.gpu_index(gpu)
        if index is None and len(named) == 1:
            index = named[0]
        complaints = []
        if text or _error_id(code):
            complaints = [Complaint(text=text or str(code), error_id=_error_id(code), line=line)]
        result = TestResult(
            test=test,
            category="Preflight",
            status=words.read_status(status),
            word=str(status),
            gpus=() if index is None else (index,),
            group="GPU",
            complaints=complaints,
            line=line,
        )
        if isinstance(gpu, str) and gpu.startswith("GPU-"):
            if index is not None:
                self._indices[gpu] = index
            self._uuids.append((result, gpu))
        self.run.results.append(result)

    def finish(self, context: ParseContext) -> Part:
        """Join UUIDs with indices, compare the counts with the events."""
        for result, uuid in self._uuids:
            if not result.gpus:
                index = self._indices.get(uuid)
                result.gpus = () if index is None else (index,)
                result.device = uuid if index is None else None
        if self._counts is None:
            if not self.run.runtime_errors:
                self.run.truncated = Complaint(text="the log has no Diagnostic summary")
            return to_part(self.run, context)
        failed = sum(result.status == "fail" for result in self.run.results)
        missing = self._counts.get("failed", 0) - failed
        if missing > 0:
            self.run.truncated = Complaint(
                text=f"the summary counts {self._counts['failed']} failed tests, "
                f"the log names {failed}"
            )
        self._summary_row()
        part = to_part(self.run, context)
        part.figures |= self._figures(part.figures, failed)
        return part

    def _summary_row(self) -> None:
        """Stand in for the tests that are only counted."""
        counts = self._counts or {}
        said = ", ".join(f"{value} {key}" for key, value in counts.items())
        self.run.facts["counts"] = said
        passed, skipped = counts.get("passed", 0), counts.get("skipped", 0)
        if passed or (skipped and not self.run.results):
            self.run.results.append(
                TestResult(
                    test="counted_tests",
                    category="Preflight",
                    status="pass" if passed else "skip",
                    word=said,
                    infos=[said],
                )
            )

    def _figures(self, weighed: dict[str, Figure], failed: int) -> dict[str, Figure]:
        figures: dict[str, Figure] = {}
        for key, value in (self._counts or {}).items():
            figures |= count(_COUNTS[key], value, "results, as the tool counts them")
        # A Fail that is excused counts as a warning here too.
        rows_failed = weighed.get("testsFailed")
        if failed and rows_failed and rows_failed.value == 0:
            counts = self._counts or {}
            rest = max(0, counts.get("failed", 0) - failed)
            warned = counts.get("warned", 0) + failed
            figures |= count("testsFailed", rest, "results that fail, without those excused")
            figures |= count("testsWarned", warned, "results that warn, with those excused")
        return figures


def _error_id(code: object) -> int | None:
    """Read an error code that is a number or a name such as DCGM_FR_XID_ERROR."""
    if isinstance(code, bool):
        return None
    if isinstance(code, int):
        return code if 0 < code < 10**6 else None
    if isinstance(code, str):
        if code.isdecimal() and len(code) < 7:
            return int(code) or None
        known = dcgm.errors_by_name().get(code.removeprefix("DCGM_FR_"))
        return known.id if known else None
    return None
