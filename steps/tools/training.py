"""Training runs: what their steps prove, and how they go on."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from steps.documents import Completeness, Figure, Measurements, TrainingStep
from steps.parse.lines import clean_line
from steps.parse.training.steplines import BAR_WORDS, read_bars, read_step_line
from steps.simulator.clock import Script
from steps.simulator.machine import SimulatedRun
from steps.simulator.training import VERSIONS, training_script
from steps.tools.tool import FindRows, Pace, ToolSteps, amount, fixed, has_finding, whole_number

_STEP_WORDS = re.compile(rb"iteration|" + BAR_WORDS.encode(), re.IGNORECASE)
_OF_STEPS = {
    "avgTFLOPsPerGPU": ("mean of", "tflops_per_gpu"),
    "avgStepTimeSec": ("mean of", "step_time_s"),
    "medianStepTimeSec": ("median of", "step_time_s"),
    "stepTimeSpread": ("over", "step_time_s"),
}
_TOLD = {"warmupStepTimeSec", "tokensPerSec"}
"""Figures that the parser explains by itself."""


class _Steps(Pace):
    noun = "training step"

    def steps(self, raw: bytes) -> Iterator[tuple[str, bool]]:
        if not _STEP_WORDS.search(raw):
            return
        for line in clean_line(raw, 0):
            read = read_step_line(line.text, ended=True)
            bars = [] if read else read_bars(line.text, ended=True)
            for step in (read, *bars):
                if step is not None and step.labelled:
                    self.done = step.total is not None and step.step >= step.total
                    of = f" of {step.total}" if step.total else ""
                    yield f"{step.step}{of}", step.bar

    def usual_wait(self, waits: Sequence[float], longest: float) -> float:
        """Steps are all alike."""
        return statistics.median(waits) if waits else 0.0


class _Training(ToolSteps[TrainingStep]):
    name = "training"
    row_type = TrainingStep
    versions = VERSIONS
    pace = _Steps
    columns = ("step", "step time s", "TFLOP/s per GPU", "tokens/s", "loss", "grad norm", "")
    numeric = True

    def counted(self, read: Measurements) -> list[TrainingStep]:
        """Leave out warm-up."""
        return [step for step in self.rows(read) if not step.warmup]

    def row_name(self, row: TrainingStep) -> str:
        return f"step {row.step}"

    def row_parts(self, row: TrainingStep) -> Iterable[str | None]:
        return (
            amount(row.step_time_s, "s"),
            amount(row.tflops_per_gpu, "TFLOP/s/GPU"),
            None if row.loss is None else f"loss {row.loss:g}",
            "NaN" if row.nan else None,
        )

    def cells(self, row: TrainingStep) -> tuple[str, ...]:
        marks = [name for name, on in (("warm-up", row.warmup), ("NaN", row.nan)) if on]
        return (
            str(row.step) if row.total_steps is None else f"{row.step}/{row.total_steps}",
            fixed(row.step_time_s, 3),
            fixed(row.tflops_per_gpu, 1),
            fixed(row.tokens_per_s, 0),
            fixed(row.loss, 4),
            fixed(row.grad_norm, 3),
            " ".join(marks),
        )

    def rows_lost(self, read: Measurements) -> str | None:
        rows, counted = self.rows(read), self.counted(read)
        told = whole_number(read.figures.get("stepCount"))
        widths = [after.step - before.step for before, after in pairwise(rows)]
        interval = min((width for width in widths if width > 0), default=1)
        # A line stands for the steps since the one before it; each redraw of a bar, for one step.
        if told not in {len(counted) * interval, len(counted)}:
            says = "an unknown number of" if told is None else told
            return f"{len(counted) * interval} of {says} steps are here"
        return None

    def rightly_absent(self, figure: str, read: Measurements) -> bool:
        shown: dict[str, Callable[[], bool]] = {
            "stepTimeSpread": lambda: (
                sum(step.step_time_s is not None for step in self.counted(read)) < 2
            ),
            "avgTFLOPsPerGPU": lambda: (
                has_finding(read, "THROUGHPUT_FIELD_INVALID")
                or not any(step.tflops_per_gpu is not None for step in self.rows(read))
            ),
        }
        return figure in shown and shown[figure]() and self.figures_lost(read) is None

    def find_rows(self, read: Measurements) -> FindRows:
        steps, counted = self.rows(read), self.counted(read)
        return lambda name, _sizes: _behind(name, steps, counted)

    def computed_from(self, name: str, figure: Figure, read: Measurements) -> str | None:
        if name in _OF_STEPS:
            how, field = _OF_STEPS[name]
            lines = sum(getattr(step, field) is not None for step in self.counted(read))
            return f"{how} {lines} lines after warm-up" if lines > 1 else None
        return figure.says if name in _TOLD else None

    def unfinished(self, read: Measurements) -> str | None:
        last = read.rows[-1] if read.rows else None
        if (
            read.completeness is not Completeness.COMPLETE
            or not isinstance(last, TrainingStep)
            or last.total_steps is None
            or "end" in read.facts
        ):
            return None
        return f"the log stops at step {last.step} of {last.total_steps}"

    def play(self, run: SimulatedRun) -> Script:
        return training_script(run)


def _behind(  # noqa: PLR0911  (one for each kind)
    name: str, steps: Sequence[TrainingStep], counted: Sequence[TrainingStep]
) -> Sequence[TrainingStep]:
    timed = sorted(
        (step for step in counted if step.step_time_s is not None),
        key=lambda step: step.step_time_s or 0.0,
    )
    match name:
        case "nanStepCount":
            return [step for step in steps if step.nan] or counted[-1:]
        case "stepTimeSpread":
            return [timed[-1], timed[0]] if len(timed) > 1 else timed
        case "avgTFLOPsPerGPU":
            rated = [step for step in counted if step.tflops_per_gpu is not None]
            return sorted(rated, key=lambda step: step.tflops_per_gpu or 0.0)[:1]
        case "warmupStepTimeSec" | "warmupStepCount":
            return [step for step in steps if step.warmup][:1]
        case "firstLoss":
            return [step for step in steps if step.loss is not None][:1]
        case "lastLoss":
            return [step for step in steps if step.loss is not None][-1:]
        case "medianStepTimeSec":
            return [timed[len(timed) // 2]] if timed else ()
        case "avgStepTimeSec" | "maxStepTimeSec":
            return timed[-1:]
        case _:
            return counted[-1:]


TOOL = _Training()
