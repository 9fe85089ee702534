"""The local runner: a certification in one process, in the order of the DAG.

detect → for each category (run → parse for each group) → evaluate → isolate → aggregate.
Time is the fleet's: a simulated or recorded run takes as long as its record says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from catalog.certification import Certification
from catalog.reading.source import Source
from catalog.workload.resolve import for_group
from steps.aggregate.step import aggregate_step
from steps.detect.step import plan_for
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
from steps.evaluate.step import evaluate_step
from steps.fleets.fleet import Fleet, Job, JobResult
from steps.isolate.core import MAX_ROUNDS
from steps.isolate.step import isolate_step
from steps.jobs.retry import run_with_retries
from steps.parse.step import parse_step
from steps.store.runs import keep_run
from steps.store.store import DirectoryStore


class Progress(Protocol):
    """What the runner tells while it works."""

    def category(self, planned: PlannedCategory, groups: int) -> None:
        """A category starts."""

    def isolating(self, pairs: int) -> None:
        """A round of pair runs starts."""

    def group_done(self, category: str, group: Group, record: RunRecord) -> None:
        """A group has run and was read."""

    def verdict(self, verdict: Verdict) -> None:
        """A category was judged."""


class Silent:
    """Tells nothing."""

    def category(self, planned: PlannedCategory, groups: int) -> None:
        """See `Progress`."""

    def isolating(self, pairs: int) -> None:
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
    profiles: Iterable[Source] = (),
    bars: Iterable[Source] = (),
    progress: Progress | None = None,
) -> Report:
    """Run a certification against a fleet and keep every document in the store.

    Raises:
        InputError: the certification asks for something that cannot be.
        RecordError: the store cannot be written.
    """
    plan = plan_for(certification, fleet, text=text, profiles=profiles, bars=bars)
    store.put(plan)
    runner = _Runner(plan, fleet, store, progress or Silent())
    for planned in plan.categories:
        runner.category(planned)
    report, _ = aggregate_step(store)
    return report


class _Runner:
    """One certification at work."""

    def __init__(self, plan: Plan, fleet: Fleet, store: DirectoryStore, progress: Progress) -> None:
        self.plan = plan
        self.fleet = fleet
        self.store = store
        self.progress = progress
        deadline = fleet.start + timedelta(seconds=plan.bounds.deadline_seconds)
        self.clock = _Clock(fleet.start, deadline)

    def category(self, planned: PlannedCategory) -> None:
        """Run, read, isolate and judge one category."""
        groups = [(part, group) for part in planned.parts for group in part.groups]
        self.progress.category(planned, len(groups))
        self._round(planned, groups)
        parts = {part.cohort: part for part in planned.parts}
        for number in range(1, MAX_ROUNDS + 1):
            pairs = isolate_step(self.store, planned.id, number).pairs
            if not pairs:
                break
            self.progress.isolating(len(pairs))
            self._round(planned, [(parts[pair.cohort], pair.group) for pair in pairs])
        self.progress.verdict(evaluate_step(self.store, planned.id))

    def _round(self, planned: PlannedCategory, groups: Iterable[tuple[PlannedPart, Group]]) -> None:
        for part, group in groups:
            start = self.clock.start_of(group, planned.max_concurrent)
            result = self._attempts(planned, part, group, start)
            self.clock.ended(group, result.record.ended)
            keep_run(self.store, result)
            self.progress.group_done(planned.id, group, result.record)
        self.clock.advance()
        parse_step(self.store, planned.id)

    def _attempts(
        self, planned: PlannedCategory, part: PlannedPart, group: Group, start: datetime
    ) -> JobResult:
        job = Job(
            category=planned.id,
            cohort=part.cohort,
            workload=for_group(part.workload, len(group.nodes)),
            group=group,
            start=start,
        )
        if start >= self.clock.deadline:
            message = "the deadline passed before it started"
            failure = RunFailure(code="INFRA_DEADLINE", message=message)
            return JobResult(job.record(RunOutcome.TIMED_OUT, ended=start, failures=(failure,)))

        def wait(result: JobResult, pause: timedelta) -> datetime | None:
            following = result.record.ended + pause
            return following if following < self.clock.deadline else None

        return run_with_retries(job, self.fleet.run, wait)
