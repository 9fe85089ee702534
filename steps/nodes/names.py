"""Node names in the shorthand of cluster tools: ``gpu-node-[05-12]``, ``rack-[1-2]-n[1,3-4]``."""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Any

from pydantic import BeforeValidator

MAX_NODES = 20_000
"""Bound on the names that one pattern may stand for."""

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def expand(pattern: str) -> tuple[str, ...]:
    """Return the names that a pattern stands for, in order.

    A number keeps the zeros in front of it: ``[08-10]`` is 08, 09, 10.

    Raises:
        ValueError: the pattern is malformed, stands for too many names, or for one that
            Kubernetes refuses.
    """
    parts = list(_PART.finditer(pattern))
    if "".join(part[0] for part in parts) != pattern or not parts:
        raise ValueError(f"must be a node name or a range such as gpu-[01-08], not {pattern!r}")
    choices = [_numbers(part[1], pattern) if part[2] is None else [part[2]] for part in parts]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MAX_NODES:
        raise ValueError(f"{pattern!r} stands for {total} nodes, more than {MAX_NODES}")
    names = tuple("".join(words) for words in itertools.product(*choices))
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no valid node name (lower case, digits, '-' and '.')")
    twice = _first_twice(names)
    if twice is not None:
        raise ValueError(f"{pattern!r} names {twice} twice")
    return names


def _numbers(text: str, pattern: str) -> list[str]:
    found: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if not match:
            raise ValueError(f"range [{text}] in {pattern!r} must be numbers such as 05-12 or 1,4")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"range [{text}] in {pattern!r} runs backwards")
        if int(last) - int(first) >= MAX_NODES:
            raise ValueError(f"range [{text}] in {pattern!r} is longer than {MAX_NODES}")
        if len(first) != len(last) and first.startswith("0"):
            raise ValueError(f"range [{text}] in {pattern!r} must have ends of the same width")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def _first_twice(names: tuple[str, ...]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _expand_all(value: Any) -> Any:
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, (list, tuple)) or not patterns:
        raise ValueError("must be a node name, a range such as gpu-[01-08], or a list of these")
    names: list[str] = []
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ValueError(f"must be a node name or a range, not {pattern!r}")
        names += expand(pattern)
    twice = _first_twice(tuple(names))
    if twice is not None:
        raise ValueError(f"names {twice} twice")
    return tuple(names)


NodeNames = Annotated[
    tuple[str, ...], BeforeValidator(_expand_all, json_schema_input_type=str | tuple[str, ...])
]
"""A name, a range, or a list of both, as the names it stands for."""
