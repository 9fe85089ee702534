"""Counting what an output says again and again: first line, count, places and proof."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from steps.documents import Entity, Evidence
from steps.parse.api import Line, ParseContext
from steps.parse.secrets import redact

MAX_EVIDENCE = 5
"""Lines kept as proof of one finding."""
MAX_TEXT = 500
"""Characters kept of one line (steps.documents.Evidence)."""
MAX_KEYS = 10_000
"""Different things counted in one output; more would be noise and cost memory."""

K = TypeVar("K", bound=Hashable)


def evidence(file: str, line: Line) -> Evidence:
    """Quote a line, without secrets."""
    # Redact before the final cut, so that a secret cut in half does not escape its pattern.
    return Evidence(file=file, line=line.number, text=redact(line.text[: 4 * MAX_TEXT])[:MAX_TEXT])


@dataclass(slots=True)
class Seen:
    """One thing and how often it was seen.

    Attributes:
        first: line number of the first sighting; infinite before any.
        last: line number of the last one; 0 before any.
        lines: lines that announce it.
        details: further lines about it that stand for themselves where no other line is there.
        evidence: the first few lines.
        entities: what it was about, in order of appearance.
    """

    first: float = math.inf
    last: int = 0
    lines: int = 0
    details: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    entities: dict[Entity, None] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How often it happened: an event is announced in one line and detailed in another."""
        return max(self.lines, self.details)

    @property
    def times(self) -> str:
        """How often it happened, to put behind what happened."""
        return f", {self.count} times" if self.count > 1 else ""

    def add(self, file: str, line: Line, *entities: Entity, detail: bool = False) -> None:
        """Count a line."""
        self.lines += not detail
        self.details += detail
        self.companion(file, line)
        for entity in entities:
            if str(entity) and len(self.entities) < MAX_KEYS:
                self.entities.setdefault(entity)

    def companion(self, file: str, line: Line) -> None:
        """Keep a line as proof without counting it: a second line about the same event."""
        self.first = min(self.first, line.number)
        self.last = max(self.last, line.number)
        if len(self.evidence) < MAX_EVIDENCE:
            self.evidence.append(evidence(file, line))


class Tally(Generic[K]):
    """Things by key, in order of their first line.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self._seen: dict[K, Seen] = {}

    def at(self, key: K) -> Seen:
        """Return what is counted under ``key``; over the cap, what is never asked for again."""
        if len(self._seen) >= MAX_KEYS:
            return self._seen.get(key) or Seen()
        return self._seen.setdefault(key, Seen())

    def add(self, key: K, line: Line, *entities: Entity, detail: bool = False) -> Seen:
        """Count a line under ``key``."""
        seen = self.at(key)
        seen.add(self.file, line, *entities, detail=detail)
        return seen

    def get(self, key: K) -> Seen | None:
        """Return what was counted under ``key``."""
        return self._seen.get(key)

    def items(self) -> Iterator[tuple[K, Seen]]:
        """Yield keys and what was counted, earliest first."""
        yield from sorted(self._seen.items(), key=lambda item: item[1].first)

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, key: K) -> bool:
        return key in self._seen


def node_of(host: str | None, rank: int | None, context: ParseContext) -> str | None:
    """Name the node of a line: its own host, the host of its rank, or the node of the output."""
    return host or node_of_rank(rank, context) or context.node


def node_of_rank(rank: int | None, context: ParseContext) -> str | None:
    """Name the node of a rank, from the launcher's map or from ranks per node."""
    if rank is None:
        return None
    known = context.rank_nodes.get(rank)
    if known or not context.hardware.gpus_per_node:
        return known
    index = rank // context.hardware.gpus_per_node
    return context.nodes[index] if 0 <= index < len(context.nodes) else None
