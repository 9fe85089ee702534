"""Finding the bad node of a failed group by pair runs.

Suspects are paired with nodes that are known good, and among themselves while nobody is. A pair
that passes clears both; a suspect that fails with a good partner is the culprit. One bad node of
N takes two rounds. Pairs of one round share no node, so they can run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catalog.entries.entry import find_entry
from steps.documents import Group, GroupVerdict, Plan, PlannedCategory, PlannedPart
from steps.evaluate.category import Standing, standing
from steps.evaluate.core import judge_runs
from steps.store.runs import Run

MAX_ROUNDS = 6
"""Rounds after which what is not yet known stays not proven."""


def next_isolation(
    plan: Plan, planned: PlannedCategory, runs: Sequence[Run], round_number: int
) -> list[tuple[PlannedPart, Group]]:
    """Plan the next round of pair runs, part by part; empty when nothing is left to learn."""
    parts = [part for part in planned.parts if _pairs_make_sense(planned, part)]
    if not (planned.isolate and parts):
        return []
    verdicts = judge_runs(plan, planned, runs)
    now = standing(verdicts, [run.record for run in runs if run.record])
    planned_pairs: list[tuple[PlannedPart, Group]] = []
    for part in parts:
        nodes = {node for group in part.groups for node in group.nodes}
        pairs = next_pairs(now, verdicts, nodes, round_number)
        planned_pairs += [(part, pair) for pair in pairs]
    return planned_pairs


def _pairs_make_sense(planned: PlannedCategory, part: PlannedPart) -> bool:
    """A pair must be smaller than the group it explains and big enough for the workload."""
    largest = max((len(group.nodes) for group in part.groups), default=0)
    gpus = 2 * int(part.workload.gpus_per_node.value)
    return largest >= 2 and gpus >= find_entry(planned.id).min_gpus


def next_pairs(
    now: Standing, verdicts: Iterable[GroupVerdict], nodes: Iterable[str], round_number: int
) -> tuple[Group, ...]:
    """Plan the pairs of the next round.

    Args:
        now: where the nodes stand.
        verdicts: all runs so far; a pair that ran is not run again.
        nodes: nodes of the cohort, all of which may serve as partners.
        round_number: 1-based; no pairs are planned after `MAX_ROUNDS`.

    Returns:
        Disjoint pairs with the purpose ``isolate``; empty when there is nothing to gain.
    """
    if round_number > MAX_ROUNDS:
        return ()
    here = set(nodes)
    suspects = [node for node in now.suspects if node in here]
    partners = sorted(node for node in now.good if node in here and node not in now.failed)
    tried = {frozenset(v.group.nodes) for v in verdicts if len(v.group.nodes) == 2}
    pairs = _match(suspects, partners, tried) if partners else _among(suspects, tried)
    return tuple(
        Group(id=f"pair-{round_number}-{index}", nodes=pair, purpose="isolate")
        for index, pair in enumerate(pairs)
    )


def _match(
    suspects: list[str], partners: list[str], tried: set[frozenset[str]]
) -> list[tuple[str, str]]:
    """Give each suspect a good partner of its own, as far as they go."""
    free = list(partners)
    pairs = []
    for suspect in suspects:
        partner = next((p for p in free if frozenset({suspect, p}) not in tried), None)
        if partner is not None:
            free.remove(partner)
            pairs.append((suspect, partner))
    return pairs


def _among(suspects: list[str], tried: set[frozenset[str]]) -> list[tuple[str, str]]:
    free = list(suspects)
    pairs = []
    while len(free) > 1:
        first = free.pop(0)
        partner = next((p for p in free if frozenset({first, p}) not in tried), None)
        if partner is not None:
            free.remove(partner)
            pairs.append((first, partner))
    return pairs
