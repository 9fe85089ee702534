"""The Verdict: the judgment of one category, per group and per node."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from catalog.bars.bar import BarKind
from catalog.facts.reasons import Effect, Kind
from catalog.language.vocabulary import Scope
from catalog.reading.model import Model
from steps.documents.base import Document
from steps.documents.measurements import Entity, Evidence, Figure
from steps.documents.plan import Group


class Outcome(StrEnum):
    """A judgment: proven good, proven bad, or not proven."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class ReasonGiven(Model):
    """One reason code with what it rests on.

    Attributes:
        code: reason code.
        effect, kind: of this code here.
        message: for people, with the numbers.
        entities: what it is about.
        evidence: lines that prove it.
        group: the group whose run gave it.
    """

    code: str
    effect: Effect
    kind: Kind
    message: str
    entities: tuple[Entity, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    group: str | None = None
    remedy: str | None = None


class ExpressionResult(Model):
    """One expression with the numbers put in.

    Attributes:
        key: name of the bar.
        expression: the CEL text.
        outcome: PASS when true, FAIL when false, INCONCLUSIVE when it could not be evaluated.
        with_values: the expression with its values put in: ``373.2 >= 0.9 * 386.6``.
        values: the values it used.
        message: why it could not be evaluated; else what its numbers were computed from.
        source: where the bar comes from.
        code: the detail code of a false result; of one that could not be evaluated, why.
        scope: what it was evaluated for.
        subject: the GPU or row that the numbers are of: ``GPU 3``, ``8M, cycle 2``, ``step 41``.
        entity: node and GPU, where the result is about one.
        times: on how many GPUs or rows it came out so.
        evidence: lines of the output from which the decisive figures came.
        rule: the rule that set the bar, with file and line where known.
        kind: where the height of the bar comes from; ``derived`` bars rest on physics alone.
    """

    key: str
    expression: str
    outcome: Outcome
    with_values: str
    values: dict[str, float | int | str] = {}
    message: str | None = None
    source: str | None = None
    code: str = "ThresholdViolation"
    scope: Scope = "group"
    subject: str | None = None
    entity: Entity | None = None
    times: int = 1
    evidence: tuple[Evidence, ...] = ()
    rule: str | None = None
    kind: BarKind = "rule"

    @property
    def statement(self) -> str:
        """The expression with its numbers, behind what they are of: ``GPU 3: 12.4 >= 20``."""
        return f"{self.subject}: {self.with_values}" if self.subject else self.with_values


class GroupVerdict(Model):
    """The judgment of one job.

    Attributes:
        record: SHA-256 of the RunRecord that was judged (`digest`); None where there was none.
    """

    group: Group
    outcome: Outcome
    reasons: tuple[ReasonGiven, ...] = ()
    expressions: tuple[ExpressionResult, ...] = ()
    figures: dict[str, Figure] = {}
    duration_seconds: float = 0.0
    facts: dict[str, str] = {}
    record: str | None = None


class NodeVerdict(Model):
    """The judgment of one node in one category.

    Attributes:
        outcome: FAIL only on evidence about this node itself.
        reason: NVCRE's per-node reason when failed.
        decided_by: id of the group whose run decided it.
        suspect: the node was in a failed group and neither cleared nor proven.
    """

    node: str
    outcome: Outcome
    reason: Literal["ThresholdViolation", "HardwareFailureDetected", "WorkloadFailed"] | None = None
    reasons: tuple[ReasonGiven, ...] = ()
    decided_by: str | None = None
    suspect: bool = False


class Verdict(Document):
    """Written by evaluate, one per category."""

    kind: Literal["Verdict"] = "Verdict"
    category: str
    outcome: Outcome
    reasons: tuple[ReasonGiven, ...] = ()
    groups: tuple[GroupVerdict, ...] = ()
    nodes: tuple[NodeVerdict, ...] = ()
