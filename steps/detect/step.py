"""The detect step: one plan for a workflow, whoever asks for it first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from catalog.bars.bar_file import KIND as BARS
from catalog.certification import Certification, parse_certification
from catalog.errors import NoPlanError
from catalog.hardware.profile_model import KIND as PROFILES
from catalog.reading.source import Source
from steps.detect.checks import check_certification
from steps.detect.core import make_plan
from steps.detect.parameters import documents_in, with_parameters
from steps.documents import Plan
from steps.fleets.fleet import Fleet, load_fleet
from steps.store.runs import require_plan
from steps.store.store import RecordStore


def plan_for(
    certification: Certification,
    fleet: Fleet,
    *,
    text: Source | None = None,
    profiles: Iterable[Source] = (),
    bars: Iterable[Source] = (),
) -> Plan:
    """Plan a certification on the nodes of a fleet.

    Raises:
        InputError: the certification, a profile or a bar file asks for something that cannot be.
    """
    return make_plan(
        certification,
        fleet.nodes(),
        source=fleet.source,
        source_note=fleet.note,
        text=text,
        profiles=profiles,
        bars=tuple(bars),
        pods=fleet.pods(),
    )


def detect_step(
    store: RecordStore,
    text: str,
    given: Mapping[str, str] | None = None,
    fleet: Path | None = None,
    fallback_name: str = "certification",
) -> tuple[Plan, bool]:
    """Return the plan of the store; where it is lost or damaged, make and write it.

    Args:
        store: the record store.
        text: the certification as YAML, and profiles and bars of the user's own as further
            documents; may be empty when the parameters say enough.
        given: single parameters that replace parts of the text, see `with_parameters`.
        fleet: a fleet file; None asks the cluster.
        fallback_name: name of a certification that nothing names.

    Returns:
        The plan, and whether its categories are to run at once.

    Raises:
        InputError: the certification is wrong.
        ClusterError: the cluster does not answer.
    """
    with suppress(NoPlanError):
        known = require_plan(store)
        return known, bool(known.annotations.get("parallelCategories"))
    source = with_parameters(text, given or {}, fallback_name)
    certification = parse_certification(source)
    beside = documents_in(text)
    profiles, bars = beside.get(PROFILES, []), beside.get(BARS, [])
    # Wrong input is found out before anybody has to answer.
    check_certification(certification, source, profiles, bars)
    if fleet is not None:
        plan = plan_for(certification, load_fleet(fleet), text=source, profiles=profiles, bars=bars)
    else:
        # Only here, so that the laptop needs no kubernetes client.
        from steps.cluster.api.client import Cluster  # noqa: PLC0415
        from steps.cluster.api.inventory import read_inventory  # noqa: PLC0415

        found = read_inventory(Cluster.connect())
        plan = make_plan(
            certification,
            found.nodes,
            source="cluster",
            text=source,
            profiles=profiles,
            bars=bars,
            resource_slices=found.resource_slices,
            pods=found.pods,
        )
    parallel = certification.spec.parallel_categories
    if parallel:
        plan = plan.model_copy(
            update={"annotations": {**plan.annotations, "parallelCategories": True}}
        )
    store.put(plan)
    return plan, parallel
