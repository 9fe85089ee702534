"""What ends a training run early: memory, CUDA, NaN checks, settings, crashes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.sightings import Seen, Tally, node_of
from steps.parse.training.ranks import rank_of

_NAN = re.compile(
    r"found (?:NaN|Inf|NaN/Inf|unexpected(?:ly)? large) in local (?:grad|forward)|"
    r"Unexpected result (?:nan|inf)|found NaN in (?:loss|local)|"
    # Megatron's rerun state machine, which also looks into losses that only jumped
    r"\brerun: unexpected result is (?:not )?reproducible[^(]{0,80}\([^)]{0,40}\b(?:nan|inf)\b|"
    r"loss is (?:nan|inf)\b|(?:nan|inf) loss (?:found|detected)|gradient is nan",
    re.I,
)
_RANK = re.compile(r"\bRank:? ?(?P<rank>\d{1,7})\b", re.I)
_DEVICE = re.compile(r"\bdevice:? ?(?P<gpu>\d{1,4})\b", re.I)
_NODE = re.compile(r"\bnode:? ?(?P<node>[A-Za-z][\w.-]*)", re.I)
_ITERATION = re.compile(r"\biteration:? ?#?(?P<step>\d+)", re.I)

_OOM = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|"
    r"\btorch(?:\.cuda)?\.OutOfMemoryError\b"
)
_OOM_GPU = re.compile(r"\bGPU (?P<gpu>\d{1,4})\b")
_ASKED = re.compile(r"Tried to allocate (?P<size>[\d.]+ ?[KMGT]?i?B)")
_CAPACITY = re.compile(
    r"total capaci?ty of (?P<size>[\d.]+ ?[KMGT]?i?B)|(?P<old>[\d.]+ ?[KMGT]?i?B) total capacity"
)
_FREE = re.compile(r"(?P<size>[\d.]+ ?[KMGT]?i?B) (?:is )?free")

_CUDA = re.compile(
    r"\b(?:CUDA error: (?P<what>[^\n;]{1,120})|(?P<lib>CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+))"
)
_ECC = re.compile(r"uncorrectable ECC error", re.I)
_APPLICATION = re.compile(r"device-side assert", re.I)

_EXCEPTION = re.compile(
    r"^\s*(?:[A-Za-z_]\w*\.)*(?P<type>[A-Z]\w*(?:Error|Exception|Failure|Exit|Interrupt))"
    r"(?::\s*(?P<text>.*))?$"
)
_CONFIG_TYPE = re.compile(
    r"^(?:ModuleNotFoundError|ImportError|FileNotFoundError|NotADirectoryError|PermissionError|"
    r"ArgumentError|ValidationError|Misconfiguration\w*|Config\w*(?:Error|Exception)|"
    r"MissingMandatoryValue|InterpolationKeyError|UnsupportedValueType|"
    r"OverrideParseException|InstantiationException|EntryNotFoundError|GatedRepoError|"
    r"RepositoryNotFoundError|LocalEntryNotFoundError|OfflineModeIsEnabled)"
)
_CONFIG_TEXT = re.compile(
    r"divisible|divide evenly|No such file or directory|not a valid model identifier|"
    r"is not supported|unsupported|No space left on device|must be (?:set|specified|provided|"
    r"greater|less|at least|a multiple)|unrecognized arguments|unexpected keyword argument",
    re.I,
)
_ARGUMENTS = re.compile(
    r"\berror: (?:unrecognized arguments|the following arguments are required|"
    r"argument \S+: |ambiguous option|one of the arguments)|can't open file|"
    r"\b(?:torchrun|python3?|deepspeed|nemo): (?:command )?not found"
)
_TORCHRUN_TYPE = "ChildFailedError"
_NCCL_TYPES = {"DistBackendError", "DistNetworkError", "DistStoreError", "NCCLError"}
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|terminate called after throwing")
_ROOT_CAUSE = re.compile(r"^\s*Root Cause \(first observed failure\)")
_SUMMARY = re.compile(
    r"^\s*(?P<name>host|rank|exitcode|traceback)\s*: (?P<value>.+?)(?: \((?P<more>[^()]*)\))?\s*$"
)
_SUMMARY_SPAN = 12
"""Lines of torchrun's summary behind its heading."""
_SIGNAL = re.compile(r"Signal (?P<signal>\d+) \((?P<name>\w+)\)")


WANTS = (_NAN, _OOM, _CUDA, _ARGUMENTS, _EXCEPTION, _TRACEBACK, _ROOT_CAUSE, _SUMMARY)


class _Key(NamedTuple):
    """Failures with one key become one finding."""

    code: str
    variant: str | None
    says: str


@dataclass(slots=True)
class _Root:
    """torchrun's summary of the first rank that failed."""

    line: Line
    host: str | None = None
    rank: int | None = None
    how: str | None = None


class FailureReader:
    """Collects failures of training processes.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._tally: Tally[_Key] = Tally(file)
        self._root: _Root | None = None
        self._root_seen = Seen()
        self._last: dict[_Key, int] = {}
        self._places: dict[int, Entity] = {}
        self.last_fatal = 0
        self._traceback = False

    def feed(self, line: Line) -> bool:
        """Take a line; False when it tells of no failure."""
        text = line.text
        if self._read_root(line):
            return True
        if _NAN.search(text):
            self._add_nan(line)
        elif _OOM.search(text):
            self._add(line, _Key("TRAIN_OOM", None, _oom_says(text)), _oom_entity(line))
        elif "NCCL WARN" not in text and (cuda := _CUDA.search(text)):
            self._add_cuda(line, cuda["what"] or cuda["lib"])
        elif _ARGUMENTS.search(text):
            self._add(line, _Key("TRAIN_CONFIG", None, text.strip()), _entity(line))
        elif exception := _EXCEPTION.match(text):
            self._add_exception(line, exception["type"], exception["text"] or "")
        elif _TRACEBACK.search(text):
            self._traceback = True
            self.last_fatal = max(self.last_fatal, line.number)
        else:
            return False
        return True

    def _add(self, line: Line, key: _Key, entity: Entity | None) -> None:
        self._tally.add(key, line, *([entity] if entity else []))
        self._last[key] = line.number
        self.last_fatal = max(self.last_fatal, line.number)

    def _add_nan(self, line: Line) -> None:
        rank, gpu = _RANK.search(line.text), _DEVICE.search(line.text)
        node, step = _NODE.search(line.text), _ITERATION.search(line.text)
        entity = Entity(
            node=node["node"] if node else line.host,
            gpu=int(gpu["gpu"]) if gpu else None,
            rank=int(rank["rank"]) if rank else line.rank,
        )
        if entity.rank is not None and entity.node:
            self._places.setdefault(entity.rank, entity)
        at = f" at iteration {step['step']}" if step else ""
        key = _Key("TRAIN_NAN", None, f"a NaN check failed on the local gradient or loss{at}")
        self._add(line, key, entity if str(entity) else None)

    def _add_cuda(self, line: Line, what: str) -> None:
        what = what.strip().rstrip(".")
        entity = _entity(line)
        if _ECC.search(what):
            # The rank that prints it ran on the GPU that has the error.
            variant = None if entity else "place-unknown"
            key = _Key("ECC_UNCORRECTABLE", variant, "CUDA reports an uncorrectable ECC error")
        elif _APPLICATION.search(what):
            says = f"the program hit an assertion of its own on the GPU ({what}), not hardware"
            key = _Key("TRAIN_CRASHED", None, says)
        else:
            key = _Key("TRAIN_CUDA_ERROR", None, f"CUDA error: {what}")
        self._add(line, key, entity)

    def _add_exception(self, line: Line, kind: str, text: str) -> None:
        self.last_fatal = max(self.last_fatal, line.number)
        if kind == _TORCHRUN_TYPE or kind in _NCCL_TYPES or "NCCL" in text:
            return  # torchrun's summary comes apart; NCCL's errors are the NCCL scanner's
        says = f"{kind}: {text}" if text else kind
        if _CONFIG_TYPE.match(kind) or _CONFIG_TEXT.search(text):
            self._add(line, _Key("TRAIN_CONFIG", None, says), _entity(line))
        elif self._traceback:
            self._add(line, _Key("TRAIN_CRASHED", None, says), _entity(line))

    def _read_root(self, line: Line) -> bool:
        if _ROOT_CAUSE.match(line.text):
            self._root = self._root or _Root(line)
            self._root_seen.companion(self._tally.file, line)
            self.last_fatal = max(self.last_fatal, line.number)
            return True
        root = self._root
        if root is None or line.number - root.line.number > _SUMMARY_SPAN:
            return False
        match = _SUMMARY.match(line.text)
        if not match:
            return False
        self._root_seen.companion(self._tally.file, line)
        value = match["value"].strip()
        if match["name"] == "host" and root.host is None:
            root.host = value
        elif match["name"] == "rank" and root.rank is None and value.isdecimal() and len(value) < 8:
            root.rank = int(value)
        elif match["name"] == "exitcode" and root.how is None:
            root.how = f"exit code {value}"
        elif signal := _SIGNAL.search(line.text):
            root.how = f"signal {signal['signal']} ({signal['name']})"
        return True

    def findings(
        self, context: ParseContext, last_step_line: int, world: int | None
    ) -> list[Finding]:
        """Return findings, earliest first.

        Args:
            context: what is known about the run.
            last_step_line: an exception that training went on after was handled by the program.
            world: number of ranks, if known.
        """
        found = []
        for key, seen in self._tally.items():
            if key.code in _HANDLED and self._last[key] < last_step_line:
                continue
            found.append(self._finding(key, seen, context, world))
        if self._root is not None:
            found.append(self._root_finding(self._root, found, context))
        return found

    def _finding(self, key: _Key, seen: Seen, context: ParseContext, world: int | None) -> Finding:
        entities = [
            *dict.fromkeys(_located(self._hosted(entity), context) for entity in seen.entities)
        ]
        witness = key.code == "TRAIN_CONFIG" or _too_many(key.code, entities, world)
        times = f", {seen.count} times" if seen.count > 1 else ""
        return finding(
            key.code,
            f"{key.says[:300]}{times}",
            variant=key.variant,
            entities=entities,
            proof=seen.evidence,
            count=seen.count,
            witness=witness,
        )

    def _hosted(self, entity: Entity) -> Entity:
        """Take host and GPU of a rank from a line that tells them, or torchrun's summary."""
        place = self._places.get(entity.rank) if entity.rank is not None else None
        if entity.node is None and place:
            gpu = place.gpu if entity.gpu is None else entity.gpu
            return entity.model_copy(update={"node": place.node, "gpu": gpu})
        root = self._root
        if root and entity.node is None and entity.rank is not None and entity.rank == root.rank:
            return entity.model_copy(update={"node": root.host})
        return entity

    def _root_finding(
        self, root: _Root, found: Iterable[Finding], context: ParseContext
    ) -> Finding:
        entity = _located(Entity(node=root.host, rank=root.rank), context)
        how = f" ended with {root.how}" if root.how else ""
        return finding(
            "TRAIN_CRASHED",
            f"torchrun names the first failure: {entity}{how}",
            entities=(entity,) if str(entity) else (),
            proof=self._root_seen.evidence,
            # Every node's torchrun names its own first failure.
            witness=True,
            cause=next((other.code for other in found), None),
        )


_HANDLED = {"TRAIN_CONFIG", "TRAIN_CRASHED"}


def _entity(line: Line) -> Entity | None:
    rank, _ = rank_of(line)
    if rank is None and line.host is None:
        return None
    return Entity(node=line.host, rank=rank)


def _located(entity: Entity, context: ParseContext) -> Entity:
    update = {"node": entity.node or node_of(None, entity.rank, context)}
    return entity.model_copy(update=update)


def _too_many(code: str, entities: list[Entity], world: int | None) -> bool:
    """Whether so many ranks tell the same that it cannot be the fault of one."""
    ranks = {entity.rank for entity in entities if entity.rank is not None}
    if code != "TRAIN_NAN" or len(ranks) < 2:
        return False
    return len(ranks) * 2 >= world if world else len(ranks) > 2


def _oom_entity(line: Line) -> Entity | None:
    gpu = _OOM_GPU.search(line.text)
    rank, _ = rank_of(line)
    entity = Entity(node=line.host, gpu=int(gpu["gpu"]) if gpu else None, rank=rank)
    return entity if str(entity) else None


def _oom_says(text: str) -> str:
    asked, capacity, free = _ASKED.search(text), _CAPACITY.search(text), _FREE.search(text)
    parts = [
        f"asked for {asked['size']}" if asked else None,
        f"has {capacity['size'] or capacity['old']}" if capacity else None,
        f"{free['size']} free" if free else None,
    ]
    sizes = ", ".join(part for part in parts if part)
    return "CUDA out of memory" + (f": {sizes}" if sizes else "")
