"""Being told to stop: Argo and Kubernetes send SIGTERM, a person sends SIGINT."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether the step was told to stop, and by which signal."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason = ""

    def __bool__(self) -> bool:
        return self._event.is_set()

    def set(self, reason: str) -> None:
        """Note the wish to stop; only the first reason counts."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait, unless told to stop before.

        Returns:
            True when told to stop.
        """
        return self._event.wait(seconds)


@contextmanager
def stopping() -> Iterator[Stop]:
    """Turn the signals into a `Stop`, so that what was created is removed and a record written.

    A second signal changes nothing: the step is on its way out, and leaving faster would leave
    pods on the GPUs.
    """
    stop = Stop()

    def handle(number: int, _: FrameType | None) -> None:
        stop.set(f"{signal.Signals(number).name} at {time.strftime('%H:%M:%SZ', time.gmtime())}")

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
