"""Tells cheaply which scanners may want a raw line, from the patterns that they read lines with.

RE2 takes out of each pattern the words that any match must hold, and looks for all of them at once
in one pass, whatever their case. What is never kept by hand cannot be forgotten.
"""

from __future__ import annotations

import re
from functools import cache

import re2

from steps.parse.api import Scanner

# RE2 knows no look-around; without it a pattern only matches more.
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<?[=!]|[()]|[^\\\[()]+", re.S)
MAX_MEMO = 10_000
"""Combinations of patterns whose scanners are kept."""
_UNCLEAN = (r"\x00", r"\x07", r"\x08", r"\x1b", "\ufeff")
"""What is taken out of a line before it is read, and may stand inside of a word."""


class Prefilter:
    """The scanners that may want a line.

    RE2 finds no words of one or two letters: patterns that hold none longer, such as the border of
    a table, are looked for as they are, in a second set. Those must not ask for the ends of a line.

    Args:
        scanners: a scanner that names no pattern wants every line.
    """

    def __init__(self, *scanners: type[Scanner]) -> None:
        self._always = frozenset(each for each in scanners if not each.wants)
        self._memo: dict[tuple[tuple[int, ...], tuple[int, ...]], frozenset[type[Scanner]]] = {}
        options = re2.Options()
        options.log_errors = False
        wanted = [
            (_for_re2(pattern), frozenset({scanner}))
            for scanner in scanners
            for pattern in dict.fromkeys(scanner.wants)
        ]
        wanted += [(text, frozenset(scanners)) for text in _UNCLEAN]
        self._filter = re2.Filter()
        for text, _ in wanted:
            self._filter.Add(text, options)
        self._filter.Compile()
        wordless = self._filter.Match(b"", potential=True) or []
        self._short = re2.Set.SearchSet(options)
        for index in wordless:
            self._short.Add(wanted[index][0])
        self._short.Compile()
        self._shorts = [wanted[index][1] for index in wordless]
        self._owners = [
            frozenset[type[Scanner]]() if index in wordless else owner
            for index, (_, owner) in enumerate(wanted)
        ]

    def match(self, raw: bytes) -> frozenset[type[Scanner]]:
        """Return the scanners that may want a raw line; certainly all that do."""
        words = tuple(self._filter.Match(raw, potential=True) or ())
        shorts = tuple(self._short.Match(raw) or ())
        known = self._memo.get((words, shorts))
        if known is not None:
            return known
        owners = [self._owners[i] for i in words] + [self._shorts[i] for i in shorts]
        found = self._always.union(*owners)
        if len(self._memo) < MAX_MEMO:
            self._memo[words, shorts] = found
        return found


@cache
def prefilter(*scanners: type[Scanner]) -> Prefilter:
    """Return the one prefilter of these scanners; making it takes some tenths of a second."""
    return Prefilter(*scanners)


def _for_re2(pattern: re.Pattern[str]) -> str:
    flags = "".join(
        name for flag, name in ((re.I, "i"), (re.S, "s"), (re.M, "m")) if pattern.flags & flag
    )
    kept: list[str] = []
    depth = 0  # of groups inside a look-around
    for piece in _PIECE.findall(pattern.pattern):
        if piece.startswith("(?") or (depth and piece == "("):
            depth += 1
        elif depth:
            depth -= piece == ")"
        else:
            kept.append(piece)
    return (f"(?{flags})" if flags else "") + "".join(kept)
