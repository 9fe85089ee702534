"""Xid lines: one finding per number and GPU, secondary ones tied to their cause."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from catalog.facts.reasons import Effect
from catalog.facts.xids import Xid, XidClass, find_xid
from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.kernel.pci import device_key
from steps.parse.kernel.prefix import Bare, Origin
from steps.parse.sightings import MAX_KEYS, Seen, node_of

_XID = re.compile(
    # an address that somebody took out is none, and yet the Xid happened
    r"\bXid \((?:PCI:)?(?:(?P<pci>[0-9A-Fa-f]{1,8}:[0-9A-Fa-f:.]{2,12})[^)]{0,40}|[^)]{0,40})\): "
    r"(?P<number>\d{1,4})\b,? ?(?P<text>.*)"
)
WANTS = (_XID,)
# One alternation, tried from the left: "Nonfatal" and "Non-fatal" never read as "Fatal".
_FATAL = re.compile(r"\b(?P<non>non[ -]?)?fatal\b", re.I)
_GPU = re.compile(r"\bGPU ?(?P<gpu>\d{1,3})\b(?! ?:)")
_LINK = re.compile(r"\bLink (?P<link>\d+)\b", re.I)
_PREVIOUS = re.compile(r"previous Xid (?P<number>\d{1,4})\b", re.I)
_ACTION = re.compile(
    r"recovery action changed.* to (?:0x[0-9a-f]+ )?\(?(?P<action>[^()]+)\)?", re.I
)

_DETAIL = 160
"""Characters of the driver's own words that a message quotes."""
_CODES = {63: "ROW_REMAP_PENDING", 64: "ROW_REMAP_FAILED"}
_ECHOES_OF = {171: {48}, 172: {48}}
"""Xids that only give details of another one (NVIDIA's catalog)."""

Key = tuple[int, Origin, str]


@dataclass(slots=True)
class XidEvent:
    """All lines of one Xid number about one GPU.

    Attributes:
        pci: address of the GPU; empty where the output does not tell it.
        fatal: what the line says where it says it; a fatal line outweighs others.
        derived: no line of its own, another Xid names it as its cause.
    """

    number: int
    origin: Origin
    pci: str
    text: str
    seen: Seen = field(default_factory=Seen)
    fatal: bool | None = None
    gpu: int | None = None
    link: str | None = None
    action: str | None = None
    previous: int | None = None
    derived: bool = False

    @property
    def known(self) -> Xid | None:
        """What the catalog says about the number."""
        return find_xid(self.number)

    @property
    def code(self) -> str:
        """Reason code of its finding."""
        return _CODES.get(self.number, f"XID_{self.number}")

    @property
    def secondary(self) -> bool:
        """Whether it only follows from something else."""
        return bool(self.known and self.known.origin is XidClass.SECONDARY)

    @property
    def effect(self) -> Effect:
        """What it does to a verdict (catalog/facts/xids.yaml); an unknown number proves nothing."""
        if self.known is None:
            return Effect.INCONCLUSIVE
        if self.known.fatal_word and self.fatal is not None:
            return Effect.FAIL if self.fatal else Effect.WARN
        if self.number == 154 and self.action and self.action.lower() == "none":
            return Effect.NOTE
        return self.known.effect


class XidReader:
    """Collects Xid lines.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._half: Line | None = None
        self.events: dict[Key, XidEvent] = {}

    def feed(self, line: Line, bare: Bare) -> bool:
        """Take a line; False when it is no Xid line."""
        match = _XID.search(bare.text)
        if not match:
            return False
        number, text = int(match["number"]), match["text"].strip()
        if not line.ended and match.end("number") == len(bare.text):
            self._half = line
        pci = match["pci"] or ""
        key = (number, bare.origin, device_key(pci))
        event = self.events.get(key)
        if event is None:
            event = XidEvent(number, bare.origin, pci, text)
            if len(self.events) < MAX_KEYS:
                self.events[key] = event
        event.seen.add(self._file, line)
        if (fatal := _FATAL.search(text)) and event.fatal is not True:
            event.fatal = fatal["non"] is None
        if gpu := _GPU.search(text):
            event.gpu = int(gpu["gpu"])
        if link := _LINK.search(text):
            event.link = event.link or f"link {link['link']}"
        if action := _ACTION.search(text):
            event.action = action["action"].strip()
        if previous := _PREVIOUS.search(text):
            event.previous = int(previous["number"])
        return True

    def lost_gpu(self, origin: Origin, key: str) -> XidEvent | None:
        """Return the Xid 79 of a GPU, so that other words for the same event are not counted."""
        return self.events.get((79, origin, key))

    def any_lost_gpu(self, origin: Origin) -> XidEvent | None:
        """Return the Xid 79 of a machine, for words that name no address."""
        events = [e for e in self.events.values() if e.number == 79 and e.origin == origin]
        return events[0] if events else None

    def findings(self, context: ParseContext) -> list[Finding]:
        """Return one finding per number and GPU."""
        events = [*self.events.values(), *self._derived()]
        found = [self._finding(event, events, context) for event in events]
        if self._half:
            # A 13 may be the start of a 137, which is worse.
            message = "the output ends right behind the number of an Xid; digits may be missing"
            seen = Seen()
            seen.add(self._file, self._half)
            found.append(finding("LOG_TRUNCATED", message, proof=seen.evidence))
        return found

    def _derived(self) -> list[XidEvent]:
        """Name the causes that only another Xid's text tells of."""
        derived: dict[Key, XidEvent] = {}
        for (_, origin, key), event in self.events.items():
            if event.previous is None:
                continue
            cause_key = (event.previous, origin, key)
            if cause_key in self.events or cause_key in derived:
                continue
            derived[cause_key] = XidEvent(
                event.previous,
                origin,
                event.pci,
                f"named by Xid {event.number} as its cause",
                seen=Seen(event.seen.first, evidence=event.seen.evidence[:1]),
                derived=True,
            )
        return list(derived.values())

    def _finding(self, event: XidEvent, events: list[XidEvent], context: ParseContext) -> Finding:
        cause = _cause(event, events)
        effect = event.effect
        if cause is not None and effect is Effect.FAIL and event.number not in _ECHOES_OF:
            effect = Effect.WARN  # an NVLink echo of a GPU that is gone
        entity = Entity(
            node=node_of(event.origin.host, event.origin.rank, context),
            gpu=event.gpu,
            rank=event.origin.rank,
            pci=event.pci or None,
            device=event.link,
        )
        return finding(
            event.code,
            _message(event, cause),
            effect=effect,
            entities=(entity,),
            proof=event.seen.evidence,
            count=max(1, event.seen.count),
            cause=cause,
        )

    def companion(self, event: XidEvent, line: Line) -> None:
        """Add a line that says the same in other words."""
        event.seen.companion(self._file, line)


def _message(event: XidEvent, cause: str | None) -> str:
    known = event.known
    name = known.name if known else "not known to this version"
    fatal = {True: ", fatal", False: ", not fatal", None: ""}[event.fatal]
    detail = f" ({event.text[:_DETAIL]})" if event.text else ""
    follows = f"; follows from {cause}" if cause else ""
    remedy = f"; {known.remedy}" if known and known.remedy and not cause else ""
    return f"Xid {event.number}{fatal}: {name}{event.seen.times}{detail}{follows}{remedy}"


def _cause(event: XidEvent, events: list[XidEvent]) -> str | None:
    """Return the code of the primary that an Xid follows from, when it is in the same output."""
    if event.derived:
        return None
    key = device_key(event.pci)
    same_machine = [
        other for other in events if other.origin == event.origin and other is not event
    ]
    same_gpu = [other for other in same_machine if device_key(other.pci) == key]
    if event.previous is not None:
        return next((o.code for o in same_gpu if o.number == event.previous), None)
    if event.number in _ECHOES_OF:
        return next((o.code for o in same_gpu if o.number in _ECHOES_OF[event.number]), None)
    if event.secondary:
        return _secondary_cause(event, same_gpu, same_machine)
    if event.known and event.known.origin is XidClass.NVLINK:
        # The links of a GPU that left the bus go down on all its peers.
        lost = [o for o in same_machine if o.number == 79 and o.seen.first <= event.seen.first]
        return lost[0].code if lost else None
    return None


def _secondary_cause(
    event: XidEvent, same_gpu: list[XidEvent], same_machine: list[XidEvent]
) -> str | None:
    primaries: list[XidEvent] = []
    if event.number == 154:
        # An open recovery action blocks a pass by itself unless its cause does.
        primaries = [o for o in same_gpu if not o.secondary and o.effect.blocks]
    elif event.number == 45:
        primaries = [o for o in same_gpu if not o.secondary] or [
            o for o in same_machine if not o.secondary and o.effect is Effect.FAIL
        ]
    if not primaries:
        return None
    return min(primaries, key=lambda o: (o.effect.rank, o.seen.first)).code
