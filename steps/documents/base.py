"""What all documents share: a version, a kind, and reading that refuses what it does not know."""

from __future__ import annotations

import hashlib
import json
from typing import Literal, TypeVar

from pydantic import ValidationError

from catalog.errors import RecordError
from catalog.reading.model import Model

ApiVersion = Literal["readiness/v1"]
API_VERSION: ApiVersion = "readiness/v1"
"""Version of every document; a reader refuses any other."""


class Document(Model):
    """A document that crosses a step boundary; subclasses add ``kind``."""

    api_version: ApiVersion = API_VERSION


D = TypeVar("D", bound=Document)


def dump(document: Document) -> str:
    """Return the document as JSON text with sorted keys, so that equal documents are equal text."""
    return json.dumps(document.to_data(), indent=2, sort_keys=True, allow_nan=False) + "\n"


def digest(document: Document) -> str:
    """Return the SHA-256 of the document as text, by which another document can name it."""
    return hashlib.sha256(dump(document).encode()).hexdigest()


def load(text: str | bytes, kind: type[D], name: str) -> D:
    """Read a document back.

    Args:
        text: JSON.
        kind: the expected document type.
        name: how to call the document in an error.

    Raises:
        RecordError: not JSON, another kind or version, or fields that are missing or unknown.
    """
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{name}: {where or kind.__name__}: {first['msg']}") from error
