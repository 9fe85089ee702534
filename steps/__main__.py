"""The programs inside the DAG: ``python -m steps NAME``.

Each reads and writes documents in the record store, prints one line, and exits 0 once its document
is written. Only ``aggregate`` exits by the verdict: 0 PASS, 1 FAIL, 3 INCONCLUSIVE, 4 INCOMPLETE.
What it says in one line is its termination message too, which Argo shows for a step that failed.
Bad input exits with 2, a step that finds no plan with 3; one that cannot write its document exits
with 70 (EX_SOFTWARE), which the aggregation reports as a missing result. A run that was told to
stop exits with 143, one that should be started on another node with 75.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from catalog.errors import (
    ClusterError,
    ElsewhereError,
    InputError,
    NoPlanError,
    ReadinessError,
    RecordError,
)
from steps.address import open_store
from steps.aggregate.step import aggregate_step, last_report, refuse_input
from steps.detect.parameters import named_nodes
from steps.detect.step import detect_step
from steps.documents import Plan, Report, Result
from steps.evaluate.step import evaluate_step
from steps.isolate.step import isolate_step
from steps.jobs.retry import MAX_MOVES
from steps.outputs import (
    OUTPUTS,
    hand_on,
    hand_on_bytes,
    hand_on_groups,
    hand_on_report,
    say_last,
    workflow_of,
)
from steps.parse.step import parse_step
from steps.report.headline import MAX_MESSAGE, verdict_line
from steps.report.html import render_html
from steps.run.step import run_step, was_stopped
from steps.store.runs import groups_of, require_plan
from steps.store.store import slug

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Store = Annotated[
    str,
    typer.Option(
        envvar="READINESS_STORE", help="A directory, or configmap:NAMESPACE/WORKFLOW/UID."
    ),
]
Category = Annotated[str, typer.Option(help="Category id, for example diagnostics/dcgm-level1.")]
FleetFile = Annotated[
    Path | None, typer.Option("--fleet", help="Nodes and runs of a fleet file, not of a cluster.")
]
Outputs = Annotated[
    Path, typer.Option(help="Directory for the small values that the workflow passes on.")
]
KEEP_REPORTS, KEEP_DAYS = 200, 90.0
"""Reports that stay in a namespace when their workflows are gone, and days after which they go."""

Text = Annotated[
    str, typer.Option(envvar="READINESS_CERTIFICATION", help="The certification as YAML.")
]
Replaced = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Replaces a part of the certification."),
]
PATIENCE_SECONDS = 300.0
_BETWEEN_SECONDS = 5.0

STOPPED_EXIT = 143
"""As of a program that SIGTERM ends: for Argo the step has failed, so a retry runs it again."""
ELSEWHERE_EXIT = 75
"""EX_TEMPFAIL: Argo starts the step again on another node."""

RESULT_EXITS = {Result.PASS: 0, Result.FAIL: 1, Result.INCONCLUSIVE: 3, Result.INCOMPLETE: 4}


@app.command()
def detect(
    store: Store,
    certification: Text = "",
    category: Annotated[str, typer.Option(help="Whose groups to hand on.")] = "",
    fleet: FleetFile = None,
    outputs: Outputs = OUTPUTS,
    side_by_side: Annotated[
        str, typer.Option(help="WorkflowTemplate that runs all its categories at once.")
    ] = "",
    replaced: Replaced = None,
) -> None:
    """Plan the certification, once for a workflow, and hand on the groups of a category."""
    kept = open_store(store)
    given = _given(replaced)
    if category and not certification and not given and fleet is None:
        # Only the groups of a category are asked for; without the text there is no other plan.
        hand_on_groups(outputs, groups_of(require_plan(kept), category))
        return
    try:
        plan, parallel = detect_step(kept, certification, given, fleet, workflow_of(store))
    except InputError as error:
        refuse_input(kept, given.get("name") or workflow_of(store), str(error))
        raise
    groups = groups_of(plan, category)
    hand_on_groups(outputs, groups)
    names = [slug(planned.id) for planned in plan.categories]
    hand_on(outputs, "in-turn", json.dumps([side_by_side] if parallel else names))
    hand_on(outputs, "at-once", json.dumps(names if parallel else []))
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
        hand_on_bytes(outputs / "logs" / Path(log.name).name, kept.get_log(log.name))
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
    hand_on_groups(outputs, [pair.group for pair in found.pairs])
    _say(f"{category}: isolation round {number} has {len(found.pairs)} pairs")


@app.command()
def evaluate(store: Store, category: Category, outputs: Outputs = OUTPUTS) -> None:
    """Judge a category."""
    verdict = evaluate_step(open_store(store), category)
    line = verdict_line(verdict)
    hand_on(outputs, "result", verdict.outcome.value)
    hand_on(outputs, "verdict", line)
    say_last(verdict_line(verdict, MAX_MESSAGE))
    _say(f"{category}: {line}")


@app.command()
def aggregate(store: Store, outputs: Outputs = OUTPUTS) -> None:
    """Write the report, print it, and exit by its result."""
    report, html = _patiently(lambda: aggregate_step(open_store(store)))
    hand_on(outputs, "report.html", html)
    hand_on_report(outputs, report, store)
    _print(report)
    raise typer.Exit(RESULT_EXITS[report.result])


@app.command()
def finish(
    store: Store,
    status: Annotated[str, typer.Option(help="How the workflow went, in Argo's words.")],
    certification: Text = "",
    replaced: Replaced = None,
    outputs: Outputs = OUTPUTS,
    keep_reports: Annotated[
        int, typer.Option(envvar="READINESS_KEEP_REPORTS", min=1, help="Reports that stay.")
    ] = KEEP_REPORTS,
    keep_days: Annotated[
        float, typer.Option(envvar="READINESS_KEEP_DAYS", min=1, help="How long they stay.")
    ] = KEEP_DAYS,
) -> None:
    """End a workflow: clean up, report where aggregate could not, and forget old reports."""
    # Only here, so that the laptop needs no kubernetes client.
    from steps.cluster.api.retention import forget_reports  # noqa: PLC0415
    from steps.cluster.api.store import ConfigMapStore  # noqa: PLC0415
    from steps.cluster.attempts.clean import clean_step  # noqa: PLC0415

    kept = open_store(store)
    trouble: ReadinessError | None = None
    try:
        _say(clean_step(kept))
    except ClusterError as error:
        # The report first: Argo tries again, and what cannot be cleaned must not cost it.
        trouble = error
    report, new = None, False
    if status == _SUCCEEDED:
        with suppress(RecordError):
            report = kept.get(Report)
    if report is None:
        given = _given(replaced)

        def plan_again() -> Plan:
            return detect_step(kept, certification, given, None, workflow_of(store))[0]

        name = given.get("name") or workflow_of(store)
        report, new = last_report(kept, name, plan_again, named_nodes(certification, given))
    if report is not None:
        hand_on_report(outputs, report, store)
        hand_on(outputs, "report.html", render_html(report))
    if new and report is not None:
        _print(report)
    if isinstance(kept, ConfigMapStore):
        try:
            count = forget_reports(kept.cluster, kept.workflow, keep=keep_reports, days=keep_days)
            _say(f"{count} old reports were deleted")
        except ClusterError as error:
            # The next workflow deletes them.
            _say(f"old reports stay: {error}")
    if trouble is not None:
        raise trouble


_SUCCEEDED = "Succeeded"


def _given(replaced: list[str] | None) -> dict[str, str]:
    return {name: value for name, _, value in (item.partition("=") for item in replaced or ())}


_T = TypeVar("_T")


def _patiently(call: Callable[[], _T]) -> _T:
    """Try again while the API server is away; Argo does not try this step again for that."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except ClusterError:
            if time.monotonic() > end:
                raise
            time.sleep(_BETWEEN_SECONDS)


def _print(report: Report) -> None:
    from steps.report.text import render_text  # noqa: PLC0415  (rich is slow to import)

    sys.stdout.write(render_text(report))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> None:
    """Run a step; every expected error is one line on stderr."""
    try:
        app()
    except InputError as error:
        code, told = 2, str(error)
    except NoPlanError as error:
        # No failure of the step: to try again would give the same, detect has its own retries.
        code, told = RESULT_EXITS[Result.INCONCLUSIVE], str(error)
    except ElsewhereError as error:
        code, told = ELSEWHERE_EXIT, str(error)
    except ReadinessError as error:
        code, told = 70, str(error)
    else:
        return
    say_last(told)
    sys.stderr.write(f"steps: {told}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
