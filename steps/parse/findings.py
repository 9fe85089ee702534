"""Builds findings whose effect is the catalog's."""

from __future__ import annotations

from collections.abc import Iterable

from catalog.facts.reasons import Effect, reason
from steps.documents import Entity, Evidence, Finding
from steps.parse.secrets import redact
from steps.parse.sightings import MAX_EVIDENCE


def finding(
    code: str,
    message: str,
    *,
    variant: str | None = None,
    effect: Effect | None = None,
    entities: Iterable[Entity] = (),
    proof: Iterable[Evidence] = (),
    count: int = 1,
    witness: bool = False,
    cause: str | None = None,
) -> Finding:
    """Return a finding with the catalog's effect.

    Args:
        code: reason code.
        message: for people.
        variant: the case of the code, where it is not its usual one.
        effect: what another table of the catalog says, for codes that stand for many errors.
        entities: what it is about.
        proof: lines that show it; the first few are kept.
        count: how often it was seen.
        witness: the entities only saw it.
        cause: code of the finding that it follows from.

    Raises:
        KeyError: the code or the variant is not in the catalog: a bug.
    """
    return Finding(
        code=code,
        effect=effect or reason(code).effect_in(variant),
        message=redact(message),
        entities=tuple(entities),
        evidence=tuple(proof)[:MAX_EVIDENCE],
        count=count,
        witness=witness,
        cause=cause,
    )


def eased(item: Finding, effect: Effect, message: str) -> Finding:
    """Return a finding that weighs no more than ``effect``, with what explains it."""
    mildest = max(item.effect, effect, key=lambda each: each.rank)
    return item.model_copy(update={"effect": mildest, "message": message})


def made_up_for(item: Finding, start: int) -> Finding:
    """Return a failure of an earlier attempt as a warning: the run that counts began after it.

    Args:
        item: the finding.
        start: first line of the run that counts.
    """
    earlier = all(proof.line is not None and proof.line < start for proof in item.evidence)
    if not item.effect.blocks or not item.evidence or not earlier:
        return item
    return eased(item, Effect.WARN, f"{item.message}; a later attempt completed")
