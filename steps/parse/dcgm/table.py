"""Reads the text table of ``dcgmi diag``.

|-----  Deployment  --------+------------------------------------------------|
| software                  | Pass                                           |   4.x: test, then
|                           | GPU0: Pass                                     |   each entity
| GPU Memory                | Pass - GPU: 1                                  |   3.x: one row per
|                           | Fail - GPU: 0                                  |   status
| Warning                   | GPU 0 Error using CUDA API cuCtxCreate Check   |   text of the test
|                           | DCGM and system logs for errors.               |   above, cut every
                                                                                 45 characters
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from steps.parse.api import Line
from steps.parse.dcgm import words
from steps.parse.dcgm.cells import Cells, section_of, split_row
from steps.parse.dcgm.multi_node_table import MultiNodeRows
from steps.parse.dcgm.results import Complaint, DiagnosticRun, Status, TestResult

_BORDER = re.compile(r"\+[-=]+\+[-=]+\+?")
_STATUS = re.compile(
    r"(?P<word>[A-Za-z][A-Za-z ]*?)(?: - (?P<scope>All|GPUs?:\s*(?P<gpus>[\d, .]+)))?"
)
_ENTITY = re.compile(r"(?P<group>[A-Za-z_]+)(?P<id>\d{1,5}):\s*(?P<word>[A-Za-z ]*)")
_NOTE = re.compile(r"(?P<kind>Warning|Info|Error)(?::\s*(?P<group>[A-Za-z_]+)(?P<id>\d+))?")
_METADATA = {
    "dcgm version": "dcgm",
    "driver version detected": "driver",
    "driver version": "driver",
}


@dataclass(slots=True)
class _Test:
    name: str
    category: str | None
    results: list[TestResult] = field(default_factory=list)
    complaints: list[tuple[str | None, int | None, Complaint]] = field(default_factory=list)
    infos: list[tuple[int | None, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Note:
    """A text that is still being put together."""

    kind: str
    group: str | None
    entity: int | None
    line: int
    chunks: list[str]


class DiagTable:
    """Builds results from the rows of one table.

    Attributes:
        open: a table has begun and its closing border has not come.
        tables: tables that began.
    """

    def __init__(self, run: DiagnosticRun, host: str | None) -> None:
        self.open = False
        self.tables = 0
        self.headless = False
        self._run = run
        self._host = host
        self._section: str | None = None
        self._test: _Test | None = None
        self._note: _Note | None = None
        self._rows = 0
        self._multi_node = MultiNodeRows(run)

    def feed(self, line: Line) -> bool:
        """Take a line; return whether it belongs to a table."""
        text = line.text.strip()
        name = section_of(text)
        if name is not None:
            self._enter(name)
            return True
        if _BORDER.fullmatch(text):
            if self.open and self._rows and "=" not in text:
                self.close()
            return self.open
        cells = split_row(line)
        if cells and "iagnostic" in cells.name and cells.value == "Result":
            self.close()
            self.open = True
            self.tables += 1
            self._rows = 0
            return True
        if cells is None or not self.open:
            return self.open and text.startswith("|")
        self._rows += 1
        self._row(cells)
        return True

    def close(self) -> None:
        """End the table: the border came, or a new table begins."""
        self.finish()
        self.open = False
        self._section = None

    def finish(self) -> None:
        """End the table at the end of the output, leaving ``open`` as it is."""
        self._end_test()
        self._multi_node.finish()

    def _enter(self, section: str) -> None:
        self._end_test()
        self._multi_node.finish()
        if not self.open:
            self.open = True
            self.headless = self.tables == 0
            self.tables += 1
        self._section = section

    def _row(self, cells: Cells) -> None:
        if self._section == "Metadata" or self._section is None:
            if not self._multi_node.metadata(cells):
                self._metadata(cells)
            return
        if self._section == "Host Details":
            self._multi_node.details(cells)
            return
        if self._section == "Error Summary":
            self._multi_node.errors(cells)
            return
        if not cells.name:
            self._continued(cells)
            return
        note = _NOTE.fullmatch(cells.name)
        if note:
            self._begin_note(note, cells)
            return
        self._end_test()
        self._test = _Test(words.snake(cells.name), self._section)
        self._status(cells)

    def _metadata(self, cells: Cells) -> None:
        version = _METADATA.get(cells.name.lower())
        if version:
            self._run.versions[version] = cells.value
        elif cells.name:
            self._run.facts[re.sub(r"\W+", " ", cells.name).strip()] = cells.value

    def _continued(self, cells: Cells) -> None:
        entity = _ENTITY.fullmatch(cells.value)
        if self._test and entity and words.read_status(entity["word"]) != "unknown":
            self._end_note()
            self._entity(entity, cells)
            return
        status = _STATUS.fullmatch(cells.value)
        of_status = status and (self._note is None or status["scope"])
        if self._test and of_status and status and words.read_status(status["word"]) != "unknown":
            self._end_note()
            self._status(cells)
        elif self._note:
            self._note.chunks.append(cells.chunk)
        elif self._test and not cells.value.startswith("Code:"):
            self._status(cells)

    def _status(self, cells: Cells) -> None:
        """Read ``Pass``, ``Fail - All`` or ``Fail - GPUs: 0, 2``."""
        assert self._test is not None  # noqa: S101 - both callers have a test
        match = _STATUS.fullmatch(cells.value)
        status: Status = words.read_status(match["word"]) if match and cells.value else "unknown"
        listed = match["gpus"] if match else None
        if listed and ".." in listed:
            # The list was too long for its column; its last number may be cut as well.
            listed = listed.rpartition(",")[0]
            self._run.infos_cut = f"{self._test.name}: the list of GPUs is cut off"
        self._add(status, cells, words.gpu_list(listed) if listed else ())

    def _entity(self, match: re.Match[str], cells: Cells) -> None:
        assert self._test is not None  # noqa: S101 - the caller has a test
        index = words.gpu_index(match["id"])
        status = words.read_status(match["word"])
        overall = self._test.results[0].status if self._test.results else None
        if status == "fail" and overall == "warn":
            # Entities of 4.x print Fail for a warning; the row of the test tells them apart.
            status = "warn"
        gpus = (index,) if match["group"].upper() == "GPU" and index is not None else ()
        device = None if gpus else f"{match['group']} {match['id']}"
        self._add(status, cells, gpus, device=device, group=match["group"])

    def _add(
        self,
        status: Status,
        cells: Cells,
        gpus: tuple[int, ...],
        device: str | None = None,
        group: str | None = None,
    ) -> None:
        assert self._test is not None  # noqa: S101 - all callers have a test
        self._test.results.append(
            TestResult(
                test=self._test.name,
                category=self._test.category,
                status=status,
                word=cells.value,
                gpus=gpus,
                device=device,
                group=group,
                host=self._host,
                line=cells.line,
            )
        )

    def _begin_note(self, match: re.Match[str], cells: Cells) -> None:
        self._end_note()
        kind = match["kind"]
        lonely = self._test is None or (
            kind == "Error" and all(result.status == "pass" for result in self._test.results)
        )
        if lonely and kind != "Info":
            # Older versions print an error of the whole section without a test row.
            self._end_test()
            self._test = _Test(words.snake(self._section or "diag"), self._section)
            status: Status = "fail" if kind == "Error" else "warn"
            self._add(status, Cells("", kind, "", cells.line), ())
        entity = int(match["id"]) if match["id"] else None
        self._note = _Note(kind, match["group"], entity, cells.line, [cells.chunk])

    def _end_note(self) -> None:
        note, self._note = self._note, None
        if note is None or self._test is None:
            return
        text = "".join(note.chunks).strip()
        if note.kind == "Info":
            gpu = note.entity if note.group == "GPU" else None
            self._test.infos.append((gpu, text))
        elif text:
            complaint = Complaint(text=text, line=note.line)
            self._test.complaints.append((note.group, note.entity, complaint))

    def _end_test(self) -> None:
        self._end_note()
        test, self._test = self._test, None
        if test is None:
            return
        own = [r for r in test.results if r.gpus or r.device]
        if own and len(own) < len(test.results):
            for result in test.results:
                result.summary = result not in own
        for group, entity, complaint in test.complaints:
            for result in _owners(test.results, own, group, entity, complaint):
                result.complaints.append(complaint)
        for gpu, info in test.infos:
            named = words.gpus_named(info) if gpu is None else (gpu,)
            about = [r for r in own if set(r.gpus) & set(named)] or test.results[:1]
            for result in about:
                result.infos.append(info)
        self._run.results += test.results


def _owners(
    results: list[TestResult],
    own: list[TestResult],
    group: str | None,
    entity: int | None,
    complaint: Complaint,
) -> list[TestResult]:
    """Find the results that a text of a test belongs to."""
    if group and entity is not None:
        exact = [r for r in own if r.device == f"{group} {entity}" or r.gpus == (entity,)]
        if exact:
            return exact
    if not own:
        return results[:1]
    named = set(words.gpus_named(complaint.text))
    about = [r for r in own if named & set(r.gpus)]
    if about:
        return about
    summary = [r for r in results if r.summary]
    if summary:
        return summary
    # A text without a GPU explains whatever is not a Pass.
    for status in ("fail", "warn", "skip"):
        bad = [r for r in own if r.status == status]
        if bad:
            return bad
    return own
