"""Feeds text to one scanner as the reader does: the prefilter first, then cleaned lines."""

from __future__ import annotations

from steps.parse.api import ParseContext, Part, Scanner
from steps.parse.lines import clean_line
from steps.parse.prefilter import prefilter

FILE = "out.log"


def scan(make: type[Scanner], text: str, context: ParseContext | None = None) -> Part:
    scanner = make(FILE)
    raw_lines = text.encode("utf-8", "surrogatepass").split(b"\n")
    ended = raw_lines[-1] == b""
    if ended:
        raw_lines.pop()
    for number, raw in enumerate(raw_lines, start=1):
        if make in prefilter(make).match(raw):
            last = number == len(raw_lines)
            for line in clean_line(raw, number, ended=ended or not last):
                scanner.feed(line)
    return scanner.finish(context or ParseContext())


def show(name: str, expected: object, got: object) -> None:
    """Print a row of a table test, which pytest shows when the row fails."""
    print(f"{name}\n  expected {expected}\n  got      {got}")  # noqa: T201


def said(part: Part) -> list[str]:
    """Each finding as ``CODE effect place xcount <cause``, for tables."""
    return [
        f"{f.code} {f.effect.value} [{', '.join(map(str, f.entities))}]"
        + (f" x{f.count}" if f.count > 1 else "")
        + (f" <{f.cause}" if f.cause else "")
        + (" witness" if f.witness else "")
        for f in part.findings
    ]
