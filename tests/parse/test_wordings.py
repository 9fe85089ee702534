"""Every wording finds its own examples through the whole reader, wherever they stand."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.facts.reasons import all_reasons, reason
from steps.documents import Finding
from steps.parse import parse_bytes
from steps.parse.api import Scanner
from steps.parse.kernel import KernelScanner, platform, ports
from steps.parse.launcher import LauncherScanner, rules
from steps.parse.wordings import Wording
from tests.feeding import scan

KERNEL_PREFIXES = (
    "",
    "[ 1843.308145] ",
    "<4>",
    "Aug 17 06:18:01 node-a kernel: ",
    "Aug 17 06:18:01 node-a kernel: [ 1843.308145] ",
    "[Mon Aug 17 06:18:01 2026] ",
    "node-a: ",
    "2026-08-17T06:18:01.123456789Z stdout F ",
    "[pod/bench-worker-3/main] ",
    "[1,3]<stderr>:",
    "\x1b[31m",
)
POD_PREFIXES = (
    "",
    "node-a: ",
    "2026-08-17T06:18:01.123456789Z stderr F ",
    "[pod/bench-worker-3/main] ",
    "[1,3]<stderr>:",
    "3: ",
    "\x1b[31m",
)
FILLER = ("", "starting the run", "7 of 9 done", "# a comment", "a line ä ö ü", "\ufffd\x07")

TABLES: tuple[tuple[type[Scanner], tuple[Wording, ...], tuple[str, ...]], ...] = (
    (KernelScanner, platform.TABLE, KERNEL_PREFIXES),
    (LauncherScanner, rules.TABLE, POD_PREFIXES),
)
FORGOTTEN = (
    ("GPU 3: HW thermal slowdown", "GPU_THERMAL"),
    ("GPU 3: hw power BRAKE", "GPU_POWER_BRAKE"),
    ("ib0: LINK IS DOWN", "IB_LINK_DOWN"),
    ("ERROR: PERMISSION DENIED (PUBLICKEY).", "INFRA_SSH_AUTH"),
    ("out of MEMORY: killed process 771 (python3)", "INFRA_OOM_KILLED"),
)
ROWS = [
    pytest.param(scanner, row, example, prefixes, id=f"{row.code}-{example[:40]}")
    for scanner, table, prefixes in TABLES
    for row in table
    for example in row.examples
]


def in_any_case(pattern: re.Pattern[str], example: str) -> list[str]:
    if not pattern.flags & re.I:
        return [example]
    return [example, example.upper(), example.lower(), example.swapcase()]


def findings_of(scanner: type[Scanner], lines: list[str], end: str = "\n") -> list[Finding]:
    return scan(scanner, "\n".join(lines) + end).findings


def test_every_row_has_an_example_that_no_row_before_it_takes() -> None:
    for _, table, _ in TABLES:
        for row in table:
            assert row.examples, row.pattern.pattern
            for example in row.examples:
                taker = next(each for each in table if each.pattern.search(example))
                assert taker is row, example


@pytest.mark.parametrize(("scanner", "row", "example", "prefixes"), ROWS)
def test_a_wording_is_found(
    scanner: type[Scanner], row: Wording, example: str, prefixes: tuple[str, ...]
) -> None:
    """In any case that the pattern allows, first, in the middle and last, behind any prefix."""
    for text in in_any_case(row.pattern, example):
        for prefix in prefixes:
            line = prefix + text
            for lines in ([line, *FILLER], [*FILLER, line, *FILLER], [*FILLER, line]):
                for end in ("\n", ""):
                    found = findings_of(scanner, lines, end)
                    assert {each.code for each in found} == {row.code}, (line, found)
                    assert found[0].effect is reason(row.code).effect_in(row.variant)


@settings(max_examples=50, deadline=None)
@given(st.data(), st.integers(0, 3))
def test_wordings_do_not_hide_each_other(data: st.DataObject, gap: int) -> None:
    for scanner, table, _ in TABLES:
        every = [(row, example) for row in table for example in row.examples]
        rows = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=5))
        lines = [line for _, text in rows for line in (text, *FILLER[:gap])]
        codes = {each.code for each in findings_of(scanner, lines)}
        assert codes == {row.code for row, _ in rows}


@pytest.mark.parametrize("change", ports.CHANGES, ids=lambda change: change.pattern.pattern[:40])
def test_the_last_state_of_a_port_counts(change: ports.Change) -> None:
    """In any case, a port that comes back has flapped, and one that does not is down."""
    assert change.down or change.up
    assert all(change.pattern.search(text) for text in (change.down, change.up) if text)
    if change.down is None or change.up is None:
        return
    downs, ups = (in_any_case(change.pattern, text) for text in (change.down, change.up))
    for down, up in zip(downs, ups, strict=True):
        for prefix in KERNEL_PREFIXES:
            gone, back = prefix + down, prefix + up
            for lines, code in (
                ([gone], "IB_LINK_DOWN"),
                ([gone, *FILLER, back], "IB_LINK_FLAP"),
                ([back, gone], "IB_LINK_DOWN"),
                ([gone, back, gone], "IB_LINK_DOWN"),
                ([gone, back, gone, back], "IB_LINK_FLAP"),
            ):
                assert [each.code for each in findings_of(KernelScanner, lines)] == [code], lines


def test_another_logger_may_tell_that_a_port_is_back() -> None:
    for line in ("ib0: Link Active", "ib0: Link ACTIVE", "ib0: link becomes ready"):
        assert [each.code for each in findings_of(KernelScanner, ["ib0: Link DOWN", line])] == [
            "IB_LINK_FLAP"
        ]


@pytest.mark.parametrize(("line", "code"), FORGOTTEN)
def test_lines_that_words_kept_by_hand_dropped(line: str, code: str) -> None:
    found = parse_bytes(f"{line}\n".encode(), "out.log", strict=True).findings
    assert [each.code for each in found] == [code]


def test_columns_of_codes_name_codes() -> None:
    codes = {each.code for each in all_reasons()}
    for each in all_reasons():
        assert codes >= set(each.follows)
        assert each.code not in each.follows
        for variant in each.variants.values():
            assert variant.effect is not each.effect, each.code


def test_the_catalog_alone_says_what_a_code_does() -> None:
    """No reader sets the effect of a finding by itself: another case of a code is a variant."""
    for path in Path("steps/parse").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for word in node.keywords if isinstance(node, ast.Call) else ():
                assert "Effect." not in ast.unparse(word.value) or word.arg != "effect", path
