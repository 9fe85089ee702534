"""`readiness judge`: parse and judge tool output that somebody already has."""

from __future__ import annotations

from collections.abc import Container, Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from catalog.bars.bar_file import bar_documents, read_bars
from catalog.bars.stages import find_stage, stages
from catalog.entries.entry import find_entry
from catalog.errors import Place
from catalog.facts.reasons import Effect
from catalog.hardware.platforms import platform_named
from pipelines.cli.certify import BarFiles
from pipelines.cli.exits import EXIT_HELP, exit_of
from pipelines.cli.inputs import OutputFiles, expand, opened
from pipelines.cli.output import Format, print_hanging, print_json, stdout_console
from pipelines.cli.parse import EntryOption, hints
from pipelines.judging import Asked, join_beside, judge, with_profile
from steps.documents import Evidence, GroupVerdict, Measurements, Outcome, ReasonGiven
from steps.evaluate.comparison import flips
from steps.evaluate.expressions import explain
from steps.evaluate.quotes import lines_of, quote, wanted_lines
from steps.parse.reader import parse_stream
from steps.report.wording import BAR_WORDS

_HELP = """Parse tool output and judge it: verdict, reason codes, expressions with their numbers.

Without `--expr` the bars of the stage judge, for the entry, platform, GPU and number of nodes; what
the output itself tells need not be given. `--expr` takes a CEL expression over all that
`readiness catalog show ID` lists (figures, context, stage numbers, `expected`, rows), or NVCRE's
form `KEY: expression over value`; it replaces the bars, never the rule that damaged or incomplete
output is not proof. A kernel log beside one run is judged with it.

**Examples**

`readiness judge all_reduce.log --platform aws --stage production`

`readiness judge all_reduce.log --expr 'busBandwidthGBps: value >= 300'`

`readiness judge all_reduce.log --expr 'busBandwidthAtGBps["16G"] >= 0.9 * 487.0'`

`readiness judge all_reduce.log --expr 'row.size_bytes < 1048576 || row.out_bus_gbps >= 20'`

`readiness judge diag.json --scope gpu --expr 'hostToDeviceMinGBps: value >= 50'`
"""


class ScopeOption(StrEnum):
    """What an expression is evaluated for."""

    GROUP = "group"
    NODE = "node"
    GPU = "gpu"
    ROW = "row"


_WORSE = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
_STYLES = {Outcome.PASS: "green", Outcome.FAIL: "red", Outcome.INCONCLUSIVE: "yellow"}


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("judge", help=_HELP, epilog=EXIT_HELP)
    def command(
        files: OutputFiles,
        entry: EntryOption = None,
        stage: Annotated[str, typer.Option(help=f"One of {', '.join(stages())}.")] = "production",
        expr: Annotated[
            list[str] | None, typer.Option("--expr", metavar="CEL", help="May be given repeatedly.")
        ] = None,
        platform: Annotated[
            str | None, typer.Option(help="Platform, instance type or profile: aws, p5.48xlarge, …")
        ] = None,
        gpu: Annotated[str | None, typer.Option(help="GPU architecture, for example h100.")] = None,
        nodes: Annotated[int | None, typer.Option(min=1, help="Nodes of the run.")] = None,
        scope: Annotated[
            ScopeOption | None,
            typer.Option(help="What --expr is evaluated for; row where it names row, else group."),
        ] = None,
        bars: BarFiles = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        find_stage(stage, Place("--stage"))
        known = find_entry(entry, Place("--entry")) if entry else None
        asked = Asked(
            known,
            stage,
            expr or (),
            platform_named(platform) if platform else None,
            gpu,
            nodes,
            scope.value if scope else None,
            own_bars=read_bars(bar_documents(bars or ())),
        )
        profile = asked.check()
        documents = []
        for name in expand(files):
            with opened(name) as stream:
                documents.append(parse_stream(stream, name, with_profile(hints(known), profile)))
        judged = [(item, _quoted(judge(item, asked, profile))) for item in join_beside(documents)]
        if output is Format.JSON:
            data = [_as_data(document, verdict) for document, verdict in judged]
            print_json(data[0] if len(data) == 1 else data)
        else:
            for index, (document, verdict) in enumerate(judged):
                _show(document, verdict, first=index == 0)
            _show_flips(judged)
        worst = min((verdict.outcome for _, verdict in judged), key=_WORSE.index)
        raise typer.Exit(exit_of(worst))


def _as_data(document: Measurements, verdict: GroupVerdict) -> dict[str, Any]:
    data = verdict.to_data()
    return {
        "verdict": verdict.outcome.value,
        "files": list(document.files),
        "mode": document.mode.name,
        "completeness": document.completeness.value,
        "reasonCodes": list(dict.fromkeys(reason.code for reason in verdict.reasons)),
        "reasons": data["reasons"],
        "expressions": data["expressions"],
        "figures": data["figures"],
    }


def _show(document: Measurements, verdict: GroupVerdict, *, first: bool) -> None:
    console = stdout_console()
    if not first:
        console.print()
    name = ", ".join(document.files) or "output"
    line = Text(verdict.outcome.value, style=f"bold {_STYLES[verdict.outcome]}")
    line.append(f"  {name} ({document.mode}, {document.completeness})", style="")
    print_hanging(console, line, 0)
    for item in verdict.expressions:
        text = Text(f"{BAR_WORDS[item.outcome]}: {explain(item)}")
        if item.with_values != item.expression:
            text.append(f"   [{item.expression}]", style="dim")
        if item.source:
            text.append(f"   {item.source}", style="dim")
        print_hanging(console, text, 2)
        _show_lines(item.evidence)
    shown = {line for item in verdict.expressions for line in item.evidence}
    for reason in verdict.reasons:
        _show_reason(reason, shown)


def _show_flips(judged: Iterable[tuple[Measurements, GroupVerdict]]) -> None:
    """Print which settings differ between outputs of the same nodes that are judged otherwise."""
    named = [(", ".join(item.files), verdict) for item, verdict in judged if item.ranks]
    for line in flips(named):
        stdout_console().print()
        print_hanging(stdout_console(), Text(f"SETTINGS_DIFFER: {line}"), 0)


def _show_lines(lines: Iterable[Evidence]) -> None:
    for line in lines:
        where = f"line {line.line}: " if line.line else ""
        print_hanging(stdout_console(), Text(f"{where}{line.text.strip()}", style="dim"), 6)


def _quoted(verdict: GroupVerdict) -> GroupVerdict:
    """Put the words of the files into the evidence; standard input cannot be read again."""
    texts: dict[tuple[str | None, int | None], Evidence] = {}
    for name, numbers in wanted_lines(verdict.expressions).items():
        if name != "-":
            with opened(name) as stream:
                lines = lines_of(stream, name, numbers)
            texts |= {(name, number): line for number, line in lines.items()}
    return quote(verdict, texts)


def _show_reason(reason: ReasonGiven, shown: Container[Evidence]) -> None:
    console = stdout_console()
    style = {Effect.FAIL: "red", Effect.INCONCLUSIVE: "yellow"}.get(reason.effect, "")
    places = ", ".join(dict.fromkeys(str(entity) for entity in reason.entities if str(entity)))
    text = Text(reason.code, style=style)
    text.append(f" ({reason.effect}){' ' + places if places else ''}: ", style="")
    text.append(reason.message, style="")
    print_hanging(console, text, 2)
    _show_lines([line for line in reason.evidence[:1] if line not in shown])
    if reason.remedy and reason.effect.blocks:
        print_hanging(console, Text(f"next: {reason.remedy}", style="dim"), 6)
