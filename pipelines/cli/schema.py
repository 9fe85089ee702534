"""`readiness schema`: the JSON Schema of a document."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pipelines.schemas import DOCUMENTS, published

_HELP = """Print the JSON Schema of a document, for editors and other programs.

**Example**

`readiness schema Certification > certification.schema.json`
"""


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("schema", help=_HELP)
    def command(
        kind: Annotated[
            str, typer.Argument(metavar="KIND", help=f"One of {', '.join(DOCUMENTS)}.")
        ] = "Certification",
    ) -> None:
        sys.stdout.write(published(kind))
