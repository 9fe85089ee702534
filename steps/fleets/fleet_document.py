"""The fleet file: nodes, and either stored outputs or a seed and faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from catalog.certification import Count, Flag, Metadata
from catalog.entries.entry import Launcher, find_entry
from catalog.errors import InputError
from catalog.facts.reasons import reason
from catalog.reading.model import Model, suggestion
from catalog.reading.source import Source, check_kind
from steps.documents import NodeEvent, RunOutcome
from steps.nodes.names import NodeNames
from steps.simulator.faults import LEAST_FACTOR, AnyFault, Fault, TimedFault, fault_kinds


def _in_range(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("needs a time zone, for example Z")
    if not _FIRST <= value < _LAST:
        raise ValueError(f"must be in the years {_FIRST.year} to {_LAST.year - 1}")
    return value


_FIRST, _LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2101, 1, 1, tzinfo=UTC)
Time = Annotated[AwareDatetime, AfterValidator(_in_range)]
"""A moment in the years in which such clusters run, far from the ends of the calendar."""

SOURCES = ("simulated", "recorded")

Platform = Literal[
    "onprem",
    "aws",
    "gcp",
    "azure",
    "oci",
    "coreweave",
    "togetherai",
    "nscale",
    "mistral",
    "forge",
]


def _platform(value: Any) -> Any:
    if isinstance(value, str) and value not in get_args(Platform):
        raise ValueError(
            f"{value!r} is none of {', '.join(get_args(Platform))}; for a platform of your own "
            "write onprem, and name its profile in spec.profile of the certification"
        )
    return value


class Taint(Model):
    """A taint of a node."""

    key: str = Field(min_length=1)
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodeSet(Model):
    """Nodes that are alike.

    Attributes:
        names: a name, a range such as ``gpu-node-[05-12]``, or a list of both.
        platform: settles ``spec.providerID`` and the labels that the platform writes.
        instance_type: label node.kubernetes.io/instance-type.
        gpu_product: label nvidia.com/gpu.product.
        gpus: GPUs of each node.
        nics: NIC devices by extended resource.
        labels, annotations: further ones; they replace those that follow from the other fields.
        cordoned, ready: state before anything runs.
        domain: rack or block, in the label that the platform uses for it.
        busy_gpus: GPUs that a pod of somebody else holds.
        performance: speed as a part of a healthy node's; simulated fleets only.
    """

    names: NodeNames
    platform: Annotated[Platform, BeforeValidator(_platform)] = "onprem"
    instance_type: str | None = None
    gpu_product: str = "NVIDIA-H100-80GB-HBM3"
    gpus: Annotated[int, Field(ge=0, le=64)] = 8
    nics: dict[str, Count] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    cordoned: Flag = False
    ready: Flag = True
    domain: str | None = None
    busy_gpus: Annotated[int, Field(ge=0)] = 0
    performance: Annotated[float, Field(ge=LEAST_FACTOR, le=2)] = 1.0


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class RecordedOutput(Model):
    """What a run left behind.

    Attributes:
        category: the category that it belongs to.
        nodes: the nodes of the group, in any order.
        file: the raw output, or a list when it is in several files; relative to the fleet file.
        exit_code: of the tool; None when nobody noted it.
        outcome: how the run ended; None: as the exit code and the events say.
        kernel_logs: kernel log by node.
        events: health events of the nodes during the run.
        started, ended: when it ran.
        iteration: the repeat that it belongs to; None is the first.
        purpose: ``isolate`` for a follow-up run; None fits either, where no other output does.
    """

    category: str
    nodes: NodeNames
    file: Annotated[
        tuple[str, ...],
        BeforeValidator(_listed, json_schema_input_type=str | tuple[str, ...]),
        Field(min_length=1),
    ]
    exit_code: int | None = None
    outcome: RunOutcome | None = None
    kernel_logs: dict[str, str] = {}
    events: tuple[NodeEvent, ...] = ()
    started: Time | None = None
    ended: Time | None = None
    iteration: Count | None = None
    purpose: Literal["measure", "isolate"] | None = None

    @field_validator("events")
    @classmethod
    def _event_times_fit(cls, events: tuple[NodeEvent, ...]) -> tuple[NodeEvent, ...]:
        for event in events:
            _in_range(event.at)
        return events

    @model_validator(mode="after")
    def _times_fit(self) -> RecordedOutput:
        if self.ended is not None and (self.started is None or self.ended < self.started):
            raise ValueError("ended needs a started that is not later")
        return self


class _Spec(Model):
    nodes: tuple[NodeSet, ...] = ()
    nodes_file: str | None = None
    pods_file: str | None = None
    start: Time | None = None


class SimulatedSpec(_Spec):
    """A fleet that is computed.

    Attributes:
        seed: settles all noise.
        start: when the virtual clock starts.
        faults: what is wrong with which node.
    """

    source: Literal["simulated"]
    seed: int = 0
    faults: tuple[AnyFault, ...] = ()


class RecordedSpec(_Spec):
    """A fleet whose runs were made elsewhere."""

    source: Literal["recorded"]
    outputs: tuple[RecordedOutput, ...] = ()


class FleetDocument(Model):
    """The file."""

    api_version: Literal["readiness/v1"] = "readiness/v1"
    kind: Literal["Fleet"]
    metadata: Metadata
    spec: Annotated[SimulatedSpec | RecordedSpec, Field(discriminator="source")]


def check_words(source: Source) -> None:
    """Check the words that decide which fields are allowed, so that their errors are helpful.

    Raises:
        InputError: the document is no fleet, or there is no such source or kind of fault.
    """
    check_kind(source, FleetDocument)
    spec = source.data.get("spec")
    if not isinstance(spec, dict):
        return
    _check_word(source, ("spec", "source"), spec.get("source"), SOURCES)
    faults = spec.get("faults")
    for index, fault in enumerate(faults if isinstance(faults, list) else ()):
        if isinstance(fault, dict):
            _check_word(source, ("spec", "faults", index, "kind"), fault.get("kind"), fault_kinds())


def _check_word(
    source: Source, path: tuple[str | int, ...], word: object, known: Sequence[str]
) -> None:
    if word is None:
        raise source.error("is required", path, f"one of {', '.join(known)}")
    if word not in known:
        hint = suggestion(str(word), known) or f"one of {', '.join(known)}"
        raise source.error(f"there is no {path[-1]} {word!r}", path, hint)


def check_faults(source: Source, faults: Sequence[Fault], names: Sequence[str]) -> None:
    """Check that faults are on nodes of the fleet and in categories of the catalog.

    Raises:
        InputError: with the place of the first that is not.
    """
    for index, fault in enumerate(faults):
        path = ("spec", "faults", index)
        _check_nodes(source, (*path, "node"), fault.node, names)
        if fault.category is None:
            continue
        entry = find_entry(fault.category, source.place((*path, "category")))
        if fault.tools and entry.tool not in fault.tools:
            message = f"never shows in {entry.id}, only where {' or '.join(fault.tools)} runs"
            raise source.error(message, (*path, "category"))
        if isinstance(fault, TimedFault) and fault.at is None:
            message = "needs 'at': without it the fault is there before any category"
            raise source.error(message, (*path, "category"))


def check_gpus(source: Source, faults: Sequence[Fault], gpus: Mapping[str, int]) -> None:
    """Check that faults are on GPUs that exist.

    Args:
        source: the fleet file.
        faults: its faults.
        gpus: GPUs by node.

    Raises:
        InputError: with the place of the first that is not.
    """
    for index, fault in enumerate(faults):
        gpu = getattr(fault, "gpu", None)
        for node in fault.node:
            if gpu is not None and gpu >= gpus[node]:
                message = f"node {node} has {gpus[node]} GPUs, numbered from 0"
                raise source.error(message, ("spec", "faults", index, "gpu"))


def check_outputs(
    source: Source, outputs: Sequence[RecordedOutput], names: Sequence[str], folder: Path
) -> None:
    """Check that recorded outputs belong to nodes and categories that exist, and that they exist.

    Raises:
        InputError: with the place of the first that does not.
    """
    seen: dict[tuple[object, ...], int] = {}
    for index, output in enumerate(outputs):
        path: tuple[str | int, ...] = ("spec", "outputs", index)
        entry = find_entry(output.category, source.place((*path, "category")))
        _check_nodes(source, (*path, "nodes"), output.nodes, names)
        if entry.launcher is Launcher.PER_NODE and len(output.nodes) > 1:
            raise source.error(
                f"{entry.id} runs on one node at a time; give one output per node",
                (*path, "nodes"),
            )
        for name in output.file:
            check_file(source, (*path, "file"), folder / name)
        for node, name in output.kernel_logs.items():
            _check_nodes(source, (*path, "kernelLogs", node), (node,), output.nodes)
            check_file(source, (*path, "kernelLogs", node), folder / name)
        for number, event in enumerate(output.events):
            place = (*path, "events", number)
            _check_nodes(source, (*place, "node"), (event.node,), output.nodes)
            _check_code(source, (*place, "code"), event.code)
        key = (output.category, frozenset(output.nodes), output.iteration or 1, output.purpose)
        first = seen.setdefault(key, index)
        if first != index:
            raise _second_output(source, outputs, first, index)


def _second_output(
    source: Source, outputs: Sequence[RecordedOutput], first: int, second: int
) -> InputError:
    """Return the error for two outputs of one run: only one of them could be judged."""
    output = outputs[second]
    which = f" of iteration {output.iteration}" if output.iteration else ""
    line = source.place(("spec", "outputs", first)).line
    return source.error(
        f"is the second output{which} of {output.category} on {', '.join(output.nodes)}; "
        f"the first, {', '.join(outputs[first].file)}, is in line {line}",
        ("spec", "outputs", second),
        "give the repeats of a run different iterations",
    )


def _check_nodes(
    source: Source, path: tuple[str | int, ...], wanted: Sequence[str], names: Sequence[str]
) -> None:
    known = set(names)
    for name in wanted:
        if name not in known:
            hint = suggestion(name, names) or f"{len(known)} nodes are known here"
            raise source.error(f"there is no node {name!r}", path, hint)


def check_file(source: Source, path: tuple[str | int, ...], file: Path) -> None:
    """Check that a file which the fleet file names is there.

    Raises:
        InputError: with the place of the name.
    """
    if not file.is_file():
        raise source.error(f"there is no file {str(file)!r}", path)


def _check_code(source: Source, path: tuple[str | int, ...], code: str) -> None:
    try:
        reason(code)
    except KeyError:
        raise source.error(f"there is no reason code {code!r}", path) from None
