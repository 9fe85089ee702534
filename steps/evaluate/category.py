"""The verdict of one category: from groups to nodes.

A failed group makes its nodes suspects. Only evidence on a node makes that node failed: a health
event, a finding that names it, its own single-node run, or a pair run that fails although its
partner passes elsewhere. A pair run that passes clears both, unless no cause was found at all:
then the group failed for a reason that pairs do not show, and nobody is cleared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from catalog.facts.reasons import BLAMING_KINDS, Effect, Kind, reason
from catalog.language.vocabulary import PEER_NAMES
from steps.documents import (
    GroupVerdict,
    NodeVerdict,
    Outcome,
    ReasonGiven,
    RunRecord,
    Verdict,
)
from steps.evaluate.comparison import flips
from steps.evaluate.group import event_reason
from steps.evaluate.reasons import effect_of, give, worst_first

NvcreReason = Literal["ThresholdViolation", "HardwareFailureDetected", "WorkloadFailed"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Who is proven bad, who is cleared, and who is still suspected.

    Attributes:
        failed: reasons by node, with the group that proved it.
        good: nodes that passed a run, with its group id.
        suspects: nodes of failed groups that are neither, in name order.
    """

    failed: Mapping[str, tuple[str | None, tuple[ReasonGiven, ...]]]
    good: Mapping[str, str]
    suspects: tuple[str, ...]


def standing(groups: Iterable[GroupVerdict], records: Iterable[RunRecord]) -> Standing:
    """Work out where every node stands after the runs so far."""
    verdicts = list(groups)
    failed: dict[str, tuple[str | None, tuple[ReasonGiven, ...]]] = {}
    for record in records:
        for event in record.events:
            if effect_of(event.code) is not Effect.FAIL:
                continue
            hard = event_reason(event, record).model_copy(update={"effect": Effect.FAIL})
            known = failed.get(event.node, (None, ()))[1]
            failed[event.node] = (record.group.id, (*known, hard))
    for verdict in verdicts:
        for node, reasons in _named(verdict).items():
            known = failed.get(node, (None, ()))[1]
            codes = {item.code for item in known}
            new = tuple(item for item in reasons if item.code not in codes)
            failed[node] = (verdict.group.id, (*known, *new))
    good = _good(verdicts, failed, _doubts(verdicts))
    # Later pairs have partners that are known good, so they are the plainer proof.
    for verdict in reversed(verdicts):
        guilty = _pair_guilt(verdict, good, failed)
        if guilty:
            failed[guilty] = (verdict.group.id, _blame(verdict))
    suspects = {
        node
        for verdict in verdicts
        if verdict.group.purpose == "measure" and _suspicious(verdict)
        for node in verdict.group.nodes
    }
    open_cases = sorted(suspects - set(failed) - set(good))
    return Standing(failed, good, tuple(open_cases))


def judge_category(
    category: str,
    nodes: Iterable[str],
    groups: Iterable[GroupVerdict],
    records: Iterable[RunRecord],
) -> Verdict:
    """Judge every planned node of a category.

    Args:
        category: category id.
        nodes: every node that a planned group holds; each gets a verdict.
        groups: verdicts of planned and isolation groups.
        records: records of the same runs.
    """
    verdicts = list(groups)
    now = standing(verdicts, records)
    explained = {
        verdict.group.id
        for verdict in verdicts
        if any(node in now.failed for node in verdict.group.nodes)
    }
    measured = [item for item in verdicts if item.group.purpose == "measure"]
    of_node: dict[str, list[GroupVerdict]] = {node: [] for node in sorted(set(nodes))}
    for verdict in measured:
        for node in verdict.group.nodes:
            if node in of_node:
                of_node[node].append(verdict)
    judged = tuple(_judge_node(node, own, now, explained) for node, own in of_node.items())
    reasons = [given for item in measured for given in item.reasons]
    outcomes = {item.outcome for item in measured} | {item.outcome for item in judged}
    if Outcome.FAIL in outcomes:
        outcome = Outcome.FAIL
    elif outcomes == {Outcome.PASS}:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.INCONCLUSIVE
    unexplained = [v for v in measured if v.outcome is Outcome.FAIL and v.group.id not in explained]
    reasons += [
        give("FABRIC_SUSPECT", group=verdict.group.id)
        for verdict in unexplained
        if len(verdict.group.nodes) > 1 and all(node in now.good for node in verdict.group.nodes)
    ]
    reasons += [give("SETTINGS_DIFFER", line) for line in flips((v.group.id, v) for v in measured)]
    return Verdict(
        category=category,
        outcome=outcome,
        reasons=worst_first(reasons),
        groups=tuple(verdicts),
        nodes=judged,
    )


def _judge_node(
    node: str, own: list[GroupVerdict], now: Standing, explained: set[str]
) -> NodeVerdict:
    if node in now.failed:
        group, reasons = now.failed[node]
        ordered = worst_first(reasons)
        return NodeVerdict(
            node=node,
            outcome=Outcome.FAIL,
            reason=_nvcre_reason(ordered),
            reasons=ordered,
            decided_by=group,
        )
    bad = [v for v in own if v.outcome is not Outcome.PASS]
    if own and not bad:
        return NodeVerdict(node=node, outcome=Outcome.PASS, decided_by=own[0].group.id)
    if bad and node in now.good and all(v.group.id in explained for v in bad):
        return NodeVerdict(node=node, outcome=Outcome.PASS, decided_by=now.good[node])
    if not own:
        reasons = (give("RESULT_MISSING"),)
        return NodeVerdict(node=node, outcome=Outcome.INCONCLUSIVE, reasons=reasons)
    suspect = any(_suspicious(v) for v in bad)
    own_reasons = [_softened(r) for v in bad for r in v.reasons if _may_be_about(r, node)]
    if suspect or not own_reasons:
        code = "FABRIC_SUSPECT" if node in now.good else "SUSPECT"
        own_reasons.insert(0, _suspicion(code, bad[0], now))
    return NodeVerdict(
        node=node,
        outcome=Outcome.INCONCLUSIVE,
        reasons=worst_first(own_reasons),
        decided_by=bad[0].group.id,
        suspect=suspect,
    )


def _suspicion(code: str, verdict: GroupVerdict, now: Standing) -> ReasonGiven:
    """Say which group it is about, and who in it is proven to be at fault."""
    guilty = [node for node in verdict.group.nodes if node in now.failed]
    text = f"{reason(code).says} (group {verdict.group.id}"
    text += f", in which {', '.join(guilty)} failed)" if guilty else ")"
    return give(code, text, effect=Effect.INCONCLUSIVE, group=verdict.group.id)


def _may_be_about(given: ReasonGiven, node: str) -> bool:
    """False for what is known to be about other nodes; an innocent node must not carry it."""
    named = {entity.node for entity in given.entities if entity.node}
    return not named or node in named


def _softened(given: ReasonGiven) -> ReasonGiven:
    """What failed the group does not fail this node."""
    if given.effect is Effect.FAIL:
        return given.model_copy(update={"effect": Effect.INCONCLUSIVE})
    return given


def _named(verdict: GroupVerdict) -> dict[str, tuple[ReasonGiven, ...]]:
    """Return the nodes that this run's own findings prove bad."""
    hard = [r for r in verdict.reasons if r.effect is Effect.FAIL and r.kind in BLAMING_KINDS]
    nodes = verdict.group.nodes
    if len(nodes) == 1:
        return {nodes[0]: tuple(hard)} if hard else {}
    named: dict[str, tuple[ReasonGiven, ...]] = {}
    for item in hard:
        places = {entity.node for entity in item.entities if entity.node in nodes}
        # A finding about a collective that names several nodes proves nothing about one of them.
        if item.kind is Kind.HARDWARE and len(places) == 1:
            node = str(places.pop())
            named[node] = (*named.get(node, ()), item)
    return named


def _doubts(verdicts: list[GroupVerdict]) -> dict[str, set[str]]:
    """Return the comparisons with peers that were false of each node's planned groups."""
    doubts: dict[str, set[str]] = {}
    for verdict in verdicts:
        false = {
            item.expression
            for item in verdict.expressions
            if item.outcome is Outcome.FAIL and any(name in item.expression for name in PEER_NAMES)
        }
        if false and verdict.group.purpose == "measure":
            for node in verdict.group.nodes:
                doubts.setdefault(node, set()).update(false)
    return doubts


def _good(
    verdicts: list[GroupVerdict], failed: Mapping[str, object], doubts: Mapping[str, set[str]]
) -> dict[str, str]:
    """Return nodes that passed: in a pair run, or in a group whose repeats all passed.

    A pair clears its nodes only of what it was asked: one that had too few peers says nothing about
    a group that falls short of its peers.
    """
    good: dict[str, str] = {}
    spoiled = {v.group.nodes for v in verdicts if v.outcome is not Outcome.PASS}
    for verdict in sorted(verdicts, key=lambda v: v.group.purpose == "measure"):
        if verdict.outcome is Outcome.PASS and verdict.group.nodes not in spoiled:
            asked = {item.expression for item in verdict.expressions}
            for node in verdict.group.nodes:
                if node not in failed and doubts.get(node, set()) <= asked:
                    good.setdefault(node, verdict.group.id)
    return good


def _pair_guilt(
    verdict: GroupVerdict, good: Mapping[str, str], failed: Mapping[str, object]
) -> str | None:
    """Return the node that a failed isolation run proves bad: the only one not known good."""
    if verdict.group.purpose != "isolate" or not _suspicious(verdict):
        return None
    doubtful = [node for node in verdict.group.nodes if node not in good]
    if len(doubtful) == 1 and doubtful[0] not in failed:
        return doubtful[0]
    return None


def _blame(verdict: GroupVerdict) -> tuple[ReasonGiven, ...]:
    """Turn the reasons of a pair run into reasons against its one doubtful node."""
    against = [r for r in verdict.reasons if r.kind in BLAMING_KINDS]
    return tuple(
        r.model_copy(update={"effect": Effect.FAIL}) if r.effect is Effect.INCONCLUSIVE else r
        for r in against
    )


def _suspicious(verdict: GroupVerdict) -> bool:
    """True when the run failed, or ended without a measurement for a reason that is not ours."""
    if verdict.outcome is Outcome.FAIL:
        return True
    kinds = {r.kind for r in verdict.reasons if r.effect is Effect.INCONCLUSIVE}
    ours = {Kind.INFRASTRUCTURE, Kind.CONFIGURATION, Kind.COVERAGE}
    return (
        verdict.outcome is Outcome.INCONCLUSIVE and bool(kinds & BLAMING_KINDS) and not kinds & ours
    )


def _nvcre_reason(reasons: tuple[ReasonGiven, ...]) -> NvcreReason:
    """Map the detail codes to NVCRE's three per-node reasons, the hardest first."""
    kinds = {r.kind for r in reasons if r.effect is Effect.FAIL}
    if Kind.HARDWARE in kinds:
        return "HardwareFailureDetected"
    return "ThresholdViolation" if Kind.PERFORMANCE in kinds else "WorkloadFailed"
