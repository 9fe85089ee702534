"""Telling people how far a run has come, in lines on stdout: what changes, and not too much."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from steps.cluster.objects.reading import containers_of, is_ready, node_of
from steps.parse.secrets import redact

Object = Mapping[str, Any]

_MOST = 200
"""Lines of one run: a row every ten seconds would be 5000 in a night."""
_PAUSE = 10.0
"""Seconds between two lines; it doubles with every quarter of the lines that is used up."""
_LONGEST = 200
_PULLS = frozenset({"ErrImagePull", "ImagePullBackOff"})


class Telling:
    """Writes lines, bounded in number; what comes in between is left out."""

    def __init__(self) -> None:
        self._last = ""
        self._at = -_PAUSE
        self._count = 0

    def say(self, text: str) -> None:
        """Tell a state, unless it is the one that was told last, or too much was told of late."""
        now = time.monotonic()
        pause = _PAUSE * 2 ** (4 * self._count // _MOST)
        if not text or text == self._last or now - self._at < pause or self._count >= _MOST:
            return
        self._last, self._at, self._count = text, now, self._count + 1
        line = redact(" ".join(text.split()))[:_LONGEST]
        sys.stdout.write(f"{datetime.now(UTC):%H:%M:%SZ} {line}\n")
        sys.stdout.flush()


def gathering(pods: Iterable[Object], ready: int, count: int) -> str:
    """Return how far a gang is on its way to be whole; pure."""
    said = f"{ready} of {count} workers Ready"
    for pod in pods:
        if is_ready(pod):
            continue
        node = node_of(pod)
        if node is None:
            return f"{said}; a pod waits to be scheduled"
        for container in containers_of(pod):
            waiting = container.get("state", {}).get("waiting") or {}
            if waiting.get("reason") in _PULLS:
                return f"{said}; waiting for image on {node}: {waiting.get('message') or ''}"
        return f"{said}; starting on {node}"
    return said
