"""Placeholders ``${name}`` in profiles and entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z][A-Za-z0-9]*)\}")

GROUP_NAMES = frozenset({"nodesPerJob", "totalGpus"})
"""Names that depend on the size of the group; `catalog.workload.resolve.for_group` fills them in,
because one workload serves groups of several sizes."""


def placeholders(value: Any) -> Iterator[str]:
    """Yield the placeholder names in text, lists and mappings."""
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from placeholders(key)
            yield from placeholders(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from placeholders(item)


def fill(value: Any, names: Mapping[str, Any]) -> Any:
    """Replace placeholders; names that are not given stay as they are.

    Text that is one placeholder alone takes the value's own type, so that a count stays a number.
    """
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole:
            return names.get(whole[1], value)
        return _PLACEHOLDER.sub(lambda m: str(names.get(m[1], m[0])), value)
    if isinstance(value, Mapping):
        return {fill(key, names): fill(item, names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, names) for item in value]
    return value
