"""`readiness judge`: parse and judge tool output that somebody already has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.text import Text
from steps.parse.reader import combine, parse_stream

from catalog.bars import Hardware, bars_for, find_stage, stages
from catalog.entry import Entry, Tool, builtin_entries, find_entry
from catalog.errors import ExpressionError, InputError, Place
from catalog.expressions import check_threshold, split_keyed
from catalog.model import suggestion
from catalog.platforms import UNKNOWN, architecture_of, platform_rules
from catalog.profile import LoadedProfile, builtin_profiles
from catalog.resolved import Bar, Origin
from pipelines.cli.exits import EXIT_HELP, exit_of
from pipelines.cli.inputs import OutputFiles, expand, opened
from pipelines.cli.output import Format, print_json, stdout_console
from pipelines.cli.parse import EntryOption, hints
from steps.documents import (
    BarSet,
    Group,
    GroupVerdict,
    Measurements,
    Outcome,
    ReadMode,
)
from steps.evaluate.expressions import explain
from steps.evaluate.group import judge_output

_HELP = """Parse tool output and judge it: verdict, reason codes, expressions with their numbers.

Without `--expr` the bars of the stage judge, for the entry, platform, GPU and number of nodes; what
the output itself tells need not be given. `--expr` takes a CEL expression over the figures of the
entry, or NVCRE's form `KEY: expression over value`; it replaces the bars, never the rule that
damaged or incomplete output is not proof.

**Examples**

`readiness judge all_reduce.log --platform aws --stage production`

`readiness judge all_reduce.log --expr 'busBandwidthGBps: value >= 300'`

`readiness judge all_reduce.log --expr 'busBandwidthAtGBps["16G"] >= 0.9 * 487.0'`
"""

_TOOLS: dict[ReadMode, Tool] = {
    ReadMode.NCCL_TABLE: "nccl",
    ReadMode.NCCL_JSON: "nccl",
    ReadMode.DCGM_JSON: "dcgm",
    ReadMode.DCGM_TEXT: "dcgm",
    ReadMode.NVBANDWIDTH_JSON: "dcgm",
    ReadMode.NVIDIA_SMI: "dcgm",
    ReadMode.TRAINING_LOG: "training",
}
_WORSE = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)


@dataclass(frozen=True)
class _Asked:
    """What the person told about the output."""

    entry: Entry | None
    stage: str
    expressions: Sequence[str]
    platform: str | None
    gpu: str | None
    nodes: int | None


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
            str | None,
            typer.Option(
                help="Platform, instance type or profile, for example aws or p5.48xlarge."
            ),
        ] = None,
        gpu: Annotated[str | None, typer.Option(help="GPU architecture, for example h100.")] = None,
        nodes: Annotated[int | None, typer.Option(min=1, help="Nodes of the run.")] = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        find_stage(stage, Place("--stage"))
        known = find_entry(entry, Place("--entry")) if entry else None
        asked = _Asked(known, stage, expr or (), platform, gpu, nodes)
        profile = _profile(asked)
        if known:
            for text in asked.expressions:
                _own_bar(text, known.tool)
        documents = _read(expand(files), asked, profile)
        judged = [(document, _judge(document, asked, profile)) for document in documents]
        if output is Format.JSON:
            data = [_as_data(document, verdict) for document, verdict in judged]
            print_json(data[0] if len(data) == 1 else data)
        else:
            for index, (document, verdict) in enumerate(judged):
                _show(document, verdict, first=index == 0)
        worst = min((verdict.outcome for _, verdict in judged), key=_WORSE.index)
        raise typer.Exit(exit_of(worst))


def _profile(asked: _Asked) -> LoadedProfile | None:
    """Find the profile for ``--platform``: a profile, an instance type, or platform and GPU."""
    gpu = architecture_of(asked.gpu) if asked.gpu else None
    profiles = builtin_profiles()
    architectures = {name for p in profiles.all() for name in p.profile.architectures}
    if gpu and gpu not in architectures:
        hint = suggestion(gpu, architectures) or f"known: {', '.join(sorted(architectures))}"
        raise InputError(f"GPU {asked.gpu!r} is not known", Place("--gpu"), hint)
    if asked.platform is None:
        return None
    platforms = {rule.platform for rule in platform_rules()}
    if asked.platform in platforms:
        found = profiles.match(asked.platform, None, gpu) if gpu else None
        return found[0] if found else None
    try:
        return profiles.find(asked.platform)
    except InputError as error:
        hint = suggestion(asked.platform, platforms) or f"platforms: {', '.join(sorted(platforms))}"
        message = f"{asked.platform!r} is no platform, instance type or profile"
        raise InputError(message, Place("--platform"), hint) from error


def _read(names: Sequence[str], asked: _Asked, profile: LoadedProfile | None) -> list[Measurements]:
    """Read all files; kernel and launcher logs join the one run that they stand beside."""
    context = hints(asked.entry)
    if profile:
        context = replace(
            context,
            gpus_per_node=profile.profile.gpus,
            transport=profile.profile.transport,
            nvlink=profile.profile.nvlink,
            multi_node_nvlink=profile.profile.mnnvl,
        )
    documents = []
    for name in names:
        with opened(name) as stream:
            documents.append(parse_stream(stream, name, context))
    runs = [document for document in documents if document.mode in _TOOLS]
    beside = [document for document in documents if document.mode not in _TOOLS]
    if len(runs) == 1 and beside:
        return [combine([*runs, *beside])]
    return documents


def _tool_of(document: Measurements, asked: _Asked) -> Tool | None:
    return asked.entry.tool if asked.entry else _TOOLS.get(document.mode)


def _entry_of(document: Measurements, asked: _Asked) -> Entry | None:
    """Name the entry by what the output says it ran."""
    if asked.entry:
        return asked.entry
    tool = _TOOLS.get(document.mode)
    fitting = [
        entry
        for entry in builtin_entries().values()
        if entry.tool == tool and entry.operation == document.operation
    ]
    # The loopback variants print the same table; the fabric variant is the one that is meant
    # unless the person says otherwise.
    return next((entry for entry in fitting if "loopback" not in entry.id), None)


def _judge(document: Measurements, asked: _Asked, profile: LoadedProfile | None) -> GroupVerdict:
    names = list(dict.fromkeys(place.node for place in document.ranks if place.node))
    tool = _tool_of(document, asked)
    group = Group(id="run", nodes=tuple(names) or ("unknown",))
    bars = _bars(document, asked, profile, asked.nodes or len(names))
    return judge_output(group, tool or "", bars, document)


def _bars(
    document: Measurements, asked: _Asked, profile: LoadedProfile | None, nodes: int
) -> BarSet:
    tool = _tool_of(document, asked)
    if tool is None:
        return BarSet(nodes=max(nodes, 1))
    if asked.expressions:
        own = tuple(_own_bar(text, tool) for text in asked.expressions)
        return BarSet(nodes=max(nodes, 1), bars=own)
    entry = _entry_of(document, asked)
    if entry is None:
        what = document.operation or document.tool or "this output"
        missing = (("NO_THRESHOLD", f"the catalog has no bar for {what}; give --expr"),)
        return BarSet(nodes=max(nodes, 1), missing=missing)
    if nodes == 0 and tool == "nccl":
        missing = (("NO_THRESHOLD", "the output names no nodes; give --nodes"),)
        return BarSet(nodes=1, missing=missing)
    bars, missing = bars_for(
        entry, asked.stage, _hardware(document, asked, profile), max(nodes, 1), {}
    )
    return BarSet(nodes=max(nodes, 1), bars=bars, missing=missing)


def _hardware(document: Measurements, asked: _Asked, profile: LoadedProfile | None) -> Hardware:
    product = next((place.product for place in document.ranks if place.product), None)
    gpu = architecture_of(asked.gpu or product)
    platform = asked.platform or UNKNOWN
    if profile is None and asked.platform and gpu != UNKNOWN:
        found = builtin_profiles().match(asked.platform, None, gpu, product=product)
        profile = found[0] if found else None
    instance_type = None
    gpus = max((place.gpu or 0 for place in document.ranks), default=0) + 1
    if profile:
        platform = profile.profile.platform
        if gpu == UNKNOWN and len(profile.profile.architectures) == 1:
            gpu = profile.profile.architectures[0]
        if asked.platform in profile.profile.instance_types:
            instance_type = asked.platform
        gpus = profile.profile.gpus or gpus
    return Hardware(
        platform=platform,
        gpu_architecture=gpu,
        gpus_per_node=gpus,
        instance_type=instance_type,
        profile=profile.name if profile else None,
    )


def _own_bar(text: str, tool: str) -> Bar:
    """Compile one ``--expr``.

    Raises:
        ExpressionError: it is no valid expression over the figures of the tool.
    """
    key, expression = split_keyed(text)
    place = Place("--expr")
    if key is None and re.search(r"\bvalue\b", expression):
        raise ExpressionError(
            f"uses value without a key: {text}", place, "write KEY: expression over value"
        )
    check_threshold(key or "expr", expression, tool, place)
    return Bar(
        key=key or "expr",
        expression=expression,
        code=_CODES.get(tool, "ThresholdViolation"),
        origin=Origin(rule="--expr", file="--expr"),
    )


_CODES = {"nccl": "NCCL_LOW_BANDWIDTH", "training": "TRAIN_SLOW"}


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
    styles = {Outcome.PASS: "green", Outcome.FAIL: "red", Outcome.INCONCLUSIVE: "yellow"}
    if not first:
        console.print()
    name = ", ".join(document.files) or "output"
    line = Text(verdict.outcome.value, style=f"bold {styles[verdict.outcome]}")
    line.append(f"  {name} ({document.mode}, {document.completeness})", style="")
    console.print(line)
    for item in verdict.expressions:
        mark = {"PASS": "true", "FAIL": "false"}.get(item.outcome.value, "not proven")
        text = Text(f"  {mark}: {explain(item)}")
        if item.with_values != item.expression:
            text.append(f"   [{item.expression}]", style="dim")
        if item.source:
            text.append(f"   {item.source}", style="dim")
        console.print(text)
    for reason in verdict.reasons:
        places = ", ".join(dict.fromkeys(str(e) for e in reason.entities if str(e)))
        text = Text(f"  {reason.code}", style=styles.get(_outcome_of(reason.effect), ""))
        text.append(f" ({reason.effect}){' ' + places if places else ''}: ", style="")
        text.append(reason.message, style="")
        console.print(text)
        for proof in reason.evidence[:1]:
            where = f"line {proof.line}: " if proof.line else ""
            console.print(Text(f"      {where}{proof.text.strip()}", style="dim"))
        if reason.remedy and reason.effect in {"fail", "inconclusive"}:
            console.print(Text(f"      next: {reason.remedy}", style="dim"))


def _outcome_of(effect: str) -> Outcome:
    return {"fail": Outcome.FAIL, "inconclusive": Outcome.INCONCLUSIVE}.get(effect, Outcome.PASS)
