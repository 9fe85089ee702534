"""Making the plan: pure, from Node objects and a certification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from catalog.certification import Certification
from catalog.entries.entry import find_entry
from catalog.errors import InputError, Place
from catalog.reading.model import suggestion
from catalog.reading.quantity import parse_duration
from catalog.reading.setting import Setting
from catalog.reading.source import Path_, Source
from catalog.workload.options import NO_SOURCE
from steps.detect.bounds import Cost, bounds_of
from steps.detect.checks import Checked, check_certification
from steps.detect.cohorts import CohortPlan
from steps.detect.parts import PartMaker, PartPlan
from steps.detect.survey import survey
from steps.documents import Exclusion, Group, Plan, PlannedCategory, PlannedPart

MOST_GROUPS = 100_000
"""Bound on the groups of a category: five thousand nodes, each tested by itself twenty times."""


def make_plan(
    certification: Certification,
    nodes: Sequence[Mapping[str, Any]],
    *,
    source: Literal["cluster", "recorded", "simulated"],
    source_note: str | None = None,
    text: Source | None = None,
    profiles: Iterable[Source] = (),
    bars: Sequence[Source] = (),
    resource_slices: Sequence[Mapping[str, Any]] = (),
    pods: Sequence[Mapping[str, Any]] = (),
) -> Plan:
    """Plan a certification.

    Args:
        certification: what to certify.
        nodes: Node objects of the whole cluster, as plain data.
        source: where nodes and runs come from.
        source_note: further words on that, for the head of reports.
        text: where the certification was read, for lines in origins and errors.
        profiles: documents of kind Profiles, the user's own.
        bars: documents of kind Bars of the user's own.
        resource_slices: ResourceSlice objects, which tell GPUs that have no label.
        pods: pods of the cluster, which tell GPUs in use and versions of node software.

    Returns:
        The plan. Every targeted node is in a group of each category, or excluded from it.

    Raises:
        InputError: the certification asks for something that does not exist or fit.
    """
    spec = certification.spec
    checked = check_certification(certification, text, profiles, bars)
    given = [spec, *(category.options for category in spec.categories)]
    found = survey(
        nodes,
        checked.profiles,
        target=spec.target,
        stated=checked.stated,
        node_cap=spec.limits.node_cap,
        domain_keys=[options.topology_key for options in given if options.topology_key],
        resource_slices=resource_slices,
        pods=pods,
    )
    _check_topology_keys(certification, found.cohorts, text or NO_SOURCE)
    planned = [
        _category(
            certification,
            index,
            found.cohorts,
            checked,
            text,
            recorded=source == "recorded",
        )
        for index in range(len(spec.categories))
    ]
    excluded = [*found.excluded, *(item for _, _, parts in planned for item in _excluded(parts))]
    notes = dict.fromkeys(note for _, _, parts in planned for part in parts for note in part.notes)
    return Plan(
        certification=certification.metadata.name,
        stage=spec.stage,
        source=source,
        source_note=source_note,
        targeted=found.targeted,
        nodes=found.facts,
        cohorts=tuple(item.cohort for item in found.cohorts),
        categories=tuple(category for category, _, _ in planned),
        excluded=tuple(_merged(excluded, [category.id for category in spec.categories])),
        problems=found.problems,
        bounds=bounds_of(
            [costs for _, costs, _ in planned],
            parse_duration(spec.limits.deadline).total_seconds(),
            spec.limits.node_cap,
        ),
        annotations={"notes": list(notes)} if notes else {},
    )


def _check_topology_keys(
    certification: Certification, cohorts: Sequence[CohortPlan], where: Source
) -> None:
    """Refuse a topology key that no node has: groups would not follow it, and nobody would know.

    Raises:
        InputError: at the first such key.
    """
    spec = certification.spec
    stated: list[tuple[str | None, Path_]] = [(spec.topology_key, ("spec", "topologyKey"))]
    for index, category in enumerate(spec.categories):
        at: Path_ = ("spec", "categories", index, "options", "topologyKey")
        stated.append((category.options.topology_key, at))
    labels = {key for cohort in cohorts for node in cohort.nodes for key in node.labels}
    for key, path in stated:
        if key and cohorts and key not in labels:
            near = suggestion(key, labels)
            raise where.error(f"no target node has the label {key}", path, near)


def _category(
    certification: Certification,
    index: int,
    cohorts: Sequence[CohortPlan],
    checked: Checked,
    text: Source | None,
    *,
    recorded: bool,
) -> tuple[PlannedCategory, list[Cost], list[PartPlan]]:
    entry = find_entry(certification.spec.categories[index].id)
    options = checked.options[index]
    scale = str(_value(options, "testScale", None) or entry.scale)
    isolate = bool(_value(options, "isolate", default=False))
    limit = int(_value(options, "maxConcurrent", 0))
    maker = PartMaker(
        entry,
        certification,
        index,
        checked.profiles,
        text,
        own_bars=checked.bars,
        isolate=isolate,
        recorded=recorded,
    )
    made = [maker.make(cohort) for cohort in cohorts]
    repeats = int(_value(options, "repeatCount", 1))
    number = repeats * sum(len(part.drafts) for part in made)
    if number > MOST_GROUPS:
        origin = options["repeatCount"].origin
        hint = "lower repeatCount or limits.nodeCap"
        message = f"{entry.id} would have {number} groups, more than {MOST_GROUPS}"
        raise InputError(message, Place(origin.file, origin.line), hint)
    parts = _numbered(made, scale, repeats)
    category = PlannedCategory(
        id=entry.id, scale=scale, parts=tuple(parts), max_concurrent=limit, isolate=isolate
    )
    wait = parse_duration(_value(options, "measurementTimeout", "5m")).total_seconds()
    costs = [
        Cost(
            groups=part.groups,
            timeout_seconds=part.workload.timeout_seconds.value + wait,
            max_concurrent=limit,
            gpus_per_node=int(part.workload.gpus_per_node.value),
            isolate=isolate,
        )
        for part in parts
    ]
    return category, costs, made


def _value(options: Mapping[str, Setting], name: str, default: Any) -> Any:
    setting = options.get(name)
    return default if setting is None or setting.value is None else setting.value


def _excluded(parts: Sequence[PartPlan]) -> list[Exclusion]:
    return [item for part in parts for item in part.excluded]


def _numbered(made: Sequence[PartPlan], scale: str, repeats: int) -> list[PlannedPart]:
    """Give groups their ids, unique in the category, and repeat them."""
    prefix = "screen" if scale == "diagnose" else scale
    parts: list[PlannedPart] = []
    number = 0
    for part in made:
        if part.workload is None:
            continue
        groups: list[Group] = []
        for draft in part.drafts:
            for iteration in range(1, repeats + 1):
                suffix = f"-i{iteration}" if iteration > 1 else ""
                groups.append(
                    Group(
                        id=f"{prefix}-{number}{suffix}",
                        nodes=draft.nodes,
                        domain=draft.domain,
                        overflow=draft.overflow,
                        iteration=iteration,
                    )
                )
            number += 1
        parts.append(
            PlannedPart(
                cohort=part.cohort,
                workload=part.workload,
                bars=part.bars,
                groups=tuple(groups),
            )
        )
    return parts


def _merged(excluded: Sequence[Exclusion], categories: Sequence[str]) -> list[Exclusion]:
    """Say once what holds for every category, so that a plan of many categories stays short."""
    by_reason: dict[tuple[str, str, str], list[Exclusion]] = {}
    for item in excluded:
        by_reason.setdefault((item.node, item.code, item.message), []).append(item)
    merged: list[Exclusion] = []
    for found in by_reason.values():
        if {item.category for item in found} >= set(categories):
            merged.append(found[0].model_copy(update={"category": None}))
        else:
            merged += found
    return sorted(merged, key=lambda item: (item.node, item.category or "", item.code))
