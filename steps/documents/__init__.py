"""The documents that cross a step boundary, versioned and typed.

Plan (detect) → RunRecord (run) → Measurements (parse) → Verdict (evaluate) → Report (aggregate).
"""

from __future__ import annotations

from steps.documents.base import API_VERSION, Document, digest, dump, load
from steps.documents.measurements import (
    Completeness,
    DiagnosticRow,
    Entity,
    Evidence,
    Figure,
    Finding,
    Measurements,
    NamedRow,
    NcclRow,
    RankPlace,
    TrainingStep,
)
from steps.documents.plan import (
    BarSet,
    Bounds,
    Cohort,
    Exclusion,
    Group,
    IsolationRound,
    NodeFacts,
    Plan,
    PlannedCategory,
    PlannedPair,
    PlannedPart,
)
from steps.documents.record import (
    LogFile,
    NodeEvent,
    RunFailure,
    RunOutcome,
    RunRecord,
)
from steps.documents.report import (
    CategoryReport,
    Coverage,
    NodeReport,
    NodeStatus,
    Report,
    Result,
)
from steps.documents.verdict import (
    ExpressionResult,
    GroupVerdict,
    NodeVerdict,
    Outcome,
    ReasonGiven,
    Verdict,
)

__all__ = [
    "API_VERSION",
    "BarSet",
    "Bounds",
    "CategoryReport",
    "Cohort",
    "Completeness",
    "Coverage",
    "DiagnosticRow",
    "Document",
    "Entity",
    "Evidence",
    "Exclusion",
    "ExpressionResult",
    "Figure",
    "Finding",
    "Group",
    "GroupVerdict",
    "IsolationRound",
    "LogFile",
    "Measurements",
    "NamedRow",
    "NcclRow",
    "NodeEvent",
    "NodeFacts",
    "NodeReport",
    "NodeStatus",
    "NodeVerdict",
    "Outcome",
    "Plan",
    "PlannedCategory",
    "PlannedPair",
    "PlannedPart",
    "RankPlace",
    "ReasonGiven",
    "Report",
    "Result",
    "RunFailure",
    "RunOutcome",
    "RunRecord",
    "TrainingStep",
    "Verdict",
    "digest",
    "dump",
    "load",
]
