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
    effect: Effect | None = None,
    entities: Iterable[Entity] = (),
    proof: Iterable[Evidence] = (),
    count: int = 1,
    witness: bool = False,
    cause: str | None = None,
) -> Finding:
    """Return a finding with the catalog's effect unless another is given.

    Raises:
        KeyError: the code is not in the catalog: a bug.
    """
    return Finding(
        code=code,
        effect=effect or reason(code).effect,
        message=redact(message),
        entities=tuple(entities),
        evidence=tuple(proof)[:MAX_EVIDENCE],
        count=count,
        witness=witness,
        cause=cause,
    )


def made_up_for(item: Finding, start: int) -> Finding:
    """Return a failure of an earlier attempt as a warning: the run that counts began after it.

    Args:
        item: the finding.
        start: first line of the run that counts.
    """
    earlier = all(proof.line is not None and proof.line < start for proof in item.evidence)
    serious = item.effect in {Effect.FAIL, Effect.INCONCLUSIVE}
    if not serious or not item.evidence or not earlier:
        return item
    message = f"{item.message}; a later attempt completed"
    return item.model_copy(update={"effect": Effect.WARN, "message": message})
