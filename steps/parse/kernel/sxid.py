"""SXid lines of the NVSwitch driver and of the fabric manager."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.kernel.pci import ADDRESS, device_key
from steps.parse.kernel.prefix import Bare, Origin
from steps.parse.sightings import MAX_KEYS, Seen, node_of

_SXID = re.compile(
    r"(?:(?P<switch>nvidia-nvswitch\d+): )?"
    rf"SXid \((?:PCI:)?(?P<pci>{ADDRESS})\): (?P<number>\d{{3,6}}), ?(?P<text>.*)"
)
# nv-fabricmanager: "detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id …"
_FABRIC_MANAGER = re.compile(
    r"NVSwitch (?P<text>(?:non-)?fatal error (?P<number>\d{3,6}) .{0,80}?"
    rf"pci bus id (?P<pci>{ADDRESS}).*)",
    re.I,
)
WANTS = (_SXID, _FABRIC_MANAGER)
_FATAL = re.compile(r"\b(?P<non>non[ -]?)?fatal\b", re.I)
_SEVERITY = re.compile(r"^Severity (?P<severity>\d) ")
_LINK = re.compile(r"\b(?:Link|port) (?P<link>\d+)\b", re.I)
_DETAIL = re.compile(r"^(?:Severity|Data|Time|Instance)\b")


@dataclass(slots=True)
class SxidEvent:
    """All lines of one SXid number about one switch link."""

    number: int
    origin: Origin
    pci: str
    switch: str | None
    link: str | None
    text: str
    seen: Seen = field(default_factory=Seen)
    fatal: bool | None = None


class SxidReader:
    """Collects SXid lines; the lines with severity and data belong to the line before them.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._events: dict[tuple[int, Origin, str, str | None], SxidEvent] = {}
        self._last: dict[tuple[int, Origin, str], SxidEvent] = {}

    def feed(self, line: Line, bare: Bare) -> bool:
        """Take a line; False when it is no SXid line."""
        match = _SXID.search(bare.text) or _FABRIC_MANAGER.search(bare.text)
        if not match:
            return False
        number, text = int(match["number"]), match["text"].strip()
        switch_key = (number, bare.origin, device_key(match["pci"]))
        if _DETAIL.match(text) and (event := self._last.get(switch_key)):
            event.seen.companion(self._file, line)
        else:
            link = _LINK.search(text)
            name = f"link {link['link']}" if link else None
            key = (*switch_key, name)
            switch = match.groupdict().get("switch")
            event = self._events.get(key) or SxidEvent(
                number, bare.origin, match["pci"], switch, name, text
            )
            if len(self._events) < MAX_KEYS:
                self._events[key] = self._last[switch_key] = event
            event.seen.add(self._file, line)
        _read_severity(event, text)
        return True

    def findings(self, context: ParseContext) -> list[Finding]:
        """Return one finding per number, switch and link."""
        return [
            finding(
                f"SXID_{event.number}",
                _message(event),
                variant=_VARIANTS[event.fatal],
                entities=(
                    Entity(
                        node=node_of(event.origin.host, event.origin.rank, context),
                        rank=event.origin.rank,
                        pci=event.pci,
                        device=" ".join(filter(None, (event.switch, event.link))) or None,
                    ),
                ),
                proof=event.seen.evidence,
                count=event.seen.count,
            )
            for event in self._events.values()
        ]


def _read_severity(event: SxidEvent, text: str) -> None:
    if event.fatal:
        return
    if word := _FATAL.search(text):
        event.fatal = word["non"] is None
    elif (severity := _SEVERITY.match(text)) and event.fatal is None:
        # The NVSwitch driver counts 0 non-fatal, 1 fatal; the word, where printed, decides.
        event.fatal = {"0": False, "1": True}.get(severity["severity"])


_VARIANTS = {True: "fatal", False: None, None: "untold"}


def _message(event: SxidEvent) -> str:
    fatal = {True: "fatal", False: "not fatal", None: "severity not told"}[event.fatal]
    return f"NVSwitch SXid {event.number}, {fatal}{event.seen.times} ({event.text[:160]})"
