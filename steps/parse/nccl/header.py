"""Reads what nccl-tests prints around its table: settings, devices, versions, closing lines."""

from __future__ import annotations

import re
from typing import NamedTuple

from steps.documents import RankPlace

_CONFIG = re.compile(r"\bminBytes:?\s+(?P<min>\d{1,18})\s+maxBytes:?\s+(?P<max>\d{1,18})")
_STEP = re.compile(r"\bstep:\s*(\d{1,18})\((factor|bytes)\)")
_PAIR = re.compile(r"\b([A-Za-z_]+(?: ?[Ii]ters)?):?\s+(-?\d{1,18})\b")
_RANK = re.compile(
    r"\bRank\s+(\d{1,7})\s+(?:Group\s+\d+\s+)?(?:Pid\s+\d+\s+)?on\s+(\S+)\s+device\s+(\d{1,18})\s*"
    r"\[([^\]]*)\]\s*(.*)"
)
_VERSION = re.compile(
    r"\bnccl-tests version (\S+)(?: nccl-headers=(\d{1,18}))?(?: nccl-library=(\d{1,18}))?"
    r"|\brccl-tests: Version (\S+)"
    r"|\brccl-tests version (\S+)(?: rccl-headers=\d+)?(?: rccl-library=(\d{1,18}))?"
)
_LIBRARY = re.compile(r"\b(NCCL|RCCL) version\s*:?\s*(\d[\w.+-]*)")
_START = re.compile(r"\bCollective test starting: (?:\S*/)?(\w+?)_perf(?:_mpi)?\b")
_PROGRAM = re.compile(r"(?:^|[/\s\"'])(\w+?)_perf(?:_mpi)?(?=[\s\"':]|$)")
_BOUNDS = re.compile(r"\bOut of bounds values\s*:\s*(\d{1,18})\s+(OK|FAILED)\b")
_AVERAGE = re.compile(r"\bAvg bus bandwidth\s*:\s*(\S+)(\s*)(?:(OK|FAILED)\b)?")
_REDUCED = re.compile(r"\bReducing maxBytes to (\d{1,18}) due to memory")
_LEFT_OUT = re.compile(r"\[?(?:\.{3,}|\u2026+)\]?\s*|(?:\.\s+){2,}\.\s*")
_CYCLE = re.compile(r"\bTesting (\d{1,18}) cycle\b")

OPERATIONS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "alltoallv",
    "broadcast",
    "reduce",
    "sendrecv",
    "gather",
    "scatter",
    "hypercube",
    "all_reduce_bias",
)


class Config(NamedTuple):
    """The settings line.

    Attributes:
        min_bytes, max_bytes: of the sweep, as asked.
        step: multiplier, or bytes to add where ``additive``.
        validation: checks per size, 0 when switched off; None when not printed.
        settings: the other settings by name, for people.
    """

    min_bytes: int
    max_bytes: int
    step: int = 2
    additive: bool = False
    validation: int | None = None
    settings: dict[str, str] = {}

    def next_size(self, size: int) -> int:
        """Return the size that follows in the sweep."""
        if self.additive:
            return size + max(self.step, 1)
        return max(size, 1) * max(self.step, 2)


class Bounds(NamedTuple):
    """The line 'Out of bounds values', which closes a run."""

    wrong: int
    okay: bool


class Average(NamedTuple):
    """The line 'Avg bus bandwidth'.

    Attributes:
        gbps: as printed.
        whole: False where the output ends at this number, so digits may be missing.
        tool_verdict: OK or FAILED where NCCL_TESTS_MIN_BW was set.
    """

    gbps: float
    whole: bool = True
    tool_verdict: str | None = None


class Start(NamedTuple):
    """A test program begins; newer versions say so."""

    operation: str


class Reduced(NamedTuple):
    """The tool lowered its own maximum size because of GPU memory."""

    max_bytes: int


class LeftOut(NamedTuple):
    """A person left rows out of the output and said so."""


class CycleStart(NamedTuple):
    """rccl-tests announces the sweeps of -N."""

    number: int


Mark = Config | Bounds | Average | Start | Reduced | CycleStart | LeftOut


def read_mark(text: str, *, whole: bool) -> Mark | None:  # noqa: PLR0911  # one return per kind
    """Return the structural line that this text is, or None.

    Args:
        text: the line.
        whole: whether a newline ended it.
    """
    if found := _BOUNDS.search(text):
        # where number and word contradict each other, the worse one counts
        return Bounds(int(found[1]), found[2] == "OK" and int(found[1]) == 0)
    if found := _AVERAGE.search(text):
        try:
            return Average(float(found[1]), whole or bool(found[2]), found[3])
        except ValueError:
            return None
    if found := _CONFIG.search(text):
        return _config(text, int(found["min"]), int(found["max"]))
    if found := _START.search(text):
        return Start(found[1])
    if found := _REDUCED.search(text):
        return Reduced(int(found[1]))
    if _LEFT_OUT.fullmatch(text):
        return LeftOut()
    if found := _CYCLE.search(text):
        return CycleStart(int(found[1]))
    return None


def _config(text: str, minimum: int, maximum: int) -> Config:
    step = _STEP.search(text)
    settings = {
        name.strip().replace(" ", "_"): value
        for name, value in _PAIR.findall(text)
        if name not in {"minBytes", "maxBytes", "step"}
    }
    validation = settings.pop("validation", None)
    return Config(
        minimum,
        maximum,
        step=int(step[1]) if step else 2,
        additive=bool(step and step[2] == "bytes"),
        validation=int(validation) if validation is not None else None,
        settings=settings,
    )


def read_rank(text: str) -> RankPlace | None:
    """Return the place of a rank from a line under 'Using devices'.

    The bus number alone, as older versions print it (``[0x18]``), is no address that could be
    joined with other outputs; ``[0x00]`` is a bus that was not known. Neither is kept.
    """
    found = _RANK.search(text)
    if not found:
        return None
    rank, node, gpu, bus, product = found.groups()
    return RankPlace(
        rank=int(rank),
        node=node,
        gpu=int(gpu),
        pci=bus if ":" in bus else None,
        product=product.strip() or None,
    )


def read_versions(text: str) -> dict[str, str]:
    """Return the versions that a line names: nccl, rccl, nccl-tests, nccl-headers, rccl-tests."""
    versions: dict[str, str] = {}
    if found := _VERSION.search(text):
        tests, headers, library, rccl, newer_rccl, rccl_library = found.groups()
        if tests:
            versions["nccl-tests"] = tests
        if headers:
            versions["nccl-headers"] = version_name(int(headers))
        if library:
            versions["nccl"] = version_name(int(library))
        if rccl or newer_rccl:
            versions["rccl-tests"] = rccl or newer_rccl
        if rccl_library:
            versions["rccl"] = version_name(int(rccl_library))
    if found := _LIBRARY.search(text):
        versions[found[1].lower()] = found[2]
    return versions


def read_operation(text: str) -> str | None:
    """Return the collective of a test program named in the text, for example a command line."""
    for name in _PROGRAM.findall(text):
        if name in OPERATIONS:
            return str(name)
    return None


def version_name(code: int) -> str:
    """Return NCCL's version number as text: 22304 is 2.23.4, and before 2.9 2708 was 2.7.8."""
    major, rest = divmod(code, 10_000) if code >= 10_000 else divmod(code, 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"
