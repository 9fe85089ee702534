"""`readiness report`: show a report that was written before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.errors import ClusterError, InputError, Place
from catalog.reading.model import suggestion
from pipelines.cli.exits import EXIT_HELP, exit_of
from pipelines.cli.output import terminal_width, wants_colour
from pipelines.templates.names import NAMESPACE
from steps.documents import Report, dump
from steps.report.faces import FACES
from steps.report.text import render_text
from steps.store.store import DirectoryStore

if TYPE_CHECKING:
    from steps.cluster.api.client import Cluster

_HELP = """Show the report of a certification: of a workflow, or of a directory of `certify`.

The report of a workflow stays in its namespace when the workflow is deleted.

**Examples**

`readiness report --workflow acceptance-x7k2p`

`readiness report out --format junit`
"""


def _text(report: Report) -> str:
    return render_text(report, colour=wants_colour(), width=terminal_width())


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": _text,
    "json": dump,
    **{face.name: face.render for face in FACES},
}


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("report", help=_HELP, epilog=EXIT_HELP)
    def command(
        directory: Annotated[
            Path | None, typer.Argument(metavar="DIR", help="What `certify --out DIR` wrote.")
        ] = None,
        workflow: Annotated[str, typer.Option(help="Name of the workflow.")] = "",
        namespace: Annotated[str, typer.Option(help="Of the workflow.")] = NAMESPACE,
        uid: Annotated[str, typer.Option(help="Of the workflow, where several had its name.")] = "",
        context: Annotated[str | None, typer.Option(help="Context of the kubeconfig file.")] = None,
        face: Annotated[
            str, typer.Option("--format", help=f"How to show it: {', '.join(FORMATS)}.")
        ] = "text",
    ) -> None:
        if (directory is None) == (not workflow):
            hint = "readiness report DIR, or readiness report --workflow NAME"
            raise InputError("give a directory or --workflow, one of them", Place("report"), hint)
        if face not in FORMATS:
            hint = suggestion(face, FORMATS) or f"one of {', '.join(FORMATS)}"
            raise InputError(f"there is no format {face!r}", Place("--format"), hint)
        if directory is not None:
            report = _of_directory(directory)
        else:
            report = report_of_workflow(connect(namespace, context, "report"), workflow, uid)
        text = FORMATS[face](report)
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        raise typer.Exit(exit_of(report.result))


def connect(namespace: str, context: str | None, command: str) -> Cluster:
    """Connect to a cluster by the kubeconfig file.

    Raises:
        InputError: the kubernetes client is not installed.
        ClusterError: no cluster can be reached.
    """
    try:
        from steps.cluster.api.client import Cluster  # noqa: PLC0415  (the client may be absent)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kubernetes":
            raise
        hint = "pip install 'readiness[cluster]'"
        raise InputError("needs the kubernetes client", Place(command), hint) from error
    return Cluster.connect(namespace, context)


def report_of_workflow(cluster: Cluster, name: str, uid: str = "") -> Report:
    """Return the report of a workflow, also of one that is gone.

    Args:
        cluster: connection to its namespace.
        name: of the workflow.
        uid: of the workflow; the empty text takes the workflow that has the name, or had it last.

    Raises:
        ClusterError: there is none, which is no PASS; or the cluster does not answer.
        RecordError: the report is damaged.
    """
    from steps.cluster.api.owner import WorkflowRun, find_run  # noqa: PLC0415
    from steps.cluster.api.store import ConfigMapStore  # noqa: PLC0415

    run = WorkflowRun(name, uid) if uid else find_run(cluster, name)
    report = ConfigMapStore(cluster, run).get(Report) if run else None
    if report is None:
        raise ClusterError(
            f"{run or name} left no report in namespace {cluster.namespace}; "
            f"argo get -n {cluster.namespace} {name} says why"
        )
    return report


def _of_directory(directory: Path) -> Report:
    report = DirectoryStore(directory).get(Report)
    if report is None:
        hint = "name the directory that `readiness certify --out` was given"
        raise InputError(f"{directory} holds no report.json", Place("DIR"), hint)
    return report
