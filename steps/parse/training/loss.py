"""The course of the loss: steps that are not finite, and jumps."""

from __future__ import annotations

import statistics
from collections import deque

from steps.documents import Finding
from steps.parse.api import Line
from steps.parse.findings import finding
from steps.parse.sightings import Seen
from steps.parse.training.steplines import StepLine

_WINDOW = 20
"""Steps before, whose median is the usual loss."""
_AT_LEAST = 5
_FACTOR = 1.5
_RISE = 0.5
"""A jump is above the usual loss by half of it, and by so much: near zero losses are noisy."""
_NAMED = 5
"""Iterations that a message names."""


class LossCourse:
    """Watches loss and gradient norm step by step.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._usual: deque[float] = deque(maxlen=_WINDOW)
        self._nan = Seen()
        self._nan_step: StepLine | None = None
        self._nan_steps: list[int] = []
        self._spike = Seen()
        self._highest: tuple[float, float, int] = (0.0, 0.0, 0)

    def add(self, step: StepLine, line: Line, *, is_new: bool) -> None:
        """Take a step; one that was seen before only counts when it turns out to be NaN."""
        if step.is_nan:
            self._nan_step = self._nan_step or step
            if len(self._nan_steps) < _NAMED and step.step not in self._nan_steps:
                self._nan_steps.append(step.step)
            self._nan.add(self._file, line)
        elif is_new and step.loss is not None:
            if len(self._usual) >= _AT_LEAST:
                usual = statistics.median(self._usual)
                if step.loss > max(_FACTOR * usual, usual + _RISE):
                    self._spike.add(self._file, line)
                    self._highest = max(self._highest, (step.loss - usual, step.loss, step.step))
            self._usual.append(step.loss)

    def findings(self, nan_steps: int, *, named: bool) -> list[Finding]:
        """Return what was wrong with the loss.

        Args:
            nan_steps: number of steps that are not finite.
            named: a check of the program itself has named the place of the NaN.
        """
        found = []
        if self._nan_step is not None:
            gone = self._nan_step.loss is None and self._nan_step.grad_norm is not None
            where = "iteration" if len(self._nan_steps) == 1 else "iterations"
            where += f" {', '.join(map(str, self._nan_steps))}"
            if nan_steps > len(self._nan_steps):
                where += f", {nan_steps} steps in all"
            what = "the loss is gone and the gradient" if gone else "loss or gradient"
            found.append(
                finding(
                    "TRAIN_NAN",
                    f"{what} is NaN or infinite at {where}",
                    proof=self._nan.evidence,
                    count=max(1, nan_steps),
                    cause="TRAIN_NAN" if named else None,
                )
            )
        if self._spike.count:
            rise, loss, step = self._highest
            found.append(
                finding(
                    "TRAIN_LOSS_SPIKE",
                    f"loss {loss:g} at iteration {step}, {loss - rise:g} before",
                    proof=self._spike.evidence,
                    count=self._spike.count,
                )
            )
        return found
