"""The simulated fleet: runs a job in no time and says what came of it.

Every run depends on the fleet file and the job alone, never on the runs before it. So what happens
to a node in mid-run (``at``) is taken to have happened when a later job of the same category asks
for the node: isolation and repeats find it out of service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from catalog.entries.entry import find_entry
from catalog.reading.quantity import format_duration
from steps.documents import Entity, LogFile, NodeEvent, RunFailure, RunOutcome
from steps.jobs.failures import hardware_failure, timeout_failure
from steps.jobs.job import Job, JobResult, log_name
from steps.simulator.clock import Script
from steps.simulator.faults import (
    Cordon,
    Fault,
    Infrastructure,
    LostGpu,
    NoOutput,
    NotReady,
    TruncateOutput,
    XidFault,
    of_kind,
)
from steps.simulator.kernel import kernel_lines
from steps.simulator.machine import DRIVER, Machine, SimulatedRun
from steps.tools import TOOL_STEPS
from steps.tools.stall import StallRules

DEFAULT_START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
"""Start of the virtual clock where the fleet file gives none."""

_SCHEDULING_SECONDS = 300.0
"""How long a gang waits for its nodes before it is given up."""

_NodeFault = Cordon | NotReady | LostGpu | XidFault


class SimulatedFleet:
    """A fleet that is computed.

    Args:
        seed: settles all noise.
        start: when the virtual clock starts.
        nodes, pods: Kubernetes objects.
        machines: the machines behind the nodes, by name.
        faults: what is wrong with them.
    """

    source: Literal["recorded", "simulated"] = "simulated"

    def __init__(
        self,
        *,
        seed: int,
        start: datetime | None,
        nodes: list[dict[str, Any]],
        pods: list[dict[str, Any]],
        machines: Mapping[str, Machine],
        faults: Sequence[Fault],
    ) -> None:
        self.note = f"seed {seed}"
        self.start = start or DEFAULT_START
        self._seed = seed
        self._nodes = nodes
        self._pods = pods
        self._machines = machines
        self._faults = tuple(faults)

    def nodes(self) -> list[dict[str, Any]]:
        """See `steps.jobs.job.Fleet`."""
        return self._nodes

    def pods(self) -> list[dict[str, Any]]:
        """See `steps.jobs.job.Fleet`."""
        return self._pods

    def unused(self) -> list[str]:
        """Nothing is stored, so nothing is left over."""
        return []

    def run(self, job: Job) -> JobResult:
        """See `steps.jobs.job.Fleet`."""
        gone = [name for name in job.group.nodes if name not in self._machines]
        if gone:
            message = f"node {gone[0]!r} is not in the cluster"
            return _refused(job, RunFailure(code="INFRA_NODE_GONE", message=message), 0.0)
        run = SimulatedRun(
            job=job,
            entry=find_entry(job.category),
            machines=tuple(self._machines[name] for name in job.group.nodes),
            faults=tuple(fault for fault in self._faults if _shows(fault, job)),
            seed=self._seed,
        )
        for fault in of_kind(run.faults, Infrastructure):
            if fault.heals_after is None or job.attempt <= fault.heals_after:
                entity = Entity(node=run.first(fault).name)
                failure = RunFailure(code=fault.code, message=fault.message, entity=entity)
                return _refused(job, failure, fault.lasts)
        unschedulable = _unschedulable(run, len(self._nodes))
        if unschedulable is not None:
            return _refused(job, unschedulable, _SCHEDULING_SECONDS)
        return _played(run)


def _shows(fault: Fault, job: Job) -> bool:
    return fault.category in {None, job.category} and not set(fault.node).isdisjoint(
        job.group.nodes
    )


def _refused(job: Job, failure: RunFailure, seconds: float) -> JobResult:
    """Return the record of a job that Kubernetes never started."""
    record = job.record(
        RunOutcome.INFRASTRUCTURE,
        ended=job.start + timedelta(seconds=seconds),
        failures=(failure,),
    )
    return JobResult(record)


def _unschedulable(run: SimulatedRun, fleet_size: int) -> RunFailure | None:
    """Return the scheduler's event when a node of the group cannot take its pod."""
    again = run.job.group.purpose == "isolate" or run.job.group.iteration > 1
    taken_out = {
        name
        for fault in _node_faults(run)
        if again and fault.at is not None and _ends_run(fault)
        for name in fault.node
    }
    reasons: dict[str, list[str]] = {}
    for machine in run.machines:
        if machine.unavailable:
            reasons.setdefault(machine.unavailable, []).append(machine.name)
        elif machine.name in taken_out:
            reasons.setdefault("were unschedulable", []).append(machine.name)
        elif len(machine.present) < run.gpus_per_node:
            reasons.setdefault("Insufficient nvidia.com/gpu", []).append(machine.name)
    if not reasons:
        return None
    words = [
        f"{len(names)} {why}" if why.startswith("Insufficient") else f"{len(names)} node(s) {why}"
        for why, names in reasons.items()
    ]
    others = fleet_size - sum(len(names) for names in reasons.values())
    if others:
        words.append(f"{others} node(s) didn't match Pod's node affinity/selector")
    first = next(iter(reasons.values()))[0]
    return RunFailure(
        code="INFRA_UNSCHEDULABLE",
        message=f"0/{fleet_size} nodes are available: {', '.join(words)}.",
        entity=Entity(node=first),
    )


def _node_faults(run: SimulatedRun) -> list[_NodeFault]:
    return [fault for fault in run.faults if isinstance(fault, _NodeFault)]


def _played(run: SimulatedRun) -> JobResult:
    """Play the tool's script until it ends or something stops it."""
    job = run.job
    tool = TOOL_STEPS[run.entry.tool]
    script = _stopped(run, tool.play(run))
    data = script.until(script.now)
    for fault in of_kind(run.faults, TruncateOutput):
        data = data[: int(len(data) * fault.keep)]
    if of_kind(run.faults, NoOutput):
        data = b""
    output = log_name(job, script.file)
    logs = {output: data}
    alone = run.machines[0].name if len(run.machines) == 1 else None
    files = [LogFile(name=output, node=alone, bytes=len(data))]
    for node, text in _kernel_logs(run, script.now).items():
        file = log_name(job, f"kernel-{node}.log")
        logs[file] = text.encode()
        files.append(LogFile(name=file, role="kernel", node=node, bytes=len(logs[file])))
    record = job.record(
        script.outcome,
        ended=job.start + timedelta(seconds=script.now),
        exit_code=script.exit_code,
        logs=tuple(files),
        events=tuple(_events(run, script.now)),
        failures=script.failures,
        placements={f"{job.group.id}-worker-{i}": m.name for i, m in enumerate(run.machines)},
        versions={"driver": DRIVER, "image": str(job.workload.image.value), **tool.versions},
    )
    return JobResult(record, logs)


def _stopped(run: SimulatedRun, script: Script) -> Script:
    """Stop the script at its timeout, or before: at a stall, or at what takes a node out."""
    rules = StallRules.of(run.job.workload, run.entry.tool)
    lines = ((at, line.encode()) for at, line in zip(script.times, script.lines, strict=True))
    stall = rules.first_stall(lines, min(script.now, run.timeout)) if rules else None
    end = stall[0] if stall else min(script.now, run.timeout)
    stops = [
        fault.at
        for fault in _node_faults(run)
        if fault.at is not None and fault.at <= end and _ends_run(fault)
    ]
    if stops:
        at = min(stops)
        failures = tuple(hardware_failure(event) for event in _events(run, at))
        return script.stopped(at, RunOutcome.HARDWARE, failures)
    if stall:
        return script.stopped(end, RunOutcome.STALLED, (stall[1],))
    if script.now > run.timeout:
        message = f"the run was stopped at its timeout of {format_duration(run.timeout)}"
        failure = timeout_failure(run.entry.tool, run.job.group, message)
        return script.stopped(run.timeout, RunOutcome.TIMED_OUT, (failure,))
    return script


def _ends_run(fault: _NodeFault) -> bool:
    return not isinstance(fault, XidFault) or fault.takes_out


def _events(run: SimulatedRun, end: float) -> list[NodeEvent]:
    """Return the health events up to a moment of the run, earliest first."""
    events = [
        NodeEvent(
            node=machine.name,
            at=run.job.start + timedelta(seconds=fault.at),
            code=code,
            source=source,
            text=text,
        )
        for fault in _node_faults(run)
        if fault.at is not None and fault.at <= end and _ends_run(fault)
        for machine in run.machines
        if machine.name in fault.node
        for code, source, text in (_words(run, machine, fault),)
    ]
    return sorted(events, key=lambda event: event.at)


def _words(run: SimulatedRun, machine: Machine, fault: _NodeFault) -> tuple[str, str, str]:
    """Return code, source and text of an event."""
    if isinstance(fault, Cordon):
        return fault.code, "node spec", fault.message
    if isinstance(fault, NotReady):
        return "NODE_NOT_READY", "node condition", fault.message
    number = 79 if isinstance(fault, LostGpu) else fault.number
    line = kernel_lines(machine, fault, run.job.start)[0]
    return f"XID_{number}", "kernel log", line.partition("] ")[2]


def _kernel_logs(run: SimulatedRun, end: float) -> dict[str, str]:
    lines: dict[str, list[str]] = {}
    faults = [f for f in _node_faults(run) if isinstance(f, LostGpu | XidFault)]
    for fault in sorted(faults, key=lambda f: f.at or 0.0):
        if fault.at is None or fault.at > end:
            continue
        for machine in run.machines:
            if machine.name in fault.node:
                found = kernel_lines(machine, fault, run.job.start)
                lines.setdefault(machine.name, []).extend(found)
    return {name: "\n".join(found) + "\n" for name, found in lines.items()}
