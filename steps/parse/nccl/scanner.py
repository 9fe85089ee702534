"""Reads the text output of nccl-tests and rccl-tests."""

from __future__ import annotations

import re
from dataclasses import replace

from catalog.facts.reasons import reason
from catalog.facts.tools import output_kind
from steps.documents import Completeness, Figure, Finding, RankPlace
from steps.parse.api import Line, ParseContext, Part
from steps.parse.findings import finding, made_up_for
from steps.parse.nccl import rccl
from steps.parse.nccl.conclude import Concluder, Conclusion
from steps.parse.nccl.failures import Failures
from steps.parse.nccl.header import (
    Average,
    Bounds,
    LeftOut,
    Mark,
    read_mark,
    read_operation,
    read_rank,
    read_versions,
)
from steps.parse.nccl.layout import Ranks
from steps.parse.nccl.runs import Event, HeadingLine, processes, split_runs
from steps.parse.nccl.table import Layout, TableRow, read_heading, read_row
from steps.parse.nccl.transport import Transport, is_logged

MAX_EVENTS = 50_000
MAX_RANKS = 100_000

_LOGGED = re.compile(r"NCCL (INFO|WARN|VERSION|TRACE|ABORT) ")
# Where two processes share a pipe, a log line can stand in the middle of a row, and the rest of the
# row on the next line. A number that was cut may stick to the host name.
_LOGGED_IN_ROW = re.compile(
    r"(\s*\d+\s+\d+\s+[a-z]\w*\b.*?-?[\d.]*)(?:\[[\d -]+[\d:]+\] )?[A-Za-z][\w.-]*:\d+:\d+ \[\d+\]"
)
_HEADER_WORDS = re.compile(
    r"minBytes|Out of bounds|Avg bus bandwidth|Collective test|maxBytes|Testing \d+ cycle"
    r"|^\[?[.\u2026]"
)
_VERSION_WORDS = ("version", "Version")


class NcclScanner:
    """Reads headings, rows, header, closing lines, NCCL's log and failures in one pass."""

    wants: tuple[re.Pattern[str], ...] = ()

    def __init__(self, file: str) -> None:
        self.file = file
        self._transport = Transport(file)
        self._failures = Failures(file)
        self._events: list[Event] = []
        self._texts: dict[int, str] = {}
        self._devices: dict[int, RankPlace] = {}
        self._versions: dict[str, str] = {}
        self._layout: Layout | None = None
        self._banner = ""
        self._fragment = ""
        self._program: str | None = None
        self._csv = rccl.CsvTable()
        self._structure = 0
        self._logged = False

    def feed(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if not line.ended:
            self._cut(line)
            return
        if "NCCL " in text and (logged := _LOGGED.search(text)):
            self._log(line, logged[1])
            return
        stripped = text.lstrip(" #\t")
        if not stripped:
            return
        if self._fragment:
            row = read_row(self._fragment + text, self._layout, line.number)
            self._fragment = ""
            if row:
                self._row(row, line)
                return
        if stripped[0].isdigit():
            row = read_row(stripped, self._layout, line.number)
            if row:
                self._row(row, line)
                return
            if self._csv.row(line):
                self._structure += 1
                return
        self._words(line, stripped)

    def _cut(self, line: Line) -> None:
        """Take the last line where no newline ends it: its last word may be half a number."""
        self._fragment = ""
        mark = read_mark(line.text, whole=False)
        if isinstance(mark, Bounds | Average):
            self._structure += 1
            self._event(mark, line)
        elif "NCCL WARN " in line.text:
            self._logged = self._logged or is_logged(line.text)
            self._failures.warning(line)
        elif not self._csv.row(line):
            self._structure += self._failures.feed(line)

    def _log(self, line: Line, kind: str) -> None:
        self._logged = self._logged or is_logged(line.text)
        if line.text[:1].isspace() and (found := _LOGGED_IN_ROW.match(line.text)):
            self._fragment = found[1]
            line = line._replace(text=line.text[found.end(1) :])
        if kind == "WARN":
            self._failures.warning(line)
        else:
            self._transport.feed(line)

    def _row(self, row: TableRow, line: Line) -> None:
        self._structure += 1
        self._event(row, line)

    def _words(self, line: Line, text: str) -> None:
        """Take a line that is neither a row nor logged by NCCL."""
        if "busbw" in text or "algbw" in text:
            if layout := read_heading(text, self._banner):
                self._layout = layout
                self._structure += 1
                self._event(HeadingLine(), line)
                return
            if self._csv.heading(text):
                self._structure += 1
                return
        if "-place" in text:
            self._banner = text  # a heading must follow; the word alone claims nothing
        elif text.startswith("Rank "):
            place = read_rank(text)
            if place and len(self._devices) < MAX_RANKS:
                self._devices.setdefault(place.rank, place)
                self._structure += 1
        elif _HEADER_WORDS.search(text) and (mark := read_mark(text, whole=line.ended)) is not None:
            self._structure += not isinstance(mark, LeftOut)
            self._event(mark, line)
        elif any(word in text for word in _VERSION_WORDS) and (found := read_versions(text)):
            self._versions |= {name: found[name] for name in found.keys() - self._versions.keys()}
            self._transport.library(text, line)
            self._structure += "nccl-tests" in found or "rccl-tests" in found
        elif self._failures.feed(line):
            self._structure += 1
        elif "_perf" in text and self._program is None:
            self._program = read_operation(text)

    def _event(self, what: TableRow | Mark | HeadingLine, line: Line) -> None:
        if len(self._events) >= MAX_EVENTS:
            return
        writer = line.host if line.rank is None else str(line.rank)
        self._events.append(Event(writer, line.number, what))
        self._texts[line.number] = line.text[:500]

    def finish(self, context: ParseContext) -> Part:
        """Return what was found."""
        ranks = Ranks(
            devices=list(self._devices.values()),
            logged=[
                RankPlace(rank=rank, node=host, gpu=gpu)
                for rank, (host, gpu) in self._transport.rank_hosts.items()
            ],
            count=self._transport.rank_count,
        )
        places = self._rank_places(ranks, context)
        nodes = [place.node for place in places if place.node]
        runs = split_runs(self._events)
        for run in runs:
            run.operation = run.operation or self._program
        if not any(run.rows for run in runs) and self._csv.records:
            runs = [rccl.run_of(self._csv.records)]
            runs[0].bounds = None if self._csv.cut else runs[0].bounds
            ranks = replace(ranks, count=rccl.rank_count(self._csv.records))
        part = Part(
            mode=output_kind("nccl-table"),
            # a log of NCCL alone is only worth something when nothing else is known about it
            claimed=self._structure or int(self._logged or self._failures.seen),
            ranks=places,
            versions=self._transport.versions | self._versions,
            facts=self._transport.summary(),
        )
        concluded = Conclusion(Completeness.EMPTY)
        if part.claimed:
            concluded = Concluder(self.file, context, self._texts).conclude(
                runs, aborted=self._failures.aborted, ranks=ranks
            )
            part.operation = concluded.operation
            part.tool = f"{concluded.operation}_perf" if concluded.operation else "nccl-tests"
            part.completeness = concluded.completeness
            part.figures = concluded.figures
            hosts = self._transport.fabric_hosts(context)
            if part.figures and hosts is not None:
                part.figures["fabricHostCount"] = Figure(value=hosts, unit="count")
            part.rows = concluded.rows
            part.facts |= concluded.facts
            part.findings = concluded.findings
            if (count := processes(self._events)) > 1:
                part.findings.append(_apart(count))
        failures = self._failures.findings(context, self._transport.addresses)
        if part.completeness is Completeness.COMPLETE:
            part.start = concluded.start
            failures = [
                made_up_for(item, concluded.start) if reason(item.code).made_up else item
                for item in failures
            ]
        if part.completeness is not Completeness.COMPLETE and not failures:
            part.findings = [self._failures.explained(item) for item in part.findings]
        part.findings += failures
        part.findings += self._transport.findings(context, nodes)
        if len(self._events) >= MAX_EVENTS:
            part.completeness = Completeness.CUT_OFF
            part.findings.append(
                finding("LOG_TRUNCATED", f"more than {MAX_EVENTS} rows; rest not read")
            )
        return part

    def _rank_places(self, ranks: Ranks, context: ParseContext) -> list[RankPlace]:
        places = {place.rank: place for place in (*ranks.logged, *ranks.devices)}
        for rank, node in context.rank_nodes.items():
            if rank in places and places[rank].node is None:
                places[rank] = places[rank].model_copy(update={"node": node})
        return [places[rank] for rank in sorted(places)]


def _apart(count: int) -> Finding:
    return finding(
        "INFRA_BAD_ARGS",
        f"{count} processes each ran a test of their own, with no traffic between them; "
        "build the test program with MPI and start it with mpirun",
    )
