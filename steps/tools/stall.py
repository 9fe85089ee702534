"""Telling a run that stands still from one that is slow; pure.

Two rules, as NVCRE has them. Startup: no first or second row or training step within a time. Step:
no further one for several times the usual wait, and never before a least time, since a row of 16G
over a slow link takes long without standing still. Times are seconds on any clock of the caller's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from catalog.reading.quantity import format_duration
from catalog.workload.workload import Workload
from steps.documents import RunFailure
from steps.parse.secrets import redact
from steps.tools import TOOL_STEPS

_WAITS = 50
"""Waits between steps that the usual one is taken from: the last ones."""
_LONGEST_QUOTE = 200


class Progress:
    """How far a tool has come, by its output.

    Args:
        tool: whose output it is.
        start: when it started.

    Attributes:
        at: when it last made progress, or started.
        last: what its last row or step was, in its own numbers; None before the first.
        paced: there were two, so that the wait between them is known.
        redrawn: that was a progress bar, which is redrawn within one line and so arrives late.
        quote: its last line of any kind.
    """

    def __init__(self, tool: str, start: float) -> None:
        pace = TOOL_STEPS[tool].pace
        self._pace = pace() if pace else None
        self.at = start
        self.last: str | None = None
        self.paced = False
        self.redrawn = False
        self._quote = b""
        self._waits: deque[float] = deque(maxlen=_WAITS)
        self._longest = 0.0

    @property
    def noun(self) -> str:
        """What progress is."""
        return self._pace.noun if self._pace else "output"

    @property
    def quote(self) -> str:
        """Return the last line, without secrets."""
        text = self._quote[: 4 * _LONGEST_QUOTE].decode("utf-8", "replace")
        return redact(" ".join(text.split()))[:_LONGEST_QUOTE]

    @property
    def told(self) -> str:
        """Return the last row or step and what it measured, in one line; empty before the first."""
        if self.last is None or self._pace is None:
            return ""
        figure = f": {self._pace.figure}" if self._pace.figure else ""
        return f"{self.noun} {self.last}{figure}"

    @property
    def usual_wait(self) -> float:
        """Return how many seconds the next row or step may take where all goes on as before."""
        return self._pace.usual_wait(self._waits, self._longest) if self._pace else 0.0

    def take(self, raw: bytes, at: float) -> None:
        """Take a line of the output."""
        if raw.strip():
            self._quote = raw
        if self._pace is None:
            return
        for step, redrawn in self._pace.steps(raw):
            if step == self.last and not self._pace.repeats:
                continue
            if self.last is not None:
                self.paced = True
                self._waits.append(at - self.at)
                self._longest = max(self._longest, at - self.at)
            self.last, self.redrawn, self.at = step, redrawn, at
        if self._pace.done:
            # Behind the last step come evaluation and checks, which print what they like.
            self.at = at


@dataclass(frozen=True, slots=True, kw_only=True)
class StallRules:
    """How long a run may stand still.

    Attributes:
        tool: what runs.
        startup_seconds: until the first row or step; 0 is for ever.
        least_seconds: until a further one, at least; 0 is for ever.
        multiplier: the same in usual waits.
    """

    tool: str
    startup_seconds: float = 0.0
    least_seconds: float = 0.0
    multiplier: float = 1.0

    @classmethod
    def of(cls, workload: Workload, tool: str) -> StallRules | None:
        """Return the rules of a workload; None where there are none."""
        if TOOL_STEPS[tool].pace is None:
            return None

        def number(name: str, default: float) -> float:
            setting = workload.options.get(name)
            return default if setting is None or setting.value is None else float(setting.value)

        rules = cls(
            tool=tool,
            startup_seconds=number("startupStallTimeoutSeconds", 0.0),
            least_seconds=number("stallTimeoutSeconds", 0.0),
            multiplier=number("stallMultiplier", 1.0),
        )
        return rules if rules.startup_seconds or rules.least_seconds else None

    def allowed(self, progress: Progress) -> float | None:
        """Return how many seconds after its last progress a run counts as stalled; None: never."""
        if progress.last is None:
            return self.startup_seconds or None
        if not self.least_seconds or progress.redrawn:
            return None
        if not progress.paced:
            # Of 16G over a slow link, or of ten steps a line, the second can take long as well.
            return max(self.least_seconds, self.startup_seconds)
        return max(self.least_seconds, self.multiplier * progress.usual_wait)

    def failure(self, progress: Progress, now: float) -> RunFailure | None:
        """Return the failure of a run that has stood still for too long."""
        allowed = self.allowed(progress)
        quiet = now - progress.at
        return None if allowed is None or quiet < allowed else self._told(progress, quiet)

    def first_stall(
        self, lines: Iterable[tuple[float, bytes]], end: float
    ) -> tuple[float, RunFailure] | None:
        """Return when a run whose whole output is known counts as stalled, and its failure.

        Args:
            lines: lines with their times in seconds since the start, in order.
            end: when the run ends by itself; infinite for one that hangs.
        """
        progress = Progress(self.tool, 0.0)
        for at, raw in (*lines, (end, b"")):
            allowed = self.allowed(progress)
            if allowed is not None and at - progress.at > allowed:
                return progress.at + allowed, self._told(progress, allowed)
            progress.take(raw, at)
        return None

    def _told(self, progress: Progress, quiet: float) -> RunFailure:
        noun, ago = progress.noun, format_duration(quiet)
        if progress.last is None:
            said = f"its last line is: {progress.quote}" if progress.quote else "it printed nothing"
            text = f"no {noun} within {ago} of the start"
        else:
            said = f"{format_duration(self.allowed(progress) or 0.0)} are allowed"
            text = f"no {noun} since {progress.last}, {ago} ago"
        return RunFailure(code="WorkloadStalled", message=f"{text}; {said}")
