"""Reason codes: what each means, what it does to a verdict and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from importlib import resources

import yaml

from catalog.reading.model import Model


class Effect(StrEnum):
    """What a code alone does to a verdict."""

    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    WARN = "warn"
    NOTE = "note"


class Kind(StrEnum):
    """What a code speaks of."""

    PERFORMANCE = "performance"
    HARDWARE = "hardware"
    WORKLOAD = "workload"
    INFRASTRUCTURE = "infrastructure"
    DATA = "data"
    CONFIGURATION = "configuration"
    COVERAGE = "coverage"


BLAMING_KINDS = frozenset({Kind.PERFORMANCE, Kind.HARDWARE, Kind.WORKLOAD})
"""Only codes of these kinds can fail a node; the others speak of us, the data or the settings."""


class Reason(Model):
    """One reason code.

    Attributes:
        code: the name as it stands in reports; NVCRE's spelling where it has one.
        kind: what it speaks of.
        effect: what it does to a verdict unless a finding says otherwise.
        says: one line for people.
        remedy: what to do next, where something general can be said.
        heals: the same run may succeed when it is tried again; only infrastructure codes.
    """

    code: str
    kind: Kind
    effect: Effect
    says: str
    remedy: str | None = None
    heals: bool = False


@cache
def _table() -> dict[str, Reason]:
    text = resources.files("catalog.facts").joinpath("reasons.yaml").read_text(encoding="utf-8")
    reasons = [Reason.model_validate(item) for item in yaml.safe_load(text)]
    return {reason.code: reason for reason in reasons}


def all_reasons() -> tuple[Reason, ...]:
    """Return every code and family, in the order of the file."""
    return tuple(_table().values())


def reason(code: str) -> Reason:
    """Look a code up; ``XID_79`` and ``DCGM_FAIL_PCIE/30`` belong to their families.

    Raises:
        KeyError: no such code: a bug, since codes are never taken from input.
    """
    table = _table()
    bare = code.partition("/")[0]
    if bare in table:
        return table[bare]
    for family in table.values():
        if family.code.endswith("*") and bare.startswith(family.code[:-1]):
            return family.model_copy(update={"code": bare})
    raise KeyError(code)
