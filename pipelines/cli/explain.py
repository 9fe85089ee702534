"""`readiness explain`: every resolved value with the chain of rules that set or replaced it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from catalog.entries.entry import find_entry
from catalog.errors import InputError, Place
from catalog.reading.model import suggestion
from catalog.reading.setting import Origin, Setting
from catalog.workload.resolve import for_group
from pipelines.cli.certify import BarFiles, CertificationFile, ProfileFiles
from pipelines.cli.detect import NodesFile, OptionalFleetFile, PodsFile, read_inputs
from pipelines.cli.output import Format, print_json
from pipelines.cli.plan import plan_of, size_of
from pipelines.settings import settings_of
from steps.documents import BarSet, Plan, PlannedCategory, PlannedPart
from steps.report.wording import count

_HELP = """Show every value that a certification resolves to, and the rules that set it.

Below each value stands the rule that set it, then what it replaced, latest first.

**Example**

`readiness explain examples/certification.yaml --entry communication/nccl-all-reduce
--fleet examples/fleet.yaml`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("explain", help=_HELP)
    def command(
        certification: CertificationFile,
        entry: Annotated[
            str | None,
            typer.Option(
                "--entry", metavar="ID", help="Category to explain; all of them when not given."
            ),
        ] = None,
        nodes: NodesFile = None,
        fleet: OptionalFleetFile = None,
        pods: PodsFile = None,
        profiles: ProfileFiles = None,
        bars: BarFiles = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        plan = plan_of(certification, read_inputs(nodes, fleet, pods), profiles, bars)
        chosen = [category for category in plan.categories if entry in {None, category.id}]
        if not chosen:
            find_entry(entry or "", Place("--entry"))
            asked = [category.id for category in plan.categories]
            hint = suggestion(entry or "", asked) or f"it asks for {', '.join(asked)}"
            raise InputError(f"the certification does not ask for {entry}", Place("--entry"), hint)
        if output is Format.JSON:
            print_json(_data(plan, chosen))
        else:
            _show(plan, chosen)


def _data(plan: Plan, chosen: list[PlannedCategory]) -> dict[str, Any]:
    return {
        "certification": plan.certification,
        "problems": [{"code": code, "message": message} for code, message in plan.problems],
        "categories": [
            {
                "id": category.id,
                "scale": category.scale,
                "parts": [_part_data(part) for part in category.parts],
            }
            for category in chosen
        ],
    }


def _part_data(part: PlannedPart) -> dict[str, Any]:
    workload = for_group(part.workload, size_of(part))
    return {
        "cohort": part.cohort,
        "nodesPerGroup": size_of(part),
        "command": list(workload.command),
        "settings": {name: setting.to_data() for name, setting in settings_of(workload)},
        "bars": [bars.to_data() for bars in part.bars],
    }


def _show(plan: Plan, chosen: list[PlannedCategory]) -> None:
    for code, message in plan.problems:
        typer.echo(f"{code}: {message}")
    cohorts = {cohort.id: cohort for cohort in plan.cohorts}
    for category in chosen:
        for part in category.parts:
            cohort = cohorts[part.cohort]
            known = cohort.hardware.profile
            profile = f"{known} ({cohort.profile_origin})" if known else "none"
            workload = for_group(part.workload, size_of(part))
            typer.secho(f"\n{category.id} on {part.cohort}", bold=True)
            typer.echo(f"profile {profile}; groups of {count(size_of(part), 'node')}")
            typer.echo(f"command = {' '.join(workload.command)}")
            for name, setting in settings_of(workload):
                _show_setting(name, setting)
            for bars in part.bars:
                _show_bars(bars)
        if not category.parts:
            typer.echo(f"\n{category.id}: no node can run it; see `readiness plan`")


def _show_setting(name: str, setting: Setting) -> None:
    typer.echo(f"{name} = {_text(setting.value)}")
    typer.secho(f"    {_where(setting.origin)}", dim=True)
    for old in reversed(setting.replaced):
        typer.secho(f"    over {_text(old.value)}: {_where(old.origin)}", dim=True)


def _show_bars(bars: BarSet) -> None:
    for bar in bars.bars:
        values = ", ".join(f"{name} {value:g}" for name, value in bar.values.items())
        typer.echo(f"bar {bar.key}, {count(bars.nodes, 'node')} = {bar.expression}")
        if values:
            typer.secho(f"    with {values} ({bar.kind})", dim=True)
        if bar.reasoning:
            typer.secho(f"    since {bar.reasoning}", dim=True)
        typer.secho(f"    {_where(bar.origin)}", dim=True)
    for item in bars.missing:
        typer.echo(f"{item.code}, {count(bars.nodes, 'node')}: {item.message}")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _where(origin: Origin) -> str:
    line = "" if origin.line is None else f":{origin.line}"
    source = f"; {origin.source}" if origin.source else ""
    return f"{origin.rule} ({origin.file}{line}){source}"
