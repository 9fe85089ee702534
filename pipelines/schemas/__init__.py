"""JSON Schemas of every document that a person writes or a program reads, as published.

The files beside this module are made from the models (``python -m pipelines.schemas``) and tested
against them, so that editors and other programs can rely on them.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from catalog.bars.bar_file import BarFile
from catalog.certification import Certification
from catalog.errors import InputError, Place
from catalog.hardware.profile_model import ProfileFile
from catalog.reading.model import Model, suggestion
from steps.documents import Measurements, Plan, Report, RunRecord, Verdict
from steps.fleets.fleet_document import FleetDocument

DOCUMENTS: dict[str, type[Model]] = {
    "Certification": Certification,
    "ProfileFile": ProfileFile,
    "Bars": BarFile,
    "Fleet": FleetDocument,
    "Plan": Plan,
    "RunRecord": RunRecord,
    "Measurements": Measurements,
    "Verdict": Verdict,
    "Report": Report,
}
"""Documents with a published schema, by kind."""


def schema_of(kind: str) -> dict[str, Any]:
    """Make the schema of a document from its model (JSON Schema draft 2020-12)."""
    schema = DOCUMENTS[kind].model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text(kind: str) -> str:
    """Return the schema as it is published."""
    return json.dumps(schema_of(kind), indent=2, sort_keys=True) + "\n"


def published(kind: str) -> str:
    """Read a published schema.

    Raises:
        InputError: there is no such document.
    """
    if kind not in DOCUMENTS:
        hint = suggestion(kind, DOCUMENTS) or f"one of {', '.join(DOCUMENTS)}"
        raise InputError(f"there is no document {kind!r}", Place("KIND"), hint)
    file = resources.files("pipelines.schemas").joinpath(f"{kind}.json")
    return file.read_text(encoding="utf-8")
