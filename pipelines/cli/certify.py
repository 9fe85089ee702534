"""`readiness certify`: run a certification locally."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from catalog.bars.bar_file import bar_documents
from catalog.certification import load_certification
from catalog.errors import InputError, Place
from catalog.hardware.profile import profile_documents
from catalog.reading.quantity import format_duration
from pipelines.cli.exits import EXIT_HELP, exit_of
from pipelines.cli.output import stderr_console, terminal_width, wants_colour
from pipelines.local import certify
from steps.documents import Group, PlannedCategory, RunOutcome, RunRecord, Verdict
from steps.fleets.fleet import load_fleet
from steps.report.text import render_text
from steps.report.wording import count
from steps.store.store import DirectoryStore

EXAMPLE = """
**Example**

`readiness certify examples/certification.yaml --fleet examples/fleet.yaml --out out`
"""

CertificationFile = Annotated[
    Path, typer.Argument(metavar="CERTIFICATION.yaml", help="The certification to run.")
]
FleetFile = Annotated[
    Path,
    typer.Option("--fleet", metavar="FLEET.yaml", help="Nodes with recorded or simulated runs."),
]
ProfileFiles = Annotated[
    list[Path] | None,
    typer.Option("--profiles", metavar="FILE|DIR", help="Profiles of your own, beside ours."),
]
BarFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--bars",
        metavar="FILE|DIR",
        help="Bars of your own, which replace ours of the same key (kind: Bars).",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("certify", epilog=EXIT_HELP, help=_HELP)
    def command(
        certification: CertificationFile,
        fleet: FleetFile,
        out: Annotated[
            Path,
            typer.Option(
                "--out", metavar="DIR", help="Where every document of the run goes; new or empty."
            ),
        ],
        profiles: ProfileFiles = None,
        bars: BarFiles = None,
        *,
        quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    ) -> None:
        loaded, source = load_certification(certification)
        sources = load_fleet(fleet)
        _require_usable(out)
        console = stderr_console()
        with _Shown(console, quiet=quiet) as progress:
            report = certify(
                loaded,
                sources,
                DirectoryStore(out),
                text=source,
                profiles=profile_documents(profiles or ()),
                bars=bar_documents(bars or ()),
                progress=progress,
            )
        for unused in getattr(sources, "unused", list)():
            console.print(f"readiness: warning: {unused}", markup=False)
        sys.stdout.write(render_text(report, colour=wants_colour(), width=terminal_width()))
        if not quiet:
            console.print(f"Documents are in {out}; open {out / 'report.html'}", markup=False)
        raise typer.Exit(exit_of(report.result))


_HELP = f"""Run a certification against a fleet on this machine and print its report.
{EXAMPLE}"""


def _require_usable(out: Path) -> None:
    """Find out before anything runs whether its documents can be kept.

    Raises:
        InputError: the directory holds documents of another run, or cannot be written.
    """
    place = Place("--out")
    try:
        if out.exists() and not out.is_dir():
            raise InputError(f"{out} is no directory", place)
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise InputError(f"{out} is not empty", place, "name a new directory")
        with tempfile.TemporaryFile(dir=out):
            pass
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{out} cannot be written: {why}", place) from error


_ENDED = {
    RunOutcome.COMPLETED: "completed",
    RunOutcome.FAILED: "failed",
    RunOutcome.TIMED_OUT: "timed out",
    RunOutcome.STALLED: "stalled",
    RunOutcome.INFRASTRUCTURE: "ended by the infrastructure",
    RunOutcome.STOPPED: "stopped",
    RunOutcome.HARDWARE: "ended by a hardware event",
}
"""What progress says of a run that is over, before 'after 42m18s'."""


class _Shown:
    """Progress on stderr: a moving bar on a terminal, one line for each event elsewhere."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console = console
        self.quiet = quiet
        self.groups = 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=None)

    def __enter__(self) -> _Shown:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def _say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False, soft_wrap=True)

    def category(self, planned: PlannedCategory, groups: int) -> None:
        self.bar.update(self.task, description=planned.id, total=groups, completed=0)
        self.groups = groups
        self._say(f"{planned.id}: {count(groups, 'group')}, {planned.scale}")

    def isolating(self, pairs: int) -> None:
        self.groups += pairs
        self.bar.update(self.task, total=self.groups)

    def group_done(self, category: str, group: Group, record: RunRecord) -> None:
        seconds = (record.ended - record.started).total_seconds()
        if group.purpose == "isolate":
            pair = " + ".join(group.nodes)
            self._say(
                f"  isolation {group.id} ({pair}): {_ENDED[record.outcome]} after "
                f"{format_duration(seconds)}"
            )
        elif record.outcome is not RunOutcome.COMPLETED:
            self._say(f"  {group.id}: {_ENDED[record.outcome]} after {format_duration(seconds)}")
        self.bar.advance(self.task)

    def verdict(self, verdict: Verdict) -> None:
        self._say(f"{verdict.category}: {verdict.outcome}")
