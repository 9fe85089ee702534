"""The Report: the certification as a whole; it outlives the workflow."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from catalog.reading.model import Model
from steps.documents.base import Document
from steps.documents.plan import Bounds, Cohort, Exclusion
from steps.documents.verdict import GroupVerdict, NodeVerdict, Outcome, ReasonGiven


class Result(StrEnum):
    """Result of a certification, worst first; see `steps.aggregate.core`."""

    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INCOMPLETE = "INCOMPLETE"
    PASS = "PASS"


class NodeStatus(StrEnum):
    """What the report says of a targeted node."""

    READY = "ready"
    FAILED = "failed"
    NOT_PROVEN = "not-proven"
    EXCLUDED = "excluded"


class NodeReport(Model):
    """One targeted node over all categories.

    Attributes:
        status: ready only when every category of the certification tested it and passed.
        reasons: why it is not ready, most serious first.
        categories: outcome by category; a category that excluded the node is absent.
    """

    node: str
    status: NodeStatus
    reason: str | None = None
    reasons: tuple[ReasonGiven, ...] = ()
    categories: dict[str, Outcome] = {}


class CategoryReport(Model):
    """One category with its groups, measurement runs first, then isolation runs."""

    category: str
    outcome: Outcome
    scale: str
    reasons: tuple[ReasonGiven, ...] = ()
    groups: tuple[GroupVerdict, ...] = ()
    nodes: tuple[NodeVerdict, ...] = ()
    duration_seconds: float = 0.0
    isolation_seconds: float = 0.0


class Coverage(Model):
    """How many of the targeted nodes were tested."""

    targeted: int
    tested: int
    excluded: int


class Report(Document):
    """Written by aggregate, once per certification."""

    kind: Literal["Report"] = "Report"
    certification: str
    stage: str
    result: Result
    source: Literal["cluster", "recorded", "simulated"]
    source_note: str | None = None
    product_version: str
    started: datetime | None = None
    ended: datetime | None = None
    platform: str
    gpu: str
    coverage: Coverage
    cohorts: tuple[Cohort, ...] = ()
    nodes: tuple[NodeReport, ...]
    excluded: tuple[Exclusion, ...] = ()
    categories: tuple[CategoryReport, ...]
    problems: tuple[tuple[str, str], ...] = ()
    versions: dict[str, str] = {}
    bounds: Bounds | None = None
