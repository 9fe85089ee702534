"""`readiness plan`: what would run; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from catalog.bars.bar_file import bar_documents
from catalog.certification import load_certification
from catalog.hardware.profile import profile_documents
from catalog.reading.quantity import format_duration
from catalog.workload.resolve import for_group
from pipelines.cli.certify import BarFiles, CertificationFile, ProfileFiles
from pipelines.cli.detect import Inputs, NodesFile, OptionalFleetFile, PodsFile, read_inputs
from pipelines.cli.exits import exit_of
from pipelines.cli.output import (
    Format,
    new_table,
    print_hanging,
    print_json,
    print_table,
    stdout_console,
)
from steps.aggregate.core import make_report
from steps.detect.core import make_plan
from steps.documents import BarSet, Bounds, Plan, PlannedPart, Result
from steps.report.wording import count, fold_names, named_expression

_HELP = """Show what a certification would run, on which nodes, with which values and why.

The nodes are those of a fleet file, or those of a cluster as `kubectl get nodes` prints them.

**Examples**

`readiness plan examples/certification.yaml --fleet examples/fleet.yaml`

`kubectl get nodes -o json > nodes.json && readiness plan h100.yaml --nodes nodes.json`
"""

_EPILOG = (
    "Exit codes: 0 something can run, 2 wrong use or bad input; where nothing can run that of "
    "`certify`: 3 INCONCLUSIVE, 4 INCOMPLETE."
)

MOST_ALONE = 4
"""Groups of one node that are listed one by one; more of them are one line."""


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("plan", help=_HELP, epilog=_EPILOG)
    def command(
        certification: CertificationFile,
        fleet: OptionalFleetFile = None,
        nodes: NodesFile = None,
        pods: PodsFile = None,
        profiles: ProfileFiles = None,
        bars: BarFiles = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        plan = plan_of(certification, read_inputs(nodes, fleet, pods), profiles, bars)
        if output is Format.JSON:
            print_json(plan.to_data())
        else:
            _show(plan)
        if settled := _settled(plan):
            raise typer.Exit(exit_of(settled))


def plan_of(
    certification: Path,
    given: Inputs,
    profiles: Sequence[Path] | None,
    bars: Sequence[Path] | None,
) -> Plan:
    """Plan a certification on nodes from files.

    Raises:
        InputError: a file is damaged, or asks for something that cannot be.
    """
    loaded, source = load_certification(certification)
    return make_plan(
        loaded,
        given.nodes,
        source=given.source,
        source_note=given.note,
        text=source,
        profiles=profile_documents(profiles or ()),
        bars=bar_documents(bars or ()),
        pods=given.pods,
    )


def _settled(plan: Plan) -> Result | None:
    """Return the result of a plan without a group, which no run can change."""
    if any(part.groups for planned in plan.categories for part in planned.parts):
        return None
    return make_report(plan, {}).result


def size_of(part: PlannedPart) -> int:
    """Return the nodes of the largest group."""
    return max(len(group.nodes) for group in part.groups)


def _show(plan: Plan) -> None:
    console = stdout_console()
    console.print(
        f"{plan.certification}: stage {plan.stage}, {count(len(plan.targeted), 'node')} targeted, "
        f"{len(plan.excluded)} excluded; {plan.source}",
        markup=False,
    )
    if settled := _settled(plan):
        console.print(f"Nothing can run: certify would be {settled}, exit code {exit_of(settled)}.")
    else:
        _show_bounds(console, plan.bounds)
    for code, message in plan.problems:
        console.print(f"{code}: {message}", markup=False)
    for note in plan.annotations.get("notes", ()):
        console.print(f"note: {note}", markup=False)
    for cohort in plan.cohorts:
        profile = cohort.hardware.profile or "no profile known: no verdict can be PASS"
        nodes = count(len(cohort.nodes), "node")
        console.print(f"\n{cohort.id}: {nodes}, profile {profile}", markup=False)
    for planned in plan.categories:
        console.print(f"\n{planned.id} ({planned.scale})", markup=False, style="bold")
        for part in planned.parts:
            _show_part(part)
    if plan.excluded:
        console.print()
        table = new_table("code", "nodes", "why", title="Excluded")
        alike: dict[tuple[str, str], list[str]] = {}
        for item in plan.excluded:
            alike.setdefault((item.code, item.message), []).append(item.node)
        for (code, message), names in alike.items():
            table.add_row(code, fold_names(names), message)
        print_table(console, table)


def _show_bounds(console: Console, bounds: Bounds) -> None:
    deadline = format_duration(bounds.deadline_seconds)
    console.print(
        f"At most {format_duration(bounds.longest_seconds)}, {bounds.gpu_hours:.0f} GPU hours; "
        f"deadline {deadline}, node cap {bounds.node_cap}."
    )
    if bounds.longest_seconds >= bounds.deadline_seconds:
        console.print(
            "All timeouts together are longer; what has not run by the deadline is INFRA_DEADLINE."
        )


def _show_part(part: PlannedPart) -> None:
    console = stdout_console()
    alone = [group for group in part.groups if len(group.nodes) == 1]
    if len(alone) > MOST_ALONE:
        names = fold_names(name for group in alone for name in group.nodes)
        print_hanging(console, Text(f"{len(alone)} groups of one node: {names}"), 2)
    for group in part.groups:
        if len(alone) <= MOST_ALONE or len(group.nodes) > 1:
            print_hanging(console, Text(f"{group.id}: {fold_names(group.nodes)}"), 2)
    workload = for_group(part.workload, size_of(part))
    print_hanging(console, Text(" ".join(workload.command)), 2)
    timeout = workload.timeout_seconds
    shown = {
        "image": workload.image,
        "GPUs per node": workload.gpus_per_node,
        "NIC resource": workload.nic_resource,
        "NICs per node": workload.nics_per_node,
        "timeout": timeout.model_copy(update={"value": format_duration(timeout.value)}),
        **{f"env {name}": setting for name, setting in workload.env.items()},
    }
    for name, setting in shown.items():
        value = "none" if setting.value is None else str(setting.value)
        _print_value(console, name, value, setting.origin.rule)
    for (text, source), sizes in _bars(part.bars).items():
        nodes = "1 node" if sizes == [1] else f"{', '.join(map(str, sizes))} nodes"
        _print_value(console, f"bar, {nodes}", text, source)


def _print_value(console: Console, name: str, value: str, set_by: str) -> None:
    print_hanging(console, Text(f"{name}: {value}   ").append(f"[{set_by}]", style="dim"), 4)


def _bars(found: Iterable[BarSet]) -> dict[tuple[str, str], list[int]]:
    """Return every bar and missing bar once, with the numbers of nodes that it is for."""
    sizes: dict[tuple[str, str], list[int]] = {}
    for bars in found:
        for bar in bars.bars:
            values = ", ".join(f"{name} {value:g}" for name, value in bar.values.items())
            text = named_expression(bar.key, bar.expression) + (f" ({values})" if values else "")
            sizes.setdefault((text, bar.source or bar.origin.rule), []).append(bars.nodes)
        for item in bars.missing:
            sizes.setdefault((item.code, item.message), []).append(bars.nodes)
    return sizes
