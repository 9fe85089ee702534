"""Reads headings and rows of nccl-tests and rccl-tests tables, of any version and column set.

Columns are found by the heading. A table without one (cut off, or filtered) is read by the number
and the types of the tokens. Formats: print functions of nccl-tests 2.0 to 2.19 and rccl-tests.
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from steps.documents import NcclRow

Check = Literal["wrong", "error"]
"""``wrong`` counts wrong values; ``error`` (before 2.13) is the greatest rounding error."""

_ALIASES = {
    "bytes": "size",
    "n": "count",
    "op": "redop",
    "cputime": "time",
    "res": "error",
    "#wrong": "wrong",
}
_SIDE = {"time", "algbw", "busbw", "wrong", "error"}
_LEAD = ("size", "count", "type", "redop", "root")

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|-?nan|-?inf", re.IGNORECASE)
_INT = re.compile(r"-?\d{1,18}", re.ASCII)
_COUNT = re.compile(r"\d{1,18}", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*")
_ERROR_STYLE = re.compile(r"\de(?:-\d\d|\+0[0-5])")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Layout(NamedTuple):
    """Names of the columns in order; side columns carry ``out.`` or ``in.``.

    Attributes:
        names: for example size, count, type, redop, root, out.time, out.algbw, …
        check: what the last column of a side holds.
        milliseconds: times are in ms, as the tables were that have "bytes" for "size".
    """

    names: tuple[str, ...]
    check: Check
    milliseconds: bool = False


class TableRow(NamedTuple):
    """A row with what NcclRow has no field for.

    Attributes:
        row: the values.
        checked: whether the tool validated the data of the out-of-place half.
        check: what the wrong columns of the row hold.
        starred: an asterisk marks an error that is over the tool's own limit.
        blank_redop: the heading has a redop column that the row leaves blank, as old alltoall does.
    """

    row: NcclRow
    checked: bool
    check: Check
    starred: bool = False
    blank_redop: bool = False


def read_heading(text: str, banner: str) -> Layout | None:
    """Return the columns, if the line is a heading.

    Args:
        text: the line, with or without its leading '#'.
        banner: the line before, which says out-of-place, in-place or both.
    """
    lowered = text.lower()
    if "busbw" not in lowered or "algbw" not in lowered:
        return None
    names: list[tuple[int, str]] = []
    check: Check = "wrong"
    sides = 0
    for token in lowered.lstrip("# \t").split():
        name = _ALIASES.get(token, token.lstrip("#"))
        if name in {"time", "algbw"} and (name == "time" or not sides):
            sides += 1
        if name == "error":
            check, name = "error", "wrong"
        names.append((sides if name in _SIDE else 0, name))
    if (0, "size") not in names or sides not in {1, 2}:
        return None
    only_in = sides == 1 and "in-place" in banner.lower() and "out-of-place" not in banner.lower()
    prefix = ("", "in." if only_in else "out.", "in.")
    return Layout(
        tuple(prefix[side] + name for side, name in names),
        check,
        milliseconds="bytes" in lowered.split(),
    )


def read_row(text: str, layout: Layout | None, line: int) -> TableRow | None:
    """Return the values of a row, or None if the line is not a whole row."""
    tokens = text.split()
    if len(tokens) < 7 or not _COUNT.fullmatch(tokens[0]):
        return None
    if layout:
        named = _by_heading(tokens, layout)
        row = _row(named, layout.check, line) if named else None
        if named and row:
            blank = "redop" in layout.names and "redop" not in named
            return (_in_us(row) if layout.milliseconds else row)._replace(blank_redop=blank)
        # a row that lacks cells was torn; what is left of it stands under other columns
        return _by_types(tokens, line) if len(tokens) > len(layout.names) + 1 else None
    found = _by_types(tokens, line)
    return found if found and _aligned(found.row) else None


def _in_us(entry: TableRow) -> TableRow:
    times = {
        name: time * 1000
        for name in ("out_time_us", "in_time_us")
        if (time := getattr(entry.row, name)) is not None
    }
    return entry._replace(row=entry.row.model_copy(update=times))


def _by_heading(tokens: list[str], layout: Layout) -> dict[str, str] | None:
    names = list(layout.names)
    if "timestamp" in names:  # date and time are two tokens
        names.insert(names.index("timestamp"), "date")
    if len(tokens) == len(names) - 1 and "redop" in names:
        names.remove("redop")  # alltoall of older versions leaves it blank
    if len(tokens) != len(names):
        return None
    return dict(zip(names, tokens, strict=True))


def _by_types(tokens: list[str], line: int) -> TableRow | None:
    named = dict(zip(_LEAD[:3], tokens, strict=False))
    rest = tokens[3:]
    if len(rest) > 2 and _DATE.fullmatch(rest[-2]):
        rest = rest[:-2]
    if len(rest) > 3 and _WORD.fullmatch(rest[-2]) and _WORD.fullmatch(rest[-3]):
        rest = rest[:-3]  # algorithm, protocol, channels of rccl-tests
    if rest and _WORD.fullmatch(rest[0]) and rest[0].lower() not in {"nan", "inf"}:
        named["redop"] = rest.pop(0)
    # a half has 4 columns, with statistics per iteration 8
    if len(rest) in {5, 9, 17} and _INT.fullmatch(rest[0]):
        named["root"] = rest.pop(0)
    if len(rest) not in {4, 8, 16}:
        return None
    half = 4 if len(rest) == 4 else len(rest) // 2
    for side, start in (("out", 0), ("in", half))[: 1 if half == len(rest) else 2]:
        for offset, name in enumerate(("time", "algbw", "busbw", "wrong")):
            named[f"{side}.{name}"] = rest[start + offset]
    style = _ERROR_STYLE.match(named["out.wrong"]) or _ERROR_STYLE.match(named.get("in.wrong", ""))
    return _row(named, "error" if style else "wrong", line)


def _aligned(row: NcclRow) -> bool:
    """Whether size, time and algbw of a row without heading agree, so that no cell is lost.

    algbw is size / time; the tool prints both with few digits.
    """
    sides = ((row.out_time_us, row.out_alg_gbps), (row.in_time_us, row.in_alg_gbps))
    return all(
        time is None
        or speed is None
        or not math.isfinite(time + speed)
        or (time > 0 and abs(row.size_bytes / time / 1e3 - speed) <= 0.02 + 0.02 * abs(speed))
        for time, speed in sides
    )


def _row(named: dict[str, str], check: Check, line: int) -> TableRow | None:
    lead_fits = (
        _COUNT.fullmatch(named["size"])
        and _COUNT.fullmatch(named.get("count", "0"))
        and _WORD.fullmatch(named.get("type", "float"))
        and _WORD.fullmatch(named.get("redop", "none"))
        and _INT.fullmatch(named.get("root", "-1"))
    )
    sides = {
        name: value for name, value in named.items() if name[:4] == "out." or name[:3] == "in."
    }
    starred = any(value.endswith("*") for value in sides.values())
    values: dict[str, float | None] = {}
    for name, value in sides.items():
        bare = value.rstrip("*")
        if bare == "N/A":
            values[name] = None
        elif _NUMBER.fullmatch(bare):
            values[name] = float(bare)
        else:
            return None
    if not lead_fits:
        return None
    root = named.get("root")
    row = NcclRow.model_construct(
        kind="nccl",
        size_bytes=int(named["size"]),
        count=int(named["count"]) if "count" in named else None,
        type=named.get("type"),
        redop=named.get("redop"),
        root=int(root) if root is not None else None,
        out_time_us=values.get("out.time"),
        out_alg_gbps=values.get("out.algbw"),
        out_bus_gbps=values.get("out.busbw"),
        out_wrong=values.get("out.wrong"),
        in_time_us=values.get("in.time"),
        in_alg_gbps=values.get("in.algbw"),
        in_bus_gbps=values.get("in.busbw"),
        in_wrong=values.get("in.wrong"),
        cycle=1,
        line=line,
    )
    checked = values.get("out.wrong") is not None or (
        "out.wrong" not in values and values.get("in.wrong") is not None
    )
    return TableRow(row, checked, check, starred)
