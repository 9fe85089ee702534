"""Whether a kernel line is of the run, or surely older or younger: logs reach back for weeks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from steps.parse.api import ParseContext

Era = Literal["before", "after"]

MARGIN = timedelta(minutes=5)
"""Clocks of machines differ, and a driver may report late."""
ANY_ZONE = timedelta(hours=14)
"""A local time without its zone is off by so much at most (UTC+14)."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)(?:\.\d+)?"
# syslog, dmesg -T, and the fabric manager's order: "Feb 17 10:00:00", "Tue Feb 17 10:00:00 2026",
# "Feb 17 2026 10:00:00"
_NAMED = re.compile(
    r"(?:[A-Z][a-z]{2} )?(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) "
    rf"(?:(?P<early>\d{{4}}) )?{_CLOCK}(?: (?P<year>\d{{4}}))?"
)


class Window:
    """The time of a run, with a margin on both sides.

    Args:
        started, ended: when the run was; without a zone they are taken as UTC.
    """

    def __init__(self, started: datetime, ended: datetime) -> None:
        self._start = _aware(started) - MARGIN
        self._end = _aware(ended) + MARGIN
        self._known: tuple[str, Era | None] = ("", None)

    @classmethod
    def of(cls, context: ParseContext) -> Window | None:
        """Return the window of a run; None when nobody noted its times."""
        if context.started is None or context.ended is None:
            return None
        return cls(context.started, context.ended)

    def era(self, time: str) -> Era | None:
        """Say on which side of the run a printed time is; None when inside or not readable.

        Seconds since boot say nothing without the time of the boot.
        """
        if self._known[0] != time:
            self._known = (time, self._read(time))
        return self._known[1]

    def _read(self, time: str) -> Era | None:
        apart = [self._apart(each) for each in self._candidates(time)]
        if not apart:
            return None
        # Without its year a time could be of any; the year next to the run is the likeliest.
        nearest = min(apart, key=abs)
        if not nearest:
            return None
        return "before" if nearest < timedelta() else "after"

    def _apart(self, time: datetime) -> timedelta:
        """Return how long before (negative) or after the window a time surely is."""
        slack = ANY_ZONE if time.tzinfo is None else timedelta()
        time = _aware(time)
        if time < self._start - slack:
            return time - (self._start - slack)
        return max(time - (self._end + slack), timedelta())

    def _candidates(self, time: str) -> Iterator[datetime]:
        named = _NAMED.fullmatch(time)
        if named is None:
            yield from _iso(time)
        elif named["month"] in _MONTHS:
            month = _MONTHS.index(named["month"]) + 1
            written = named["year"] or named["early"]
            years = range(self._start.year - 1, self._end.year + 2)
            for year in (int(written),) if written else years:
                yield from _iso(f"{year:04d}-{month:02d}-{int(named['day']):02d}T{named['clock']}")


def _iso(text: str) -> Iterator[datetime]:
    try:
        time = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return
    # Times that no machine has; arithmetic with a zone may leave the calendar there.
    if 1970 <= time.year < 9999:
        yield time


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
