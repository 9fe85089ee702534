"""What all forms of DCGM output have in common once they are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from catalog.facts.tools import OutputKind

Status = Literal["pass", "fail", "warn", "skip", "unknown"]


@dataclass(slots=True, kw_only=True)
class Complaint:
    """One error or warning that a result carries; numbers only where the tool prints them."""

    text: str
    error_id: int | None = None
    category: int | None = None
    severity: int | None = None
    line: int | None = None


@dataclass(slots=True, kw_only=True)
class TestResult:
    """One status of one test.

    Attributes:
        test: name as the tool gives it, lower case with underscores.
        word: the status as printed.
        gpus: GPU indices that the status is about; empty for the node as a whole.
        lumped: the status is of all ``gpus`` together, so that not each of them need be bad.
        device: an entity that is no GPU, such as ``NvSwitch 2`` or ``CPU 0``.
        host: host name, in output of several hosts.
        singled_out: GPUs are named only where they have an error, so that others are not absent.
        summary: the status of the test over all entities, beside their own results.
    """

    __test__ = False  # not a test of pytest's

    test: str
    category: str | None = None
    status: Status
    word: str = ""
    gpus: tuple[int, ...] = ()
    lumped: bool = False
    device: str | None = None
    group: str | None = None
    host: str | None = None
    complaints: list[Complaint] = field(default_factory=list)
    infos: list[str] = field(default_factory=list)
    singled_out: bool = False
    summary: bool = False
    line: int | None = None


@dataclass(slots=True, kw_only=True)
class DiagnosticRun:
    """Everything one output says.

    Attributes:
        entities: GPUs that the tool found, as pairs of host (None for one host) and index.
        problems: parts whose structure or words are not known.
        runtime_errors: why the tool gave up.
        truncated: why the text is known to be incomplete.
        infos_cut: the tool cut its own texts off.
        level: run level, where the output names it.
        runs: number of runs in the output.
        links: by GPU the state of its NVLinks, one letter each: U up, D down, X disabled, _ none.
        lists_all: every GPU and test has a result; False for logs that name only what is wrong.
        whole_run: the results are of a run of the diagnostics, so that its coverage counts.
    """

    mode: OutputKind
    tool: str
    file: str
    claimed: int = 0
    results: list[TestResult] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    entities: set[tuple[str | None, int]] = field(default_factory=set)
    problems: list[Complaint] = field(default_factory=list)
    runtime_errors: list[Complaint] = field(default_factory=list)
    truncated: Complaint | None = None
    infos_cut: str | None = None
    level: int | None = None
    multi_node: bool = False
    runs: int = 1
    links: dict[int, tuple[str, int]] = field(default_factory=dict)
    whole_run: bool = True
    lists_all: bool = True
