"""Sorting nodes into cohorts that one resolved workload fits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from catalog.hardware.conditions import version_number
from catalog.hardware.hardware import Hardware
from catalog.hardware.platforms import UNKNOWN
from catalog.hardware.profile import LoadedProfile, Profiles, hardware_of_profile
from catalog.workload.needs import Seen
from steps.detect.facts import Observed
from steps.documents import Cohort, Exclusion
from steps.nodes.labels import PRODUCT_LABEL


@dataclass(frozen=True, slots=True)
class Identified:
    """A node with its profile, and why that profile."""

    node: Observed
    profile: LoadedProfile | None
    why: str | None


@dataclass(frozen=True, slots=True)
class CohortPlan:
    """A cohort with its nodes, sorted by name, and what they have in common."""

    cohort: Cohort
    nodes: tuple[Observed, ...]
    profile: LoadedProfile | None
    seen: Seen


def identify(node: Observed, profiles: Profiles, stated: LoadedProfile | None) -> Identified:
    """Find the profile of a node and complete its facts from it.

    The profile of an instance type tells the GPU of a node that has no product label, and the
    platform of a node that has no provider id.
    """
    facts = node.facts
    if stated is not None:
        why = "stated by the certification"
        return Identified(_completed(node, stated), stated, why)
    found = profiles.match(
        facts.platform,
        facts.instance_type,
        facts.gpu,
        product=facts.gpu_product,
        labels=node.labels,
    )
    if not node.platform_told and facts.instance_type:
        by_type = profiles.match(None, facts.instance_type, facts.gpu)
        if by_type and by_type[0].profile.instance_types:
            found = by_type
    if found is None:
        return Identified(node, None, None)
    return Identified(_completed(node, found[0]), *found)


def of_gpu_type(node: Observed, profiles: Profiles) -> bool:
    """Say whether the instance type is one with GPUs, whatever the node itself tells.

    A node whose device plugin does not run, without GPU feature discovery, shows none.
    """
    kind = node.facts.instance_type
    found = profiles.match(node.facts.platform, kind, None) if kind else None
    return found is not None and bool(found[0].profile.instance_types)


def _completed(node: Observed, profile: LoadedProfile) -> Observed:
    facts = node.facts
    notes = list(facts.notes)
    gpu, platform = facts.gpu, facts.platform
    told = profile.profile.gpu
    if gpu == UNKNOWN and len(told) == 1:
        gpu = told[0]
        notes.append(f"GPU told by profile {profile.name}")
    if platform != profile.profile.platform:
        platform = profile.profile.platform
        notes.append(f"platform told by profile {profile.name}")
    facts = facts.model_copy(
        update={
            "gpu": gpu,
            "platform": platform,
            "notes": tuple(notes),
        }
    )
    return replace(node, facts=facts)


def leave_out(
    nodes: Sequence[Identified], stated: LoadedProfile | None
) -> tuple[list[Identified], list[Exclusion]]:
    """Leave out nodes whose GPU does not fit or is not known.

    Where no node tells its GPU they are all kept: they form a cohort of an unknown GPU, whose
    verdict can never be PASS. Where only some do not tell, something is wrong with those.
    """
    kept: list[Identified] = []
    excluded: list[Exclusion] = []
    some_known = any(item.node.facts.gpu != UNKNOWN for item in nodes)
    for item in nodes:
        name, gpu = item.node.name, item.node.facts.gpu
        if gpu == UNKNOWN and some_known:
            message = f"label {PRODUCT_LABEL} is missing and nothing else tells the GPU"
            excluded.append(Exclusion(node=name, code="LABEL_MISSING", message=message))
        elif stated is not None and not _meant_for(stated, gpu):
            wanted = ", ".join(stated.profile.gpu)
            message = f"has {gpu}, profile {stated.name} is for {wanted}"
            code = "NODE_EXCLUDED_ARCHITECTURE"
            excluded.append(Exclusion(node=name, code=code, message=message))
        else:
            kept.append(item)
    return kept, excluded


def _meant_for(profile: LoadedProfile, gpu: str) -> bool:
    return not profile.profile.gpu or gpu in {*profile.profile.gpu, UNKNOWN}


def platforms_of(nodes: Iterable[Identified]) -> dict[str, list[str]]:
    """Return the node names by platform."""
    found: dict[str, list[str]] = {}
    for item in nodes:
        found.setdefault(item.node.facts.platform, []).append(item.node.name)
    return found


def form(nodes: Sequence[Identified]) -> list[CohortPlan]:
    """Form one cohort per platform, instance type, GPU and profile.

    On machines of one's own the instance type label is free text, so it separates nothing there.
    """
    members: dict[tuple[str, str | None, str, str | None], list[Identified]] = {}
    for item in nodes:
        facts = item.node.facts
        free_text = facts.platform == "onprem" or item.why == "stated by the certification"
        kind = None if free_text else facts.instance_type
        profile = item.profile.name if item.profile else None
        key = (facts.platform, kind, facts.gpu, profile)
        members.setdefault(key, []).append(item)
    plans: list[CohortPlan] = []
    taken: set[str] = set()
    for key in sorted(members, key=lambda key: tuple(part or "" for part in key)):
        found = sorted(members[key], key=lambda item: item.node.name)
        plans.append(_plan(key, found, taken))
    return plans


def _plan(
    key: tuple[str, str | None, str, str | None], found: Sequence[Identified], taken: set[str]
) -> CohortPlan:
    platform, _, gpu, _ = key
    nodes = tuple(item.node for item in found)
    types = {node.facts.instance_type for node in nodes}
    kind = types.pop() if len(types) == 1 else None
    name = _unique("-".join(part for part in (platform, kind, gpu) if part), taken)
    known = Hardware(platform=platform, gpu=gpu)
    if found[0].profile is not None:
        known = hardware_of_profile(found[0].profile, gpu)
    cohort = Cohort(
        id=name,
        hardware=replace(known, instance_type=kind, software=_software(nodes)),
        profile_origin=found[0].why,
        nodes=tuple(node.name for node in nodes),
    )
    return CohortPlan(cohort, nodes, found[0].profile, seen_on(nodes))


def _unique(name: str, taken: set[str]) -> str:
    name = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.")
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}-{number}", number + 1
    taken.add(unique)
    return unique


def seen_on(nodes: Sequence[Observed]) -> Seen:
    """Work out what most nodes of a cohort have.

    GPUs are counted as registered and as labelled, healthy or not: a fleet in which every node
    lost one GPU must not pass as a fleet of smaller nodes. Nodes whose label counts other things,
    as with MIG, are not in any cohort.
    """
    counts = [
        max(node.facts.gpus, node.gpus_registered) for node in nodes if node.facts.gpus is not None
    ]
    telling = [node.allocatable for node in nodes if node.allocatable is not None]
    names = {name for amounts in telling for name in amounts}
    most = {name: _most([amounts.get(name, 0) for amounts in telling]) for name in names}
    networks = set.intersection(*(set(node.networks) for node in nodes)) if nodes else set()
    return Seen(
        gpus=_most(counts) or None,
        allocatable={name: most[name] for name in sorted(most) if most[name]} if telling else None,
        networks=tuple(sorted(networks)),
    )


def _most(counts: Sequence[int]) -> int:
    """Return the most common count; of equally common ones the greatest."""
    if not counts:
        return 0
    return max(Counter(counts).items(), key=lambda item: (item[1], item[0]))[0]


def _software(nodes: Sequence[Observed]) -> dict[str, str]:
    """Return the oldest version of each software, which all nodes can work with."""
    found: dict[str, str] = {}
    for node in nodes:
        for name, version in node.software.items():
            number, held = version_number(version), version_number(found.get(name))
            if number is not None and (held is None or number < held):
                found[name] = version
    return found
