"""`readiness judge`: parse and judge tool output that somebody already has."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from catalog.bars import find_stage, stages
from catalog.entry import find_entry
from catalog.errors import Place
from catalog.reasons import Effect
from pipelines.cli.exits import EXIT_HELP, exit_of
from pipelines.cli.inputs import OutputFiles, expand, opened
from pipelines.cli.output import Format, print_hanging, print_json, stdout_console
from pipelines.cli.parse import EntryOption, hints
from pipelines.judging import Asked, join_beside, judge, with_profile
from steps.documents import GroupVerdict, Measurements, Outcome, ReasonGiven
from steps.evaluate.expressions import explain
from steps.parse.reader import parse_stream

_HELP = """Parse tool output and judge it: verdict, reason codes, expressions with their numbers.

Without `--expr` the bars of the stage judge, for the entry, platform, GPU and number of nodes; what
the output itself tells need not be given. `--expr` takes a CEL expression over the figures of the
entry, or NVCRE's form `KEY: expression over value`; it replaces the bars, never the rule that
damaged or incomplete output is not proof. A kernel log beside one run is judged with it.

**Examples**

`readiness judge all_reduce.log --platform aws --stage production`

`readiness judge all_reduce.log --expr 'busBandwidthGBps: value >= 300'`

`readiness judge all_reduce.log --expr 'busBandwidthAtGBps["16G"] >= 0.9 * 487.0'`
"""

_WORSE = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
_STYLES = {Outcome.PASS: "green", Outcome.FAIL: "red", Outcome.INCONCLUSIVE: "yellow"}
_MARKS = {Outcome.PASS: "true", Outcome.FAIL: "false", Outcome.INCONCLUSIVE: "not proven"}


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
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        find_stage(stage, Place("--stage"))
        known = find_entry(entry, Place("--entry")) if entry else None
        asked = Asked(known, stage, expr or (), platform, gpu, nodes)
        profile = asked.check()
        documents = []
        for name in expand(files):
            with opened(name) as stream:
                documents.append(parse_stream(stream, name, with_profile(hints(known), profile)))
        judged = [(item, judge(item, asked, profile)) for item in join_beside(documents)]
        if output is Format.JSON:
            data = [_as_data(document, verdict) for document, verdict in judged]
            print_json(data[0] if len(data) == 1 else data)
        else:
            for index, (document, verdict) in enumerate(judged):
                _show(document, verdict, first=index == 0)
        worst = min((verdict.outcome for _, verdict in judged), key=_WORSE.index)
        raise typer.Exit(exit_of(worst))


def _as_data(document: Measurements, verdict: GroupVerdict) -> dict[str, Any]:
    data = verdict.to_data()
    return {
        "verdict": verdict.outcome.value,
        "files": list(document.files),
        "mode": document.mode.value,
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
        text = Text(f"{_MARKS[item.outcome]}: {explain(item)}")
        if item.with_values != item.expression:
            text.append(f"   [{item.expression}]", style="dim")
        if item.source:
            text.append(f"   {item.source}", style="dim")
        print_hanging(console, text, 2)
    for reason in verdict.reasons:
        _show_reason(reason)


def _show_reason(reason: ReasonGiven) -> None:
    console = stdout_console()
    style = {Effect.FAIL: "red", Effect.INCONCLUSIVE: "yellow"}.get(reason.effect, "")
    places = ", ".join(dict.fromkeys(str(entity) for entity in reason.entities if str(entity)))
    text = Text(reason.code, style=style)
    text.append(f" ({reason.effect}){' ' + places if places else ''}: ", style="")
    text.append(reason.message, style="")
    print_hanging(console, text, 2)
    for proof in reason.evidence[:1]:
        where = f"line {proof.line}: " if proof.line else ""
        print_hanging(console, Text(f"{where}{proof.text.strip()}", style="dim"), 6)
    if reason.remedy and reason.effect in {Effect.FAIL, Effect.INCONCLUSIVE}:
        print_hanging(console, Text(f"next: {reason.remedy}", style="dim"), 6)
