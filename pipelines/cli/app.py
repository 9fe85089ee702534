"""The `readiness` command line: one module for each command, errors in one place."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.errors import InputError, ReadinessError
from pipelines.cli import (
    bars,
    catalog,
    certify,
    detect,
    explain,
    judge,
    parse,
    plan,
    render,
    report,
    schema,
    submit,
)
from pipelines.cli.exits import EXIT_HELP, Exit
from steps.report.wording import printable

MAX_WORD, MAX_TEXT = 80, 400
_UNWRITABLE = {errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EBADF, errno.EROFS}

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's UsageError, of whichever click this typer rests on: since 0.20 of its own."""

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


for module in (
    certify,
    report,
    plan,
    detect,
    explain,
    parse,
    judge,
    bars,
    catalog,
    schema,
    render,
    submit,
):
    module.register(app)


def main() -> None:
    """Run the command; every expected error is one line on stderr and an exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: the exit code is all it wants
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    try:
        sys.exit(_run())
    except SystemExit as end:
        # Click and rich answer a reader that went away (head, less) by exit code 1, which is FAIL.
        if isinstance(end.__context__, BrokenPipeError):
            _discard_stdout()
            sys.exit(Exit.BROKEN_PIPE)
        raise


def _run() -> int:
    said = ""
    try:
        code = app(prog_name="readiness", standalone_mode=False) or Exit.PASS
        sys.stdout.flush()
    except InputError as error:
        said, code = _told(error), Exit.BAD_INPUT
    except ReadinessError as error:
        said, code = str(error), Exit.INCONCLUSIVE
    except _UsageError as error:
        said, code = _usage(error), Exit.BAD_INPUT
    except (typer.Abort, KeyboardInterrupt):
        said, code = "interrupted", Exit.INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        code = Exit.BROKEN_PIPE
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _discard_stdout()
        what = error.filename or "the output"
        said, code = f"{what} cannot be written: {error.strerror}", Exit.BAD_INPUT
    if said:
        with contextlib.suppress(OSError):
            typer.echo(f"readiness: {printable(said)}", err=True)
    return int(code)


def _discard_stdout() -> None:
    """Point stdout elsewhere, so that the interpreter does not complain as it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _usage(error: Any) -> str:
    """Say what is wrong with the words of a command line; nothing where help was the answer."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(error.format_message())
        return ""
    # Click looks for a similar spelling only.
    if getattr(error, "option_name", None) == "--category" and _takes_entry(error.ctx):
        error.possibilities = ["--entry"]
    # Pydantic begins so.
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    command = error.ctx.command_path if error.ctx else "readiness"
    where = command.partition(" ")[2]
    return f"{where + ': ' if where else ''}{message} (see {command} --help)"


def _takes_entry(context: Any) -> bool:
    return any("--entry" in option.opts for option in context.command.params)


def _told(error: InputError) -> str:
    """Write an error on one line; what a person gave and is very long is cut."""
    text, place = shorten(error.message), error.place
    if place is not None:
        field = shorten(place.field) if place.field else None
        text = f"{replace(place, field=field)}: {text}"
    return f"{text} ({shorten(error.hint)})" if error.hint else text


def shorten(text: str) -> str:
    """Cut every word at 80 characters, and the whole at 400."""
    words = re.sub(rf"\S{{{MAX_WORD + 1},}}", lambda word: f"{word[0][:MAX_WORD]}…", text)
    return words if len(words) <= MAX_TEXT else f"{words[:MAX_TEXT]}…"
