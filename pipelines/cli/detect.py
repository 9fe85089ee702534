"""`readiness detect`: what the nodes are, group by group and node by node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.table import Table

from catalog.errors import InputError
from catalog.hardware.profile import load_profiles, profile_documents
from catalog.workload.needs import Seen
from pipelines.cli.certify import ProfileFiles
from pipelines.cli.inputs import read_kubectl
from pipelines.cli.output import Format, new_table, print_json, print_table, stdout_console
from steps.detect.survey import Survey, survey
from steps.documents import NodeFacts
from steps.fleets.fleet import load_fleet
from steps.report.wording import count

_HELP = """Show platform, GPUs and network devices of the nodes, and which hardware profile fits.

**Examples**

`kubectl get nodes -o json | readiness detect --nodes -`

`readiness detect --fleet examples/fleet.yaml --output json`
"""

NodesFile = Annotated[
    Path | None,
    typer.Option(
        "--nodes",
        metavar="FILE",
        help="What `kubectl get nodes -o yaml` or `-o json` wrote, - for stdin.",
    ),
]
OptionalFleetFile = Annotated[
    Path | None, typer.Option("--fleet", metavar="FLEET.yaml", help="The nodes of a fleet.")
]
PodsFile = Annotated[
    Path | None,
    typer.Option(
        "--pods",
        metavar="FILE",
        help="What `kubectl get pods -A -o json` wrote; tells GPUs in use.",
    ),
]
SlicesFile = Annotated[
    Path | None,
    typer.Option(
        "--resource-slices",
        metavar="FILE",
        help="What `kubectl get resourceslices -o json` wrote; tells GPUs that have no label.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("detect", help=_HELP)
    def command(
        nodes: NodesFile = None,
        fleet: OptionalFleetFile = None,
        pods: PodsFile = None,
        resource_slices: SlicesFile = None,
        profiles: ProfileFiles = None,
        output: Annotated[Format, typer.Option(help="How to print it.")] = Format.TABLE,
    ) -> None:
        given = read_inputs(nodes, fleet, pods)
        slices = read_kubectl(resource_slices, "ResourceSlice") if resource_slices else []
        found = survey(
            given.nodes,
            load_profiles(profile_documents(profiles or ())),
            pods=given.pods,
            resource_slices=slices,
        )
        if output is Format.JSON:
            print_json(survey_data(found))
        else:
            _show(found)


class Inputs(NamedTuple):
    """Node and pod objects, and what to say about where they come from."""

    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    source: Literal["cluster", "recorded", "simulated"]
    note: str | None


def read_inputs(nodes: Path | None, fleet: Path | None, pods: Path | None) -> Inputs:
    """Read nodes and pods from the files that the command line names.

    Raises:
        InputError: neither or both of nodes and fleet are given, or a file is damaged.
    """
    if nodes is not None and fleet is None:
        found = read_kubectl(pods, "Pod") if pods else []
        origin = "standard input" if str(nodes) == "-" else nodes
        return Inputs(read_kubectl(nodes, "Node"), found, "recorded", f"nodes from {origin}")
    if fleet is not None and nodes is None:
        loaded = load_fleet(fleet)
        found = read_kubectl(pods, "Pod") if pods else list(loaded.pods())
        return Inputs(list(loaded.nodes()), found, loaded.source, loaded.note)
    raise InputError(
        "give the nodes by one of --nodes and --fleet",
        hint="kubectl get nodes -o json > nodes.json, then --nodes nodes.json",
    )


def survey_data(found: Survey) -> dict[str, Any]:
    """Return what detection found as plain data."""
    return {
        "problems": [{"code": code, "message": text} for code, text in found.problems],
        "cohorts": [
            item.cohort.to_data() | {"mostNodesHave": _seen(item.seen)} for item in found.cohorts
        ],
        "nodes": [facts.to_data() for facts in found.facts],
        "excluded": [item.to_data() for item in found.excluded],
    }


def _seen(seen: Seen) -> dict[str, Any]:
    return {
        "gpus": seen.gpus,
        "allocatable": dict(seen.allocatable or {}),
        "networks": list(seen.networks),
    }


def _show(found: Survey) -> None:
    console = stdout_console()
    for code, text in found.problems:
        console.print(f"{code}: {text}", markup=False)
    excluded = {item.node: item for item in found.excluded}
    by_name = {facts.name: facts for facts in found.facts}
    for item in found.cohorts:
        cohort = item.cohort
        profile = f"profile {cohort.hardware.profile} ({cohort.profile_origin})"
        if item.profile is None:
            profile = "no profile is known, so no verdict can be PASS"
        nodes = count(len(cohort.nodes), "node")
        console.print(f"\n{cohort.id}: {nodes}, {profile}", markup=False)
        if item.profile is not None:
            console.print(f"  {item.profile.profile.interconnect}", markup=False)
        for name, version in cohort.hardware.software.items():
            console.print(f"  {name} {version}", markup=False)
        print_table(console, _table([by_name[name] for name in cohort.nodes]))
    if excluded:
        console.print()
        table = new_table("node", "code", "why", title="Excluded")
        for name, reason in excluded.items():
            table.add_row(name, reason.code, reason.message)
        print_table(console, table, keep=2)


def _table(nodes: list[NodeFacts]) -> Table:
    table = new_table("node", "instance type", "GPU", "GPUs", "network devices", "notes")
    for facts in nodes:
        devices = ", ".join(f"{name} {units}" for name, units in sorted(facts.nics.items()))
        table.add_row(
            facts.name,
            facts.instance_type or "-",
            facts.gpu_product or facts.gpu,
            "?" if facts.gpus is None else str(facts.gpus),
            devices or "-",
            "; ".join(facts.notes) or "-",
        )
    return table
