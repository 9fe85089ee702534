"""Reads training logs: steps, figures, failures, and whether the run came to its end."""

from __future__ import annotations

import re

from catalog.facts.tools import output_kind
from steps.documents import Completeness, Evidence, Figure, Finding
from steps.parse.api import Line, ParseContext, Part
from steps.parse.findings import finding
from steps.parse.sightings import Seen
from steps.parse.training import failures, goodput, hang, steplines, timing_table
from steps.parse.training.failures import FailureReader
from steps.parse.training.figures import (
    Job,
    figures,
    possible,
    rows,
    skipped_steps,
    throughput,
)
from steps.parse.training.goodput import GoodputReader
from steps.parse.training.hang import HangReader
from steps.parse.training.loss import LossCourse
from steps.parse.training.steplines import (
    BAR_WORDS,
    StepLine,
    read_bars,
    read_step_line,
    read_step_time,
)
from steps.parse.training.steplog import StepLog
from steps.parse.training.timing_table import TimingTableReader

_END = re.compile(
    r"Trainer\.fit`? stopped|exiting program (?:at iteration|after)|"
    r"\btraining (?:is )?(?:done|complete|completed|finished)\b|Training finished",
    re.I,
)
_WORLD = re.compile(
    r"using world size: ?(?P<a>\d{1,6})|\bMEMBER: \d+/(?P<b>\d{1,6})|"
    r"Starting with (?P<c>\d{1,6}) processes|"
    r"\bworld[_ ]size[ .=:]+(?P<d>\d{1,6})\b",
    re.I,
)
_SEQUENCE = re.compile(
    r"\b(?:seq_length|sequence_length|max_sequence_length) ?[.:= ]+(?P<n>\d{1,9})\s*$"
)
_LOG_INTERVAL = re.compile(r"\blog_interval ?[.:= ]+(?P<n>\d{1,9})\s*$")
_BAR = re.compile(BAR_WORDS)
_HF_LOSS = re.compile(r"\{'loss': [^}]*'epoch'")
_TROUBLE = re.compile(r"atchdog|Rank|rror|xception|ut of memory|NaN|Barrier|dump signal|\[rank")
"""What a line must hold to be both a step and a failure, for speed."""
_NCCL_ERROR = re.compile(r"DistBackendError|\bNCCL error in:|ncclUnhandled|ncclInternalError")

MAX_LINE = 8192
"""Characters of a line that are read; no format has longer lines."""
ENOUGH_STEPS = 10
"""Fewer steps after warm-up are too few for an average (NVIDIA's benchmarks average 10)."""
MAX_SKIPPED = 0.1
"""More skipped steps than this part are no training run that an average stands for."""
_PENDING = 3
"""Lines between Megatron-Bridge's step time and the iteration that it belongs to."""


class TrainingScanner:
    """Scanner of training logs; see `steps.parse.api.Scanner`.

    Complete is a run whose last step is the total, that says that it ended, or that ended with
    exit code 0. It is aborted when a failure is its last word or the exit code is another; it is
    cut off when its last line is half, or when steps are missing in its middle. An excerpt of a
    run whose exit code is not known counts as read completely, with a note: nothing in it is
    wrong, and steps are measured one by one.

    Args:
        file: name of the output, for the evidence.
    """

    wants: tuple[re.Pattern[str], ...] = (
        *steplines.WANTS,
        *failures.WANTS,
        *hang.WANTS,
        *goodput.WANTS,
        *timing_table.WANTS,
        _END,
        _WORLD,
        _SEQUENCE,
        _LOG_INTERVAL,
        _HF_LOSS,
        _NCCL_ERROR,
    )

    def __init__(self, file: str) -> None:
        self._file = file
        self._log = StepLog()
        self._unlabelled = StepLog()
        self._hf_losses = 0
        self._failures = FailureReader(file)
        self._hang = HangReader(file)
        self._goodput = GoodputReader()
        self._table = TimingTableReader(file)
        self._pending: tuple[int, float | None, float | None] | None = None
        self._lone: list[tuple[int, float | None, float | None]] = []
        self._claimed = 0
        self._end_line = 0
        self._nccl_line = 0
        self._nccl_error = Seen()
        self._tools: set[str] = set()
        self._world: int | None = None
        self._sequence: int | None = None
        self._loss = LossCourse(file)

    def feed(self, line: Line) -> None:
        """Take one line; a failure may be glued to a progress bar."""
        if len(line.text) > MAX_LINE:
            line = line._replace(text=line.text[:MAX_LINE])
        text = line.text
        claimed = self._read_steps(line)
        if not claimed or _TROUBLE.search(text):
            # The watchdog's words contain "Exception", so they are looked for first.
            claimed |= self._hang.feed(line) or self._failures.feed(line)
        if not claimed:
            claimed = self._goodput.feed(text) or self._table.feed(text, line.number)
            claimed |= self._read_banner(line)
        if _NCCL_ERROR.search(text):
            self._nccl_line = line.number
            self._nccl_error.companion(self._file, line)
            claimed = True
        self._claimed += claimed

    def _read_steps(self, line: Line) -> bool:
        text = line.text
        found = False
        if "iteration" in text.lower() and (step := read_step_line(text, ended=line.ended)):
            self._tools.add(_tool(step, text))
            self._take_pending(step, line.number)
            self._add(step, line)
            found = True
        elif (timing := read_step_time(text)) is not None:
            self._tools.add("megatron-bridge")
            if self._pending:
                self._lone.append(self._pending)
                del self._lone[:-100]
            self._pending = (line.number, *timing)
            found = True
        if _BAR.search(text):
            for bar in read_bars(text, ended=line.ended):
                if bar.labelled:
                    self._tools.add("lightning")
                    self._add(bar, line)
                else:
                    self._unlabelled.add(bar, line.number, self._goodput.run)
                found = found or bar.labelled
        if "{'loss'" in text and _HF_LOSS.search(text):
            self._hf_losses += 1
            found = True
        return found

    def _take_pending(self, step: StepLine, number: int) -> None:
        if self._pending is None:
            return
        at, seconds, tflops = self._pending
        self._pending = None
        if number - at > _PENDING:
            return
        step.step_time_s = step.step_time_s if step.step_time_s is not None else seconds
        step.tflops = step.tflops if step.tflops is not None else tflops

    def _add(self, step: StepLine, line: Line) -> None:
        is_new = self._log.add(step, line.number, self._goodput.run)
        self._loss.add(step, line, is_new=is_new)
        self._goodput.step(line.text, step.step, step.step_time_s)

    def _read_banner(self, line: Line) -> bool:
        text = line.text
        if _END.search(text):
            self._end_line = line.number
            return True
        if world := _WORLD.search(text):
            self._world = int(next(filter(None, world.groups())))
            return True
        if sequence := _SEQUENCE.search(text):
            self._sequence = int(sequence["n"])
            return True
        if interval := _LOG_INTERVAL.search(text):
            self._log.log_interval = int(interval["n"]) or None
            return True
        return False

    def finish(self, context: ParseContext) -> Part:
        """Return figures, rows and findings."""
        log = self._log
        if not log.steps and self._hf_losses:
            log = self._log = self._unlabelled
        if not log.steps:
            self._take_lone_times()
        log.mark_warmup(context)
        gpus = context.gpus or self._world
        part = Part(mode=output_kind("training-log"), claimed=self._claimed)
        part.tool = next(iter(sorted(self._tools)), None)
        part.rows = list(rows(log))
        if log.steps:
            part.figures = figures(log, Job(gpus, context.tokens_per_step, self._sequence))
            ratio = self._goodput.ratio(log.interval)
            if ratio is not None:
                part.figures["goodputRatio"] = Figure(value=ratio, unit="ratio")
        part.findings = self._all_findings(context)
        self._take_table(part)
        part.completeness = self._completeness(part, context)
        part.findings += self._ending(part, context)
        self._take_facts(part)
        return part

    def _ending(self, part: Part, context: ParseContext) -> list[Finding]:
        """Say what the completeness rests on, where no failure says it."""
        last = self._log.last
        where = f"the log stops at step {last.line.step}" if last else "the log has no steps"
        where += f" of {last.line.total}" if last and last.line.total else ""
        if part.completeness is Completeness.CUT_OFF:
            if gap := self._log.gap():
                where = f"steps are missing between {gap.before} and {gap.after}"
            return [finding("LOG_TRUNCATED" if last else "NO_RESULT_ROWS", where)]
        if part.completeness is Completeness.ABORTED:
            if any(each.effect.blocks for each in part.findings):
                return []
            if context.exit_code:
                return [finding("EXIT_CODE_NONZERO", f"{where}, exit code {context.exit_code}")]
            says = f"{where} and an error"
            return [finding("TRAIN_CRASHED", says, proof=self._nccl_error.evidence)]
        if part.completeness and not self._done() and context.exit_code is None:
            return [finding("EXIT_CODE_UNKNOWN", f"{where}; the exit code is not known")]
        return []

    def _done(self) -> bool:
        """Whether the log itself shows that the run came to its end."""
        last_step = self._log.last.number if self._log.last else 0
        told = bool(self._end_line) and self._end_line >= last_step
        return told or self._log.finished() or bool(self._table.rows and not self._log.steps)

    def _take_lone_times(self) -> None:
        """Number step times that no iteration line follows."""
        lone = [*self._lone, *([self._pending] if self._pending else [])]
        for index, (number, seconds, tflops) in enumerate(lone, start=1):
            usable = seconds if seconds and seconds > 0 else None
            line = StepLine(step=index, step_time_s=usable, tflops=tflops)
            self._log.add(line, number, 0)

    def _take_facts(self, part: Part) -> None:
        if self._world is not None:
            part.facts["worldSize"] = str(self._world)
        if self._sequence is not None:
            part.facts["sequenceLength"] = str(self._sequence)
        if self._done():
            part.facts["end"] = "shown"
        if self._log.left_out:
            part.facts["stepsLeftOut"] = str(self._log.left_out)

    def _all_findings(self, context: ParseContext) -> list[Finding]:
        world = _world(context, self._world)
        last_step = max((step.number for step in self._log.steps[-1:]), default=0)
        failures = self._failures.findings(context, last_step, world)
        # A rank that died before the watchdog rang is why the others waited.
        died = [f for f in failures if _first(f) < self._hang.first and not f.witness]
        died = [f for f in died if f.code != "TRAIN_NAN"]
        hang = self._hang.findings(context, world, died[0] if died else None)
        named = any(f.code == "TRAIN_NAN" for f in failures)
        losses = self._loss.findings(self._log.nan_steps, named=named)
        found = [*failures, *hang, *losses, *self._step_findings()]
        primary = min(failures + hang, key=_first, default=None)
        return [
            _following(each, primary) if each.code == "TRAIN_CRASHED" else each for each in found
        ]

    def _step_findings(self) -> list[Finding]:
        log, found = self._log, []
        if not log.steps:
            return []
        believed = throughput(log)
        if believed.invalid:
            bad = [step for step in log.steps if not possible(step.line.tflops)]
            line = (bad or log.steps)[0].number
            proof = [Evidence(file=self._file, line=line, text=believed.invalid)]
            says = f"{believed.invalid}; treated as unknown"
            found.append(finding("THROUGHPUT_FIELD_INVALID", says, proof=proof))
        count = len([step for step in log.steps if not step.warmup]) * log.interval
        if count < ENOUGH_STEPS:
            says = f"{count} steps after warm-up, fewer than {ENOUGH_STEPS}"
            found.append(finding("TRAIN_TOO_FEW_STEPS", says))
        if log.skipped:
            found.append(self._skipped())
        return found

    def _skipped(self) -> Finding:
        """A few steps may be skipped, and those that search a loss scale; more are no training."""
        skipped, steps = skipped_steps(self._log)
        says = f"{self._log.skipped} iterations were skipped"
        if skipped <= MAX_SKIPPED * steps:
            return finding("TRAIN_STEPS_SKIPPED", says, count=self._log.skipped)
        says += f", {skipped} of {steps} after warm-up: the optimizer did not step in them"
        return finding("TRAIN_STEPS_SKIPPED", says, variant="many", count=self._log.skipped)

    def _take_table(self, part: Part) -> None:
        """Take figures from a table of means, when the output holds no steps of its own."""
        part.findings += self._table.failures()
        slowest = self._table.slowest()
        if part.rows or slowest is None:
            return
        part.tool = part.tool or "parse_train_timing"
        part.figures |= self._table.figures(slowest)
        part.findings += self._table.doubts(slowest)

    def _completeness(self, part: Part, context: ParseContext) -> Completeness | None:
        if not self._claimed:
            return None
        last_step = self._log.last.number if self._log.last else 0
        done = self._done()
        fatal = max(self._failures.last_fatal, self._nccl_line, self._hang.last)
        # Python may complain while it shuts down after a run that was fine.
        # A failure on the line of the last step is glued to the end of its progress bar.
        last_word = fatal and fatal >= max(last_step, self._end_line)
        if last_word and not (done and context.exit_code == 0):
            return Completeness.ABORTED
        if not done and (self._log.last_cut or not part.rows):
            return Completeness.CUT_OFF
        if self._log.gap():
            return Completeness.CUT_OFF
        if done or not context.exit_code:
            return Completeness.COMPLETE
        return Completeness.ABORTED


def _tool(step: StepLine, text: str) -> str:
    if step.from_zero:
        return "nemo"
    return "megatron-deepspeed" if "samples per second" in text else "megatron-lm"


def _world(context: ParseContext, told: int | None) -> int | None:
    if context.gpus or told:
        return context.gpus or told
    return max(context.rank_nodes) + 1 if context.rank_nodes else None


def _first(each: Finding) -> float:
    return min((proof.line or 0 for proof in each.evidence), default=float("inf"))


def _following(each: Finding, primary: Finding | None) -> Finding:
    """Tie a crash to what came before it."""
    if primary is None or primary is each or each.cause or primary.code == each.code:
        return each
    return each.model_copy(update={"cause": primary.code})
