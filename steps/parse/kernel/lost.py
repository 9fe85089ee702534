"""GPUs that left the PCIe bus or that the driver cannot initialise, with or without an Xid."""

from __future__ import annotations

import re
from dataclasses import dataclass

from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.kernel.pci import ADDRESS, device_key
from steps.parse.kernel.prefix import Bare, Origin
from steps.parse.kernel.xid import XidReader
from steps.parse.sightings import MAX_EVIDENCE, Seen, Tally, node_of

_LOST = re.compile(r"fallen\s+off\s+the\s+bus", re.I)
_ADDRESS = re.compile(rf"(?:PCI:)?\b(?P<pci>{ADDRESS})")
_OPENING = re.compile(rf"The NVIDIA GPU (?:at )?(?:PCI:)?(?P<pci>{ADDRESS})\s*$")
_INIT = re.compile(r"\b(?:RmInitAdapter|rm_init_adapter)\b.*\bfailed", re.I)
_MINOR = re.compile(r"minor number (?P<minor>\d+)|rm_init_adapter\((?P<old>\d+)\)")
_INIT_CAUSES = (79, 119, 120, 143, 62, 48, 95)
"""Xids after which the driver cannot initialise the GPU again."""
WANTS = (_LOST, _INIT, re.compile(r"NVRM|\bfallen\b", re.I))
"""The last one: sentences that go on in the next line."""
_SPAN = 6
"""Lines over which the driver spreads one sentence, with room for others in between."""


@dataclass(slots=True)
class _Open:
    """A sentence that began with an address and goes on in the next lines."""

    pci: str
    line: Line
    text: str


@dataclass(slots=True)
class _Place:
    pci: str | None
    minor: str | None = None


class LostGpuReader:
    """Collects lines about lost GPUs.

    Args:
        file: name of the output, for the evidence.
        xids: where the Xid 79 of the same event is counted.
    """

    def __init__(self, file: str, xids: XidReader) -> None:
        self._xids = xids
        self._lost: Tally[tuple[Origin, str]] = Tally(file)
        self._init: Tally[tuple[Origin, str]] = Tally(file)
        self._places: dict[tuple[Origin, str], _Place] = {}
        self._lines: dict[tuple[Origin, str], list[Line]] = {}
        self._open: dict[Origin, _Open] = {}

    def feed(self, line: Line, bare: Bare) -> bool:
        """Take a line that is no Xid line; False when it does not speak of a lost GPU."""
        text = bare.text.replace("NVRM:", " ").strip()
        if opening := _OPENING.search(text):
            self._open[bare.origin] = _Open(opening["pci"], line, text)
            return True
        if _INIT.search(text):
            self._add_init(line, bare.origin, text)
            return True
        if _LOST.search(text):
            open_ = self._take_open(line, bare.origin)
            address = _ADDRESS.search(text)
            pci = address["pci"] if address else open_.pci if open_ else None
            lines = [open_.line, line] if open_ and not address else [line]
            self._add_lost(lines, bare.origin, pci)
            return True
        return self._continue(line, bare.origin, text)

    def _take_open(self, line: Line, origin: Origin) -> _Open | None:
        open_ = self._open.pop(origin, None)
        return open_ if open_ and line.number - open_.line.number <= _SPAN else None

    def _continue(self, line: Line, origin: Origin, text: str) -> bool:
        open_ = self._open.get(origin)
        if not open_ or line.number - open_.line.number > _SPAN:
            return False
        open_.text = f"{open_.text} {text}"[-500:]
        if _LOST.search(open_.text):
            del self._open[origin]
            self._add_lost([open_.line, line], origin, open_.pci)
        return True

    def _add_lost(self, lines: list[Line], origin: Origin, pci: str | None) -> None:
        key = (origin, device_key(pci) if pci else "")
        seen = self._lost.add(key, lines[0])
        for line in lines[1:]:
            seen.companion(self._lost.file, line)
        self._places.setdefault(key, _Place(pci))
        kept = self._lines.setdefault(key, [])
        kept += lines[: MAX_EVIDENCE - len(kept)]

    def _add_init(self, line: Line, origin: Origin, text: str) -> None:
        address, minor = _ADDRESS.search(text), _MINOR.search(text)
        key = (origin, device_key(address["pci"]) if address else "")
        place = self._places.setdefault(key, _Place(address["pci"] if address else None))
        if minor:
            place.minor = minor["minor"] or minor["old"]
        known = self._init.get(key)
        if minor and known:
            known.companion(self._init.file, line)  # the second line of the same failure
        else:
            self._init.add(key, line)

    def findings(self, context: ParseContext) -> list[Finding]:
        """Return findings for GPUs whose loss no Xid 79 reports already."""
        found = []
        for (origin, key), seen in self._lost.items():
            event = self._xids.lost_gpu(origin, key)
            if event is None and not key:
                event = self._xids.any_lost_gpu(origin)
            if event is not None:
                for line in self._lines[origin, key]:
                    self._xids.companion(event, line)
                continue
            found.append(self._finding("GPU_FELL_OFF_BUS", (origin, key), seen, context))
        found += [
            self._finding("GPU_INIT_FAILED", key, seen, context) for key, seen in self._init.items()
        ]
        return found

    def _finding(
        self, code: str, where: tuple[Origin, str], seen: Seen, context: ParseContext
    ) -> Finding:
        origin, key = where
        place = self._places[where]
        entity = Entity(
            node=node_of(origin.host, origin.rank, context),
            rank=origin.rank,
            pci=place.pci,
            device=f"nvidia{place.minor}" if place.minor else None,
        )
        cause = self._init_cause(origin, key) if code == "GPU_INIT_FAILED" else None
        follows = f"; follows from {cause}" if cause else ""
        return finding(
            code,
            f"{_SAYS[code]}{seen.times}{follows}",
            entities=(entity,),
            proof=seen.evidence,
            count=seen.count,
            cause=cause,
        )

    def _init_cause(self, origin: Origin, key: str) -> str | None:
        if not key:
            return None
        if (origin, key) in self._lost and self._xids.lost_gpu(origin, key) is None:
            return "GPU_FELL_OFF_BUS"
        events = (self._xids.events.get((number, origin, key)) for number in _INIT_CAUSES)
        return next((event.code for event in events if event), None)


_SAYS = {
    "GPU_FELL_OFF_BUS": "GPU has fallen off the PCIe bus",
    "GPU_INIT_FAILED": "the driver cannot initialise the GPU (RmInitAdapter failed)",
}
