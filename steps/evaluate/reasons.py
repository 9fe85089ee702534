"""Building reasons: a code, what it does here, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterable

from catalog.facts.reasons import Effect, reason
from catalog.facts.xids import find_xid
from steps.documents import Entity, Evidence, Finding, ReasonGiven


def give(
    code: str,
    message: str | None = None,
    *,
    effect: Effect | None = None,
    entities: tuple[Entity, ...] = (),
    evidence: tuple[Evidence, ...] = (),
    group: str | None = None,
) -> ReasonGiven:
    """Build a reason from a code of the catalog; its own effect and text unless told otherwise."""
    known = reason(code)
    return ReasonGiven(
        code=code,
        effect=effect or known.effect,
        kind=known.kind,
        message=message or known.says,
        entities=entities,
        evidence=evidence,
        group=group,
        remedy=known.remedy,
    )


def effect_of(code: str) -> Effect:
    """Return what a code does by itself; Xids differ by number, application errors fail nothing."""
    number = code.removeprefix("XID_")
    if number != code and number.isdecimal():
        known = find_xid(int(number))
        return known.effect if known else Effect.INCONCLUSIVE
    return reason(code).effect


def from_finding(finding: Finding, group: str | None = None) -> ReasonGiven:
    """Build a reason from a finding of a parser.

    A witness only saw the failure, so its entities keep their place in the text but the reason
    can no longer fail anything.
    """
    effect = finding.effect
    if finding.witness and effect is Effect.FAIL:
        effect = Effect.INCONCLUSIVE
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    return give(
        finding.code,
        finding.message + times,
        effect=effect,
        entities=finding.entities,
        evidence=finding.evidence,
        group=group,
    )


def worst_first(reasons: Iterable[ReasonGiven]) -> tuple[ReasonGiven, ...]:
    """Sort by effect, keeping the order within one effect; drop exact repeats."""
    unique = dict.fromkeys(reasons)
    return tuple(sorted(unique, key=lambda item: item.effect.rank))
