"""`readiness render`: plain YAML for kubectl and GitOps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from catalog.bar_file import bar_documents
from catalog.certification import load_certification
from catalog.errors import InputError, Place
from catalog.profile import profile_documents
from pipelines.cli.certify import BarFiles, ProfileFiles
from pipelines.cli.detect import NodesFile, OptionalFleetFile, read_inputs
from pipelines.cli.output import stderr_console
from pipelines.submission import parameters, with_files
from steps.detect.core import make_plan

_HELP = """Write everything that a cluster with Argo Workflows needs, as a kustomize base.

With a certification also a Workflow that runs it, and with `--schedule` a CronWorkflow. With
`--nodes` or `--fleet` annotations of the Workflow say what was detected, and which rule set each
value.

**Examples**

`readiness render --out deploy && kubectl apply -k deploy`

`readiness render h100.yaml --schedule "0 2 * * 6" --timezone Europe/Berlin --out deploy`
"""

_ARTIFACTS_HELP = (
    "Keep raw logs and report.html as artifacts: `default`, or the ConfigMap of a repository."
)


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("render", help=_HELP)
    def command(
        out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")],
        certification: Annotated[
            Path | None,
            typer.Argument(metavar="[CERTIFICATION.yaml]", help="A certification to render too."),
        ] = None,
        namespace: Annotated[
            str | None, typer.Option(help="Namespace of all objects.  [default: argo]")
        ] = None,
        image: Annotated[
            str | None, typer.Option(metavar="REF", help="Image of the steps in your registry.")
        ] = None,
        schedule: Annotated[
            str, typer.Option(metavar="CRON", help="Repeat it, for example `0 2 * * 6`.")
        ] = "",
        timezone: Annotated[str, typer.Option(help="Of the schedule.")] = "Etc/UTC",
        node_pool: Annotated[
            str, typer.Option(help="Workflows of one pool wait for each other.")
        ] = "",
        artifact_repository: Annotated[
            str, typer.Option(metavar="default|CONFIGMAP[/KEY]", help=_ARTIFACTS_HELP)
        ] = "",
        nodes: NodesFile = None,
        fleet: OptionalFleetFile = None,
        profiles: ProfileFiles = None,
        bars: BarFiles = None,
    ) -> None:
        try:
            from pipelines import render as rendering  # noqa: PLC0415  (hera may be absent)
        except ModuleNotFoundError as error:
            raise _without_hera(error) from error
        request = None
        if certification is not None:
            loaded, source = load_certification(certification)
            text = certification.read_text(encoding="utf-8")
            text = with_files(text, profiles or (), bars or ())
            if schedule:
                _check_schedule(schedule, timezone)
            plan = None
            if nodes or fleet:
                given = read_inputs(nodes, fleet, None)
                plan = make_plan(
                    loaded,
                    given.nodes,
                    source=given.source,
                    text=source,
                    profiles=profile_documents(profiles or ()),
                    bars=bar_documents(bars or ()),
                    pods=given.pods,
                )
            request = rendering.Request(
                certification=loaded,
                values=parameters(loaded, text, source.file, node_pool),
                schedule=schedule,
                timezone=timezone,
                plan=plan,
            )
            namespace = namespace or loaded.metadata.namespace
        elif schedule or node_pool or nodes or fleet or profiles or bars:
            place = Place("--schedule, --node-pool, --nodes, --fleet, --profiles or --bars")
            raise InputError("needs a certification", place)
        values = {
            "namespace": namespace,
            "image": image,
            "artifact_repository": artifact_repository,
        }
        chosen = rendering.Rendering(**{name: value for name, value in values.items() if value})
        written = rendering.write(rendering.render(chosen, request), out)
        console = stderr_console()
        console.print(f"{len(written)} files in {out}: kubectl apply -k {out}", markup=False)
        if request is not None:
            name = request.certification.metadata.name
            console.print(f"To run it: kubectl create -f {out}/workflow-{name}.yaml", markup=False)


def _without_hera(error: ModuleNotFoundError) -> Exception:
    if error.name is None or error.name.partition(".")[0] != "hera":
        return error
    return InputError("needs hera", Place("render"), "pip install 'readiness[argo]'")


def _check_schedule(schedule: str, timezone: str) -> None:
    if len(schedule.split()) != 5 and not schedule.startswith("@"):
        raise InputError(f"{schedule!r} has no five fields", Place("--schedule"))
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(f"{timezone!r} is no time zone", Place("--timezone")) from error
