"""Which runs are tried again, how often and when; the same for every kind of fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from catalog.facts.reasons import reason
from steps.documents import RunFailure, RunOutcome, RunRecord
from steps.jobs.job import Job, JobResult

MAX_ATTEMPTS = 3
"""A run that fails for an infrastructure reason that can heal is tried this often in all."""

MAX_MOVES = 5
"""So often Argo starts a run step again: on another node, or after one that was lost."""

FIRST_BACKOFF = timedelta(seconds=30)
"""Wait before the second attempt; it doubles with every further one."""


def run_with_retries(
    job: Job,
    run: Callable[[Job], JobResult],
    wait: Callable[[JobResult, timedelta], datetime | RunFailure | None],
    first: timedelta = FIRST_BACKOFF,
) -> JobResult:
    """Run a job, and again while a failure of our own that can heal ends it.

    Args:
        job: the first attempt.
        run: runs one.
        wait: waits before the next, after the result of the last, and returns when that starts.
            Where there is no time for it, it returns why, which is told behind the first cause; or
            None, and nothing is told.
        first: wait before the second attempt.
    """
    for number in range(1, MAX_ATTEMPTS + 1):
        result = run(job)
        if number == MAX_ATTEMPTS or not worth_retrying(result.record):
            return result
        start = wait(result, wait_before_next(number, first))
        if isinstance(start, RunFailure):
            failures = (*result.record.failures, start)
            return JobResult(result.record.model_copy(update={"failures": failures}), result.logs)
        if start is None:
            return result
        job = replace(job, attempt=job.attempt + 1, start=start)
    raise AssertionError("the last attempt returns")


def wait_before_next(attempt: int, first: timedelta = FIRST_BACKOFF) -> timedelta:
    """Return how long to wait after attempt number ``attempt`` (1-based)."""
    return first * int(2 ** (attempt - 1))


def worth_retrying(record: RunRecord) -> bool:
    """Say whether the first cause is of a kind that can heal; what was measured is kept."""
    if record.outcome is RunOutcome.COMPLETED or not record.failures:
        return False
    first = record.failures[0]
    return reason(first.code).heals and not first.permanent
