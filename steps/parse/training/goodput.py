"""Goodput as NVCRE defines it: the productive part of the wall time of training.

    ratio = (wall - lost work - resume - reschedule - save pauses) / (wall - reschedule)

- wall: from the start of the application (its banner, else the start of the first step) to the
  last time stamp
- lost work: steps after the last checkpoint that an interruption throws away
- reschedule: from the last time stamp before an interruption to the new start of the application
- resume: from there to the first step, when a checkpoint is restored
- save pauses: time between two steps that is no step, where a checkpoint is saved, or the time
  that the log itself gives for the save

Times come from stamps inside the lines, as Megatron prints them; without stamps on the steps, or
without any line about start, save or restore, there is no goodput.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)")
_START = re.compile(
    r"using world size: ?\d+|All distributed processes registered|"
    r"initializ(?:ed|ing) torch distributed",
    re.I,
)
_SAVED = re.compile(
    r"successfully saved checkpoint|scheduled an async checkpoint save|saved checkpoint|"
    r"Global Checkpoint Save",
    re.I,
)
_SAVE = re.compile(r"\bsaving checkpoint\b", re.I)
_SAVE_SECONDS = re.compile(
    r"Save duration: (?P<s>\d{1,7}(?:\.\d+)?) ?s|"
    r"save-checkpoint[ .]*: \([\d.]+, (?P<ms>\d{1,10}(?:\.\d+)?)\)"
)
_RESTORE = re.compile(r"\bloading checkpoint from|Restoring states from the checkpoint", re.I)
_AT = re.compile(r"\b(?:at|from) iteration\s+(?P<step>\d{1,12})", re.I)
WANTS = (_START, _SAVED, _SAVE, _SAVE_SECONDS, _RESTORE)
MAX_EVENTS = 50_000
"""Steps and checkpoint lines kept; a longer log gets no goodput."""


@dataclass(slots=True)
class _Run:
    """One start of the application up to the next interruption."""

    started: float | None = None
    restored: bool = False
    steps: list[tuple[int, float, float]] = field(default_factory=list)
    """Step number, time stamp in seconds, seconds per step."""
    saves: dict[int, float | None] = field(default_factory=dict)
    """Index of the next step, and the pause in seconds where the log gives it."""
    saved_step: int | None = None
    last: float | None = None


class GoodputReader:
    """Collects the lines that goodput is computed from."""

    def __init__(self) -> None:
        self._runs = [_Run()]
        self._events = 0
        self._lifecycle = False

    @property
    def run(self) -> int:
        """Number of restarts so far."""
        return len(self._runs) - 1

    def feed(self, text: str) -> bool:
        """Take a line that is no step; False when it is about neither start nor checkpoint."""
        run = self._runs[-1]
        restore = bool(_RESTORE.search(text))
        if restore or _START.search(text):
            if run.steps:
                run = _Run()
                self._runs.append(run)
            run.restored |= restore
            if run.started is None:
                run.started = _stamp(text)
        elif seconds := _SAVE_SECONDS.search(text):
            run.saves[len(run.steps)] = (
                float(seconds["s"]) if seconds["s"] else float(seconds["ms"]) / 1000
            )
        elif _SAVED.search(text) or _SAVE.search(text):
            run.saves.setdefault(len(run.steps))
            at = _AT.search(text)
            run.saved_step = int(at["step"]) if at else (run.steps[-1][0] if run.steps else None)
        else:
            return False
        self._lifecycle = True
        self._events += 1
        self._touch(text)
        return True

    def step(self, text: str, number: int, seconds: float | None) -> None:
        """Take a step line; seconds per step."""
        stamp = _stamp(text)
        if stamp is None or seconds is None or self._events >= MAX_EVENTS:
            return
        self._events += 1
        self._runs[-1].steps.append((number, stamp, seconds))
        self._runs[-1].last = stamp

    def _touch(self, text: str) -> None:
        stamp = _stamp(text)
        if stamp is not None:
            self._runs[-1].last = stamp

    def ratio(self, interval: int) -> float | None:
        """Return the goodput, 0 to 1, or None.

        Args:
            interval: steps from one step line to the next.
        """
        runs = [run for run in self._runs if run.steps]
        if not self._lifecycle or self._events >= MAX_EVENTS or sum(len(r.steps) for r in runs) < 2:
            return None
        begin = _begin(runs[0], interval)
        end = max(run.last for run in runs if run.last is not None)
        lost = resume = reschedule = pauses = 0.0
        for index, run in enumerate(runs):
            first_start = run.steps[0][1] - run.steps[0][2] * interval
            if index:
                before = runs[index - 1]
                restart = run.started if run.started is not None else before.last or first_start
                reschedule += max(0.0, restart - (before.last or restart))
                resume += max(0.0, first_start - restart)
                lost += _lost(before, interval)
            elif run.restored and run.started is not None:
                resume += max(0.0, first_start - run.started)
            pauses += _pauses(run, interval)
        wall = end - begin
        denominator = wall - reschedule
        if denominator <= 0:
            return None
        productive = wall - lost - resume - reschedule - pauses
        return min(1.0, max(0.0, productive / denominator))


def _begin(run: _Run, interval: int) -> float:
    return run.started if run.started is not None else run.steps[0][1] - run.steps[0][2] * interval


def _lost(run: _Run, interval: int) -> float:
    """Seconds of the steps after the last checkpoint; all of them without one."""
    saved = run.saved_step if run.saved_step is not None else -1
    return sum(seconds * interval for step, _, seconds in run.steps if step > saved)


def _pauses(run: _Run, interval: int) -> float:
    total = 0.0
    for index, given in run.saves.items():
        if given is not None:
            total += given
        elif 0 < index < len(run.steps):
            _, stamp, seconds = run.steps[index]
            total += max(0.0, stamp - run.steps[index - 1][1] - seconds * interval)
        elif index and run.last is not None:
            total += max(0.0, run.last - run.steps[-1][1])
    return total


def _stamp(text: str) -> float | None:
    match = _STAMP.search(text)
    if not match:
        return None
    try:
        moment = datetime.fromisoformat(match[1].replace(",", "."))
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC).timestamp()
