"""The verdict of one group: fail closed.

PASS needs complete data, no finding against it, and at least one expression that is true.
FAIL needs proof: a finding that fails by itself, or a false expression over complete data.
Everything else is INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from catalog.facts.reasons import Effect, Kind, reason
from catalog.hardware.hardware import Situation
from catalog.reading.quantity import format_duration
from steps.documents import (
    BarSet,
    Completeness,
    Entity,
    ExpressionResult,
    Group,
    GroupVerdict,
    Measurements,
    NodeEvent,
    Outcome,
    ReasonGiven,
    RunOutcome,
    RunRecord,
    digest,
)
from steps.evaluate.expressions import explain
from steps.evaluate.peers import PeerClass
from steps.evaluate.reasons import effect_of, from_finding, give, worst_first
from steps.evaluate.scopes import LeftOut, RunJudge
from steps.tools import TOOL_STEPS
from steps.tools.tool import ToolSteps

_UNREAD = {
    Completeness.CUT_OFF: "LOG_TRUNCATED",
    Completeness.EMPTY: "LOG_EMPTY",
    Completeness.UNKNOWN_SCHEMA: "LOG_UNREADABLE",
    Completeness.ABORTED: "WorkloadFailed",
}
_ENDED = {
    RunOutcome.FAILED: "WorkloadFailed",
    RunOutcome.TIMED_OUT: "JobTimedOut",
    RunOutcome.STALLED: "WorkloadStalled",
    RunOutcome.INFRASTRUCTURE: "INFRA_STEP_DIED",
    RunOutcome.STOPPED: "INFRA_STOPPED",
}


NOTHING_KNOWN = Situation()


def judge_group(
    group: Group,
    tool: str,
    bars: BarSet,
    *,
    record: RunRecord | None,
    measurements: Measurements | None,
    damage: Sequence[str] = (),
    read_again: bool = False,
    problems: Iterable[tuple[str, str]] = (),
    context: Situation = NOTHING_KNOWN,
    peers: PeerClass | None = None,
) -> GroupVerdict:
    """Judge one run.

    Args:
        group: the group.
        tool: settles which figures expressions may name.
        bars: the bars for groups of this size.
        record: what the launcher saw; None when no record arrived.
        measurements: what the output says; None when it was never parsed.
        damage: what is wrong with documents of the run, each by its key.
        read_again: what was damaged has been read from the outputs again, so that nothing is lost.
        problems: codes of the plan that make every verdict inconclusive, with messages.
        context: what expressions may know besides figures.
        peers: the runs of the same kind, this one among them.
    """
    planned = [give(code, message, group=group.id) for code, message in problems]
    seen = [
        give("RECORD_DAMAGED", text, effect=Effect.NOTE if read_again else None, group=group.id)
        for text in damage
    ]
    if record is not None:
        seen += _of_record(record)
    if record is None and not seen:
        seen = [give("RESULT_MISSING", group=group.id)]
    if record is not None and measurements is None and not seen:
        seen.append(give("RESULT_MISSING", "the output was not parsed", group=group.id))
    if record is not None and measurements is not None:
        seen += [*_without_parts(record, measurements), *_without_end(measurements, group, tool)]
    verdict = judge_output(
        group, tool, bars, measurements, known=planned, seen=seen, context=context, peers=peers
    )
    if record is None:
        return verdict
    seconds = (record.ended - record.started).total_seconds()
    return verdict.model_copy(update={"duration_seconds": seconds, "record": digest(record)})


def judge_output(
    group: Group,
    tool: str | None,
    bars: BarSet,
    measurements: Measurements | None,
    *,
    known: Iterable[ReasonGiven] = (),
    seen: Iterable[ReasonGiven] = (),
    context: Situation = NOTHING_KNOWN,
    peers: PeerClass | None = None,
) -> GroupVerdict:
    """Judge what an output says.

    Args:
        group: the nodes it is about.
        tool: settles which figures expressions may name; None where the output has none.
        bars: what must hold.
        measurements: what the output says.
        known: reasons that stand whatever the output says.
        seen: reasons of the run itself; an inconclusive one means that the output is not whole.
        context: what expressions may know besides figures.
        peers: the runs of the same kind, this one among them; None where there are no others.
    """
    reasons = [*known, *(give(it.code, it.message, group=group.id) for it in bars.missing)]
    found = list(seen)
    expressions: tuple[ExpressionResult, ...] = ()
    if measurements is not None:
        steps = TOOL_STEPS[tool] if tool else None
        whole = measurements.completeness is Completeness.COMPLETE
        if steps and steps.results_outweigh_exit and whole:
            found = [item for item in found if item.code != "WorkloadFailed"]
        told = {(item.code, entity.node) for item in found for entity in item.entities}
        codes = {item.code for item in found}
        found += [
            item
            for item in _of_measurements(measurements, group, steps)
            # What the launcher has said already, with its time.
            if not (item.code == "EXIT_CODE_NONZERO" and "WorkloadFailed" in codes)
            and not any((item.code, entity.node) in told for entity in item.entities)
        ]
        judged = []
        if tool:
            judge = RunJudge(group, measurements, tool, context, peers)
            judged = [judge.judge(bar) for bar in bars.bars]
        expressions = tuple(one for some in judged if not isinstance(some, LeftOut) for one in some)
        reasons += [
            give("BAR_LEFT_OUT", str(some), group=group.id)
            for some in judged
            if isinstance(some, LeftOut) and some.why
        ]
        # A figure of half a run may still change, so it proves nothing either way.
        complete = not any(item.effect is Effect.INCONCLUSIVE for item in found)
        found += _of_expressions(expressions, group, complete=complete)
        if steps and steps.unfinished(measurements):
            # What an excerpt measures stands, and may fail; that the run went well is not proven.
            found = [_doubted(item) if item.code == "EXIT_CODE_UNKNOWN" else item for item in found]
    if not bars.missing and (not bars.bars or (measurements is not None and not expressions)):
        reasons.append(give("NO_THRESHOLD", group=group.id))
    ordered = worst_first([*reasons, *found])
    return GroupVerdict(
        group=group,
        outcome=_outcome(ordered, expressions),
        reasons=ordered,
        expressions=expressions,
        figures=measurements.figures if measurements else {},
        facts=measurements.facts if measurements else {},
    )


def _outcome(
    reasons: tuple[ReasonGiven, ...], expressions: tuple[ExpressionResult, ...]
) -> Outcome:
    if any(item.effect is Effect.FAIL for item in reasons):
        return Outcome.FAIL
    proven = any(item.outcome is Outcome.PASS for item in expressions)
    if not proven or any(item.effect is Effect.INCONCLUSIVE for item in reasons):
        return Outcome.INCONCLUSIVE
    return Outcome.PASS


def event_reason(event: NodeEvent, record: RunRecord) -> ReasonGiven:
    """A health event proves something about its own node only; the group is merely cut short."""
    after = format_duration((event.at - record.started).total_seconds())
    effect = effect_of(event.code)
    return give(
        event.code,
        f"after {after}, {event.source}: {event.text}",
        effect=Effect.INCONCLUSIVE if effect is Effect.FAIL else effect,
        entities=(Entity(node=event.node),),
        group=record.group.id,
    )


def _of_record(record: RunRecord) -> list[ReasonGiven]:
    where = record.group.id
    reasons = [event_reason(event, record) for event in record.events]
    # The events say it better than the launcher's summary of them.
    summary = "HardwareFailureDetected" if record.events else None
    for failure in record.failures:
        if failure.code == summary:
            continue
        entities = (failure.entity,) if failure.entity else ()
        # What the launcher saw is a place, not a culprit, so it never fails anything by itself.
        effect = reason(failure.code).effect
        effect = Effect.INCONCLUSIVE if effect is Effect.FAIL else effect
        reasons.append(
            give(failure.code, failure.message, effect=effect, entities=entities, group=where)
        )
    code = _ENDED.get(record.outcome)
    if code and not record.failures:
        reasons.append(give(code, group=where))
    return reasons


def _without_parts(record: RunRecord, measurements: Measurements) -> list[ReasonGiven]:
    """Find outputs of which the launcher lost a part, in whose rest nothing shows it."""
    lost = [log.name for log in record.logs if log.truncated and log.role == "output"]
    if not lost or measurements.completeness is not Completeness.COMPLETE:
        return []
    message = f"the launcher could not keep all of {', '.join(lost)}"
    return [give("LOG_TRUNCATED", message, group=record.group.id)]


def _without_end(measurements: Measurements, group: Group, tool: str) -> list[ReasonGiven]:
    """Find an output that tells of more to come, for example of steps after its last one.

    The tool ended well, so what follows was lost.
    """
    message = TOOL_STEPS[tool].unfinished(measurements)
    return [give("LOG_TRUNCATED", message, group=group.id)] if message else []


def _doubted(item: ReasonGiven) -> ReasonGiven:
    return item.model_copy(update={"effect": Effect.INCONCLUSIVE})


def _of_measurements(
    measurements: Measurements, group: Group, steps: ToolSteps[Any] | None
) -> list[ReasonGiven]:
    reasons = [from_finding(finding, group.id) for finding in measurements.findings]
    code = _UNREAD.get(measurements.completeness)
    if code and not any(item.effect.blocks for item in reasons):
        reasons.append(give(code, group=group.id))
    if steps and not any(item.effect.blocks for item in reasons):
        text = steps.unexplained(measurements)
        if text:
            reasons.append(give("SCHEMA_UNKNOWN", text, group=group.id))
    return reasons


def _of_expressions(
    expressions: tuple[ExpressionResult, ...], group: Group, *, complete: bool
) -> list[ReasonGiven]:
    reasons = []
    for item in expressions:
        if item.outcome is Outcome.PASS:
            continue
        effect = Effect.INCONCLUSIVE
        # A code of the data, such as TRAIN_TOO_FEW_STEPS, says that nothing is proven.
        if item.outcome is Outcome.FAIL and complete and reason(item.code).kind is not Kind.DATA:
            effect = Effect.FAIL
        reasons.append(
            give(
                item.code,
                explain(item),
                effect=effect,
                entities=(item.entity,) if item.entity else (),
                evidence=item.evidence,
                group=group.id,
            )
        )
    return reasons
