"""Locks between processes, held for a `with` block and freed by the end of a process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from tests.cluster.shell import LabError


@contextmanager
def exclusive(path: Path, *, wait: float, problem: str) -> Iterator[None]:
    """Hold a lock file.

    Args:
        path: the file; it stays afterwards.
        wait: seconds to wait for another process.
        problem: what to say when that was in vain.

    Raises:
        LabError: another process holds it all the time.
    """
    with path.open("w") as lock:
        deadline = time.monotonic() + wait
        while True:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LabError(problem) from None
                time.sleep(0.5)
        yield
