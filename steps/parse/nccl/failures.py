"""What NCCL and nccl-tests print when something goes wrong, and who saw it.

A collective that fails fails on every rank, so the hosts that print an error are witnesses. Only a
count of GPUs and an ECC error speak of the host that prints them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.nccl.completion import CompletionErrors
from steps.parse.nccl.transport import origin
from steps.parse.sightings import MAX_EVIDENCE, Seen, Tally

SHOWN = 64
ECHO = "remote process exited"

# the first versions leave "Test" out; without it the place in the source tells a test program
_TEST_NCCL = re.compile(
    r"(?:(?P<host>[\w.-]{1,253}): )?(?:Test NCCL failure \S+|\bNCCL failure \w+\.cu:\d+) "
    r"'(?P<error>[^']*)'?"
)
_TEST_GPU = re.compile(
    r"(?:(?P<host>[\w.-]{1,253}): )?"
    r"(?:Test (?:CUDA|HIP) failure \S+|\b(?:CUDA|Cuda) failure \w+\.cu:\d+) '(?P<error>[^']*)'?"
)
_TEST = re.compile(r"\.\. (?P<host>[\w.-]{1,253}) pid \d+: Test failure \S+")
_TIMEOUT = re.compile(r"\bTest timeout \((?P<seconds>\d{1,18})s\)")
_GPUS = re.compile(
    r"Invalid number of GPUs: (?P<asked>\d{1,18}) requested but only (?P<found>\d{1,18}) were found"
    r"|number of requested GPUs \((?P<asked2>\d{1,18})\) is greater than the number of GPUs "
    r"available \((?P<found2>\d{1,18})\)"
)
_ARGUMENTS = re.compile(
    r"\binvalid sizes? (?:specified )?for '\w+'|^USAGE: \S+_perf\b|Duplicate GPU detected", re.M
)
_RESULT_NAME = re.compile(
    r"\bnccl(?P<name>SystemError|InternalError|UnhandledCudaError|RemoteError|InvalidUsage|"
    r"InvalidArgument)\b"
)
_RESULT_NAMES = {
    "SystemError": "unhandled system error",
    "InternalError": "internal error",
    "UnhandledCudaError": "unhandled cuda error",
    "RemoteError": ECHO,
    "InvalidUsage": "invalid usage",
    "InvalidArgument": "invalid argument",
}
_SHM = re.compile(r"/dev/shm|shared memory segment|shm_open|posix_fallocate", re.I)  # noqa: S108  # matched, not used
_ECC = re.compile(r"uncorrectable (?:NVLink|ECC) error|uncorrectable ECC", re.I)
_PORT = re.compile(r"Got async event ?: (?P<event>port error)|(?P<fatal>async fatal event[^:]*)")
_DEVICE = re.compile(r"\b(?P<device>(?:mlx5_|ib|rdmap|bnxt_re|irdma)\w+)(?=[:\s]|$)")


class Failures:
    """Collects failures from any line of an output."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.completions = CompletionErrors(file)
        self.warnings = Seen()
        self._aborts: Tally[str] = Tally(file)
        self._witnesses: Tally[str] = Tally(file)
        self._timeouts: Tally[int] = Tally(file)
        self._gpus: Tally[tuple[int, int]] = Tally(file)
        self._gpu_counts_without_host: list[tuple[int, int]] = []
        self._arguments = Seen()
        self._shm = Seen()
        self._ecc: Tally[Entity] = Tally(file)
        self._ports: Tally[Entity] = Tally(file)

    @property
    def aborted(self) -> bool:
        """Whether a test program or NCCL gave up."""
        return any(
            (
                len(self._aborts),
                len(self._witnesses),
                len(self._timeouts),
                len(self._gpus),
                self._arguments.count,
                self.completions.seen,
            )
        )

    def warning(self, line: Line) -> None:
        """Take a line that holds ``NCCL WARN``."""
        host, gpu, message = origin(line.text)
        place = Entity(node=host or line.host, gpu=gpu, rank=line.rank)
        self.warnings.add(self.file, line)
        # without the end of the line a number of it may be cut
        if line.ended and self.completions.feed(line, message, place):
            return
        if _SHM.search(message):
            self._shm.add(self.file, line, place)
        if _ECC.search(message):
            self._ecc.add(place, line, place)
        if found := _PORT.search(message):
            device = _DEVICE.search(message)
            entity = place.model_copy(update={"gpu": None, "device": device and device["device"]})
            if found["event"] or found["fatal"]:
                self._ports.add(entity, line, entity)
        if _ARGUMENTS.search(message):
            self._arguments.add(self.file, line, place)

    def feed(self, line: Line) -> bool:
        """Take a line that NCCL did not log; return whether a test program printed it."""
        text = line.text
        if found := _TEST_NCCL.search(text):
            place = Entity(node=found["host"] or line.host, rank=line.rank)
            self._aborts.add(_error_class(found["error"]), line, place)
        elif found := _TEST_GPU.search(text):
            place = Entity(node=found["host"] or line.host, rank=line.rank)
            self._aborts.add(f"CUDA error: {found['error']}", line, place)
            if _ECC.search(found["error"]):
                self._ecc.add(place, line, place)
        elif found := _TEST.search(text):
            place = Entity(node=found["host"], rank=line.rank)
            self._witnesses.add("Test failure", line, place)
            for counts in self._gpu_counts_without_host:
                self._gpus.add(counts, line, place).lines -= 1
            self._gpu_counts_without_host.clear()
        elif found := _TIMEOUT.search(text):
            self._timeouts.add(int(found["seconds"]), line, *_place(line))
        elif found := _GPUS.search(text):
            counts = (
                int(found["asked"] or found["asked2"]),
                int(found["found"] or found["found2"]),
            )
            places = _place(line)
            self._gpus.add(counts, line, *places)
            if not places:
                self._gpu_counts_without_host = [counts]
        elif _ARGUMENTS.search(text):
            self._arguments.add(self.file, line, *_place(line))
        elif found := _RESULT_NAME.search(text):
            # PyTorch and others print these names as well
            self._aborts.add(_RESULT_NAMES[found["name"]], line, *_place(line))
            return False
        else:
            return False
        return True

    @property
    def seen(self) -> bool:
        """Whether anything at all was seen."""
        return self.aborted or bool(self.warnings.count)

    def explained(self, item: Finding) -> Finding:
        """Return a finding about missing lines with the warnings that may be the reason."""
        if item.code not in {"NO_RESULT_ROWS", "LOG_TRUNCATED"} or not self.warnings.count:
            return item
        proof = (*item.evidence[:2], *self.warnings.evidence)[:MAX_EVIDENCE]
        message = f"{item.message}; NCCL warned before"
        return item.model_copy(update={"message": message, "evidence": proof})

    def findings(self, context: ParseContext, addresses: Mapping[str, str]) -> list[Finding]:
        """Return what was seen, each kind once."""
        return [
            *self._aborted(),
            *self._timed_out(),
            *self._gpu_counts(context),
            *self._launch_errors(),
            *self.completions.findings(addresses),
            *self._hardware(),
        ]

    def _aborted(self) -> Iterable[Finding]:
        kinds = list(self._aborts.items())
        own = [(name, seen) for name, seen in kinds if name != ECHO]
        for name, seen in own[:SHOWN]:
            first = _first(seen)
            where = f"; first seen on {first}" if first else ""
            yield finding(
                "NCCL_ABORTED",
                f"NCCL gave up: {name}{where}",
                entities=_some(seen.entities),
                proof=[*seen.evidence[:2], *self.warnings.evidence[:3]],
                count=seen.count,
                witness=True,
            )
        for name, seen in kinds:
            if name == ECHO:
                yield finding(
                    "NCCL_REMOTE_ERROR",
                    "a peer process was gone; the ranks that say so only saw it",
                    entities=_some(seen.entities),
                    proof=[*seen.evidence[:2], *self.warnings.evidence[:3]],
                    count=seen.count,
                    witness=True,
                    cause="NCCL_ABORTED" if own else None,
                )
        reported = len(self._aborts) or len(self._timeouts) or len(self._gpus)
        if not reported and self._arguments.count == 0 and len(self._witnesses):
            _, seen = next(iter(self._witnesses.items()))
            yield finding(
                "NCCL_ABORTED",
                "the test failed on these hosts without saying why",
                entities=_some(seen.entities),
                proof=seen.evidence,
                count=seen.count,
                witness=True,
            )
        system = self._aborts.get("unhandled system error")
        if self._shm.count:
            yield finding(
                "INFRA_SHM",
                "NCCL could not get shared memory; mount a larger /dev/shm",
                entities=_some(self._shm.entities),
                proof=self._shm.evidence,
                count=self._shm.count,
            )
        elif system and not self.warnings.count:
            yield finding(
                "INFRA_SHM",
                "in a container an unhandled system error often means that /dev/shm is too small; "
                "NCCL_DEBUG=INFO tells",
                proof=system.evidence[:1],
                cause="NCCL_ABORTED",
            )

    def _timed_out(self) -> Iterable[Finding]:
        saw = self._witnesses.get("Test failure")
        for seconds, seen in self._timeouts.items():
            yield finding(
                "NCCL_TIMEOUT",
                f"the test ran into its own timeout of {seconds} s",
                entities=_some([*seen.entities, *(saw.entities if saw else ())]),
                proof=[*seen.evidence[:2], *(saw.evidence[:3] if saw else ())],
                count=seen.count,
                witness=True,
            )

    def _gpu_counts(self, context: ParseContext) -> Iterable[Finding]:
        wanted = context.hardware.gpus_per_node
        for missing in (True, False):
            kind = [
                (counts, seen)
                for counts, seen in self._gpus.items()
                if _is_missing(counts, wanted) == missing
            ]
            if not kind:
                continue
            (asked, found), first = kind[0]
            entities = _some(entity for _, seen in kind for entity in seen.entities)
            if missing and not entities and context.node:
                entities = [Entity(node=context.node)]
            proof = [item for _, seen in kind for item in seen.evidence]
            count = sum(max(seen.count, 1) for _, seen in kind)
            if missing:
                yield finding(
                    "GPU_MISSING",
                    f"only {found} of {wanted or asked} GPUs were found",
                    variant=None if wanted else "no-profile",
                    entities=entities,
                    proof=proof,
                    count=count,
                )
            else:
                has = f", the profile has {wanted}" if wanted else ""
                yield finding(
                    "INFRA_BAD_ARGS",
                    f"{asked} GPUs were asked for on a node, {found} were found{has}",
                    proof=proof or first.evidence,
                    count=count,
                )

    def _launch_errors(self) -> Iterable[Finding]:
        if self._arguments.count:
            yield finding(
                "INFRA_BAD_ARGS",
                "the test program refused its arguments",
                proof=self._arguments.evidence,
                count=self._arguments.count,
            )

    def _hardware(self) -> Iterable[Finding]:
        for place, seen in self._ecc.items():
            yield finding(
                "ECC_UNCORRECTABLE",
                f"CUDA reports an uncorrectable memory error on {place or 'a GPU'}",
                entities=[place] if str(place) else [],
                proof=seen.evidence,
                count=seen.count,
            )
        for place, seen in self._ports.items():
            yield finding(
                "IB_LINK_FLAP",
                f"NCCL saw a port error on {place or 'a port'}",
                entities=[place] if str(place) else [],
                proof=seen.evidence,
                count=seen.count,
            )


def _error_class(text: str) -> str:
    """Return NCCL's error class; the tool appends ncclGetLastError after a slash."""
    name = text.partition(" / ")[0].partition(" (run with")[0].strip(" /")
    return ECHO if name.startswith(ECHO) else name or "unknown error"


def _is_missing(counts: tuple[int, int], wanted: int | None) -> bool:
    """Whether a GPU is missing, rather than too many asked for.

    Without a profile a plausible node size that is short of GPUs is taken as missing.
    """
    asked, found = counts
    if wanted is not None:
        return found < wanted and asked <= wanted
    return asked <= 8 and found < asked


def _place(line: Line) -> list[Entity]:
    place = Entity(node=line.host, rank=line.rank)
    return [place] if str(place) else []


def _first(seen: Seen) -> Entity | None:
    return next((entity for entity in seen.entities if str(entity)), None)


def _some(entities: Iterable[Entity]) -> list[Entity]:
    return [entity for entity in dict.fromkeys(entities) if str(entity)][:SHOWN]
