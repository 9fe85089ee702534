"""The detect step: one plan for a workflow, whoever asks for it first."""

from __future__ import annotations

from pathlib import Path

from catalog.certification import parse_certification
from catalog.source import Source, only_mapping, parse_documents
from steps.detect.core import make_plan
from steps.documents import Plan
from steps.run.fleet import load_fleet
from steps.store import RecordStore

NAME = "certification"
"""How errors call the text that arrives as a parameter."""


def detect_step(store: RecordStore, text: str, fleet: Path | None = None, stage: str = "") -> Plan:
    """Return the plan of the store, or make and write it.

    Args:
        store: the record store.
        text: the certification as YAML.
        fleet: a fleet file; None asks the cluster.
        stage: replaces the stage of the certification.

    Raises:
        InputError: the certification is wrong.
        ClusterError: the cluster does not answer.
    """
    known = store.get(Plan)
    if known is not None:
        return known
    source = only_mapping(parse_documents(text, NAME), NAME)
    if stage:
        source = _with_stage(source, stage)
    certification = parse_certification(source)
    if fleet is not None:
        nodes = load_fleet(fleet)
        plan = make_plan(
            certification,
            nodes.nodes(),
            source=nodes.source,
            source_note=nodes.note,
            text=source,
            pods=nodes.pods(),
        )
    else:
        # Only here, so that the laptop needs no kubernetes client.
        from steps.cluster.api import Cluster  # noqa: PLC0415
        from steps.cluster.inventory import read_inventory  # noqa: PLC0415

        found = read_inventory(Cluster.connect())
        plan = make_plan(
            certification,
            found.nodes,
            source="cluster",
            text=source,
            resource_slices=found.resource_slices,
            pods=found.pods,
        )
    store.put(plan)
    return plan


def _with_stage(source: Source, stage: str) -> Source:
    spec = source.data.get("spec")
    if isinstance(spec, dict):
        return Source(source.file, {**source.data, "spec": {**spec, "stage": stage}}, source.lines)
    return source
