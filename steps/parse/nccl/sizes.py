"""Message sizes and their names, as nccl-tests users write them: 8, 64K, 1M, 16G."""

from __future__ import annotations

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

ROUNDING = 0.001
"""nccl-tests rounds a size down so that it divides by the ranks; always by less than this part."""

_UNITS = ((1 << 40, "T"), (GIB, "G"), (MIB, "M"), (KIB, "K"))


def size_name(size_bytes: int) -> str:
    """Return the size as a user would ask for it: 17179869184 and, rounded, 17179868160 are 16G."""
    asked = 1 << max(size_bytes - 1, 0).bit_length()
    exact = size_bytes
    if size_bytes > MIB and asked - size_bytes <= asked * ROUNDING:
        exact = asked
    for unit, letter in _UNITS:
        if exact >= unit and exact % unit == 0:
            return f"{exact // unit}{letter}"
    return str(size_bytes)


def reaches(size_bytes: int, asked_bytes: int) -> bool:
    """Whether a row of this size answers what was asked for, rounding allowed."""
    return size_bytes >= asked_bytes * (1 - ROUNDING)
