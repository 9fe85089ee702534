"""The programs inside the DAG: ``python -m steps NAME``.

Each reads and writes documents in the record store, prints one line, and exits 0 once its document
is written. Only ``aggregate`` exits by the verdict: 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 4 INCOMPLETE.
Bad input exits with 2, a step that finds no plan with 3; one that cannot write its document exits
with 70 (EX_SOFTWARE), which the aggregation reports as a missing result. A run that was told to
stop exits with 143, one that should be started on another node with 75.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from catalog.errors import ElsewhereError, InputError, NoPlanError, ReadinessError
from steps.address import PREFIX, open_store
from steps.aggregate.step import aggregate_step
from steps.detect.parameters import Parameters
from steps.detect.step import detect_step
from steps.documents import Group, Result
from steps.evaluate.step import evaluate_step
from steps.isolate.step import isolate_step
from steps.jobs.retry import MAX_MOVES
from steps.parse.step import parse_step
from steps.run.step import run_step, was_stopped

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Store = Annotated[
    str,
    typer.Option(envvar="READINESS_STORE", help="A directory, or configmap:NAMESPACE/WORKFLOW."),
]
Category = Annotated[str, typer.Option(help="Category id, for example diagnostics/dcgm-level1.")]
FleetFile = Annotated[
    Path | None, typer.Option("--fleet", help="Nodes and runs of a fleet file, not of a cluster.")
]
Outputs = Annotated[
    Path, typer.Option(help="Directory for the small values that the workflow passes on.")
]
Replaced = Annotated[
    str, typer.Option(help="Replaces this part of the certification; empty keeps it.")
]
OUTPUTS = Path("/tmp/outputs")  # noqa: S108  (a container's own /tmp)

STOPPED_EXIT = 143
"""As of a program that SIGTERM ends: for Argo the step has failed, so a retry runs it again."""
ELSEWHERE_EXIT = 75
"""EX_TEMPFAIL: Argo starts the step again on another node."""

RESULT_EXITS = {Result.PASS: 0, Result.FAIL: 1, Result.INCONCLUSIVE: 3, Result.INCOMPLETE: 4}


@app.command()
def detect(
    store: Store,
    certification: Annotated[
        str, typer.Option(envvar="READINESS_CERTIFICATION", help="The certification as YAML.")
    ] = "",
    category: Annotated[str, typer.Option(help="Whose groups to hand on.")] = "",
    fleet: FleetFile = None,
    outputs: Outputs = OUTPUTS,
    name: Replaced = "",
    stage: Replaced = "",
    scale: Replaced = "",
    categories: Replaced = "",
    node_selector: Replaced = "",
    node_names: Replaced = "",
    nodes_per_job: Replaced = "",
    gpus_per_node: Replaced = "",
    image: Replaced = "",
    timeout_per_job: Replaced = "",
    node_cap: Replaced = "",
    deadline: Replaced = "",
    parallel_categories: Replaced = "",
) -> None:
    """Plan the certification, once for a workflow, and hand on the groups of a category."""
    given = Parameters(
        name=name,
        fallback_name=store.rpartition("/")[2] if store.startswith(PREFIX) else "certification",
        stage=stage,
        scale=scale,
        categories=categories,
        node_selector=node_selector,
        node_names=node_names,
        nodes_per_job=nodes_per_job,
        gpus_per_node=gpus_per_node,
        image=image,
        timeout_per_job=timeout_per_job,
        node_cap=node_cap,
        deadline=deadline,
        parallel_categories=parallel_categories,
    )
    plan, parallel = detect_step(open_store(store), certification, given, fleet)
    groups = [
        group
        for planned in plan.categories
        if planned.id == category
        for part in planned.parts
        for group in part.groups
    ]
    _hand_on_groups(outputs, groups)
    _hand_on(outputs, "categories", ",".join(planned.id for planned in plan.categories))
    _hand_on(outputs, "parallel", "true" if parallel else "false")
    _say(f"plan: {len(plan.targeted)} nodes, {len(plan.excluded)} excluded, {len(groups)} groups")


@app.command()
def run(
    store: Store,
    category: Category,
    group: Annotated[str, typer.Option(help="Group id.")],
    fleet: FleetFile = None,
    node: Annotated[
        str, typer.Option(envvar="NODE_NAME", help="The node on which this step runs.")
    ] = "",
    starts: Annotated[
        int, typer.Option(help=f"How often it was started before; below {MAX_MOVES} it may move.")
    ] = MAX_MOVES,
    outputs: Outputs = OUTPUTS,
) -> None:
    """Run one group and write what came of it, also when nothing did."""
    kept = open_store(store)
    record = run_step(kept, category, group, fleet, here=node, may_move=starts < MAX_MOVES)
    for log in record.logs:
        _hand_on_bytes(outputs / "logs" / Path(log.name).name, kept.get_log(log.name))
    _say(f"{category} {group}: {record.outcome}")
    if was_stopped(record):
        raise typer.Exit(STOPPED_EXIT)


@app.command()
def parse(store: Store, category: Category) -> None:
    """Read the outputs of all runs of a category that were not read yet."""
    _say(f"{category}: read {parse_step(open_store(store), category)} runs")


@app.command()
def isolate(
    store: Store,
    category: Category,
    number: Annotated[int, typer.Option("--round", min=1)],
    outputs: Outputs = OUTPUTS,
) -> None:
    """Plan the pair runs of one isolation round."""
    found = isolate_step(open_store(store), category, number)
    _hand_on_groups(outputs, [pair.group for pair in found.pairs])
    _say(f"{category}: isolation round {number} has {len(found.pairs)} pairs")


@app.command()
def evaluate(store: Store, category: Category, outputs: Outputs = OUTPUTS) -> None:
    """Judge a category."""
    verdict = evaluate_step(open_store(store), category)
    _hand_on(outputs, "verdict", verdict.outcome.value)
    _say(f"{category}: {verdict.outcome}")


@app.command()
def aggregate(store: Store, outputs: Outputs = OUTPUTS) -> None:
    """Write the report, print it, and exit by its result."""
    from steps.report.text import render_text  # noqa: PLC0415  (rich is slow to import)

    report, html = aggregate_step(open_store(store))
    _hand_on(outputs, "result", report.result.value)
    _hand_on(outputs, "report.html", html)
    sys.stdout.write(render_text(report))
    raise typer.Exit(RESULT_EXITS[report.result])


@app.command()
def clean(store: Store) -> None:
    """Delete what the runs of a workflow left behind, and say whether the GPUs are free."""
    from steps.cluster.attempts.clean import clean_step  # noqa: PLC0415  (needs the kubernetes client)

    _say(clean_step(open_store(store)))


def _hand_on_groups(outputs: Path, groups: Sequence[Group]) -> None:
    data = [{"group": group.id, "nodes": len(group.nodes)} for group in groups]
    _hand_on(outputs, "groups", json.dumps(data, separators=(",", ":")))


def _hand_on(outputs: Path, name: str, text: str) -> None:
    _hand_on_bytes(outputs / name, text.encode())


def _hand_on_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> None:
    """Run a step; every expected error is one line on stderr."""
    try:
        app()
    except InputError as error:
        sys.stderr.write(f"steps: {error}\n")
        sys.exit(2)
    except NoPlanError as error:
        # No failure of the step: to try again would give the same, detect has its own retries.
        sys.stderr.write(f"steps: {error}\n")
        sys.exit(RESULT_EXITS[Result.INCONCLUSIVE])
    except ElsewhereError as error:
        sys.stderr.write(f"steps: {error}\n")
        sys.exit(ELSEWHERE_EXIT)
    except ReadinessError as error:
        sys.stderr.write(f"steps: {error}\n")
        sys.exit(70)


if __name__ == "__main__":
    main()
