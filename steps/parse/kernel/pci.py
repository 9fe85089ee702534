"""PCI addresses as drivers print them: with 4 or 8 digits of domain, with or without function."""

from __future__ import annotations

import re

ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
"""Pattern of an address with its domain."""

_PARTS = re.compile(r"(?:PCI:)?([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{1,2}):([0-9A-Fa-f]{1,2})(?:\.\d)?")


def device_key(printed: str) -> str:
    """Return what all spellings of one device share: ``0000:c1:00`` for ``00000000:C1:00.0``.

    The function is left out: audio and USB functions of a GPU go away together with it.
    """
    match = _PARTS.match(printed.strip())
    if not match:
        return printed.strip().lower()
    domain, bus, device = (int(part, 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"
