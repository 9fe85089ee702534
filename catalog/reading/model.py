"""The base of every typed document: frozen, strict about names, camelCase outside."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A frozen record whose fields are camelCase in YAML and JSON.

    Unknown fields are errors: a misspelt name in a certification must never be ignored, and a
    document written by a newer version must not be half understood.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
    )

    def to_data(self) -> dict[str, Any]:
        """Return plain JSON-ready data, without fields that are None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """Return 'did you mean …' for a misspelt name, or None when nothing is near."""
    spelt = {item.lower(): item for item in known}
    near = difflib.get_close_matches(name.lower(), spelt, n=1, cutoff=0.6)
    return f"did you mean {spelt[near[0]]!r}?" if near else None
