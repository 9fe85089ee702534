"""The steps of a run in order: repeats merged, warm-up marked, memory bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steps.parse.api import ParseContext
from steps.parse.training.steplines import StepLine

MAX_STEPS = 2000
"""Steps kept; of a longer log the first 100 and the latest."""
_KEPT_FIRST = 100
_TRIM = 500
"""Steps over the limit before they are dropped, so many at once."""
DEFAULT_WARMUP = 10
"""NVCRE leaves the first 10 steps of a run out of its average step time."""


@dataclass(slots=True)
class Step:
    """One step of one run.

    Attributes:
        run: number of restarts before it.
        number: line of the output.
    """

    line: StepLine
    run: int
    number: int
    warmup: bool = False


@dataclass(slots=True)
class Gap:
    """Two lines that follow each other, and how often their distance occurs.

    Attributes:
        before, after: steps of the lines.
        number: line of the output where the second is.
    """

    before: int
    after: int
    number: int
    count: int = 0


class StepLog:
    """Collects steps in the order of the output."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.nan_steps = 0
        self.skipped = 0
        self.left_out = 0
        self.last: Step | None = None
        self.last_cut = False
        self.log_interval: int | None = None
        self._gaps: dict[int, Gap] = {}
        self._known: dict[tuple[int, int], Step] = {}

    def add(self, line: StepLine, number: int, run: int) -> bool:
        """Take a step; False when it was known and what the line says is merged into it."""
        key = (run, line.step)
        known = self._known.get(key)
        if known is not None:
            was_nan = known.line.is_nan
            _merge(known.line, line)
            self._count_nan(known, was_nan=was_nan)
            self.last_cut = False
            return False
        step = Step(line, run, number)
        self._note_gap(step)
        previous = self.last.line if self.last else None
        # A half line lacks fields that the line before it had.
        missing = previous.names - line.names - {line.cut_name} if previous else set()
        self.last_cut = line.cut_name is not None and (line.bar or bool(missing))
        self.steps.append(step)
        self._known[key] = step
        self.last = step
        self.skipped += line.skipped or 0
        self._count_nan(step, was_nan=False)
        if len(self.steps) > MAX_STEPS + _TRIM:
            self._trim()
        return True

    def _note_gap(self, step: Step) -> None:
        before = self.last
        if before is None or before.run != step.run or step.line.bar:
            return
        width = step.line.step - before.line.step
        if width > 0 and len(self._gaps) < MAX_STEPS:
            gap = self._gaps.setdefault(width, Gap(before.line.step, step.line.step, step.number))
            gap.count += 1

    def gap(self) -> Gap | None:
        """Return the first place where more steps are missing than the log interval leaves out."""
        usual = self._usual_gap()
        wide = [gap for width, gap in self._gaps.items() if width > usual]
        return min(wide, key=lambda gap: gap.number, default=None)

    def _usual_gap(self) -> int:
        """Return the log interval: the smallest distance between two lines."""
        if not self._gaps:
            return 0
        smallest, *others = sorted(self._gaps)
        gap = self._gaps[smallest]
        if not others:
            # A single distance proves nothing against the printed interval.
            return (self.log_interval or smallest) if gap.count == 1 else smallest
        # Some print the first step, then every tenth: 1, 10, 20 or, counted from 0, 0, 9, 19.
        first = self.steps[0].line
        base = 0 if first.from_zero else 1
        opening = gap.count == 1 and gap.before == first.step == base
        return others[0] if opening and (gap.after + 1 - base) % others[0] == 0 else smallest

    def _count_nan(self, step: Step, *, was_nan: bool) -> None:
        if step.line.is_nan and not was_nan:
            self.nan_steps += max(1, step.line.nan_count or 0)

    def _trim(self) -> None:
        gone = self.steps[_KEPT_FIRST : _KEPT_FIRST + _TRIM]
        del self.steps[_KEPT_FIRST : _KEPT_FIRST + _TRIM]
        for step in gone:
            del self._known[step.run, step.line.step]
        self.left_out += len(gone)

    @property
    def interval(self) -> int:
        """Steps from one line to the next; a progress bar's lines stand for one step each."""
        if not self.steps or self.steps[0].line.bar:
            return 1
        gaps = [
            after.line.step - before.line.step
            for before, after in zip(self.steps, self.steps[1:], strict=False)
            if after.run == before.run and after.line.step > before.line.step
        ]
        return min(gaps, default=self.log_interval or 1)

    def mark_warmup(self, context: ParseContext) -> None:
        """Mark the steps that do not count into averages.

        Without a number from the context these are the first 10 steps of a run, at most a fifth
        of the steps seen, and at least one of three. A line that stands for several steps is
        warm-up when any of them is. An excerpt that begins later than its run has no warm-up.
        """
        interval = self.interval
        for run in {step.run for step in self.steps}:
            mine = [step for step in self.steps if step.run == run]
            base = 0 if mine[0].line.from_zero else 1
            # Only a restarted run is known to begin with the first step that is seen of it.
            start = base if run == 0 else mine[0].line.step - interval + 1
            count = context.warmup_steps
            if count is None:
                seen = len(mine) * interval
                count = 0 if len(mine) < 3 else max(1, min(DEFAULT_WARMUP, seen // 5))
            for step in mine:
                first_covered = step.line.step - (0 if base == 0 else interval - 1)
                step.warmup = first_covered < start + count

    def finished(self) -> bool:
        """Whether the last step is the last one there was to be."""
        if self.last is None or self.last.line.total is None:
            return False
        return self.last.line.step + self.interval > self.last.line.total


def _merge(known: StepLine, new: StepLine) -> None:
    for name in _MERGED:
        value = getattr(new, name)
        old = getattr(known, name)
        # A bar is redrawn with better numbers; anything else repeats what is known.
        if value is not None and (old is None or new.bar or _worse(name, value)):
            setattr(known, name, value)


def _worse(name: str, value: float) -> bool:
    return name in {"loss", "grad_norm"} and not math.isfinite(value)


_MERGED = (
    "step_time_s",
    "tflops",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "loss",
    "grad_norm",
    "skipped",
    "nan_count",
)
