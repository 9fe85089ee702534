"""Reads the text table of ``dcgmi mndiag`` (4.4 and newer).

| Host List                 | 0: node-a                                      |
|-----  Host Details  ------+------------------------------------------------|
| Host 0                    | Fail                                           |
|   GPU 1                   | Fail                                           |
|                           | Error: what GPU 1 said                         |
|-----  Error Summary  -----+------------------------------------------------|
| Host 0 (GPU 1)            | Error: the same again                          |
| MPI Error                 | Error: why no GPU was tested                   |
"""

from __future__ import annotations

import re

from steps.parse.dcgm import words
from steps.parse.dcgm.cells import Cells
from steps.parse.dcgm.results import Complaint, DiagnosticRun, TestResult

_HOST = re.compile(r"Host (\d+)")
_HOST_GPU = re.compile(r"Host (\d+) \(GPU (\d+)\)")
_LISTED = re.compile(r"(\d+): (\S+)")
_GPUS = re.compile(r"\s*GPUs?:? ([\d, ]+)")


class MultiNodeRows:
    """Builds results from the rows of sections that only the multi-node table has."""

    def __init__(self, run: DiagnosticRun) -> None:
        self._run = run
        self._hosts: dict[int, str] = {}
        self._test = "mndiag"
        self._overall: TestResult | None = None
        self._host = 0
        self._last: TestResult | None = None
        self._listing = False
        self._chunks: list[str] = []
        self._about: tuple[int, int] | None = None
        self._line = 0

    def metadata(self, cells: Cells) -> bool:
        """Take a row of the Metadata section; return whether it is one of this table."""
        if cells.name.endswith(" Test") and words.read_status(cells.value) != "unknown":
            self._run.multi_node = True
            self._test = words.snake(cells.name.removesuffix(" Test"))
            self._overall = TestResult(
                test=self._test,
                category="Multi-Node Tests",
                status=words.read_status(cells.value),
                word=cells.value,
                summary=True,
                line=cells.line,
            )
            self._run.results.append(self._overall)
            return True
        listed = _LISTED.fullmatch(cells.value)
        if listed and (cells.name == "Host List" or (not cells.name and self._listing)):
            self._listing = True
            self._hosts[int(listed[1])] = listed[2]
            self._run.facts["hosts"] = ", ".join(self._hosts.values())
            return True
        self._listing = False
        return False

    def details(self, cells: Cells) -> None:
        """Take a row of the Host Details section."""
        host = _HOST.fullmatch(cells.name)
        gpus = _GPUS.fullmatch(cells.name)
        if host:
            self._host = int(host[1])
            self._last = None
        elif gpus:
            self._last = TestResult(
                test=self._test,
                category="Multi-Node Tests",
                status=words.read_status(cells.value),
                word=cells.value,
                gpus=words.gpu_list(gpus[1]),
                group="GPU",
                host=self._name(self._host),
                line=cells.line,
            )
            self._run.results.append(self._last)
        elif not cells.name and self._last:
            self._append(self._last, cells)

    def errors(self, cells: Cells) -> None:
        """Take a row of the Error Summary section."""
        if not cells.name:
            self._chunks.append(cells.chunk)
            return
        self.finish()
        match = _HOST_GPU.fullmatch(cells.name)
        if match or cells.name == "MPI Error":
            self._about = (int(match[1]), int(match[2])) if match else None
            self._chunks = [cells.chunk]
            self._line = cells.line

    def finish(self) -> None:
        """End the text that is being put together."""
        text = "".join(self._chunks).strip().removeprefix("Error: ")
        about, self._about, self._chunks = self._about, None, []
        if not text:
            return
        complaint = Complaint(text=text, line=self._line)
        if about is None:
            complaint.text = f"MPI error: {text}"
            self._run.runtime_errors.append(complaint)
            if self._overall in self._run.results:
                # The launch failed, so the Fail of the test speaks of no GPU.
                self._run.results.remove(self._overall)
            return
        host, gpu = about
        name = self._name(host)
        known = [r for r in self._run.results if r.host == name and gpu in r.gpus]
        if not known:
            result = TestResult(
                test=self._test,
                status="fail",
                word="Error",
                gpus=(gpu,),
                group="GPU",
                host=name,
                complaints=[complaint],
                line=self._line,
            )
            self._run.results.append(result)
        elif not any(result.complaints for result in known):
            known[0].complaints.append(complaint)

    def _append(self, result: TestResult, cells: Cells) -> None:
        """Put the wrapped errors of a GPU back together."""
        if cells.value.startswith("Error: ") or not result.complaints:
            text = cells.chunk.removeprefix("Error: ")
            result.complaints.append(Complaint(text=text, line=cells.line))
        else:
            result.complaints[-1].text += cells.chunk

    def _name(self, host: int) -> str:
        return self._hosts.get(host, f"host {host}")
