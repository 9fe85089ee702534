"""Which runs are tried again, how often and when; the same for every kind of fleet."""

from __future__ import annotations

from datetime import timedelta

from catalog.facts.reasons import reason
from steps.documents import RunOutcome, RunRecord

MAX_ATTEMPTS = 3
"""A run that fails for an infrastructure reason that can heal is tried this often in all."""

MAX_MOVES = 5
"""So often Argo starts a run step again: on another node, or after one that was lost."""

FIRST_BACKOFF = timedelta(seconds=30)
"""Wait before the second attempt; it doubles with every further one."""


def wait_before_next(attempt: int, first: timedelta = FIRST_BACKOFF) -> timedelta:
    """Return how long to wait after attempt number ``attempt`` (1-based)."""
    return first * int(2 ** (attempt - 1))


def worth_retrying(record: RunRecord) -> bool:
    """Say whether the first cause is of a kind that can heal; what was measured is kept."""
    if record.outcome is RunOutcome.COMPLETED or not record.failures:
        return False
    first = record.failures[0]
    return reason(first.code).heals and not first.permanent
