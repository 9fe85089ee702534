"""`readiness bars`: the group of commands about bars."""

from __future__ import annotations

import typer

from pipelines.cli import bars_lint, bars_show, bars_try


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, help="Show, check and try bars.")
    for module in (bars_show, bars_lint, bars_try):
        module.register(group)
    app.add_typer(group, name="bars")
