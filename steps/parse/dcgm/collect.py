"""Collects findings, so that one fact seen many times is one finding with a count."""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.facts.reasons import Effect, reason
from steps.documents import Entity, Evidence, Finding
from steps.parse.dcgm.results import TestResult
from steps.parse.findings import finding
from steps.parse.secrets import redact
from steps.parse.sightings import MAX_EVIDENCE, MAX_TEXT

MAX_MESSAGE = 400


@dataclass(slots=True)
class _Open:
    code: str
    effect: Effect
    message: str
    cause: str | None
    entities: dict[Entity, None] = field(default_factory=dict)
    evidence: dict[tuple[int | None, str], Evidence] = field(default_factory=dict)
    count: int = 0


class Findings:
    """Findings of one output, in the order of the output.

    What blames is kept apart by entity; notes and questions of many GPUs are one finding.

    Args:
        file: name of the output, for the evidence.
        node: node that the output comes from.
    """

    def __init__(self, file: str, node: str | None) -> None:
        self._file = file
        self._node = node
        self._open: dict[tuple[object, ...], _Open] = {}

    def add(
        self,
        code: str,
        message: str,
        *,
        variant: str | None = None,
        effect: Effect | None = None,
        result: TestResult | None = None,
        entities: tuple[Entity, ...] = (),
        text: str | None = None,
        line: int | None = None,
        cause: str | None = None,
    ) -> None:
        """Add a finding, or count it when it is there already.

        Args:
            code: reason code.
            message: for people; the first one is kept.
            variant: the case of the code, where it is not its usual one.
            effect: what DCGM's own table says, for codes that stand for many errors.
            result: the result it speaks of, which gives the entity.
            entities: used instead, where no single result is meant.
            text: the proof; without it the finding has no evidence.
            line: 1-based line of the proof.
            cause: code of the finding that this one follows from.
        """
        effect = effect or reason(code).effect_in(variant)
        about = entities or (self.entity(result) if result else self.node_entity())
        # Fails and per-GPU causes stay apart, because each names another culprit.
        key: tuple[object, ...] = (code, effect, cause)
        if effect is Effect.FAIL or not code.startswith("DCGM_"):
            key = (*key, about)
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = _Open(code, effect, _cut(message), cause)
        found.count += 1
        found.entities.update(dict.fromkeys(about))
        if text and len(found.evidence) < MAX_EVIDENCE:
            found.evidence.setdefault((line, text), proof(self._file, line, text))

    def entity(self, result: TestResult) -> tuple[Entity, ...]:
        """Return what a result is about, as much of it as is known."""
        node = result.host or self._node
        if result.gpus:
            return tuple(Entity(node=node, gpu=gpu) for gpu in result.gpus)
        if result.device:
            return (Entity(node=node, device=result.device),)
        return self.node_entity(result.host)

    def node_entity(self, host: str | None = None) -> tuple[Entity, ...]:
        """Return the node, where it is known."""
        node = host or self._node
        return (Entity(node=node),) if node else ()

    def finish(self) -> list[Finding]:
        """Return the findings, most serious first."""
        return [
            finding(
                found.code,
                found.message,
                effect=found.effect,
                entities=found.entities,
                proof=found.evidence.values(),
                count=found.count,
                cause=found.cause,
            )
            for found in sorted(self._open.values(), key=lambda f: f.effect.rank)
        ]


def proof(file: str, line: int | None, text: str) -> Evidence:
    """Quote the output, without secrets, cut to what evidence holds."""
    return Evidence(file=file, line=line, text=redact(text[: 4 * MAX_TEXT])[:MAX_TEXT])


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_MESSAGE else flat[: MAX_MESSAGE - 1] + "…"
