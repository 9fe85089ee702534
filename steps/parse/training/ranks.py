"""Which rank a line of PyTorch speaks for."""

from __future__ import annotations

import re

from steps.parse.api import Line

_PREFIX = re.compile(
    r"\[(?:PG (?:ID )?(?P<pg>\d+)[^\]]{0,200} )?Rank (?P<rank>\d{1,7})\]|\[rank(?P<tag>\d{1,7})\]"
)


def rank_of(line: Line) -> tuple[int | None, str | None]:
    """Return rank and process group of ``[PG 1 Rank 0]``, ``[Rank 0]``, ``[rank0]`` or the tag.

    The prefixes may stand inside a line: behind a progress bar, or behind another rank's text.
    """
    rank, group = None, None
    for match in _PREFIX.finditer(line.text):
        group = group or match["pg"]
        rank = int(match["rank"] or match["tag"]) if rank is None else rank
    return (line.rank if rank is None else rank), group
