"""Collective timeouts: who waited (witnesses), and who did not turn up (suspects).

PyTorch's watchdog is printed by the ranks that wait in a collective. The rank that keeps them
waiting is silent, or says that it had not even enqueued that collective.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.sightings import Seen, node_of_rank
from steps.parse.training.ranks import rank_of

_CAUGHT = re.compile(r"Watchdog caught collective operation timeout")
_WORK = re.compile(
    r"WorkNCCL\((?:SeqNum=(?P<seq>\d{1,18}), ?)?OpType=(?P<op>\w+)[^)]*?"
    r"(?:Timeout\(ms\)=(?P<timeout>\d{1,15}))?\)"
)
_AT_WORK = re.compile(
    r"(?:detected by watchdog at work|Timeout at (?:NCCL|collective)[\w ]*)[: ]+(?P<seq>\d{1,18})"
)
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18})", re.I)
_DUMP = re.compile(
    r"Received a dump signal due to a collective timeout from +rank (?P<rank>\d{1,7})"
)
_LOCAL_DUMP = re.compile(r"Received a dump signal (?:from this local rank|due to a collective)")
_MONITORED = re.compile(
    r"\bRanks? (?P<ranks>\d{1,7}(?:, ?\d{1,7})*) failed to pass monitoredBarrier"
)
_DESYNC = re.compile(
    r"\[(?P<ranks>\d{1,7}(?:, ?\d{1,7})*)\] (?:finished|joined).*didn't join collective"
)
_HEARTBEAT = re.compile(r"Heartbeat monitor timed out", re.I)
_CLEANUP = re.compile(
    r"Some NCCL operations have failed or timed out|To avoid data inconsistency|"
    r"watchdog thread terminated with exception"
)
WANTS = (_CAUGHT, _AT_WORK, _MONITORED, _DESYNC, _LOCAL_DUMP, _HEARTBEAT, _CLEANUP)
MAX_SUSPECTS = 64
"""More suspects than this are told as whole nodes where all ranks of a node are silent."""


@dataclass(slots=True)
class _Wait:
    """A collective that timed out."""

    op: str | None = None
    timeout_ms: int | None = None
    ranks: set[int] = field(default_factory=set)


class HangReader:
    """Collects collective timeouts.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._seen = Seen()
        self._waits: dict[int | None, _Wait] = {}
        self._reporters: dict[int, str | None] = {}
        self._enqueued: dict[tuple[str | None, int], int] = {}
        self._timed_out_in: dict[str | None, int] = {}
        self._named: set[int] = set()
        self._awake: set[int] = set()
        self.last = 0
        """Line of the last report."""

    @property
    def first(self) -> float:
        """Line of the first report; infinite without one."""
        return self._seen.first

    def __bool__(self) -> bool:
        return bool(self._seen.evidence)

    def feed(self, line: Line) -> bool:
        """Take a line; False when it is not about a collective timeout."""
        text = line.text
        rank, group = rank_of(line)
        caught, at_work = _CAUGHT.search(text), _AT_WORK.search(text)
        if caught or at_work:
            self.last = line.number
            self._report(line, rank, group, text)
            return True
        if named := _MONITORED.search(text) or _DESYNC.search(text):
            self._named |= {int(number) for number in named["ranks"].split(",")}
            self.last = line.number
            self._seen.companion(self._file, line)
            return True
        if _LOCAL_DUMP.search(text):
            if dump := _DUMP.search(text):
                self._reporters.setdefault(int(dump["rank"]), None)
            self._note_enqueued(rank, group, text)
            if rank is not None:
                self._awake.add(rank)
            return True
        if _HEARTBEAT.search(text):
            self.last = line.number
            self._seen.add(self._file, line)
            if rank is not None:
                self._reporters[rank] = line.host
            return True
        # The watchdog also ends because of a CUDA error, which is more than a timeout.
        return "CUDA error" not in text and bool(_CLEANUP.search(text))

    def _report(self, line: Line, rank: int | None, group: str | None, text: str) -> None:
        work, at_work = _WORK.search(text), _AT_WORK.search(text)
        number = (work["seq"] if work else None) or (at_work["seq"] if at_work else None)
        seq = int(number) if number else None
        wait = self._waits.setdefault(seq, _Wait())
        if work:
            wait.op = wait.op or work["op"]
            wait.timeout_ms = wait.timeout_ms or (int(work["timeout"]) if work["timeout"] else None)
        if rank is not None:
            wait.ranks.add(rank)
            self._reporters[rank] = line.host or self._reporters.get(rank)
        if seq is not None:
            self._timed_out_in[group] = min(seq, self._timed_out_in.get(group, seq))
        self._note_enqueued(rank, group, text)
        self._seen.add(self._file, line)

    def _note_enqueued(self, rank: int | None, group: str | None, text: str) -> None:
        if rank is not None and (enqueued := _ENQUEUED.search(text)):
            self._enqueued[group, rank] = int(enqueued["enqueued"])

    def findings(
        self, context: ParseContext, world: int | None, primary: Finding | None
    ) -> list[Finding]:
        """Return the witnesses and, apart, the suspects.

        Args:
            context: what is known about the run.
            world: number of ranks, if known.
            primary: a failure that came before and explains the silence of a rank.
        """
        if not self:
            return []
        suspects = [] if primary else self._suspects(world)
        witnesses = sorted(set(self._reporters) - set(suspects))
        found = []
        if suspects:
            found.append(
                finding(
                    "TRAIN_HANG_WATCHDOG",
                    f"{self._what()}; did not report: {_ranks(suspects, context)}",
                    entities=_places(suspects, context),
                    proof=self._seen.evidence,
                    count=len(suspects),
                )
            )
        if witnesses or not suspects:
            found.append(
                finding(
                    "TRAIN_HANG_WATCHDOG",
                    f"{self._what()}; {self._told(witnesses, suspects, world, primary, context)}",
                    entities=[
                        Entity(node=self._reporters[r] or node_of_rank(r, context), rank=r)
                        for r in witnesses
                    ],
                    proof=self._seen.evidence,
                    count=max(1, self._seen.count),
                    witness=True,
                    cause=primary.code if primary else None,
                )
            )
        return found

    def _suspects(self, world: int | None) -> list[int]:
        """Return the ranks that kept the others waiting, best evidence first."""
        behind = {
            rank
            for (group, rank), enqueued in self._enqueued.items()
            if rank not in self._reporters and enqueued < self._timed_out_in.get(group, -1)
        }
        named = (self._named - set(self._reporters)) | behind
        if named:
            return sorted(named)
        if world is None or not self._reporters or max(self._reporters) >= world:
            return []
        return sorted(set(range(world)) - set(self._reporters) - self._awake)

    def _what(self) -> str:
        if not self._waits:
            return "a rank or the watchdog of one was stuck"
        seq, wait = min(self._waits.items(), key=lambda i: (i[0] is None, i[0] or 0))
        name = " ".join(filter(None, (wait.op, f"SeqNum {seq}" if seq is not None else None)))
        after = f" after {wait.timeout_ms / 1000:g} s" if wait.timeout_ms else ""
        more = f" (and {len(self._waits) - 1} more)" if len(self._waits) > 1 else ""
        return f"collective {name}{more} timed out{after}".replace("  ", " ")

    def _told(
        self,
        witnesses: list[int],
        suspects: list[int],
        world: int | None,
        primary: Finding | None,
        context: ParseContext,
    ) -> str:
        if primary:
            return f"follows from {primary.code}"
        told = f"reported by {_ranks(witnesses, context)}" if witnesses else "no rank is named"
        if world and len(witnesses) == world:
            return f"{told}: every rank, so none is silent; look at the fabric"
        unknown = (
            "" if world or suspects else "; without the world size the silent ranks cannot be told"
        )
        return f"{told}: they waited, they are not the cause{unknown}"


def _ranks(ranks: Iterable[int], context: ParseContext) -> str:
    """Write ranks as ranges, with their nodes where known: ``ranks 1-2, 5 (node-a, node-b)``."""
    ordered = sorted(ranks)
    ranges: list[list[int]] = []
    for rank in ordered:
        if ranges and rank == ranges[-1][1] + 1:
            ranges[-1][1] = rank
        else:
            ranges.append([rank, rank])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges[:20])
    more = ", …" if len(ranges) > 20 else ""
    nodes = list(dict.fromkeys(n for r in ordered if (n := node_of_rank(r, context))))
    where = f" ({', '.join(nodes[:10])}{', …' if len(nodes) > 10 else ''})" if nodes else ""
    return f"rank{'s' if len(ordered) > 1 else ''} {text}{more}{where}"


def _places(ranks: list[int], context: ParseContext) -> list[Entity]:
    if len(ranks) <= MAX_SUSPECTS:
        return [Entity(node=node_of_rank(rank, context), rank=rank) for rank in ranks]
    nodes = dict.fromkeys(node_of_rank(rank, context) for rank in ranks)
    if None in nodes:
        return [Entity(rank=rank) for rank in ranks[:MAX_SUSPECTS]]
    return [Entity(node=node) for node in nodes]
