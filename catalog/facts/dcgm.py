"""What DCGM's error ids, test names and return codes mean; the data is dcgm_errors.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache

from pydantic import Field

from catalog.reading.model import Model
from catalog.reading.source import shipped


class Reading(StrEnum):
    """What a failed test with this error says about the node.

    HARDWARE, NVLINK, THERMAL and XID speak of hardware (the last three not always), the others of
    settings, other processes or the diagnostic itself.
    """

    HARDWARE = "hardware"
    NVLINK = "nvlink"
    THERMAL = "thermal"
    XID = "xid"
    IMEX = "imex"
    CONFIGURATION = "configuration"
    BUSY = "busy"
    SOFTWARE = "software"
    ABORTED = "aborted"
    TIMEOUT = "timeout"


class Before(Model):
    """The severity that versions before ``version`` give an error."""

    version: str
    severity: str


class DcgmError(Model):
    """One DCGM_FR_* error.

    Attributes:
        name: without the prefix DCGM_FR_.
        severity, category: names, as in DCGM 4.6.
        given: reading where severity and category do not tell.
        detail: reason code that names the cause.
        wording: regular expression that finds the error in versions that print no ids.
    """

    id: int
    name: str
    severity: str
    category: str
    given: Reading | None = Field(default=None, alias="reading")
    detail: str | None = None
    wording: str | None = None
    before: Before | None = None

    @property
    def reading(self) -> Reading:
        """What the error says about the node when a test fails with it."""
        if self.given:
            return self.given
        if self.severity == "CONFIG":
            return Reading.CONFIGURATION
        if self.category.startswith(("HARDWARE_", "PERF_")):
            return Reading.HARDWARE
        return Reading.XID if self.category == "SOFTWARE_XID" else Reading.SOFTWARE

    def severity_in(self, version: str | None) -> str:
        """Return the severity that a DCGM version gives the error."""
        if self.before and version and _parts(version) < _parts(self.before.version):
            return self.before.severity
        return self.severity


class DcgmTest(Model):
    """One test of ``dcgmi diag``.

    Attributes:
        name: as in DCGM 4, lower case with underscores.
        level: the lowest run level that includes it.
        core: the test belongs to its level on every GPU.
        reading: what a Fail says when the tool gives neither id nor text.
    """

    name: str
    aliases: tuple[str, ...] = ()
    level: int
    core: bool = False
    reading: Reading | None = None


class ReturnCode(Model):
    """One DCGM_ST_* status, with which ``dcgmi`` ends."""

    code: int
    name: str
    says: str
    reading: Reading = Reading.SOFTWARE

    @property
    def exit_byte(self) -> int:
        """The exit code of the process."""
        return self.code % 256


class _Table(Model):
    severities: dict[int, str]
    categories: dict[int, str]
    errors: tuple[DcgmError, ...]
    tests: tuple[DcgmTest, ...]
    return_codes: tuple[ReturnCode, ...]


@cache
def _table() -> _Table:
    return _Table.model_validate(shipped("facts/dcgm_errors.yaml").data)


@cache
def errors() -> Mapping[int, DcgmError]:
    """Return every error by id."""
    return {error.id: error for error in _table().errors}


@cache
def errors_by_name() -> Mapping[str, DcgmError]:
    """Return every error by name, without DCGM_FR_."""
    return {error.name: error for error in _table().errors}


@cache
def _wordings() -> tuple[tuple[re.Pattern[str], DcgmError], ...]:
    return tuple(
        (re.compile(error.wording, re.IGNORECASE), error)
        for error in _table().errors
        if error.wording
    )


def recognise(text: str) -> DcgmError | None:
    """Return the error that a message speaks of, for versions that print no ids."""
    found = [(match.start(), error) for p, error in _wordings() if (match := p.search(text))]
    return min(found, key=lambda item: item[0])[1] if found else None


@cache
def tests() -> Mapping[str, DcgmTest]:
    """Return every test by name and by alias."""
    return {name: test for test in _table().tests for name in (test.name, *test.aliases)}


def severity_name(number: int | None) -> str | None:
    """Return the name of a printed severity, None for an unknown number."""
    return None if number is None else _table().severities.get(number)


def category_name(number: int | None) -> str | None:
    """Return the name of a printed category, None for an unknown number."""
    return None if number is None else _table().categories.get(number)


@cache
def return_codes() -> tuple[ReturnCode, ...]:
    """Return every known status."""
    return _table().return_codes


def return_code(exit_code: int | None) -> ReturnCode | None:
    """Explain an exit code of ``dcgmi`` such as 205; None when it is no DCGM status."""
    if not exit_code:
        return None
    return next((c for c in return_codes() if exit_code in {c.code, c.exit_byte}), None)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
