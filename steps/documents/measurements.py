"""The Measurements: what a tool's output says, and whether it says it completely."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from catalog.facts.reasons import Effect
from catalog.facts.tools import OutputKind, output_kind, output_kinds
from catalog.reading.model import Model
from steps.documents.base import Document


class Completeness(StrEnum):
    """How much of the output is there."""

    COMPLETE = "complete"
    CUT_OFF = "cut-off"
    ABORTED = "aborted"
    EMPTY = "empty"
    UNKNOWN_SCHEMA = "unknown-schema"


def _kind_of(value: str | OutputKind) -> OutputKind:
    return value if isinstance(value, OutputKind) else output_kind(value)


Mode = Annotated[
    OutputKind,
    PlainValidator(_kind_of, json_schema_input_type=str),
    PlainSerializer(str, return_type=str),
    Field(json_schema_extra=lambda schema: schema.update(enum=[str(k) for k in output_kinds()])),
]
"""A kind of output, written as its name."""


class Entity(Model):
    """What a finding is about; as much of it as the output tells.

    Attributes:
        node: node or host name.
        gpu: GPU index on the node.
        rank: rank in the job.
        pci: PCI address as printed.
        device: NIC, port, link or switch name, for example ``ib6`` or ``link 45``.
    """

    node: str | None = None
    gpu: int | None = None
    rank: int | None = None
    pci: str | None = None
    device: str | None = None

    def __str__(self) -> str:
        parts = [
            self.node,
            None if self.gpu is None else f"GPU {self.gpu}",
            None if self.rank is None else f"rank {self.rank}",
            self.pci,
            self.device,
        ]
        return " ".join(part for part in parts if part)


class Evidence(Model):
    """The line that proves a finding.

    Attributes:
        file: name of the output.
        line: 1-based line; None where the output has no lines of its own, as in JSON.
        text: the line, cut to 500 characters, without secrets.
    """

    file: str | None = None
    line: int | None = None
    text: str


class Finding(Model):
    """One thing the output says besides its figures.

    Attributes:
        code: reason code.
        effect: what it does to a verdict.
        message: one line for people, with the numbers.
        entities: what it is about; for failures seen by many, the witnesses.
        evidence: the lines that prove it, earliest first, at most a handful.
        count: how often it was seen.
        witness: True when the entities only saw the failure, so none of them is blamed.
        cause: code of the primary finding that this one follows from.
    """

    code: str
    effect: Effect
    message: str
    entities: tuple[Entity, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    count: int = 1
    witness: bool = False
    cause: str | None = None


class Figure(Model):
    """A named number that expressions may use.

    Attributes:
        value: a number, or a map of numbers, for example by message size; counts are int.
        unit: GB/s, us, s, TFLOP/s, ratio, count, bytes, …
        printed: the tool printed it; otherwise it was computed from the rows.
        says: one line for people.
    """

    value: int | float | dict[str, float]
    unit: str
    printed: bool = False
    says: str | None = None


class NcclRow(Model):
    """One row of an nccl-tests or rccl-tests table; missing values are None, never zero.

    Bandwidths in GB/s (10^9 bytes/s), times in microseconds, as the tool prints them.
    """

    kind: Literal["nccl"] = "nccl"
    size_bytes: int
    count: int | None = None
    type: str | None = None
    redop: str | None = None
    root: int | None = None
    out_time_us: float | None = None
    out_alg_gbps: float | None = None
    out_bus_gbps: float | None = None
    out_wrong: float | None = None
    in_time_us: float | None = None
    in_alg_gbps: float | None = None
    in_bus_gbps: float | None = None
    in_wrong: float | None = None
    cycle: int = 1
    line: int | None = None


class DiagnosticRow(Model):
    """One result of one diagnostic test on one entity.

    Attributes:
        test: name as the tool gives it, in lower case with underscores.
        category: Deployment, Hardware, Integration, Stress …
        status: pass, fail, warn, skip or unknown.
        gpu: GPU index; None when the result is about the node as a whole.
        error_id, error_category, error_severity: DCGM's numbers where given.
        value, unit: a number that the test measured, for example PCIe bandwidth.
        text: the tool's own words.
    """

    kind: Literal["diagnostic"] = "diagnostic"
    test: str
    category: str | None = None
    status: Literal["pass", "fail", "warn", "skip", "unknown"]
    entity_group: str | None = None
    gpu: int | None = None
    error_id: int | None = None
    error_category: int | None = None
    error_severity: int | None = None
    value: float | None = None
    unit: str | None = None
    text: str | None = None
    line: int | None = None


class TrainingStep(Model):
    """One training step; missing values are None.

    Attributes:
        step_time_s: seconds per step.
        tflops_per_gpu: TFLOP/s per GPU as printed; None when zero or impossible.
        tokens_per_s: of the whole job.
        samples_per_s: of the whole job.
        warmup: the step does not count into averages.
    """

    kind: Literal["step"] = "step"
    step: int
    total_steps: int | None = None
    step_time_s: float | None = None
    tflops_per_gpu: float | None = None
    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    nan: bool = False
    skipped: int | None = None
    warmup: bool = False
    line: int | None = None


class NamedRow(Model):
    """One result row of a tool that has no type of row of its own.

    Attributes:
        name: of the row, for people.
        values: its fields; the catalog's table of tools says what they mean.
    """

    kind: Literal["named"] = "named"
    name: str
    values: dict[str, bool | int | float | str]
    line: int | None = None


Row = Annotated[NcclRow | DiagnosticRow | TrainingStep | NamedRow, Field(discriminator="kind")]


class RankPlace(Model):
    """Where a rank ran, from the tool's header."""

    rank: int
    node: str | None = None
    gpu: int | None = None
    pci: str | None = None
    product: str | None = None


class Measurements(Document):
    """Written by parse, one per output.

    Attributes:
        attempt: of the run; those of a run that was stopped are no measurements of the next.
        mode: what kind of output it is.
        files: names of the outputs that were read.
        tool: name of the tool, for example all_reduce_perf, dcgmi diag.
        operation: collective or test, for example all_reduce.
        completeness: how much is there.
        figures: named numbers, by figure name.
        rows: result rows.
        findings: what else the output says, most serious first.
        ranks: rank placement.
        versions: nccl, driver, dcgm, … as printed.
        exit_code: of the tool, where the record tells.
        facts: small facts for people and for comparing runs (header fields, transport), never the
            environment of the process.
    """

    kind: Literal["Measurements"] = "Measurements"
    category: str | None = None
    group: str | None = None
    attempt: int = 1
    mode: Mode
    files: tuple[str, ...] = ()
    tool: str | None = None
    operation: str | None = None
    completeness: Completeness
    figures: dict[str, Figure] = {}
    rows: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    ranks: tuple[RankPlace, ...] = ()
    versions: dict[str, str] = {}
    exit_code: int | None = None
    facts: dict[str, str] = {}
