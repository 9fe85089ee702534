"""All runs of one category, judged; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from catalog.bars.bar import Missing
from catalog.entries.entry import find_entry
from catalog.hardware.hardware import Situation
from steps.documents import (
    BarSet,
    Completeness,
    GroupVerdict,
    Plan,
    PlannedCategory,
    PlannedPart,
    RunOutcome,
    Verdict,
)
from steps.evaluate.category import judge_category
from steps.evaluate.group import judge_group
from steps.evaluate.peers import PeerClass
from steps.evaluate.quotes import quote_runs
from steps.store.runs import Run


def bars_of(plan: Plan, planned: PlannedCategory, part: PlannedPart, nodes: int) -> BarSet:
    """Return the bars for a group of ``nodes`` nodes.

    They are not worked out anew for a size that was not planned: the bar files of the user are only
    known where the plan is made.
    """
    for known in part.bars:
        if known.nodes == nodes:
            return known
    why = f"the plan has no bars of {planned.id} for groups of {nodes} nodes"
    return BarSet(nodes=nodes, missing=(Missing(code="NO_THRESHOLD", why=why),))


def situation_of(plan: Plan, planned: PlannedCategory, run: Run) -> Situation:
    """Return what expressions may know about a run besides its figures."""
    return Situation(
        hardware=run.part.workload.hardware,
        category=planned.id,
        launcher=run.part.workload.launcher.value,
        stage=plan.stage,
        scale=planned.scale,
        nodes=len(run.group.nodes),
    )


def judge_runs(plan: Plan, planned: PlannedCategory, runs: Sequence[Run]) -> list[GroupVerdict]:
    """Judge all runs of a category, each once and compared with the others of its kind.

    Every planned group counts, also those without a run.
    """
    everything = _complete(planned, runs)
    domains = {node.name: node.domains for node in plan.nodes}
    kinds = [_kind_of(run, domains) for run in everything]
    peers = _peer_classes(everything, kinds)
    return [
        judge_run(plan, planned, run, peers[kind])
        for run, kind in zip(everything, kinds, strict=True)
    ]


def judge_run(
    plan: Plan, planned: PlannedCategory, run: Run, peers: PeerClass | None = None
) -> GroupVerdict:
    """Judge one run against the bars for its size.

    Args:
        plan: the plan.
        planned: the category.
        run: the run.
        peers: the runs of its kind, this one among them.
    """
    unknown = run.part.workload.hardware.profile is None
    problems = [(c, m) for c, m in plan.problems if unknown or c != "PLATFORM_UNKNOWN"]
    if unknown and not any(code == "PLATFORM_UNKNOWN" for code, _ in problems):
        problems.append(("PLATFORM_UNKNOWN", f"no profile is known for {run.part.cohort}"))
    return judge_group(
        run.group,
        find_entry(planned.id).tool,
        bars_of(plan, planned, run.part, len(run.group.nodes)),
        record=run.record,
        measurements=run.measurements,
        damage=run.damage,
        read_again=run.read_now,
        problems=problems,
        context=situation_of(plan, planned, run),
        peers=peers,
    )


_RunKind = tuple[str, int, str, tuple[tuple[str, int], ...]]
"""Cohort, nodes, purpose, and how many racks and blocks the nodes are in, by label key."""


def _kind_of(run: Run, domains: Mapping[str, Mapping[str, str]]) -> _RunKind:
    """Say what a run must have in common with another for their figures to be compared.

    A pair within one NVLink domain is faster than one across two, and neither is at fault.
    """
    group = run.group
    places = [domains.get(node, {}) for node in group.nodes]
    keys = sorted({key for place in places for key in place}) if len(group.nodes) > 1 else []
    spread = tuple((key, len({place.get(key) for place in places})) for key in keys)
    return run.part.cohort, len(group.nodes), group.purpose, spread


def _peer_classes(runs: Sequence[Run], kinds: Sequence[_RunKind]) -> dict[_RunKind, PeerClass]:
    """Sort the runs of a category by kind.

    A run that did not end well, or whose output is not whole, counts as one without figures.
    Isolation runs are few and of doubtful nodes, so planned groups of their size are peers of them
    as well; the other way round they are not.
    """
    alike: dict[_RunKind, list[Run]] = {kind: [] for kind in kinds}
    for run, (cohort, size, purpose, spread) in zip(runs, kinds, strict=True):
        alike[cohort, size, purpose, spread].append(run)
        isolation = (cohort, size, "isolate", spread)
        if purpose == "measure" and isolation in alike:
            alike[isolation].append(run)
    return {
        kind: PeerClass([run.group for run in some], [_numbers(run) for run in some])
        for kind, some in alike.items()
    }


def _numbers(run: Run) -> dict[str, float | int] | None:
    if (
        run.record is None
        or run.record.outcome is not RunOutcome.COMPLETED
        or run.measurements is None
        or run.measurements.completeness is not Completeness.COMPLETE
    ):
        return None
    return {
        name: figure.value
        for name, figure in run.measurements.figures.items()
        if not isinstance(figure.value, dict)
    }


def evaluate(
    plan: Plan,
    planned: PlannedCategory,
    runs: Sequence[Run],
    read_log: Callable[[str], bytes] | None = None,
) -> Verdict:
    """Judge a category; every planned group counts, also those without a run.

    Args:
        plan: the plan.
        planned: the category.
        runs: all runs of it, isolation included.
        read_log: returns a raw output by name, for the words of its lines; None leaves them out.
    """
    verdicts = judge_runs(plan, planned, runs)
    if read_log is not None:
        verdicts = quote_runs(verdicts, read_log)
    nodes = [node for part in planned.parts for group in part.groups for node in group.nodes]
    records = [run.record for run in runs if run.record]
    return judge_category(planned.id, nodes, verdicts, records)


def _complete(planned: PlannedCategory, runs: Sequence[Run]) -> list[Run]:
    """Add an empty run for every planned group that has none."""
    done = {run.group.id for run in runs}
    absent = [
        Run(part, group, None, None)
        for part in planned.parts
        for group in part.groups
        if group.id not in done
    ]
    return [*runs, *absent]
