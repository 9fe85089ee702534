"""The report from plan and verdicts: it starts from what was planned, so nothing can be lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata

from catalog.facts.reasons import Effect
from steps.documents import (
    CategoryReport,
    Coverage,
    Exclusion,
    GroupVerdict,
    NodeReport,
    NodeStatus,
    NodeVerdict,
    Outcome,
    Plan,
    PlannedCategory,
    ReasonGiven,
    Report,
    Result,
    RunRecord,
    Verdict,
)
from steps.evaluate.reasons import give, worst_first


def make_report(
    plan: Plan, verdicts: Mapping[str, Verdict], records: Sequence[RunRecord] = ()
) -> Report:
    """Aggregate the verdicts of all categories.

    Args:
        plan: what was planned; its targeted nodes and categories are the expected list.
        verdicts: by category id; a category without one is RESULT_MISSING for all its nodes.
        records: all run records, for times and versions.
    """
    categories = tuple(_category(planned, verdicts.get(planned.id)) for planned in plan.categories)
    judged: dict[str, dict[str, NodeVerdict]] = {name: {} for name in plan.targeted}
    for report in categories:
        for verdict in report.nodes:
            judged[verdict.node][report.category] = verdict
    excluded: dict[str, list[Exclusion]] = {name: [] for name in plan.targeted}
    for item in plan.excluded:
        excluded.setdefault(item.node, []).append(item)
    nodes = tuple(_node(name, plan, judged[name], excluded[name]) for name in plan.targeted)
    excluded_nodes = sum(node.status is NodeStatus.EXCLUDED for node in nodes)
    result = _result(plan, categories, nodes)
    return Report(
        certification=plan.certification,
        stage=plan.stage,
        result=result,
        source=plan.source,
        source_note=plan.source_note,
        product_version=metadata.version("readiness"),
        started=min((record.started for record in records), default=None),
        ended=max((record.ended for record in records), default=None),
        platform=", ".join(sorted({c.hardware.platform for c in plan.cohorts})) or "unknown",
        gpu=", ".join(sorted({c.hardware.gpu for c in plan.cohorts})) or "unknown",
        coverage=Coverage(
            targeted=len(plan.targeted),
            tested=len(_tested(categories)),
            excluded=excluded_nodes,
        ),
        cohorts=plan.cohorts,
        nodes=nodes,
        excluded=plan.excluded,
        categories=categories,
        problems=plan.problems,
        versions=_versions(records),
        bounds=plan.bounds,
    )


def report_without_plan(
    certification: str, code: str, message: str, nodes: Iterable[str] = ()
) -> Report:
    """Return the report of a certification that came to no plan, so that nothing is proven.

    Args:
        certification: its name, or that of its workflow.
        code: reason code of why there is no plan.
        message: the same in words.
        nodes: names of all nodes of which anything tells.
    """
    known = [
        NodeReport(node=name, status=NodeStatus.NOT_PROVEN, reasons=(give(code, message),))
        for name in sorted(set(nodes))
    ]
    return Report(
        certification=certification,
        stage="unknown",
        result=Result.INCONCLUSIVE,
        source="cluster",
        product_version=metadata.version("readiness"),
        platform="unknown",
        gpu="unknown",
        coverage=Coverage(targeted=len(known), tested=0, excluded=0),
        nodes=tuple(known),
        categories=(),
        problems=((code, message),),
    )


def _tested(categories: Sequence[CategoryReport]) -> set[str]:
    """Return the nodes of which a result arrived: their own, or figures of their group."""
    own = {
        node.node
        for category in categories
        for node in category.nodes
        if node.outcome is not Outcome.INCONCLUSIVE
    }
    measured = {
        node
        for category in categories
        for verdict in category.groups
        if verdict.figures
        for node in verdict.group.nodes
    }
    return own | measured


def planned_nodes(planned: PlannedCategory) -> tuple[str, ...]:
    """Return every node that a group of the category holds, sorted."""
    names = {node for part in planned.parts for group in part.groups for node in group.nodes}
    return tuple(sorted(names))


def _category(planned: PlannedCategory, verdict: Verdict | None) -> CategoryReport:
    expected = planned_nodes(planned)
    if verdict is None:
        missing = give("RESULT_MISSING", f"no verdict of {planned.id} arrived")
        nodes = tuple(
            NodeVerdict(node=node, outcome=Outcome.INCONCLUSIVE, reasons=(missing,))
            for node in expected
        )
        return CategoryReport(
            category=planned.id,
            outcome=Outcome.INCONCLUSIVE,
            scale=planned.scale,
            reasons=(missing,),
            nodes=nodes,
        )
    judged = {node.node: node for node in verdict.nodes}
    nodes = tuple(judged.get(node) or _absent(node) for node in expected)
    outcome = verdict.outcome
    if outcome is Outcome.PASS and any(node.outcome is not Outcome.PASS for node in nodes):
        outcome = Outcome.INCONCLUSIVE
    return CategoryReport(
        category=planned.id,
        outcome=outcome,
        scale=planned.scale,
        reasons=verdict.reasons,
        groups=verdict.groups,
        nodes=nodes,
        duration_seconds=_longest(verdict.groups, "measure"),
        isolation_seconds=_longest(verdict.groups, "isolate"),
    )


def _absent(node: str) -> NodeVerdict:
    reason = give("RESULT_MISSING")
    return NodeVerdict(node=node, outcome=Outcome.INCONCLUSIVE, reasons=(reason,))


def _longest(groups: Sequence[GroupVerdict], purpose: str) -> float:
    """Groups of one round run side by side; isolation rounds follow each other."""
    rounds: dict[str, float] = {}
    for verdict in groups:
        if verdict.group.purpose == purpose:
            name = verdict.group.id.rpartition("-")[0] if purpose == "isolate" else ""
            name = name or str(verdict.group.iteration)
            rounds[name] = max(rounds.get(name, 0.0), verdict.duration_seconds)
    return sum(rounds.values())


def _node(
    name: str,
    plan: Plan,
    verdicts: Mapping[str, NodeVerdict],
    excluded: Sequence[Exclusion],
) -> NodeReport:
    outcomes = {category: verdict.outcome for category, verdict in verdicts.items()}
    if not verdicts:
        reasons = tuple(give(item.code, item.message) for item in excluded)
        if not reasons:
            reasons = tuple(give(code, message) for code, message in plan.problems)
        return NodeReport(
            node=name, status=NodeStatus.EXCLUDED, reasons=reasons or (give("RESULT_MISSING"),)
        )
    open_cases = [v for v in verdicts.values() if v.outcome is not Outcome.PASS]
    reasons = worst_first(reason for verdict in open_cases for reason in verdict.reasons)
    if Outcome.FAIL in outcomes.values():
        failed = [v.reason for v in open_cases if v.outcome is Outcome.FAIL]
        return NodeReport(
            node=name,
            status=NodeStatus.FAILED,
            reason=failed[0],
            reasons=_blaming_first(reasons),
            categories=outcomes,
        )
    # What a category did not test is not proven, however well the others went.
    reasons += _left_out_of(plan, outcomes, excluded)
    status = NodeStatus.NOT_PROVEN if reasons or open_cases else NodeStatus.READY
    return NodeReport(node=name, status=status, reasons=reasons, categories=outcomes)


def _left_out_of(
    plan: Plan, tested: Mapping[str, Outcome], excluded: Sequence[Exclusion]
) -> tuple[ReasonGiven, ...]:
    """Say why categories did not test a node that others tested."""
    found = []
    for planned in plan.categories:
        if planned.id in tested:
            continue
        told = [item for item in excluded if item.category in {None, planned.id}]
        code, why = (told[0].code, told[0].message) if told else ("RESULT_MISSING", "not planned")
        text = f"{planned.id} did not test it: {why}"
        found.append(give(code, text, effect=Effect.INCONCLUSIVE))
    return tuple(found)


def _blaming_first(reasons: tuple[ReasonGiven, ...]) -> tuple[ReasonGiven, ...]:
    return tuple(sorted(reasons, key=lambda item: item.effect is not Effect.FAIL))


def _result(
    plan: Plan, categories: Sequence[CategoryReport], nodes: Sequence[NodeReport]
) -> Result:
    outcomes = {report.outcome for report in categories if report.nodes}
    statuses = {node.status for node in nodes}
    if Outcome.FAIL in outcomes or NodeStatus.FAILED in statuses:
        return Result.FAIL
    open_cases = any(o is not Outcome.PASS for node in nodes for o in node.categories.values())
    if plan.problems or Outcome.INCONCLUSIVE in outcomes or open_cases:
        return Result.INCONCLUSIVE
    everywhere = all(len(node.categories) == len(plan.categories) for node in nodes)
    if NodeStatus.EXCLUDED in statuses or plan.excluded or not everywhere:
        return Result.INCOMPLETE
    return Result.PASS if nodes and plan.categories else Result.INCONCLUSIVE


def _versions(records: Sequence[RunRecord]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}
