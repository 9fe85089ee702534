"""What every fleet is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from catalog.workload.workload import Workload
from steps.documents import Group, RunOutcome, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of one group.

    Attributes:
        category: category id, ``domain/name``.
        cohort: cohort id of the plan.
        workload: the resolved workload.
        group: the nodes, in rank order.
        attempt: 1-based; above 1 after an infrastructure failure.
        start: when it starts, on the fleet's clock.
    """

    category: str
    cohort: str
    workload: Workload
    group: Group
    attempt: int = 1
    start: datetime

    def record(self, outcome: RunOutcome, *, ended: datetime, **more: Any) -> RunRecord:
        """Return the record of this job.

        Args:
            outcome: how it ended.
            ended: when.
            more: what else the record holds; its start is the job's unless given.
        """
        return RunRecord(
            category=self.category,
            cohort=self.cohort,
            group=self.group,
            attempt=self.attempt,
            ended=ended,
            outcome=outcome,
            **({"started": self.start} | more),
        )


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of a job.

    Attributes:
        record: the record; its ``logs`` name exactly the keys of ``logs``.
        logs: raw output by name.
    """

    record: RunRecord
    logs: dict[str, bytes] = field(default_factory=dict)


def log_name(job: Job, name: str) -> str:
    """Return the name of an output, which no other group of the category has."""
    return f"{job.group.id}-{name}"


class Fleet(Protocol):
    """A source of nodes and runs that is no cluster.

    Attributes:
        source: what kind it is.
        note: one line for the head of a report.
        start: when its clock starts.
    """

    source: Literal["recorded", "simulated"]
    note: str
    start: datetime

    def nodes(self) -> list[dict[str, Any]]:
        """Return the Node objects, as the Kubernetes API gives them."""

    def pods(self) -> list[dict[str, Any]]:
        """Return the Pod objects that hold GPUs before anything runs."""

    def run(self, job: Job) -> JobResult:
        """Run a job, which always gives a record, also when there is nothing to run."""

    def unused(self) -> list[str]:
        """Return what the fleet holds but no job asked for, one line each."""
