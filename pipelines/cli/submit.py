"""`readiness submit`: run a certification on a cluster."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from catalog.errors import ClusterError
from pipelines.cli.certify import BarFiles, CertificationFile, ProfileFiles
from pipelines.cli.exits import EXIT_HELP, exit_of
from pipelines.cli.output import stderr_console, terminal_width, wants_colour
from pipelines.cli.report import connect, report_of_workflow
from pipelines.submission import DONE, phase_of, read_submission, steps_of, workflow
from pipelines.templates.names import NAMESPACE
from steps.report.text import render_text

if TYPE_CHECKING:
    from steps.cluster.api.client import Cluster

_HELP = """Run a certification on a cluster that has Argo Workflows and our templates.

Does what `argo submit --from workflowtemplate/certification -p certification=...` does.

**Example**

`readiness submit examples/certification.yaml --wait`
"""

POLL_SECONDS = 3.0
PATIENCE_SECONDS = 300.0
"""How long the API server may be away before waiting is given up; the workflow goes on."""


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("submit", help=_HELP, epilog=EXIT_HELP)
    def command(
        certification: CertificationFile,
        namespace: Annotated[
            str | None, typer.Option(help="Where the templates are installed.  [default: argo]")
        ] = None,
        context: Annotated[str | None, typer.Option(help="Context of the kubeconfig file.")] = None,
        node_pool: Annotated[
            str, typer.Option(help="Workflows of one pool wait for each other.")
        ] = "",
        profiles: ProfileFiles = None,
        bars: BarFiles = None,
        *,
        wait: Annotated[
            bool, typer.Option("--wait", help="Follow it, print the report, exit by its result.")
        ] = False,
    ) -> None:
        loaded, values = read_submission(certification, profiles or (), bars or (), node_pool)
        place = namespace or loaded.metadata.namespace or NAMESPACE
        cluster = connect(place, context, "submit")
        created = cluster.create(workflow(loaded, values, place))["metadata"]
        name, uid = str(created["name"]), str(created["uid"])
        console = stderr_console()
        if not wait:
            sys.stdout.write(f"{name}\n")
            console.print(f"Follow it: argo watch -n {place} {name}", markup=False)
            return
        console.print(f"{place}/{name}", markup=False)
        _follow(cluster, name, console)
        report = report_of_workflow(cluster, name, uid)
        sys.stdout.write(render_text(report, colour=wants_colour(), width=terminal_width()))
        raise typer.Exit(exit_of(report.result))


def _follow(cluster: Cluster, name: str, console: Console) -> None:
    """Print every change of a step until the workflow is over.

    Raises:
        ClusterError: the workflow is gone, or the API server does not come back.
    """
    from steps.cluster.api.client import NotFoundError  # noqa: PLC0415

    shown: dict[str, str] = {}
    away_since: float | None = None
    try:
        while True:
            try:
                found = cluster.get("Workflow", name)
                away_since = None
            except NotFoundError:
                raise
            except ClusterError:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > PATIENCE_SECONDS:
                    raise
                time.sleep(POLL_SECONDS)
                continue
            for step, phase in steps_of(found).items():
                if phase != shown.get(step):
                    console.print(f"  {step}: {phase}", markup=False)
                    shown[step] = phase
            phase = phase_of(found)
            if phase != shown.get(""):
                message = (found.get("status") or {}).get("message") or ""
                console.print(f"{phase} {message}".rstrip(), markup=False)
                shown[""] = phase
            if phase in DONE:
                return
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        console.print(f"{name} goes on; argo stop -n {cluster.namespace} {name} ends it")
        raise
