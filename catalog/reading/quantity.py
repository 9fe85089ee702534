"""Durations, message sizes and Kubernetes quantities, read and written as their tools do."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""Seconds."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|us|µs|ns|s)")
_SIZE = re.compile(r"(\d+)([KMGT]?)")
_BINARY = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_QUANTITY = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** i for i, unit in enumerate(["k", "M", "G", "T", "P", "E"], 1)},
    **{unit: Decimal(1024) ** i for i, unit in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], 1)},
}


def parse_duration(text: str) -> timedelta:
    """Read a Go duration such as ``1h30m`` or ``42m18s``.

    Raises:
        ValueError: the text is no positive Go duration.
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(f"must be a duration such as 90s, 15m or 1h30m, not {text!r}")
    seconds = sum(float(n) * _UNITS[u] for n, u in parts)
    if not 0 < seconds <= 366 * 86400:
        raise ValueError(f"must be a duration above zero and up to a year, not {text!r}")
    return timedelta(seconds=seconds)


def format_duration(seconds: float) -> str:
    """Write seconds as people read them: ``42m18s``, ``1h0m5s``, ``8.2s``."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 10 and round(seconds, 1) != int(seconds):
        return f"{seconds:.1f}s"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{secs}s"
    return f"{minutes}m{secs}s" if minutes else f"{secs}s"


def parse_size(text: str) -> int:
    """Read a message size as nccl-tests does: ``8``, ``512K``, ``16G``; units are powers of 1024.

    Raises:
        ValueError: the text is no such size.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match or int(match[1]) == 0:
        raise ValueError(f"must be a message size such as 8, 512K or 16G, not {text!r}")
    factor: int = 1024 ** _BINARY[match[2]]
    return int(match[1]) * factor


def format_size(size: int) -> str:
    """Write bytes as nccl-tests takes them: ``16G``; not rounded, so 1000 stays ``1000``."""
    for unit in ("T", "G", "M", "K"):
        step: int = 1024 ** _BINARY[unit]
        if size and size % step == 0:
            return f"{size // step}{unit}"
    return str(size)


def parse_quantity(text: str | int | float) -> Decimal:
    """Read a Kubernetes quantity such as ``8``, ``500Gi`` or ``250m``.

    Raises:
        ValueError: the text is no quantity.
    """
    match = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)", str(text).strip())
    if match and match[2] in _QUANTITY:
        try:
            return Decimal(match[1]) * _QUANTITY[match[2]]
        except InvalidOperation:
            pass
    raise ValueError(f"must be a Kubernetes quantity such as 8, 500Gi or 250m, not {text!r}")
