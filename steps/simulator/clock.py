"""The virtual clock: what a run prints, and when, so that it can be stopped at any moment."""

from __future__ import annotations

import bisect
import hashlib
import random
from dataclasses import dataclass, field, replace

from steps.documents import RunFailure, RunOutcome


def stream(*names: object) -> random.Random:
    """Return a random stream that depends on nothing but its names."""
    text = "\x1f".join(str(name) for name in names)
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return random.Random(seed)  # noqa: S311 - reproducible noise, no secret


@dataclass(slots=True)
class Script:
    """What a tool prints and how it ends.

    Attributes:
        file: name of the output.
        now: seconds since the start, where the next line belongs.
        times, lines: the lines so far with their times, in order; lines end with a newline.
        outcome, exit_code, failures: how it ends when nothing stops it.
    """

    file: str
    now: float = 0.0
    times: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    outcome: RunOutcome = RunOutcome.COMPLETED
    exit_code: int | None = 0
    failures: tuple[RunFailure, ...] = ()

    def say(self, *lines: str, after: float = 0.0) -> None:
        """Print lines ``after`` seconds from now."""
        self.now += after
        self.times += [self.now] * len(lines)
        self.lines += [line + "\n" for line in lines]

    def fail(self, exit_code: int, message: str) -> None:
        """End with an error."""
        self.outcome = RunOutcome.FAILED
        self.exit_code = exit_code
        self.failures = (RunFailure(code="WorkloadFailed", message=message),)

    def until(self, seconds: float) -> bytes:
        """Return what is printed up to a moment."""
        return "".join(self.lines[: bisect.bisect_right(self.times, seconds)]).encode()

    def stopped(
        self, seconds: float, outcome: RunOutcome, failures: tuple[RunFailure, ...]
    ) -> Script:
        """Return the script of the same run when something else stops it at a moment.

        The exit code is unknown then: the processes are killed with their pods.
        """
        keep = bisect.bisect_right(self.times, seconds)
        return replace(
            self,
            now=seconds,
            times=self.times[:keep],
            lines=self.lines[:keep],
            outcome=outcome,
            exit_code=None,
            failures=failures,
        )
