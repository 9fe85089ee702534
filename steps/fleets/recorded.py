"""A fleet whose runs were made elsewhere: stored outputs, matched to the groups of the plan."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from catalog.errors import InputError, Place
from steps.documents import LogFile, RunFailure, RunOutcome
from steps.fleets.fleet_document import RecordedOutput
from steps.jobs.failures import hardware_failure
from steps.jobs.job import Job, JobResult, log_name

MAX_OUTPUT_BYTES = 1 << 30
"""Bound on one stored output."""

_TIMEOUT_EXIT = 124
"""Exit code of ``timeout``, in which launchers wrap mpirun."""

NO_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""Start of the clock when no time was noted: the same in every report, and surely no real one."""

_Key = tuple[str, frozenset[str]]


class RecordedFleet:
    """Stored outputs; a group takes the one of its category, nodes, iteration and purpose.

    Args:
        name: name of the fleet.
        nodes, pods: Kubernetes objects.
        outputs: the outputs.
        folder: where their files are.
        start: when the fleet's clock starts; None: with the earliest output.
    """

    source: Literal["recorded", "simulated"] = "recorded"

    def __init__(
        self,
        *,
        name: str,
        nodes: list[dict[str, Any]],
        pods: list[dict[str, Any]],
        outputs: Sequence[RecordedOutput],
        folder: Path,
        start: datetime | None,
    ) -> None:
        self.note = f"fleet {name}"
        self.start = start or _earliest(outputs)
        self._nodes = nodes
        self._pods = pods
        self._folder = folder
        self._outputs = tuple(outputs)
        self._by_group: dict[_Key, list[int]] = {}
        for index, output in enumerate(self._outputs):
            key = (output.category, frozenset(output.nodes))
            self._by_group.setdefault(key, []).append(index)
        self._used: set[int] = set()

    def nodes(self) -> list[dict[str, Any]]:
        """See `steps.jobs.job.Fleet`."""
        return self._nodes

    def pods(self) -> list[dict[str, Any]]:
        """See `steps.jobs.job.Fleet`."""
        return self._pods

    def run(self, job: Job) -> JobResult:
        """Return the stored run of the job's category, nodes and iteration.

        Raises:
            InputError: a file that was there when the fleet was loaded can no longer be read.
        """
        index = self._find(job)
        if index is None:
            return _missing(job)
        self._used.add(index)
        return self._result(job, self._outputs[index])

    def unused(self) -> list[str]:
        """Return a sentence for each output that no job took."""
        return [
            f"output {', '.join(output.file)} of {output.category} on {', '.join(output.nodes)}"
            + (f", iteration {output.iteration}," if output.iteration else "")
            + " belongs to no planned group and was not judged"
            for index, output in enumerate(self._outputs)
            if index not in self._used
        ]

    def _find(self, job: Job) -> int | None:
        group = job.group
        mine = self._by_group.get((job.category, frozenset(group.nodes)), [])
        repeat = [i for i in mine if (self._outputs[i].iteration or 1) == group.iteration]
        for purpose in (group.purpose, None):
            for index in repeat:
                if self._outputs[index].purpose == purpose:
                    return index
        return None

    def _result(self, job: Job, output: RecordedOutput) -> JobResult:
        nodes = job.group.nodes
        logs: dict[str, bytes] = {}
        files: list[LogFile] = []
        for text in output.file:
            name = _free_name(job, Path(text).name, logs)
            logs[name] = self._read(text)
            alone = nodes[0] if len(nodes) == 1 else None
            files.append(LogFile(name=name, node=alone, bytes=len(logs[name])))
        for node, text in sorted(output.kernel_logs.items()):
            name = _free_name(job, f"kernel-{node}.log", logs)
            logs[name] = self._read(text)
            files.append(LogFile(name=name, role="kernel", node=node, bytes=len(logs[name])))
        outcome, failures = _ending(output)
        started = output.started or job.start
        record = job.record(
            outcome,
            started=started,
            ended=output.ended or started,
            exit_code=output.exit_code,
            logs=tuple(files),
            events=tuple(sorted(output.events, key=lambda event: event.at)),
            failures=failures,
            placements={f"recorded-{i}": node for i, node in enumerate(nodes)},
        )
        return JobResult(record, logs)

    def _read(self, name: str) -> bytes:
        path = self._folder / name
        try:
            if path.stat().st_size > MAX_OUTPUT_BYTES:
                limit = MAX_OUTPUT_BYTES >> 20
                raise InputError(f"is larger than {limit} MiB", Place(str(path)))
            return path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", Place(str(path))) from error


def _ending(output: RecordedOutput) -> tuple[RunOutcome, tuple[RunFailure, ...]]:
    """Say how the run ended, from what was stored about it."""
    code = output.exit_code
    by_code = RunOutcome.FAILED if code else RunOutcome.COMPLETED
    by_code = RunOutcome.TIMED_OUT if code == _TIMEOUT_EXIT else by_code
    outcome = output.outcome or (RunOutcome.HARDWARE if output.events else by_code)
    match outcome:
        case RunOutcome.FAILED:
            ended = "failed" if code is None else f"ended with exit code {code}"
            return outcome, (RunFailure(code="WorkloadFailed", message=f"the tool {ended}"),)
        case RunOutcome.TIMED_OUT:
            return outcome, (RunFailure(code="JobTimedOut", message="the run hit its timeout"),)
        case RunOutcome.HARDWARE:
            return outcome, tuple(hardware_failure(event) for event in output.events)
        case _:
            return outcome, ()


def _missing(job: Job) -> JobResult:
    message = f"no stored output of {job.category} for {', '.join(job.group.nodes)}"
    if job.group.iteration > 1:
        message += f", iteration {job.group.iteration}"
    record = job.record(
        RunOutcome.STOPPED,
        ended=job.start,
        failures=(RunFailure(code="RESULT_MISSING", message=message),),
    )
    return JobResult(record)


def _free_name(job: Job, name: str, taken: Container[str]) -> str:
    """Return a name for an output; stored files of one run can have the same name."""
    names = (
        log_name(job, f"{number}-{name}" if number > 1 else name) for number in itertools.count(1)
    )
    return next(free for free in names if free not in taken)


def _earliest(outputs: Sequence[RecordedOutput]) -> datetime:
    """Return when the first run started, as far as that was noted."""
    return min((output.started for output in outputs if output.started), default=NO_TIME)
