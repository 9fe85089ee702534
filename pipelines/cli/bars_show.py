"""`readiness bars show`: the bars of an entry with their numbers, and where these come from."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.text import Text

from catalog.bars.bar import Bar
from catalog.bars.bar_file import bar_documents, read_bars
from catalog.bars.required import bars_for
from catalog.bars.stages import find_stage, stages
from catalog.entries.entry import Entry, find_entry
from catalog.errors import InputError, Place
from catalog.hardware.hardware import Hardware
from catalog.hardware.platforms import architecture_of, platform_named
from catalog.hardware.profile import Profiles, hardware_of_profile, load_profiles, profile_documents
from catalog.language.expressions import compile_bar, format_value
from catalog.reading.model import suggestion
from catalog.reading.setting import Origin, Setting
from pipelines.cli.certify import BarFiles, ProfileFiles
from pipelines.cli.output import Format, print_hanging, print_json, stdout_console
from steps.report.wording import count

_HELP = """Show the bars of an entry at a stage, for given hardware and number of nodes.

Each with the numbers that are put in and the threshold that results, and where its height comes
from: a figure that was *published* for such hardware, one *derived* from its links where nobody has
published any, or *yours*.

**Example**

`readiness bars show communication/nccl-all-reduce --stage production --gpu h100 --platform aws
--instance-type p5.48xlarge --nodes 8`
"""

_COMPARES = re.compile(r"(>=|<=|==|!=|>|<|&&|\|\||[()])")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("show", help=_HELP)
    def command(
        entry: Annotated[str, typer.Argument(metavar="ID", help="Category id.")],
        gpu: Annotated[str, typer.Option(help="GPU architecture, for example h100.")],
        platform: Annotated[str, typer.Option(help="aws, azure, gcp, oci, onprem, …")],
        nodes: Annotated[int, typer.Option(min=1, help="Nodes of a group.")] = 1,
        stage: Annotated[str, typer.Option(help=f"One of {', '.join(stages())}.")] = "production",
        instance_type: Annotated[
            str | None, typer.Option(help="For example p5.48xlarge; tells the network devices.")
        ] = None,
        scale: Annotated[
            str | None, typer.Option(help="Scale of the category; its default when not given.")
        ] = None,
        bars: BarFiles = None,
        profiles: ProfileFiles = None,
        *,
        mnnvl: Annotated[
            bool | None, typer.Option(help="NVLink across nodes; as the hardware has it.")
        ] = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        known = find_entry(entry, Place("ID"))
        find_stage(stage, Place("--stage"))
        if scale is not None and scale not in known.scales:
            hint = f"one of {', '.join(known.scales)}"
            raise InputError(f"{known.id} has no scale {scale!r}", Place("--scale"), hint)
        loaded = load_profiles(profile_documents(profiles or ()))
        hardware = _hardware(loaded, gpu, platform_named(platform), instance_type)
        if mnnvl is not None:
            hardware = replace(hardware, mnnvl=mnnvl)
        found, missing = bars_for(
            known,
            stage,
            hardware,
            nodes,
            _options(known),
            scale=scale or known.scale,
            own=read_bars(bar_documents(bars or ()), loaded),
        )
        context = {"nodes": nodes, "gpus_per_node": hardware.gpus_per_node}
        if output is Format.JSON:
            print_json(
                {
                    "entry": known.id,
                    "stage": stage,
                    "nodes": nodes,
                    "scale": scale or known.scale,
                    "hardware": {key: value for key, value in asdict(hardware).items() if value},
                    "bars": [_data(bar, known, context) for bar in found],
                    "missing": [item.to_data() for item in missing],
                }
            )
            return
        console = stdout_console()
        profile = f"profile {hardware.profile}" if hardware.profile else "no profile is known"
        where = f"{hardware.gpu} on {hardware.place} ({profile})"
        head = f"{known.id} at {stage}, {count(nodes, 'node')}, {where}"
        console.print(head, style="bold", markup=False)
        for bar in found:
            _show(bar, known, context)
        for item in missing:
            print_hanging(console, Text(f"{item.code}: {item.message}"), 0)


def _hardware(profiles: Profiles, gpu: str, platform: str, instance_type: str | None) -> Hardware:
    """Return what is known of the hardware.

    Raises:
        InputError: an unknown GPU or platform, or an instance type of another platform or GPU.
    """
    architecture = architecture_of(gpu)
    every = list(profiles.all())
    gpus = {name for loaded in every for name in loaded.profile.gpu}
    platforms = {loaded.profile.platform for loaded in every}
    for value, known, option in ((architecture, gpus, "gpu"), (platform, platforms, "platform")):
        if value not in known:
            hint = suggestion(value, known) or f"known: {', '.join(sorted(known))}"
            raise InputError(f"{option} {value!r} is not known", Place(f"--{option}"), hint)
    listed = profiles.match(None, instance_type, None)
    if listed is not None:
        has = listed[0].profile
        if has.platform != platform or architecture not in has.gpu:
            message = f"{instance_type!r} is of {has.platform}, with {', '.join(has.gpu)}"
            raise InputError(message, Place("--instance-type"))
    found = profiles.match(platform, instance_type, architecture)
    if found is None:
        return Hardware(
            platform=platform,
            gpu=architecture,
            gpus_per_node=None,
            instance_type=instance_type,
        )
    return hardware_of_profile(found[0], architecture, instance_type=instance_type)


def _options(entry: Entry) -> dict[str, Setting]:
    largest = entry.options.get("maxBytes")
    origin = Origin(rule="default", file=f"catalog/entries/{entry.id}.yaml")
    return {} if largest is None else {"maxBytes": Setting(value=largest, origin=origin)}


def _data(bar: Bar, entry: Entry, context: Mapping[str, Any]) -> dict[str, Any]:
    return {**bar.to_data(), "threshold": threshold_of(bar, entry, context)}


def _show(bar: Bar, entry: Entry, context: Mapping[str, Any]) -> None:
    console = stdout_console()
    scope = "" if bar.scope == "group" else f" for each {bar.scope}"
    print_hanging(console, Text(f"{bar.key}{scope}: {bar.expression}   [{bar.code}]"), 0)
    values = ", ".join(f"{name} {format_value(value)}" for name, value in bar.values.items())
    threshold = threshold_of(bar, entry, context)
    if threshold != bar.expression:
        print_hanging(console, Text(f"{threshold}   with {values}" if values else threshold), 4)
    if bar.optional:
        print_hanging(console, Text("left out where the output lacks the figure"), 4)
    words = f"{bar.kind}: {(bar.source or bar.origin.rule).removeprefix(f'{bar.kind}: ')}"
    if bar.origin.line is not None:
        words += f" ({bar.origin.file}:{bar.origin.line})"
    print_hanging(console, Text(words, style="dim"), 4)
    if bar.reasoning:
        print_hanging(console, Text(f"since {bar.reasoning}", style="dim"), 4)


def threshold_of(bar: Bar, entry: Entry, context: Mapping[str, Any]) -> str:
    """Write a bar with its numbers put in and multiplied out: ``busBandwidthGBps >= 448.132``."""
    expression = compile_bar(bar.key, bar.expression, entry.tool, bar.scope)
    known = {name: value for name, value in context.items() if value is not None}
    text = expression.with_values({**known, **bar.values})
    return "".join(_multiplied(part) for part in _COMPARES.split(text))


def _multiplied(text: str) -> str:
    """Work a part of an expression out if it is arithmetic on plain numbers."""
    try:
        value = _number(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ValueError):
        return text
    lead = text[: len(text) - len(text.lstrip())]
    return lead + format_value(value) + text[len(text.rstrip()) :]


def _number(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_number(node.left), _number(node.right))
    raise ValueError("no arithmetic on plain numbers")
