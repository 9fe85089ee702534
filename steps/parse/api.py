"""What every parser is told, what it is fed and what it hands back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from catalog.facts.tools import OutputKind
from catalog.hardware.hardware import NOTHING_KNOWN, Hardware
from steps.documents import (
    Completeness,
    Figure,
    Finding,
    RankPlace,
)
from steps.documents.measurements import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseContext:
    """What is known about a run besides its output; everything may be unknown.

    Attributes:
        category: category id, for example communication/nccl-all-reduce.
        tool: the tool the category runs, which settles doubtful output.
        exit_code: of the tool.
        node: the node that a per-node output was taken from.
        nodes: nodes of the group, in rank order.
        other_nodes: the other nodes of the plan, on which this run has no business.
        hardware: what the nodes are, and what of it the run uses.
        max_bytes: the largest message size that was asked for.
        diag_level: the DCGM level that was asked for.
        warmup_steps: training steps that do not count; None leaves it to the parser's default.
        gpus: GPUs of the whole job.
        tokens_per_step: global batch size times sequence length.
        rank_nodes: node by rank, from the launcher.
        pod_nodes: node by pod or by the host name of a pod, from the launcher.
        started, ended: when the run was, by the launcher's clock; None where nobody noted it.
    """

    category: str | None = None
    tool: str | None = None
    exit_code: int | None = None
    node: str | None = None
    nodes: tuple[str, ...] = ()
    other_nodes: frozenset[str] = frozenset()
    hardware: Hardware = NOTHING_KNOWN
    max_bytes: int | None = None
    diag_level: int | None = None
    warmup_steps: int | None = None
    gpus: int | None = None
    tokens_per_step: int | None = None
    rank_nodes: Mapping[int, str] = field(default_factory=dict)
    pod_nodes: Mapping[str, str] = field(default_factory=dict)
    started: datetime | None = None
    ended: datetime | None = None


class Line(NamedTuple):
    """One line of text output.

    Attributes:
        number: 1-based, in the raw output.
        text: without tags of mpirun, srun or pod log prefixes, without ANSI codes and CR.
        rank: rank from a tag such as ``[1,7]<stdout>:`` or ``[rank5]:``.
        host: host from a prefix such as ``node-b:``, where it is surely one.
        ended: False for the last line when the output ends without a newline.
        time: ISO time stamp with zone that stood in front; the innermost of several.
    """

    number: int
    text: str
    rank: int | None = None
    host: str | None = None
    ended: bool = True
    time: str | None = None


@dataclass(slots=True, kw_only=True)
class Part:
    """What one scanner found in one output.

    Attributes:
        mode: the kind of output it reads.
        claimed: number of lines it recognised as its own; 0 means the output is of another kind.
        completeness: None from scanners that cannot tell, such as kernel lines inside a log.
        start: first line of the attempt that counts, where the output holds several.
    """

    mode: OutputKind
    claimed: int = 0
    tool: str | None = None
    operation: str | None = None
    completeness: Completeness | None = None
    start: int = 0
    figures: dict[str, Figure] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    ranks: list[RankPlace] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)


class Scanner(Protocol):
    """Reads text line by line in one pass with bounded memory.

    Attributes:
        wants: patterns of which a line must match one to be worth feeding; empty means that the
            scanner wants every line. The reader skips the mass of lines by them.
    """

    wants: tuple[re.Pattern[str], ...]

    def __init__(self, file: str) -> None:
        """Read the output of this name."""

    def feed(self, line: Line) -> None:
        """Take one line."""

    def finish(self, context: ParseContext) -> Part:
        """Return what was found; never raises, whatever was fed."""


class JsonReader(Protocol):
    """Reads JSON documents."""

    def __call__(
        self, data: object, text: str, name: str, context: ParseContext, *, cut_off: bool
    ) -> Part | None:
        """Read one document.

        Args:
            data: the parsed JSON, for JSON lines the list of their objects; None where the document
                is cut off before anything is complete.
            text: the same as text, for line numbers; may be empty.
            name: of the output, for the evidence.
            context: what is known about the run.
            cut_off: the output ends inside the document.

        Returns:
            What it says, or None when it is of another kind.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class KindReader:
    """How a kind of output is recognised and read.

    Attributes:
        name: of the kind, as the catalog has it.
        scanners: make a scanner of its text, given the name of the output and what is known of the
            run.
        read_json: reads its JSON; None where it has none.
        own_lines: lines that hold this are of this kind alone, and there can be very many of them.
        inside_documents: its lines may stand in JSON of any structure.
    """

    name: str
    scanners: tuple[Callable[[str, ParseContext], Scanner], ...] = ()
    read_json: JsonReader | None = None
    own_lines: bytes | None = None
    inside_documents: bool = False
