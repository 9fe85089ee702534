"""Takes the prefixes of syslog, journal and dmesg off a line and keeps host and time."""

from __future__ import annotations

import re
from typing import NamedTuple

from steps.parse.api import Line

_LEVEL = re.compile(r"<\d{1,3}>")
"""Severity and facility as a number, as dmesg -r and syslog print them."""
_SYSLOG = re.compile(
    r"^(?:(?P<time>[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?) )?"
    r"(?:(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,252}) )?"
    r"(?P<program>kernel|[\w./@-]{1,64}\[\d+\]): ?"
)
_DMESG = re.compile(
    r"^(?:kern +:[a-z ]+: )?"
    r"\[(?P<time> *\d+\.\d+|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d \d{4}|"
    r"[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d|"  # nv-fabricmanager
    r"\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?)\] ?"
)


# A host name in front of a driver line, also one that elsewhere could be something else (gpu-17).
_DRIVER_HOST = re.compile(
    r"^(?P<host>(?!kernel:)[A-Za-z][A-Za-z0-9.-]{0,252}): (?=(?:\[[^\]]*\] ?)?NVRM:)"
)


class Origin(NamedTuple):
    """Where a line comes from; lines of one origin speak of one machine."""

    host: str | None
    rank: int | None


class Bare(NamedTuple):
    """A line without its prefixes.

    Attributes:
        time: as printed: a date, or seconds since boot.
    """

    text: str
    origin: Origin
    time: str | None


def bare(line: Line) -> Bare:
    """Strip ``Aug 17 06:18:01 node-a kernel:`` and ``[1843.308145]``, in any combination."""
    text, host, time = line.text.lstrip(), line.host, line.time
    if level := _LEVEL.match(text):
        text = text[level.end() :]
    if host is None and (match := _DRIVER_HOST.match(text)):
        host = match["host"]
        text = text[match.end() :]
    if logged := _SYSLOG.match(text):
        host = logged["host"] or host
        time = logged["time"] or time
        text = text[logged.end() :]
    if match := _DMESG.match(text):
        # What stands right before dmesg's own time is when somebody printed the log.
        time = time if logged and time else match["time"].strip()
        text = text[match.end() :]
    return Bare(text.strip(), Origin(host, line.rank), time)
