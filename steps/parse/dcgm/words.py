"""The words of DCGM: statuses, test names, GPU numbers and values in its messages."""

from __future__ import annotations

import math
import re

from catalog.facts import dcgm
from steps.parse.dcgm.results import Status

_STATUS: dict[str, Status] = {
    "pass": "pass",
    "passed": "pass",
    "fail": "fail",
    "failed": "fail",
    "warn": "warn",
    "warning": "warn",
    "skip": "skip",
    "skipped": "skip",
    "not run": "skip",
    "notrun": "skip",
    "": "skip",
}

# dcgm_structs.h: a blank value and its siblings (not found, not supported, no permission) say that
# there is no value.
_BLANKS = (range(0x7FFFFFF0, 0x80000000), range(2**47, 2**47 + 16))
_BLANK_INT64 = 0x7FFFFFFFFFFFFFF0
MOST_GPUS = 256
"""DCGM counts at most 32 GPUs on a node; a larger index is no GPU."""

_GPU = re.compile(r"(?<![A-Za-z])GPU[ _]?(\d{1,3})(?!\d)(?!:[0-9A-Fa-f]{2}[:.])", re.IGNORECASE)
_PEER = re.compile(r"peer-to-peer|\bp2p\b", re.IGNORECASE)
_XID = re.compile(r"\bS?XID[:\s(]*(\d+)", re.IGNORECASE)
_BUSY = re.compile(
    r"\bin use\b|already running|busy or unavailable|\bis paused\b|MCUTIL|"
    r"profil\w+ (module|library)|devices? (is|are) busy|resource busy",
    re.IGNORECASE,
)
_BROKEN = re.compile(
    r"uncorrect\w+ (ECC|memory)|ECC error|double.?bit|fallen off the bus|\bis lost\b|"
    r"nvlink error|hardware error",
    re.IGNORECASE,
)
_SECONDS = re.compile(r"violations?\b[^.;]*?\b(?:totall?ing|of) (\d+(?:\.\d+)?) ?s", re.IGNORECASE)


def read_status(word: object) -> Status:
    """Read a status word in any case; ``Fail - All`` is a fail."""
    if not isinstance(word, str):
        return "unknown"
    return _STATUS.get(word.partition(" - ")[0].strip().lower(), "unknown")


def snake(name: str) -> str:
    """Write a test name in lower case with underscores: ``GPU Memory`` is gpu_memory."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"


def canonical(test: str) -> str:
    """Return DCGM 4's name of a test, by which versions can be compared."""
    known = dcgm.tests().get(test)
    return known.name if known else test


def gpu_index(value: object) -> int | None:
    """Read a GPU index that may be a number or a string; None for blanks and nonsense."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,5}\s*", value):
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < MOST_GPUS else None


def gpu_list(text: str) -> tuple[int, ...]:
    """Read ``0,1, 3`` in order, without repetition."""
    found = (gpu_index(part) for part in text.split(","))
    return tuple(dict.fromkeys(index for index in found if index is not None))


def gpus_named(text: str) -> tuple[int, ...]:
    """Return the GPUs that a message speaks of, first named first.

    Of a peer-to-peer message only the first, because the others are its peers.
    """
    named = tuple(dict.fromkeys(int(m) for m in _GPU.findall(text) if int(m) < MOST_GPUS))
    return named[:1] if _PEER.search(text) else named


def xids_named(text: str) -> tuple[int, ...]:
    """Return the Xid numbers in a message."""
    return tuple(dict.fromkeys(int(number) for number in _XID.findall(text)))


def speaks_of_busy(text: str) -> bool:
    """Tell whether a message says that something else holds the GPU or the diagnostic."""
    return _BUSY.search(text) is not None


def speaks_of_broken(text: str) -> bool:
    """Tell whether a software error quotes a hardware fault as its reason."""
    return _BROKEN.search(text) is not None


def lasts_zero_seconds(text: str) -> bool:
    """Tell whether every violation in a thermal message lasted 0.0 seconds."""
    seconds = _SECONDS.findall(text)
    return bool(seconds) and all(float(value) == 0 for value in seconds)


def is_blank(value: float) -> bool:
    """Tell whether a number is one of DCGM's 'no value' numbers."""
    if not math.isfinite(value) or value >= _BLANK_INT64:
        return True
    return any(int(value) in blank for blank in _BLANKS)


def number(value: object) -> float | None:
    """Read a number that may be a string; None for N/A, NaN, blanks and anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        read = float(value)
    except (ValueError, OverflowError):
        return None
    return None if is_blank(read) else read


def measured(text: str) -> tuple[float, str] | None:
    """Return the first bandwidth, power or time with its unit in a message."""
    patterns = (
        (r"in direction \w+ of (\d+(?:\.\d+)?)", "GB/s"),
        (r"(\d+(?:\.\d+)?)\s?GB/s", "GB/s"),
        (r"Max power of (\d+(?:\.\d+)?)", "W"),
        (r"Max stress level of (\d+(?:\.\d+)?)", "GFLOP/s"),
    )
    for pattern, unit in patterns:
        match = re.search(pattern, text)
        if match and (value := number(match[1])) is not None:
            return value, unit
    return None
