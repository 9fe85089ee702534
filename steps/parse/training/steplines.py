"""Reads one training step from a log line; fields are found by name, in any order.

Formats:
- Megatron-LM old and new, Megatron-DeepSpeed, nanotron: ``iteration 43/ 100 | name: value | …``
- NeMo 2: ``Training epoch 0, iteration 35/49 | name: value | …``, counted from 0
- Megatron-Bridge: ``Step Time : 9.12s GPU utilization: 744.1MODEL_TFLOP/s/GPU``, on a line before
  (``TFLOP/s/GPU`` in its first releases)
- NeMo 1 and Lightning progress bars: ``Epoch 0:  1%|▏| 795/77225 [9:07:58<…, 41.36s/it, loss=3.1]``
- later ones without a rate: ``Epoch 0: 98%|▉| 49/50 [31:45<00:37, …, train_step_timing in s=5.91]``
- those of an unknown length: ``Epoch 2: : 815it [3:01, 4.49it/s, loss=2.1]``
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_HEAD = re.compile(
    r"(?P<epoch>\bTraining epoch \d+, )?\biteration:?\s{1,20}(?P<step>\d{1,12})\s{0,20}/"
    r"\s{0,20}(?P<total>\d{1,12})\s{0,20}\|",
    re.I,
)
_STEP_TIME = re.compile(
    r"Step Time\s*:\s*(?P<seconds>[\d.]+|nan|inf)\s*s\b.{0,40}?GPU utilization\s*:\s*"
    r"(?P<tflops>-?[\d.]+(?:e[-+]?\d+)?|nan|inf)\s*(?:MODEL_)?TFLOP",
    re.I,
)
_BAR = re.compile(
    r"(?P<label>[A-Za-z][\w .()/-]{0,40}:)?[ :]{0,12}(?:(?:\d{1,3}%)?\|[^|\[\]]{0,200}\|\s{0,20}"
    r"(?P<step>\d{1,12})/(?P<total>\d{1,12}|\?)|(?P<count>\d{1,12})it)\s{0,20}"
    r"\[(?P<inside>[^\]\[]{0,2000})(?P<end>\])?"
)
BAR_WORDS = r"s/it|it/s|s/step|step/s|step_timing|loss="
"""What a line must hold to be a progress bar worth reading, for speed."""
WANTS = (_HEAD, _STEP_TIME, re.compile(BAR_WORDS))
_RATE = re.compile(r"(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>s/it|it/s|s/step|step/s)\b")
_PAIR = re.compile(r"(?:^|,)\s*(?P<name>[A-Za-z][\w /().-]{0,60}?)=(?P<value>[^,]*)")
_TRAINING_LABEL = re.compile(
    r"(?:^|\s)(?:epoch:? [\d/]+|train(?:ing)?|steps?|iter(?:ation)?s?)$", re.I
)
_NUMBER = re.compile(
    r"\s*(?P<number>[-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)(?:inity)?\b)"
    r"(?P<suffix>[KMGT](?![A-Za-z_/]))?",
    re.I,
)
_SHORTEST, _LONGEST = 1e-6, 1e7
"""Seconds that a step can take; anything else is no step time."""
MAX_COUNT = 1e15
"""No count or rate of a training run is larger."""
_FACTORS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_LOSSES = ("lm loss", "reduced train loss", "train loss", "training loss", "loss")
_TIME = re.compile(
    r"^(?:elapsed time per iteration|train step timing|step time|iteration time|time per iteration)"
    r"(?: in)?\s*\(?(?P<unit>ms|s)?\)?$"
)
_TOKENS = re.compile(r"\btokens?[ /](?:per[ /])?(?:gpu[ /])?(?:per[ /])?s(?:ec(?:ond)?)?\b|\btgs\b")


@dataclass(slots=True, kw_only=True)
class StepLine:
    """What one line says about a step; None where it says nothing.

    Attributes:
        step: as printed.
        total: as printed: the number of steps, or of the last one where they count from 0.
        from_zero: steps are counted from 0.
        bar: a progress bar, whose rate is smoothed and which may leave steps out.
        labelled: the bar names itself a training bar.
        smoothed: the step time is the rate of a progress bar, which is a moving average.
        tflops: TFLOP/s per GPU as printed, also when impossible.
        names: fields that the line has.
        cut_name: the field that was not believed because the line may be cut in it.
    """

    step: int
    total: int | None = None
    from_zero: bool = False
    bar: bool = False
    labelled: bool = True
    smoothed: bool = False
    step_time_s: float | None = None
    tflops: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    samples_per_s: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    loss_scale: float | None = None
    skipped: int | None = None
    nan_count: int | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    consumed_samples: float | None = None
    consumed_tokens: float | None = None
    names: frozenset[str] = field(default_factory=frozenset)
    cut_name: str | None = None

    @property
    def is_nan(self) -> bool:
        """Whether loss or gradient are not finite.

        Megatron leaves the loss out when it is NaN and its NaN counter can stay 0. With dynamic
        loss scaling an infinite gradient in a skipped step is part of the search for a scale.
        """
        if (self.nan_count or 0) > 0:
            return True
        if self.loss is not None and not math.isfinite(self.loss):
            return True
        if self.grad_norm is None or math.isfinite(self.grad_norm):
            return False
        searching = (self.skipped or 0) > 0 and (self.loss_scale or 0.0) > 1.0
        return not (searching and self.loss is not None and math.isinf(self.grad_norm))


def read_number(text: str) -> float | None:
    """Read the number that a value begins with: ``1.63e+6``, ``nan``, ``54.2K``, ``7.1MODEL…``."""
    match = _NUMBER.match(text)
    if not match:
        return None
    value = float(match["number"].replace(",", ""))
    return value * _FACTORS[match["suffix"].upper()] if match["suffix"] else value


def read_step_line(text: str, *, ended: bool) -> StepLine | None:
    """Read a line of pipe-separated fields; the last field of a cut line is not believed."""
    head = _HEAD.search(text)
    if not head:
        return None
    segments = text[head.end() :].split("|")
    cut_name = None
    if not ended and segments[-1].strip():
        cut_name = _normal(segments.pop().rpartition(":")[0])
    fields: dict[str, str] = {}
    for segment in segments:
        name, _, value = segment.rpartition(":")
        if name:
            fields.setdefault(_normal(name), value)
    line = StepLine(
        step=int(head["step"]),
        total=int(head["total"]),
        from_zero=head["epoch"] is not None,
        names=frozenset(fields),
        cut_name=cut_name,
    )
    _fill(line, fields)
    return line


def read_bars(text: str, *, ended: bool) -> Iterator[StepLine]:
    """Read every progress bar of a line; bars of validation, loading and downloads are left out."""
    for match in _BAR.finditer(text):
        label = (match["label"] or "").strip(" :")
        if label and not _TRAINING_LABEL.search(label):
            continue
        inside = match["inside"]
        line = StepLine(
            step=int(match["step"] or match["count"]),
            total=int(match["total"]) if match["total"] not in {None, "?"} else None,
            bar=True,
        )
        if not ended and not match["end"]:
            inside, _, cut = inside.rpartition(",")
            line.cut_name = _normal(cut.partition("=")[0])
        fields = {_normal(m["name"]): m["value"] for m in _PAIR.finditer(inside)}
        line.labelled = bool(label) or any(name in fields for name in _LOSSES)
        _fill(line, fields)
        rate = _RATE.search(inside)
        if line.step_time_s is None and rate and float(rate["value"]) > 0:
            value = float(rate["value"])
            # s/it and it/s both occur: slow steps print the former.
            seconds = value if rate["unit"].startswith("s/") else 1 / value
            line.step_time_s = seconds if _SHORTEST < seconds < _LONGEST else None
            line.smoothed = True
        yield line


def read_step_time(text: str) -> tuple[float | None, float | None] | None:
    """Read Megatron-Bridge's line: seconds per step and TFLOP/s per GPU."""
    match = _STEP_TIME.search(text)
    return (read_number(match["seconds"]), read_number(match["tflops"])) if match else None


def _normal(name: str) -> str:
    return " ".join(name.replace("_", " ").lower().split())


def _fill(line: StepLine, fields: Mapping[str, str]) -> None:
    numbers = {name: read_number(value) for name, value in fields.items()}
    for name, number in numbers.items():
        if number is None:
            continue
        if (time := _TIME.match(name)) and line.step_time_s is None:
            line.step_time_s = _seconds(number, time["unit"], fields[name])
        elif "tflop" in name:
            line.tflops = number if line.tflops is None else line.tflops
        elif _TOKENS.search(name):
            if "gpu" in name or "tgs" in name:
                line.tokens_per_s_per_gpu = number
            else:
                line.tokens_per_s = number
        elif "samples per sec" in name or "samples/s" in name:
            line.samples_per_s = number
    line.loss = next((v for n in _LOSSES if (v := numbers.get(n)) is not None), None)
    line.grad_norm = numbers.get("grad norm", numbers.get("gradient norm"))
    line.loss_scale = numbers.get("loss scale")
    line.skipped = _count(numbers.get("number of skipped iterations"))
    line.nan_count = _count(numbers.get("number of nan iterations"))
    line.batch_size = _count(numbers.get("global batch size"))
    line.sequence_length = _count(numbers.get("actual seqlen", numbers.get("seq length")))
    line.consumed_samples = numbers.get("consumed samples")
    line.consumed_tokens = numbers.get("consumed tokens")


def _seconds(number: float, unit: str | None, value: str) -> float | None:
    """Convert to seconds; Megatron's field carries (ms), NeMo's ``in s``."""
    if unit is None:
        unit = "ms" if re.search(r"\d ?ms\b", value) else "s"
    seconds = number / 1000 if unit == "ms" else number
    return seconds if _SHORTEST < seconds < _LONGEST else None


def _count(number: float | None) -> int | None:
    return int(number) if number is not None and abs(number) < MAX_COUNT else None
