"""Wordings: what a line says, the reason code of it, and whom it names.

A wording is a row of data: how the line is recognised, a line that was really printed, and what it
means. Readers keep tables of them; everything else (which raw lines are worth reading, who is
meant, what is counted together) follows from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from steps.documents import Entity
from steps.parse.api import Line

_NUMBERS = ("gpu", "rank")
_NAMES = ("node", "pci", "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """One way to say that something happened.

    Attributes:
        code: reason code.
        pattern: its groups ``node``, ``gpu``, ``rank``, ``pci`` and ``device`` say who is meant.
        examples: lines that are recognised by it.
        says: what it means, for people; the code's own words where it adds nothing to them.
        variant: of the code (catalog/facts/reasons.yaml), where this wording means less or more.
        who: more patterns with such groups, looked for anywhere in the line.
        detail: the line only adds to what another line of the same code says.
    """

    code: str
    pattern: re.Pattern[str]
    examples: tuple[str, ...]
    says: str | None = None
    variant: str | None = None
    who: tuple[re.Pattern[str], ...] = ()
    detail: bool = False


def wording(
    code: str,
    pattern: str,
    *examples: str,
    says: str | None = None,
    variant: str | None = None,
    who: tuple[re.Pattern[str], ...] = (),
    detail: bool = False,
    any_case: bool = False,
) -> Wording:
    """Return a row of a table; see `Wording`. With ``any_case`` it is read in any case."""
    return Wording(
        code=code,
        pattern=re.compile(pattern, re.I if any_case else re.NOFLAG),
        examples=examples,
        says=says,
        variant=variant,
        who=who,
        detail=detail,
    )


def find(table: Iterable[Wording], text: str) -> tuple[Wording, re.Match[str]] | None:
    """Return the first row that a text matches, and the match."""
    for row in table:
        if match := row.pattern.search(text):
            return row, match
    return None


def who(row: Wording, match: re.Match[str], line: Line) -> Entity:
    """Return whom a line means: what its words name, else the machine and rank that printed it."""
    named = match.groupdict()
    for pattern in row.who:
        if more := pattern.search(match.string):
            named |= {name: value for name, value in more.groupdict().items() if value}
    told = {name: named[name] for name in _NAMES if named.get(name)}
    numbers = {name: int(named[name]) for name in _NUMBERS if named.get(name)}
    return Entity(**{"node": line.host, "rank": line.rank, **told, **numbers})
