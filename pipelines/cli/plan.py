"""`readiness plan`: what would run; changes nothing."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from catalog.certification import load_certification
from catalog.quantity import format_duration
from pipelines.cli.certify import CertificationFile, FleetFile, ProfileFiles
from pipelines.cli.output import Format, print_json, stdout_console
from steps.detect.core import make_plan
from steps.documents import Plan, PlannedPart
from steps.run.fleet import load_fleet

_HELP = """Show what a certification would run, on which nodes, with which values and why.

**Example**

`readiness plan examples/certification.yaml --fleet examples/fleet.yaml`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("plan", help=_HELP)
    def command(
        certification: CertificationFile,
        fleet: FleetFile,
        profiles: ProfileFiles = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        loaded, source = load_certification(certification)
        nodes = load_fleet(fleet)
        plan = make_plan(
            loaded,
            nodes.nodes(),
            source=nodes.source,
            source_note=nodes.note,
            text=source,
            profiles=tuple(profiles or ()),
            pods=nodes.pods(),
        )
        if output is Format.JSON:
            print_json(plan.to_data())
        else:
            _show(plan)


def _show(plan: Plan) -> None:
    console = stdout_console()
    console.print(
        f"{plan.certification}: stage {plan.stage}, {len(plan.targeted)} nodes targeted, "
        f"{len(plan.excluded)} excluded; {plan.source}",
        markup=False,
    )
    console.print(
        f"At most {format_duration(plan.bounds.longest_seconds)}, "
        f"{plan.bounds.gpu_hours:.0f} GPU hours; deadline "
        f"{format_duration(plan.bounds.deadline_seconds)}, node cap {plan.bounds.node_cap}."
    )
    for code, message in plan.problems:
        console.print(f"{code}: {message}", markup=False)
    for cohort in plan.cohorts:
        profile = cohort.profile or "no profile known: no verdict can be PASS"
        console.print(f"\n{cohort.id}: {len(cohort.nodes)} nodes, profile {profile}", markup=False)
    for planned in plan.categories:
        console.print(f"\n{planned.id} ({planned.scale})", markup=False, style="bold")
        for part in planned.parts:
            _show_part(part)
    if plan.excluded:
        table = Table("node", "code", "why", title="Excluded", title_justify="left")
        for item in plan.excluded:
            table.add_row(item.node, item.code, item.message)
        console.print(table)


def _show_part(part: PlannedPart) -> None:
    console = stdout_console()
    for group in part.groups:
        console.print(f"  {group.id}: {', '.join(group.nodes)}", markup=False)
    console.print(f"  {' '.join(part.workload.command)}", markup=False)
    table = Table("value", "", "set by", box=None, padding=(0, 2, 0, 2))
    shown = {
        "image": part.workload.image,
        "GPUs per node": part.workload.gpus_per_node,
        "NIC resource": part.workload.nic_resource,
        "NICs per node": part.workload.nics_per_node,
        "timeout (s)": part.workload.timeout_seconds,
        **{f"env {name}": setting for name, setting in part.workload.env.items()},
    }
    for name, setting in shown.items():
        table.add_row(name, str(setting.value), setting.origin.rule)
    for bars in part.bars:
        for bar in bars.bars:
            values = ", ".join(f"{name} {value:g}" for name, value in bar.values.items())
            text = f"{bar.expression}" + (f" ({values})" if values else "")
            table.add_row(f"bar, {bars.nodes} nodes", text, bar.source or bar.origin.rule)
        for code, message in bars.missing:
            table.add_row(f"bar, {bars.nodes} nodes", code, message)
    console.print(table)
