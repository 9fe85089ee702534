"""The evaluate step: all runs of one category, judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from catalog.bars import Hardware, bars_for
from catalog.entry import find_entry
from steps.documents import (
    BarSet,
    Cohort,
    Group,
    GroupVerdict,
    Measurements,
    Plan,
    PlannedCategory,
    PlannedPart,
    RunRecord,
    Verdict,
)
from steps.evaluate.category import Standing, judge_category, standing
from steps.evaluate.group import judge_group
from steps.isolate import next_pairs


@dataclass(frozen=True, slots=True)
class Run:
    """One group with what came of it."""

    part: PlannedPart
    group: Group
    record: RunRecord | None
    measurements: Measurements | None


def cohort_of(plan: Plan, part: PlannedPart) -> Cohort:
    """Return the cohort of a part."""
    return next(cohort for cohort in plan.cohorts if cohort.id == part.cohort)


def hardware_of(plan: Plan, part: PlannedPart) -> Hardware:
    """Return what the bars of a part depend on."""
    cohort = cohort_of(plan, part)
    return Hardware(
        platform=cohort.platform,
        instance_type=cohort.instance_type,
        gpu_architecture=cohort.gpu_architecture,
        gpus_per_node=int(part.workload.gpus_per_node.value),
        profile=cohort.profile,
    )


def bars_of(plan: Plan, planned: PlannedCategory, part: PlannedPart, nodes: int) -> BarSet:
    """Return the bars for a group of ``nodes`` nodes, from the plan or worked out anew."""
    for known in part.bars:
        if known.nodes == nodes:
            return known
    entry = find_entry(planned.id)
    hardware = hardware_of(plan, part)
    bars, missing = bars_for(entry, plan.stage, hardware, nodes, part.workload.options)
    return BarSet(nodes=nodes, bars=bars, missing=missing)


def judge_run(plan: Plan, planned: PlannedCategory, run: Run) -> GroupVerdict:
    """Judge one run against the bars for its size."""
    unknown = cohort_of(plan, run.part).profile is None
    problems = [(c, m) for c, m in plan.problems if unknown or c != "PLATFORM_UNKNOWN"]
    if unknown and not any(code == "PLATFORM_UNKNOWN" for code, _ in problems):
        problems.append(("PLATFORM_UNKNOWN", f"no profile is known for {run.part.cohort}"))
    return judge_group(
        run.group,
        find_entry(planned.id).tool,
        bars_of(plan, planned, run.part, len(run.group.nodes)),
        record=run.record,
        measurements=run.measurements,
        problems=problems,
    )


def evaluate(plan: Plan, planned: PlannedCategory, runs: Sequence[Run]) -> Verdict:
    """Judge a category; every planned group counts, also those without a run."""
    verdicts = [judge_run(plan, planned, run) for run in _complete(planned, runs)]
    nodes = [node for part in planned.parts for group in part.groups for node in group.nodes]
    records = [run.record for run in runs if run.record]
    return judge_category(planned.id, nodes, verdicts, records)


def next_isolation(
    plan: Plan, planned: PlannedCategory, runs: Sequence[Run], round_number: int
) -> list[tuple[PlannedPart, Group]]:
    """Plan the next round of pair runs, part by part; empty when nothing is left to learn."""
    if not planned.isolate:
        return []
    verdicts = [judge_run(plan, planned, run) for run in _complete(planned, runs)]
    now = standing(verdicts, [run.record for run in runs if run.record])
    planned_pairs: list[tuple[PlannedPart, Group]] = []
    for part in planned.parts:
        if not _pairs_make_sense(planned, part):
            continue
        nodes = {node for group in part.groups for node in group.nodes}
        pairs = next_pairs(_only(now, nodes), verdicts, nodes, round_number)
        planned_pairs += [(part, pair) for pair in pairs]
    return planned_pairs


def _pairs_make_sense(planned: PlannedCategory, part: PlannedPart) -> bool:
    """A pair must be smaller than the group it explains and big enough for the workload."""
    largest = max((len(group.nodes) for group in part.groups), default=0)
    gpus = 2 * int(part.workload.gpus_per_node.value)
    return largest >= 2 and gpus >= find_entry(planned.id).min_gpus


def _only(now: Standing, nodes: Iterable[str]) -> Standing:
    here = set(nodes)
    good: Mapping[str, str] = {node: group for node, group in now.good.items() if node in here}
    return Standing(now.failed, good, tuple(node for node in now.suspects if node in here))


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
