"""Reads numbers and words from JSON and CSV values, however they are wrapped."""

from __future__ import annotations

MAX_INT = 2**63 - 1


def as_int(value: object) -> int | None:
    """Return an int of up to 64 bits from a number or a padded string; None if it is none."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = int(str(value).strip())
    except ValueError:
        if not isinstance(value, float) or not value.is_integer():
            return None
        number = int(value)
    return number if -MAX_INT <= number <= MAX_INT else None


def as_float(value: object) -> float | None:
    """Return a float, perhaps NaN, from a number or a string such as "nan"; None for "N/A"."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(str(value).strip())
    except ValueError:
        return None


def as_text(value: object) -> str | None:
    """Return a word without blanks around it; None if there is none."""
    return value.strip() or None if isinstance(value, str) else None
