"""Reads kernel lines wherever they stand: dmesg, syslog, journal, or inside another log."""

from __future__ import annotations

from typing import Protocol

from steps.documents import Finding, ReadMode
from steps.parse.api import Line, ParseContext, Part
from steps.parse.kernel.lost import LostGpuReader
from steps.parse.kernel.platform import PlatformReader
from steps.parse.kernel.ports import PortReader
from steps.parse.kernel.prefix import Bare, bare
from steps.parse.kernel.sxid import SxidReader
from steps.parse.kernel.xid import XidReader

MAX_LINE = 8192
"""Characters of a line that are read; no format has longer lines."""


class _Reader(Protocol):
    def feed(self, line: Line, bare: Bare) -> bool: ...

    def findings(self, context: ParseContext) -> list[Finding]: ...


class KernelScanner:
    """Scanner of kernel and platform lines; see `steps.parse.api.Scanner`.

    Each event becomes one finding per device, however often it is printed. What it does to a
    verdict is data (catalog/xids.yaml) except where the line itself says fatal or not.

    Args:
        file: name of the output, for the evidence.
    """

    needles: tuple[bytes, ...] = (
        b"NVRM",
        b"Xid",
        b"fallen",
        b"rm_init_adapter",
        b"AER:",
        b"PCIe Bus Error",
        b"arrier",
        b"ink down",
        b"ink up",
        b"ink is ",
        b"ink becomes",
        b"ink status",
        b"Link Down",
        b"Link Up",
        b"Link DOWN",
        b"Link ACTIVE",
        b"Port module event",
        b"NVSwitch",
        b"achine check",
        b"achine Check",
        b"Hardware Error",
        b"hardware memory error",
        b"EDAC ",
        b"event severity",
        b"hermal Slowdown",
        b"ower Brake",
        b"ower brake",
    )

    def __init__(self, file: str) -> None:
        self._xids = XidReader(file)
        self._readers: tuple[_Reader, ...] = (
            self._xids,
            SxidReader(file),
            LostGpuReader(file, self._xids),
            PlatformReader(file),
            PortReader(file),
        )
        self._claimed = 0

    def feed(self, line: Line) -> None:
        """Take one line."""
        if len(line.text) > MAX_LINE:
            line = line._replace(text=line.text[:MAX_LINE])
        stripped = bare(line)
        if any(reader.feed(line, stripped) for reader in self._readers) or "NVRM:" in line.text:
            self._claimed += 1

    def finish(self, context: ParseContext) -> Part:
        """Return the findings, earliest first; whether the log is whole cannot be told."""
        # Lost GPUs first: they lend their lines to the Xid 79 that counts them.
        readers = sorted(self._readers, key=lambda reader: reader is self._xids)
        findings = [finding for reader in readers for finding in reader.findings(context)]
        findings.sort(key=lambda finding: finding.evidence[0].line or 0)
        return Part(mode=ReadMode.KERNEL_LOG, claimed=self._claimed, findings=findings)
