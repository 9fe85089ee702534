"""Write the published schemas anew: ``python -m pipelines.schemas``."""

from __future__ import annotations

from pathlib import Path

from pipelines.schemas import DOCUMENTS, schema_text

for kind in DOCUMENTS:
    Path(__file__).with_name(f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")
