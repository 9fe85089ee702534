"""The local runner: a certification in one process, in the order of the DAG.

detect → for each category (run → parse for each group) → evaluate → isolate → aggregate.
Time is the fleet's: a simulated or recorded run takes as long as its record says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from steps.aggregate.html import render_html
from steps.aggregate.junit import render_junit
from steps.detect.core import make_plan
from steps.run.fleet import Fleet, Job, JobResult

from catalog.certification import Certification
from catalog.entry import find_entry
from catalog.reasons import reason
from catalog.source import Source
from steps.aggregate.core import make_report
from steps.documents import (
    Group,
    Plan,
    PlannedCategory,
    PlannedPart,
    Report,
    RunFailure,
    RunOutcome,
    RunRecord,
    Verdict,
)
from steps.evaluate.step import Run, evaluate, hardware_of, next_isolation
from steps.parse.measure import measure
from steps.store import DirectoryStore, slug

MAX_ATTEMPTS = 3
"""A run that fails for an infrastructure reason that can heal is tried this often in all."""

FIRST_BACKOFF = timedelta(seconds=30)
"""Wait before the second attempt; it doubles with every further one."""


class Progress(Protocol):
    """What the runner tells while it works."""

    def category(self, planned: PlannedCategory, groups: int) -> None:
        """A category starts."""

    def group_done(self, category: str, group: Group, record: RunRecord) -> None:
        """A group has run and was read."""

    def verdict(self, verdict: Verdict) -> None:
        """A category was judged."""


class Silent:
    """Tells nothing."""

    def category(self, planned: PlannedCategory, groups: int) -> None:
        """See `Progress`."""

    def group_done(self, category: str, group: Group, record: RunRecord) -> None:
        """See `Progress`."""

    def verdict(self, verdict: Verdict) -> None:
        """See `Progress`."""


@dataclass
class _Clock:
    """The fleet's time: when each node and each of the concurrent places is free again."""

    now: datetime
    deadline: datetime
    nodes: dict[str, datetime] = field(default_factory=dict)
    places: list[datetime] = field(default_factory=list)

    def start_of(self, group: Group, max_concurrent: int) -> datetime:
        """Return when the group can start; groups that share a node follow each other."""
        ready = [self.now, *(self.nodes[node] for node in group.nodes if node in self.nodes)]
        if max_concurrent and len(self.places) >= max_concurrent:
            self.places.sort()
            ready.append(self.places.pop(0))
        return max(ready)

    def ended(self, group: Group, when: datetime) -> None:
        """Note that the group's nodes and its place are free from then on."""
        self.places.append(when)
        for node in group.nodes:
            self.nodes[node] = max(when, self.nodes.get(node, when))

    def advance(self) -> None:
        """Move on to the moment when everything that was started has ended."""
        self.now = max([self.now, *self.places])
        self.places.clear()


def certify(
    certification: Certification,
    fleet: Fleet,
    store: DirectoryStore,
    *,
    text: Source | None = None,
    profiles: Iterable[Path] = (),
    progress: Progress | None = None,
) -> Report:
    """Run a certification against a fleet and keep every document in the store.

    Raises:
        InputError: the certification asks for something that cannot be.
        RecordError: the store cannot be written.
    """
    plan = make_plan(
        certification,
        fleet.nodes(),
        source=fleet.source,
        source_note=fleet.note,
        text=text,
        profiles=tuple(profiles),
        pods=fleet.pods(),
    )
    store.put(plan)
    runner = _Runner(plan, fleet, store, progress or Silent())
    verdicts = {planned.id: runner.category(planned) for planned in plan.categories}
    report = make_report(plan, verdicts, runner.records)
    store.put(report)
    store.put_text("report.html", render_html(report))
    store.put_text("report.xml", render_junit(report))
    return report


class _Runner:
    """One certification at work."""

    def __init__(self, plan: Plan, fleet: Fleet, store: DirectoryStore, progress: Progress) -> None:
        self.plan = plan
        self.fleet = fleet
        self.store = store
        self.progress = progress
        self.records: list[RunRecord] = []
        deadline = fleet.start + timedelta(seconds=plan.bounds.deadline_seconds)
        self.clock = _Clock(fleet.start, deadline)

    def category(self, planned: PlannedCategory) -> Verdict:
        """Run, read, isolate and judge one category."""
        groups = [(part, group) for part in planned.parts for group in part.groups]
        self.progress.category(planned, len(groups))
        runs = self._round(planned, groups)
        round_number = 1
        while pairs := next_isolation(self.plan, planned, runs, round_number):
            runs += self._round(planned, pairs)
            round_number += 1
        verdict = evaluate(self.plan, planned, runs)
        self.store.put(verdict, planned.id)
        self.progress.verdict(verdict)
        return verdict

    def _round(
        self, planned: PlannedCategory, groups: Iterable[tuple[PlannedPart, Group]]
    ) -> list[Run]:
        runs = [self._run(planned, part, group) for part, group in groups]
        self.clock.advance()
        return runs

    def _run(self, planned: PlannedCategory, part: PlannedPart, group: Group) -> Run:
        start = self.clock.start_of(group, planned.max_concurrent)
        result = self._attempts(planned, part, group, start)
        self.clock.ended(group, result.record.ended)
        record = self._keep(planned, result)
        self.records.append(record)
        measurements = None
        if record.logs or not record.failures:
            entry = find_entry(planned.id)
            measurements = measure(entry, part.workload, record, self.store.get_log)
            self.store.put(measurements, planned.id, group.id)
        self.progress.group_done(planned.id, group, record)
        return Run(part, group, record, measurements)

    def _keep(self, planned: PlannedCategory, result: JobResult) -> RunRecord:
        names = {log.name: f"{slug(planned.id)}/{slug(log.name)}" for log in result.record.logs}
        for name, data in result.logs.items():
            self.store.put_log(names[name], data)
        logs = (log.model_copy(update={"name": names[log.name]}) for log in result.record.logs)
        record = result.record.model_copy(update={"logs": tuple(logs)})
        self.store.put(record, planned.id, record.group.id)
        return record

    def _attempts(
        self, planned: PlannedCategory, part: PlannedPart, group: Group, start: datetime
    ) -> JobResult:
        """Try again only what an infrastructure failure that can heal has stopped."""
        result = JobResult(record=_not_started(planned, part, group, start), logs={})
        for attempt in range(1, MAX_ATTEMPTS + 1):
            if start >= self.clock.deadline:
                break
            result = self.fleet.run(
                Job(
                    category=planned.id,
                    cohort=part.cohort,
                    workload=part.workload,
                    group=group,
                    hardware=hardware_of(self.plan, part),
                    attempt=attempt,
                    start=start,
                )
            )
            failures = result.record.failures
            if not failures or not reason(failures[0].code).heals:
                break
            start = result.record.ended + FIRST_BACKOFF * 2 ** (attempt - 1)
        return result


def _not_started(
    planned: PlannedCategory, part: PlannedPart, group: Group, when: datetime
) -> RunRecord:
    failure = RunFailure(code="INFRA_DEADLINE", message="the deadline passed before it started")
    return RunRecord(
        category=planned.id,
        cohort=part.cohort,
        group=group,
        started=when,
        ended=when,
        outcome=RunOutcome.STOPPED,
        failures=(failure,),
    )
