"""Figures of a training run; names and meanings are those of catalog/facts/tools.yaml."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from steps.documents import Figure, TrainingStep
from steps.parse.training.steplines import MAX_COUNT, StepLine
from steps.parse.training.steplog import Step, StepLog

MAX_TFLOPS = 5000.0
"""More TFLOP/s per GPU than any GPU has (GB300 FP8 dense: about 4,900 with sparsity off)."""
MAX_SPREAD = 0.5
"""A throughput that scatters more than this, while the step time does not, is no throughput."""
_STEADY = 0.25
"""A step time that scatters less than this, as a part of its mean, counts as steady."""


@dataclass(slots=True)
class Throughput:
    """TFLOP/s per GPU after warm-up, as far as it can be believed.

    Attributes:
        values: the believable ones.
        invalid: why others are not believed; None when all are fine or none was printed.
    """

    values: list[float]
    invalid: str | None = None

    @property
    def usable(self) -> bool:
        """Whether a mean of the values says something."""
        return bool(self.values) and self.invalid is None


def possible(tflops: float | None) -> bool:
    """Whether a GPU can do so many TFLOP/s."""
    return tflops is not None and math.isfinite(tflops) and 0 < tflops <= MAX_TFLOPS


def throughput(log: StepLog) -> Throughput:
    """Read the printed TFLOP/s per GPU of the steps after warm-up."""
    steps = _counted(log)
    printed = [s.line.tflops for s in steps if s.line.tflops is not None]
    values = [value for value in printed if possible(value)]
    bad = [value for value in printed if not possible(value)]
    if bad:
        what = f"{len(bad)} of {len(printed)} steps print {bad[0]:g} TFLOP/s/GPU"
        # A stray value is left out; more of them make the rest doubtful as well.
        return Throughput(values, what) if len(bad) * 10 > len(printed) else Throughput(values)
    if len(values) > 1 and spread(values) > MAX_SPREAD:
        times = step_times(steps)
        if len(times) < 2 or spread(times) < _STEADY:
            mean, deviation = statistics.fmean(values), statistics.pstdev(values)
            what = f"TFLOP/s/GPU scatter by {deviation:.0f} around {mean:.0f} at a steady step time"
            return Throughput(values, what)
    return Throughput(values)


def spread(values: list[float]) -> float:
    """Standard deviation as a part of the mean."""
    mean = statistics.fmean(values)
    return statistics.pstdev(values) / mean if mean else 0.0


def step_times(steps: Iterable[Step]) -> list[float]:
    """Return the step times in seconds of those steps that have one."""
    return [s.line.step_time_s for s in steps if s.line.step_time_s is not None]


@dataclass(frozen=True, slots=True)
class Job:
    """What is known about the size of the job; None where unknown.

    Attributes:
        gpus: GPUs.
        tokens_per_step: as planned.
        sequence_length: tokens per sample, as the log prints it.
    """

    gpus: int | None = None
    tokens_per_step: int | None = None
    sequence_length: int | None = None


def figures(log: StepLog, job: Job) -> dict[str, Figure]:
    """Compute what the steps give; warm-up must be marked."""
    steps = _counted(log)
    warmup = [step for step in log.steps if step.warmup]
    found: dict[str, Figure] = {}
    times = step_times(steps)
    if times:
        found |= _time_figures(log, times)
    if warm := step_times(warmup):
        says = f"mean of {len(warm)} warm-up lines"
        found["warmupStepTimeSec"] = Figure(value=statistics.fmean(warm), unit="s", says=says)
    believed = throughput(log)
    if believed.usable:
        mean = statistics.fmean(believed.values)
        found["avgTFLOPsPerGPU"] = Figure(value=mean, unit="TFLOP/s")
    found |= _rates(log, steps, times, job)
    found |= _counts(log, steps, warmup)
    losses = [x for s in log.steps if (x := s.line.loss) is not None and math.isfinite(x)]
    if losses:
        found["firstLoss"] = Figure(value=losses[0], unit="1", printed=True)
        found["lastLoss"] = Figure(value=losses[-1], unit="1", printed=True)
    return found


def _time_figures(log: StepLog, times: list[float]) -> dict[str, Figure]:
    smoothed = any(step.line.smoothed for step in log.steps)
    says = "from the rate of a progress bar (s/it or it/s), which is smoothed" if smoothed else None
    found = {
        "avgStepTimeSec": Figure(value=statistics.fmean(times), unit="s", says=says),
        "medianStepTimeSec": Figure(value=statistics.median(times), unit="s", says=says),
        "maxStepTimeSec": Figure(value=max(times), unit="s", says=says),
    }
    if len(times) > 1:
        found["stepTimeSpread"] = Figure(value=spread(times), unit="ratio")
    return found


def _counts(log: StepLog, steps: list[Step], warmup: list[Step]) -> dict[str, Figure]:
    interval = log.interval
    return {
        "stepCount": Figure(value=len(steps) * interval, unit="count"),
        "warmupStepCount": Figure(value=len(warmup) * interval, unit="count"),
        "nanStepCount": Figure(value=log.nan_steps, unit="count"),
    }


def _rates(
    log: StepLog,
    steps: list[Step],
    times: list[float],
    job: Job,
) -> dict[str, Figure]:
    """Samples and tokens per second of the job and per GPU."""
    found: dict[str, Figure] = {}
    mean_time = statistics.fmean(times) if times else None
    batch = _mean(steps, lambda line: line.batch_size) or _per_step(
        log, lambda line: line.consumed_samples
    )
    printed_samples = _mean(steps, lambda line: line.samples_per_s)
    if printed_samples:
        found["samplesPerSec"] = Figure(value=printed_samples, unit="samples/s", printed=True)
    elif batch and mean_time:
        found["samplesPerSec"] = Figure(value=batch / mean_time, unit="samples/s")
    length = _mean(steps, lambda line: line.sequence_length) or job.sequence_length
    per_step, says = job.tokens_per_step, "tokens per step as planned / step time"
    if not per_step and batch and length:
        per_step, says = round(batch * length), "batch size x sequence length / step time"
    if not per_step:
        per_step = round(_per_step(log, lambda line: line.consumed_tokens) or 0)
        says = "consumed tokens / step time"
    tokens = per_step / mean_time if per_step and mean_time else None
    printed_tokens = _mean(steps, lambda line: line.tokens_per_s)
    per_gpu = _mean(steps, lambda line: line.tokens_per_s_per_gpu)
    if tokens is None and printed_tokens:
        tokens, says = printed_tokens, "as printed"
    if tokens is None and per_gpu and job.gpus:
        tokens, says = per_gpu * job.gpus, "per GPU as printed x GPUs"
    if tokens is not None:
        found["tokensPerSec"] = Figure(value=tokens, unit="tokens/s", says=says)
        per_gpu = tokens / job.gpus if job.gpus else per_gpu
    if per_gpu:
        found["tokensPerSecPerGPU"] = Figure(value=per_gpu, unit="tokens/s")
    return found


def _per_step(log: StepLog, get: Callable[[StepLine], float | None]) -> float | None:
    """Growth of a running total per step."""
    known = [(s.line.step, v) for s in log.steps if (v := get(s.line)) is not None]
    if len(known) < 2:
        return None
    (first_step, first), (last_step, last) = known[0], known[-1]
    grown = last_step > first_step and last > first and last < MAX_COUNT
    return (last - first) / (last_step - first_step) if grown else None


def _mean(steps: list[Step], get: Callable[[StepLine], float | None]) -> float | None:
    values = [v for s in steps if (v := get(s.line)) is not None and 0 < v < MAX_COUNT]
    return statistics.fmean(values) if values else None


def skipped_steps(log: StepLog) -> tuple[int, int]:
    """Return how many steps after warm-up were skipped, and how many there were.

    The search for a loss scale at the start of a run, which halves it at each skipped step, does
    not count once it has come to its end.
    """
    lines = [step.line for step in log.steps]
    search = list(itertools.takewhile(lambda line: line.skipped, lines))
    scales = [line.loss_scale for line in search if line.loss_scale is not None]
    falls = len(scales) == len(search) < len(lines) and _falls(
        [*scales, lines[len(search)].loss_scale]
    )
    begun = len(search) if falls else 0
    counted = [step for step in log.steps[begun:] if not step.warmup] or log.steps[begun:]
    skipped = sum(step.line.skipped or 0 for step in counted)
    return skipped, len(counted) * log.interval


def _falls(scales: list[float | None]) -> bool:
    known = [scale for scale in scales if scale is not None]
    pairs = list(itertools.pairwise(known))
    return bool(pairs) and all(a >= b for a, b in pairs) and known[0] > known[-1]


def _counted(log: StepLog) -> list[Step]:
    return [step for step in log.steps if not step.warmup]


def rows(log: StepLog) -> list[TrainingStep]:
    """Return the steps as result rows; what is not finite is None."""
    return [
        TrainingStep(
            step=step.line.step,
            total_steps=step.line.total,
            step_time_s=step.line.step_time_s,
            tflops_per_gpu=step.line.tflops if possible(step.line.tflops) else None,
            tokens_per_s=_finite(step.line.tokens_per_s),
            samples_per_s=_finite(step.line.samples_per_s),
            loss=_finite(step.line.loss),
            grad_norm=_finite(step.line.grad_norm),
            nan=step.line.is_nan,
            skipped=step.line.skipped,
            warmup=step.warmup,
            line=step.number,
        )
        for step in log.steps
    ]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
