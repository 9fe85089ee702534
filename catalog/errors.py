"""Every exception that readiness raises on purpose.

    ReadinessError
    ├── InputError          what a person gave is wrong; the command line exits with 2
    │   └── ExpressionError a CEL text does not compile, names an unknown figure or gives no boolean
    ├── RecordError         a document in the record store is missing, damaged or too big
    │   └── NoPlanError     there is no plan, so nothing ran and nothing is proven
    └── ClusterError        the Kubernetes API refused or did not answer

They live in the lowest layer because all layers raise them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a person's input something is wrong.

    Attributes:
        file: path as the person wrote it, or a name such as ``--expr``.
        line: 1-based line, None where the input has no lines.
        field: dotted path of the field, for example ``categories[0].variant``.
    """

    file: str
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.field}" if self.field else where


class ReadinessError(Exception):
    """Base of all; its text is one message for a person."""


class InputError(ReadinessError):
    """What a person gave is wrong.

    Args:
        message: what is wrong.
        place: where.
        hint: what would be right.
    """

    def __init__(self, message: str, place: Place | None = None, hint: str | None = None) -> None:
        self.message = message
        self.place = place
        self.hint = hint
        text = f"{place}: {message}" if place else message
        super().__init__(f"{text} ({hint})" if hint else text)


class ExpressionError(InputError):
    """A CEL text does not compile, names an unknown figure or gives no boolean."""


class RecordError(ReadinessError):
    """A document in the record store is missing, damaged or too big."""


class NoPlanError(RecordError):
    """There is no plan, so nothing ran and nothing is proven."""


class ElsewhereError(ReadinessError):
    """A step runs on a node on which it should not, and another would take it."""


class ClusterError(ReadinessError):
    """The Kubernetes API refused or did not answer."""
