"""Reason codes: what each means, what it does to a verdict and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache

from catalog.reading.model import Model
from catalog.reading.source import shipped


class Effect(StrEnum):
    """What a code alone does to a verdict, the worst first."""

    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    WARN = "warn"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """Place among the effects: 0 is the worst."""
        return list(Effect).index(self)

    @property
    def blocks(self) -> bool:
        """Whether it stands in the way of a pass."""
        return self in {Effect.FAIL, Effect.INCONCLUSIVE}


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


class Variant(Model):
    """A case in which a code weighs more or less than by itself.

    Attributes:
        effect: what the code does to a verdict in this case.
        why: why that is so.
    """

    effect: Effect
    why: str


class Reason(Model):
    """One reason code.

    Attributes:
        code: the name as it stands in reports; NVCRE's spelling where it has one.
        kind: what it speaks of.
        effect: what it does to a verdict, in all cases but those of ``variants``.
        says: one line for people.
        remedy: what to do next, where something general can be said.
        heals: the same run may succeed when it is tried again; only infrastructure codes.
        variants: cases with another effect, by name.
        about_output: it holds for one reader's output only, not for the run.
        taken_back: a later line of the same output can make it harmless.
        made_up: a later attempt in the same output that completes makes up for it.
        ends_run: no run gets over it, whatever the exit code: a pipe can hide the right one.
        follows: codes that it follows from where they stand in the same output.
    """

    code: str
    kind: Kind
    effect: Effect
    says: str
    remedy: str | None = None
    heals: bool = False
    variants: Mapping[str, Variant] = {}
    about_output: bool = False
    taken_back: bool = False
    made_up: bool = False
    ends_run: bool = False
    follows: tuple[str, ...] = ()

    def effect_in(self, variant: str | None) -> Effect:
        """Return what the code does to a verdict in a case.

        Raises:
            KeyError: the code has no such variant: a bug.
        """
        return self.effect if variant is None else self.variants[variant].effect


@cache
def _table() -> dict[str, Reason]:
    reasons = [Reason.model_validate(item) for item in shipped("facts/reasons.yaml").data]
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
