"""The `readiness` command line: one module for each command, errors in one place."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import Annotated

import click
import typer

from catalog.errors import InputError, ReadinessError
from pipelines.cli import catalog, certify, detect, explain, judge, parse, plan, schema
from pipelines.cli.exits import EXIT_HELP, Exit

app = typer.Typer(
    name="readiness",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_HELP,
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"readiness {metadata.version('readiness')}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=lambda value: _version(wanted=value), is_eager=True),
    ] = False,
) -> None:
    """Prove node by node that a GPU cluster is ready for training."""


for module in (certify, plan, detect, explain, parse, judge, catalog, schema):
    module.register(app)


def main() -> None:
    """Run the command; every expected error is one line on stderr and an exit code."""
    try:
        app()
    except InputError as error:
        _fail(error, Exit.BAD_INPUT)
    except ReadinessError as error:
        _fail(error, Exit.INCONCLUSIVE)
    except BrokenPipeError:
        # The reader of our output went away (head, less); point stdout elsewhere so that the
        # interpreter does not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _fail(error: ReadinessError, code: Exit) -> None:
    click.echo(f"readiness: {error}", err=True)
    sys.exit(code)
