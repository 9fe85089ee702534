"""The faults that a simulated fleet can have, as a person writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from catalog.facts import dcgm
from catalog.facts.reasons import Kind, reason
from catalog.facts.xids import XidClass, find_xid
from catalog.reading.model import Model, suggestion
from catalog.reading.quantity import parse_duration
from steps.nodes.names import NodeNames


def _seconds(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError(f"must be a duration such as 90s or 42m18s, not {value!r}")
    return parse_duration(value).total_seconds()


LEAST_FACTOR = 0.001
"""Nothing that still works is slower than a thousandth of what it should be."""

Seconds = Annotated[float, BeforeValidator(_seconds, json_schema_input_type=str)]
"""Written as a Go duration, held in seconds."""


class Fault(Model):
    """What all faults have.

    Attributes:
        node: the node or nodes that have it.
        category: the only category that it shows in; None means in all.
        tools: the tools whose runs it shows in; empty means in all.
    """

    tools: ClassVar[tuple[str, ...]] = ()

    node: NodeNames
    category: str | None = None


class TimedFault(Fault):
    """A fault of the node itself.

    Attributes:
        at: seconds after the start of a run at which it happens, and which it ends. None: it
            is there before anything runs.
    """

    at: Seconds | None = None


class SlowLink(Fault):
    """The node's fabric link is slow.

    Attributes:
        factor: part of the healthy rate that is left.
        gbps: ``GBps`` outside: the node's rate, all its NICs together, in GB/s.
    """

    tools: ClassVar[tuple[str, ...]] = ("nccl",)
    kind: Literal["slow-link"]
    factor: Annotated[float | None, Field(ge=LEAST_FACTOR, le=1)] = None
    gbps: Annotated[float | None, Field(ge=0.001, le=10_000, alias="GBps")] = None

    @model_validator(mode="after")
    def _one_rate(self) -> SlowLink:
        if (self.factor is None) == (self.gbps is None):
            raise ValueError("a slow-link needs either factor or GBps")
        return self


class LostGpu(TimedFault):
    """A GPU falls off the bus (Xid 79); before a run it is missing from the allocatable ones."""

    kind: Literal["lost-gpu"]
    gpu: Annotated[int, Field(ge=0)]


class CorruptData(Fault):
    """Collectives return wrong data.

    Attributes:
        wrong: wrong values in each row from 1 MiB on.
    """

    tools: ClassVar[tuple[str, ...]] = ("nccl",)
    kind: Literal["corrupt-data"]
    wrong: Annotated[int, Field(ge=1, le=10**9)] = 7


class Crash(Fault):
    """A process of the node dies.

    Attributes:
        after: result rows or training steps that are printed before.
        gpu: the GPU whose process it is.
    """

    kind: Literal["crash"]
    after: Annotated[int, Field(ge=0)] = 20
    gpu: Annotated[int, Field(ge=0)] = 0


class Hang(Fault):
    """The node stops taking part, and the run makes no progress until a stall rule ends it.

    Attributes:
        after: result rows or training steps that are printed before.
    """

    kind: Literal["hang"]
    after: Annotated[int, Field(ge=0)] = 20


class Cordon(TimedFault):
    """The node is cordoned; in mid-run this ends the group's run."""

    kind: Literal["cordon"]
    message: str = "node was cordoned"
    code: Literal["NODE_CORDONED", "NODE_UNHEALTHY"] = "NODE_CORDONED"


class NotReady(TimedFault):
    """The node becomes NotReady; in mid-run this ends the group's run."""

    kind: Literal["not-ready"]
    message: str = "NodeStatusUnknown: Kubelet stopped posting node status."


class DcgmFailure(Fault):
    """A DCGM test fails or warns on one GPU.

    Attributes:
        test: name of the test as DCGM 4 prints it.
        error_id: DCGM_FR_* number; settles severity and category, which DCGM prints beside it.
        text: the warning; None prints one that names the error.
    """

    tools: ClassVar[tuple[str, ...]] = ("dcgm",)
    kind: Literal["dcgm-failure"]
    test: str
    gpu: Annotated[int, Field(ge=0)] = 0
    error_id: int
    text: str | None = None
    status: Literal["Fail", "Warn"] = "Fail"

    @field_validator("test")
    @classmethod
    def _test_is_known(cls, name: str) -> str:
        names = {test.name for test in dcgm.tests().values()}
        if name not in names:
            hint = suggestion(name, names) or f"one of {', '.join(sorted(names))}"
            raise ValueError(f"there is no DCGM test {name!r} ({hint})")
        return name

    @field_validator("error_id")
    @classmethod
    def _error_is_known(cls, number: int) -> int:
        if number not in dcgm.errors():
            raise ValueError(f"there is no DCGM error id {number}")
        return number


class NanLoss(Fault):
    """The loss on one GPU becomes NaN, at which Megatron stops."""

    tools: ClassVar[tuple[str, ...]] = ("training",)
    kind: Literal["nan-loss"]
    step: Annotated[int, Field(ge=1)]
    gpu: Annotated[int, Field(ge=0)] = 0


class SlowTraining(Fault):
    """The node computes slowly, and all others wait for it.

    Attributes:
        factor: part of the healthy speed that is left.
    """

    tools: ClassVar[tuple[str, ...]] = ("training",)
    kind: Literal["slow-training"]
    factor: Annotated[float, Field(ge=LEAST_FACTOR, le=1)]


class XidFault(Fault):
    """The driver reports an Xid in mid-run.

    Attributes:
        number: the Xid.
        text: the driver's words; None prints those of a known number.
        at: seconds after the start of a run.
        ends_run: whether health agents take the node out at once; None: as the Xid demands, so
            those of the application (13, 31, 43) do not.
    """

    kind: Literal["xid"]
    number: Annotated[int, Field(ge=1, le=999)]
    gpu: Annotated[int, Field(ge=0)] = 0
    text: str | None = None
    at: Seconds
    ends_run: bool | None = None

    @property
    def takes_out(self) -> bool:
        """Whether the node is taken out of service at once."""
        if self.ends_run is not None:
            return self.ends_run
        known = find_xid(self.number)
        return known is None or known.origin is not XidClass.APPLICATION


class Infrastructure(Fault):
    """Kubernetes cannot run the job.

    Attributes:
        code: INFRA_* code.
        message: the scheduler's or kubelet's own words.
        heals_after: attempts that fail; None: it never heals.
        lasts: seconds until an attempt is given up.
    """

    kind: Literal["infrastructure"]
    code: str
    message: str
    heals_after: Annotated[int | None, Field(ge=1)] = None
    lasts: Seconds = 300.0

    @field_validator("code")
    @classmethod
    def _code_is_known(cls, code: str) -> str:
        try:
            known = reason(code).kind is Kind.INFRASTRUCTURE
        except KeyError:
            known = False
        if not known:
            raise ValueError(f"must be an INFRA_ code, not {code!r}")
        return code


class NoOutput(Fault):
    """The tool ends as if all were well, and its output is empty."""

    kind: Literal["no-output"]


class TruncateOutput(Fault):
    """The end of the output is lost, and nothing says so.

    Attributes:
        keep: part of the bytes that is left.
    """

    kind: Literal["truncate-output"]
    keep: Annotated[float, Field(gt=0, lt=1)] = 0.6


class SocketFallback(Fault):
    """NCCL finds no fabric device on the node and uses plain sockets."""

    tools: ClassVar[tuple[str, ...]] = ("nccl",)
    kind: Literal["socket-fallback"]


AnyFault = Annotated[
    SlowLink
    | LostGpu
    | CorruptData
    | Crash
    | Hang
    | Cordon
    | NotReady
    | DcgmFailure
    | NanLoss
    | SlowTraining
    | XidFault
    | Infrastructure
    | NoOutput
    | TruncateOutput
    | SocketFallback,
    Field(discriminator="kind"),
]


def fault_kinds() -> tuple[str, ...]:
    """Return the kinds, in the order in which they are described."""
    union = get_args(AnyFault)[0]
    return tuple(get_args(m.model_fields["kind"].annotation)[0] for m in get_args(union))


F = TypeVar("F", bound=Fault)


def of_kind(faults: Iterable[Fault], kind: type[F]) -> list[F]:
    """Return the faults of one kind, in the order of the file."""
    return [fault for fault in faults if isinstance(fault, kind)]
