"""Clocks that run out: one that can pause, and that of the whole certification."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from catalog.reading.quantity import format_duration
from steps.documents import RunFailure


class Patience:
    """A time limit whose clock can pause.

    Args:
        seconds: the limit.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left = seconds
        self._then = time.monotonic()

    def pass_time(self, *, counts: bool = True) -> None:
        """Take the time since the last call off, if it counts."""
        now = time.monotonic()
        if counts:
            self._left -= now - self._then
        self._then = now

    @property
    def passed(self) -> float:
        """Return how many seconds have counted."""
        return self.seconds - self._left

    @property
    def over(self) -> bool:
        """True when nothing is left."""
        return self._left <= 0


class Deadline:
    """When a certification must be over, whatever still waits, runs or could be tried again.

    Args:
        started: when the certification began; None where nothing bounds it.
        seconds: how long it may take.
    """

    def __init__(self, started: datetime | None = None, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._end: float | None = None
        if started is not None:
            left = started + timedelta(seconds=seconds) - datetime.now(UTC)
            # Only the beginning is read off a clock that somebody can set.
            self._end = time.monotonic() + left.total_seconds()

    @property
    def left(self) -> float:
        """Return how many seconds are left; infinite without a deadline."""
        return float("inf") if self._end is None else self._end - time.monotonic()

    @property
    def over(self) -> bool:
        """True when it has passed."""
        return self.left <= 0

    def failure(self, when: str) -> RunFailure:
        """Return the failure of what it ended.

        Args:
            when: what was going on, to go behind "passed".
        """
        limit = format_duration(self._seconds)
        text = f"the deadline of the certification, {limit} after its start, passed {when}"
        return RunFailure(code="INFRA_DEADLINE", message=text)
