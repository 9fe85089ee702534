"""`readiness bars try`: which runs of the past a bar would judge otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from catalog.bars.bar_file import NO_BARS, bar_documents, read_bars
from catalog.bars.stages import find_stage, stages
from catalog.entries.entry import builtin_entries, find_entry
from catalog.errors import InputError, Place
from catalog.facts.tools import TOOLS
from catalog.language.expressions import split_keyed
from pipelines.cli.judge import ScopeOption
from pipelines.cli.output import Format, print_hanging, print_json, stdout_console
from pipelines.own_bar import own_bar
from pipelines.trying import Trial, Tried, find_stores, try_bars
from steps.evaluate.expressions import explain
from steps.report.wording import BAR_WORDS, count, fold_names

_HELP = """Judge runs that are over by a bar that is tried, and show which verdicts differ.

`--runs` is the `--out` directory of `readiness certify`, or a directory above several of them. A
bar of `--expr` replaces the bar of its key, or is added; all other bars stay those of the time.
`--stage` and `--bars` work the bars out anew. Nothing is written, and the exit code is 0 whatever
differs.

**Examples**

`readiness bars try --runs out --expr 'busBandwidthGBps: value >= 0.97 * expected'`

`readiness bars try --runs out --entry communication/nccl-all-reduce --stage production`
"""
_STYLES = {"PASS": "green", "FAIL": "red", "INCONCLUSIVE": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the command to the group ``bars``."""

    @app.command(
        "try",
        help=_HELP,
        epilog="Exit codes: 0 judged, 2 wrong use or bad input, 3 a stored document is damaged.",
    )
    def command(
        runs: Annotated[
            Path, typer.Option("--runs", metavar="DIR", help="Documents of certifications.")
        ],
        expr: Annotated[
            list[str] | None,
            typer.Option("--expr", metavar="CEL", help="May be given repeatedly."),
        ] = None,
        scope: Annotated[
            ScopeOption | None,
            typer.Option(help="What --expr is evaluated for; row where it names row, else group."),
        ] = None,
        entry: Annotated[
            str | None, typer.Option("--entry", metavar="ID", help="The only category to judge.")
        ] = None,
        stage: Annotated[
            str | None, typer.Option(help=f"By the bars of {', '.join(stages())}.")
        ] = None,
        bars: Annotated[
            list[Path] | None,
            typer.Option("--bars", metavar="FILE|DIR", help="By bars of your own, beside ours."),
        ] = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        if not (expr or stage or bars):
            hint = "for instance --expr 'busBandwidthGBps: value >= 300'"
            raise InputError("there is nothing to try", Place("--expr, --stage or --bars"), hint)
        tried = Tried(
            expressions=tuple(expr or ()),
            scope=scope.value if scope else None,
            stage=stage,
            own=read_bars(bar_documents(bars)) if bars else NO_BARS,
        )
        if stage:
            find_stage(stage, Place("--stage"))
        _check(tried, entry)
        stores = find_stores(runs)
        trials = list(try_bars(stores, tried, entry))
        if not trials:
            what = entry or "figures of these expressions"
            raise InputError(f"no run below {runs} is of {what}", Place("--runs"))
        if output is Format.JSON:
            print_json({"summary": _summary(trials), "runs": [_as_data(one) for one in trials]})
        else:
            _show(trials, several=len(stores) > 1)


def _check(tried: Tried, entry: str | None) -> None:
    """Compile the expressions before any document is read.

    Raises:
        InputError: an unknown entry, or an expression over no figures of any tool.
    """
    known = [find_entry(entry, Place("--entry"))] if entry else builtin_entries().values()
    tools = dict.fromkeys(one.tool for one in known)
    for text in tried.expressions:
        key, _ = split_keyed(text)
        errors: dict[str, InputError] = {}
        for tool in tools:
            try:
                own_bar(text, tool, tried.scope)
            except InputError as error:
                errors[tool] = error
        if len(errors) == len(tools):
            # The tool that has the figure knows best what is wrong.
            own = next((tool for tool in errors if key in TOOLS[tool].figures), next(iter(errors)))
            raise errors[own]


def _summary(trials: Sequence[Trial]) -> dict[str, Any]:
    flips = Counter(f"{one.before.outcome} -> {one.after.outcome}" for one in trials if one.flips)
    return {"runs": len(trials), "flips": sum(flips.values()), "byKind": dict(flips)}


def _as_data(one: Trial) -> dict[str, Any]:
    group = one.after.group
    return {
        "store": str(one.store),
        "certification": one.certification,
        "category": one.category,
        "group": group.id,
        "purpose": group.purpose,
        "nodes": list(group.nodes),
        "stored": one.stored.value if one.stored else None,
        "before": one.before.outcome.value,
        "after": one.after.outcome.value,
        "flips": one.flips,
        "expressions": [item.to_data() for item in one.numbers],
        "reasonCodes": list(dict.fromkeys(reason.code for reason in one.after.reasons)),
    }


def _show(trials: Sequence[Trial], *, several: bool) -> None:
    console = stdout_console()
    summary = _summary(trials)
    kinds = ", ".join(f"{number} {kind}" for kind, number in summary["byKind"].items())
    runs = count(summary["runs"], "run")
    console.print(Text(f"{summary['flips']} of {runs} would flip{': ' if kinds else ''}{kinds}"))
    telling = [one for one in trials if one.flips or one.numbers or _remembered(one)]
    for one in sorted(telling, key=lambda one: not one.flips):
        _show_one(one, several=several)
    if untouched := len(trials) - len(telling):
        runs = count(untouched, "run")
        console.print(Text(f"  {runs} where no bar came out otherwise"))


def _remembered(one: Trial) -> bool:
    """Whether the report of that time says otherwise than its bars say today."""
    return one.stored is not None and one.stored is not one.before.outcome


def _show_one(one: Trial, *, several: bool) -> None:
    console = stdout_console()
    before, after = one.before.outcome.value, one.after.outcome.value
    text = Text("* " if one.flips else "  ")
    text.append(before, style=_STYLES[before])
    if one.flips:
        text.append(" -> ")
        text.append(after, style=f"bold {_STYLES[after]}")
    place = f"{one.certification} ({one.store}), " if several else ""
    text.append(f"  {place}{one.category} {one.after.group.id}: ")
    text.append(fold_names(one.after.group.nodes))
    if _remembered(one):
        text.append(f"  (was {one.stored} when it ran)", style="dim")
    print_hanging(console, text, 0)
    for item in one.numbers:
        line = Text(f"{BAR_WORDS[item.outcome]}: {explain(item)}")
        line.append(f"   [{item.expression}]", style="dim")
        print_hanging(console, line, 4)
