"""Catalog entries: what can be certified, as data."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from catalog.entries.files import entry_ids, read_entry
from catalog.errors import InputError, Place
from catalog.facts.tools import TOOLS
from catalog.language.expressions import compile_bar
from catalog.language.vocabulary import Scope
from catalog.reading.model import Model, suggestion
from catalog.reading.source import validate


def _known_tool(name: str) -> str:
    try:
        return TOOLS[name].name
    except InputError as error:
        raise ValueError(str(error)) from error


class Launcher(StrEnum):
    """How a workload is started on the nodes of a group."""

    MPI = "mpi"
    TORCHRUN = "torchrun"
    PER_NODE = "per-node"


class BarTemplate(Model):
    """A bar of an entry before stage and hardware are known.

    Attributes:
        key: threshold key; a certification's threshold of the same key replaces the bar.
        expression: CEL over the vocabulary of the tool, see `catalog.language.vocabulary`.
        scope: what the expression is evaluated for: the group, each node, each GPU, every row.
        code: detail code of a false result.
        stages: stages that apply it; empty means all.
        scales: scales that apply it; empty means all.
        transport: only for groups of several nodes whose profile names the network to be seen.
        optional: a figure that the output lacks skips the bar.
        required: stages that insist on the figure although it is optional elsewhere.
        own_runs: about how the run was made, which nobody but us can be held to: on a recorded
            output that lacks the figure the bar is left out.
    """

    key: str
    expression: str
    scope: Scope = "group"
    code: str = "ThresholdViolation"
    stages: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    transport: bool = False
    optional: bool = False
    required: tuple[str, ...] = ()
    own_runs: bool = False

    def names(self, tool: str) -> frozenset[str]:
        """Return the names that the expression reads."""
        return compile_bar(self.key, self.expression, tool, self.scope).names


class Entry(Model):
    """One category of the catalog.

    Attributes:
        id: ``domain/name``.
        tool: whose output it is; the table of tools says what that settles.
        operation: collective of nccl-tests, or the diagnostic level, or the model.
        launcher: how it is started.
        scale: default scale; ``scales`` lists the allowed ones.
        min_nodes: fewest nodes of a group.
        min_gpus: fewest GPUs of a job.
        diag_level: DCGM level that is asked for.
        command: words with ``${option}`` placeholders; resolved by `catalog.workload.resolve`. A
            word that is one placeholder alone stands for as many words as its list has items.
        options: options it takes, with their defaults; null where there is no default.
        env: environment of the ranks; ``${mnnvl}`` becomes 1 or 0.
        resources: CPU and memory limits and requests of a worker.
        pod: further parts of the worker pod, fragments of the Kubernetes API.
        facts: further figures of the entry that the resolver uses (parallelism, sizes).
        bars: expressions by stage.
        source: where image, command and settings come from.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+/[a-z0-9-]+$")]
    title: str
    description: str
    tool: Annotated[str, AfterValidator(_known_tool)]
    operation: str
    launcher: Launcher
    scale: Literal["full-scale", "intra-node"]
    scales: tuple[str, ...]
    min_nodes: Annotated[int, Field(ge=1)] = 1
    min_gpus: Annotated[int, Field(ge=1)] = 1
    diag_level: int | None = None
    image: str
    command: tuple[str, ...]
    options: dict[str, Any] = {}
    env: dict[str, str] = {}
    resources: dict[str, dict[str, str]] = {}
    pod: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    bars: tuple[BarTemplate, ...] = ()
    source: str


@cache
def builtin_entries() -> dict[str, Entry]:
    """Return the entries that ship, by id.

    Raises:
        InputError: a shipped file is damaged.
    """
    return {name: validate(read_entry(name).source, Entry) for name in entry_ids()}


def find_entry(name: str, place: Place | None = None) -> Entry:
    """Return an entry by id.

    Raises:
        InputError: no such entry; the hint names the nearest.
    """
    entries = builtin_entries()
    if name in entries:
        return entries[name]
    hint = suggestion(name, entries) or f"one of {', '.join(entries)}"
    raise InputError(f"there is no catalog entry {name!r}", place, hint)
