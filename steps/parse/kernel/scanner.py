"""Reads kernel lines wherever they stand: dmesg, syslog, journal, or inside another log."""

from __future__ import annotations

import re
from typing import Protocol

from catalog.facts.reasons import Effect
from catalog.facts.tools import output_kind
from steps.documents import Finding
from steps.parse.api import Line, ParseContext, Part
from steps.parse.findings import eased
from steps.parse.kernel import lost, platform, ports, sxid, xid
from steps.parse.kernel.lost import LostGpuReader
from steps.parse.kernel.platform import PlatformReader
from steps.parse.kernel.ports import PortReader
from steps.parse.kernel.prefix import Bare, Origin, bare
from steps.parse.kernel.sxid import SxidReader
from steps.parse.kernel.window import Era, Window
from steps.parse.kernel.xid import XidReader

MAX_LINE = 8192
"""Characters of a line that are read; no format has longer lines."""


class _Reader(Protocol):
    def feed(self, line: Line, bare: Bare) -> bool: ...

    def findings(self, context: ParseContext) -> list[Finding]: ...


class _Readers:
    """All readers of the lines of one time."""

    def __init__(self, file: str) -> None:
        xids = XidReader(file)
        self._xids = xids
        self._readers: tuple[_Reader, ...] = (
            xids,
            SxidReader(file),
            LostGpuReader(file, xids),
            PlatformReader(file),
            PortReader(file),
        )

    def feed(self, line: Line, bare: Bare) -> bool:
        """Take a line; False when nobody knows it."""
        return any(reader.feed(line, bare) for reader in self._readers)

    def findings(self, context: ParseContext) -> list[Finding]:
        """Return what all found."""
        # Lost GPUs first: they lend their lines to the Xid 79 that counts them.
        readers = sorted(self._readers, key=lambda reader: reader is self._xids)
        return [finding for reader in readers for finding in reader.findings(context)]


class KernelScanner:
    """Scanner of kernel and platform lines; see `steps.parse.api.Scanner`.

    Each event becomes one finding per device, however often it is printed. What it does to a
    verdict is data (catalog/facts/xids.yaml) except where the line itself says fatal or not. Lines
    that are surely older or younger than the run are read apart and only noted.

    Args:
        file: name of the output, for the evidence.
    """

    wants: tuple[re.Pattern[str], ...] = (
        *xid.WANTS,
        *sxid.WANTS,
        *lost.WANTS,
        *(row.pattern for row in platform.TABLE),
        *ports.WANTS,
    )

    def __init__(self, file: str) -> None:
        self._file = file
        self._window: Window | None = None
        self._eras: dict[Era | None, _Readers] = {None: _Readers(file)}
        self._last: tuple[int, Era | None, Origin] = (0, None, Origin(None, None))
        self._claimed = 0

    def begin(self, context: ParseContext) -> None:
        """Take the time of the run, where it is known, before the first line."""
        self._window = Window.of(context)

    def feed(self, line: Line) -> None:
        """Take one line."""
        if len(line.text) > MAX_LINE:
            line = line._replace(text=line.text[:MAX_LINE])
        stripped = bare(line)
        number, before, origin = self._last
        # dmesg and journalctl indent the further lines of a message: no time, and no host again.
        goes_on = line.text[:1].isspace() and line.number - number == 1 and not stripped.time
        if goes_on and stripped.origin == Origin(None, origin.rank):
            stripped = stripped._replace(origin=origin)
        era = before if goes_on and self._window else self._era(stripped)
        self._last = (line.number, era, stripped.origin)
        readers = self._eras.get(era) or self._eras.setdefault(era, _Readers(self._file))
        if readers.feed(line, stripped) or "NVRM:" in line.text:
            self._claimed += 1

    def _era(self, stripped: Bare) -> Era | None:
        if self._window is None or not stripped.time:
            return None
        return self._window.era(stripped.time)

    def finish(self, context: ParseContext) -> Part:
        """Return the findings, earliest first; whether the log is whole cannot be told."""
        findings = [
            each if era is None else eased(each, Effect.NOTE, f"{era} the run: {each.message}")
            for era, readers in self._eras.items()
            for each in readers.findings(context)
        ]
        findings.sort(key=lambda finding: finding.evidence[0].line or 0)
        return Part(mode=output_kind("kernel-log"), claimed=self._claimed, findings=findings)
