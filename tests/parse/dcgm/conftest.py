from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from catalog.hardware.hardware import Hardware
from steps.parse.api import Line, ParseContext, Part, Scanner
from steps.parse.dcgm import KINDS, DcgmTextScanner, NvbandwidthTextScanner, NvidiaSmiScanner
from steps.parse.prefilter import prefilter

FIXTURES = Path(__file__).parent / "fixtures"

Read: TypeAlias = Callable[..., Part]


def scan(make: type[Scanner], text: str, context: ParseContext) -> Part:
    """Feed a scanner the way the reader does: raw lines are chosen by the prefilter."""
    scanner = make("out.txt")
    lines = text.split("\n")
    for number, raw in enumerate(lines, 1):
        last = number == len(lines)
        if last and not raw:
            break
        if make in prefilter(make).match(raw.encode()):
            scanner.feed(Line(number, raw, ended=not last))
    return scanner.finish(context)


def read_text(text: str, context: ParseContext) -> Part:
    """Return what the scanner that claims most of the text found."""
    makers: tuple[type[Scanner], ...] = (
        DcgmTextScanner,
        NvidiaSmiScanner,
        NvbandwidthTextScanner,
    )
    return max((scan(make, text, context) for make in makers), key=lambda part: part.claimed)


def read_json(data: object, text: str, name: str, context: ParseContext) -> Part | None:
    """Ask every reader of JSON of the tool."""
    for kind in KINDS:
        part = kind.read_json and kind.read_json(data, text, name, context, cut_off=False)
        if part:
            return part
    return None


def read_file(name: str, context: ParseContext) -> Part:
    text = (FIXTURES / name).read_text(encoding="utf-8")
    if name.endswith(".txt"):
        return read_text(text, context)
    data = (
        [json.loads(line) for line in text.splitlines()]
        if name.endswith(".jsonl")
        else json.loads(text)
    )
    part = read_json(data, text, name, context)
    assert part is not None, f"{name} is of no known kind"
    return part


def context(**known: Any) -> ParseContext:
    """Build what is known of a run; what is of the hardware goes there."""
    names = ("gpus_per_node", "nvlink", "mnnvl")
    hardware = Hardware(**{name: known.pop(name) for name in names if name in known})
    return ParseContext(**known, hardware=hardware)


@pytest.fixture
def read() -> Read:
    """Read a fixture: ``read(name, diag_level=4, …)``."""

    def read_it(name: str, **known: object) -> Part:
        return read_file(name, context(**known))

    return read_it
