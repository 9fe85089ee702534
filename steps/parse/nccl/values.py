"""Reads numbers and words from JSON and CSV values, however they are wrapped."""

from __future__ import annotations


def as_int(value: object) -> int | None:
    """Return an int from a number or a padded string; None if it is none."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(str(value).strip())
    except ValueError:
        return int(value) if isinstance(value, float) and value.is_integer() else None


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
