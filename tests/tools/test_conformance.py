"""Every tool goes through parse, combine, judge, certify and report, a newly added one too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from catalog.bars.bar import Bar
from catalog.entries.entry import builtin_entries
from catalog.facts.tools import TOOLS
from pipelines.cli.app import app
from steps.documents import (
    BarSet,
    Completeness,
    Group,
    Measurements,
    Outcome,
    Result,
    dump,
    load,
)
from steps.evaluate.group import judge_output
from steps.jobs.failures import timeout_failure
from steps.parse.kinds import KINDS, check_readers
from steps.parse.reader import combine, parse_bytes
from steps.report.html import render_html
from steps.report.junit import render_junit
from steps.report.text import render_text
from steps.simulator.faults import AnyFault
from steps.tools import TOOL_STEPS
from steps.tools.stall import Progress
from tests.builders import ORIGIN
from tests.tools import fio
from tests.tools.journey import Journey

TRIAL = "fio"
KERNEL = b"[  100.000000] NVRM: Xid (PCI:0000:18:00): 43, pid=1, name=x\n"


@pytest.fixture(scope="module", params=[*TOOLS.names, TRIAL])
def journey(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Journey]:
    if request.param != TRIAL:
        yield _journey(request.param, tmp_path_factory)
        return
    with fio.registered():
        yield _journey(request.param, tmp_path_factory)


def _journey(tool: str, paths: pytest.TempPathFactory) -> Journey:
    entries = [entry for entry in builtin_entries().values() if entry.tool == tool]
    entry = min(entries, key=lambda entry: entry.min_gpus)
    return Journey(entry, paths.mktemp(tool))


def bars(*texts: str, scope: str = "group") -> BarSet:
    made = [
        Bar.model_validate({"key": "bar", "expression": text, "scope": scope, "origin": ORIGIN})
        for text in texts
    ]
    return BarSet(nodes=1, bars=tuple(made))


def judged(read: Measurements, tool: str, known: BarSet) -> Outcome:
    return judge_output(Group(id="g", nodes=("n-1",)), tool, known, read).outcome


def test_a_healthy_fleet_is_ready_and_every_face_of_the_report_says_so(journey: Journey) -> None:
    assert journey.report.result is Result.PASS, render_text(journey.report)
    for face in (render_text, render_html, render_junit):
        assert journey.entry.id in face(journey.report)
    versions = TOOL_STEPS[journey.entry.tool].versions
    assert journey.records
    assert all(versions.items() <= record.versions.items() for record in journey.records)


def test_output_is_read_whole_and_into_what_the_catalog_names(journey: Journey) -> None:
    tool = TOOLS[journey.entry.tool]
    assert journey.reads
    for read in journey.reads:
        assert read.mode in tool.outputs
        assert read.completeness is Completeness.COMPLETE
        assert read.figures.keys() <= tool.figures.keys()
        needed = {name for name, figure in tool.figures.items() if not figure.optional}
        assert needed <= read.figures.keys()
        assert load(dump(read), Measurements, "it") == read


def test_a_log_beside_it_takes_nothing_away(journey: Journey) -> None:
    read = journey.reads[0]
    beside = parse_bytes(KERNEL, "kernel.log")
    for both in ([read, beside], [beside, read]):
        joined = combine(both)
        assert joined.mode is read.mode
        assert joined.figures == read.figures
        assert len(joined.findings) > len(read.findings)


def test_rows_have_names_words_fields_and_cells(journey: Journey) -> None:
    tool, read = TOOL_STEPS[journey.entry.tool], journey.reads[0]
    rows = tool.counted(read)
    assert rows
    for row in rows:
        assert tool.row_words(row).startswith(tool.row_name(row))
        assert len(tool.cells(row)) == len(tool.columns)
        assert tool.fields(row).keys() <= TOOLS[tool.name].rows.keys()


def test_no_bar_passes_where_any_row_was_lost(journey: Journey) -> None:
    name, read = journey.entry.tool, journey.reads[0]
    tool = TOOL_STEPS[name]
    field = next(iter(TOOLS[name].rows))
    every = bars(f"rows.all(r, r.{field} == r.{field})")
    assert tool.rows_lost(read) is None
    assert judged(read, name, every) is Outcome.PASS
    for lost in tool.counted(read):
        kept = tuple(row for row in read.rows if row is not lost)
        less = read.model_copy(update={"rows": kept})
        assert tool.rows_lost(less)
        assert judged(less, name, every) is not Outcome.PASS


def test_every_figure_shows_its_rows_or_says_why_it_is_absent(journey: Journey) -> None:
    tool, read = TOOL_STEPS[journey.entry.tool], journey.reads[0]
    find = tool.find_rows(read)
    for name in TOOLS[tool.name].figures:
        assert set(map(id, find(name, "1G"))) <= set(map(id, read.rows))
        if name in read.figures:
            tool.computed_from(name, read.figures[name], read)
        else:
            # Else a bar on it would be left out in silence, or never could be met.
            assert tool.rightly_absent(name, read) or TOOLS[tool.name].figures[name].optional


def test_an_output_without_its_end_passes_nothing(journey: Journey) -> None:
    name = journey.entry.tool
    figure = next(iter(TOOLS[name].figures))
    read = journey.reads[0]
    raw = journey.store.get_log(read.files[0])
    bar = bars(f"{figure} == {figure}")
    for size in (0, 1, len(raw) // 3, len(raw) // 2):
        assert judged(parse_bytes(raw[:size], "cut"), name, bar) is not Outcome.PASS


def test_progress_is_found_where_there_is_any(journey: Journey) -> None:
    tool = TOOL_STEPS[journey.entry.tool]
    raw = journey.store.get_log(journey.reads[0].files[0])
    progress = Progress(tool.name, 0.0)
    for at, line in enumerate(raw.splitlines()):
        progress.take(line, float(at))
    assert progress.paced is (tool.pace is not None)
    failure = timeout_failure(tool.name, Group(id="g", nodes=("n-1",)), "too long")
    assert failure.code in {"JobTimedOut", TOOLS[tool.name].timeout_of_node}


def test_the_command_judges_and_shows_its_output(journey: Journey, tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_bytes(journey.store.get_log(journey.reads[0].files[0]))
    for command in ("parse", "judge"):
        shown = CliRunner().invoke(app, [command, str(path), "--entry", journey.entry.id])
        assert shown.exception is None or isinstance(shown.exception, SystemExit)
        assert str(journey.reads[0].mode) in shown.stdout


def test_a_tool_without_readers_is_an_error() -> None:
    more = TOOLS["nccl"].model_copy(update={"name": "more"})
    with TOOLS.registered(more), pytest.raises(ValueError, match="does not read what the catalog"):
        check_readers("more", ())


def test_the_tables_agree() -> None:
    assert TOOL_STEPS.names == TOOLS.names
    assert {kind.name for tool in TOOLS for kind in tool.outputs} <= set(KINDS.names)
    limited = {tool for fault in get_args(get_args(AnyFault)[0]) for tool in fault.tools}
    assert limited
    assert limited <= set(TOOLS.names)
