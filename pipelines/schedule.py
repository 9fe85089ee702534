"""When a CronWorkflow runs: what Argo would refuse is refused before it is written."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from catalog.errors import InputError, Place

_NAMED = re.compile(
    r"@(yearly|annually|monthly|weekly|daily|midnight|hourly|every ([0-9]+(\.[0-9]+)?[hms])+)"
)
_DIALECT = re.compile(r"[L#]|(?<![/0-9])7", re.IGNORECASE)
"""What cronsim reads in a day of the week and Argo does not: Sunday is 0 there, and no 7."""


def check_schedule(schedule: str, timezone: str) -> None:
    """Refuse a schedule that Argo cannot read, or that never comes.

    Args:
        schedule: five cron fields, or a name such as ``@daily``.
        timezone: IANA name.

    Raises:
        InputError: it is none, or there is no such time zone.
    """
    _check_fields(schedule)
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(f"{timezone!r} is no time zone", Place("--timezone")) from error


def _check_fields(schedule: str) -> None:
    place, fields = Place("--schedule"), schedule.split()
    hint = "minute 0-59, hour 0-23, day of month 1-31, month 1-12, day of week 0-6"
    if _NAMED.fullmatch(schedule):
        return
    if len(fields) != 5:
        raise InputError(f"{schedule!r} has no five fields", place, hint)
    try:
        CronSim(schedule, datetime.now(UTC))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        raise InputError(f"{schedule!r} has a wrong {field}", place, hint) from error
    if "L" in fields[2].upper():
        raise InputError(f"{schedule!r} has a wrong day-of-month", place, hint)
    if _DIALECT.search(fields[4]):
        raise InputError(f"{schedule!r} has a wrong day-of-week", place, hint)
