"""`readiness render`: plain YAML for kubectl and GitOps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catalog.errors import InputError, Place
from pipelines.cli.certify import BarFiles, ProfileFiles
from pipelines.cli.detect import NodesFile, OptionalFleetFile, read_inputs
from pipelines.cli.output import stderr_console
from pipelines.cli.plan import plan_of
from pipelines.submission import read_submission

_HELP = """Write everything that a cluster with Argo Workflows needs, as a kustomize base.

With a certification also a Workflow that runs it, and with `--schedule` a CronWorkflow. With
`--nodes` or `--fleet` annotations of the Workflow say what was detected, and which rule set each
value.

**Examples**

`readiness render --image REF --out deploy && kubectl apply -k deploy`

`readiness render h100.yaml --image REF --schedule "0 2 * * 6" --out deploy`
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
            typer.Argument(metavar="CERTIFICATION.yaml", help="A certification to render too."),
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
            raise _without_extra(error) from error
        request = None
        if certification is not None:
            loaded, values = read_submission(certification, profiles or (), bars or (), node_pool)
            plan = None
            if nodes or fleet:
                plan = plan_of(certification, read_inputs(nodes, fleet, None), profiles, bars)
            request = rendering.Request(
                certification=loaded,
                values=values,
                schedule=schedule,
                timezone=timezone,
                plan=plan,
            )
            namespace = namespace or loaded.metadata.namespace
        elif schedule or node_pool or nodes or fleet or profiles or bars:
            place = Place("--schedule, --node-pool, --nodes, --fleet, --profiles or --bars")
            raise InputError("needs a certification", place)
        given = {
            "namespace": namespace,
            "image": image,
            "artifact_repository": artifact_repository,
        }
        chosen = rendering.Rendering(**{name: value for name, value in given.items() if value})
        manifests = rendering.render(chosen, request)
        before = rendering.images_in(out) - {chosen.image}
        written = rendering.write(manifests, out)
        console = stderr_console()
        if before:
            names = ", ".join(sorted(before))
            console.print(
                f"readiness: warning: the files in {out} had the image {names}; "
                f"now they have {chosen.image}",
                markup=False,
                soft_wrap=True,
            )
        console.print(f"{len(written)} files in {out}: kubectl apply -k {out}", markup=False)
        if request is not None:
            name = request.certification.metadata.name
            console.print(f"To run it: kubectl create -f {out}/workflow-{name}.yaml", markup=False)


def _without_extra(error: ModuleNotFoundError) -> Exception:
    missing = (error.name or "").partition(".")[0]
    if missing not in {"hera", "cronsim"}:
        return error
    return InputError(f"needs {missing}", Place("render"), "pip install 'readiness[argo]'")
