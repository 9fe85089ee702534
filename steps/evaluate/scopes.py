"""Bars on one measurement, by scope.

A bar of scope ``group`` is evaluated once, ``node`` on the run of a single node, ``gpu`` on every
GPU that the rows name, ``row`` on every row that counts. A false one names what it is about, a true
one holds only when nothing is missing that could have made it false. A bar that names
``peer_median`` or ``peer_count`` compares the run with others of its kind, see
`steps.evaluate.peers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from catalog.bars.bar import Bar
from catalog.errors import ExpressionError
from catalog.facts.reasons import Kind, reason
from catalog.hardware.hardware import Situation
from catalog.language.expressions import Expression, compile_bar
from catalog.language.vocabulary import PEER_NAMES
from steps.documents import (
    Entity,
    Evidence,
    ExpressionResult,
    Group,
    Measurements,
    Outcome,
)
from steps.documents.measurements import Row
from steps.evaluate.decisive import MOST_LINES, Decisive, computed_from
from steps.evaluate.expressions import (
    Trial,
    attempt,
    figures_read,
    not_evaluated,
    not_proven,
)
from steps.evaluate.outliers import Question
from steps.evaluate.peers import FEWEST_PEERS, PeerClass
from steps.tools import TOOL_STEPS

_PLURALS = {"gpu": "GPUs", "row": "rows"}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A bar that was not applied, with the reason; None where it goes without saying."""

    bar: Bar
    why: str | None

    def __str__(self) -> str:
        return f"{self.bar.key} ({self.bar.expression}): {self.why}"


@dataclass(frozen=True, slots=True)
class _Subject:
    """What an expression is evaluated for.

    Attributes:
        values: values by name, without those of the bar.
        figures: the figures among them.
        name: of the GPU or row, for people.
        entity: node and GPU, where it is about one.
        lines: returns the evidence.
    """

    values: Mapping[str, Any]
    figures: Mapping[str, Any]
    lines: Callable[[tuple[str, ...], str, int], tuple[Evidence, ...]]
    name: str | None = None
    entity: Entity | None = None


class RunJudge:
    """Judges the bars of one run.

    Args:
        group: the nodes that ran.
        read: what the output says.
        tool: name of the tool.
        context: what is known besides.
        peers: the runs to compare with; None where there are no others.
    """

    def __init__(
        self,
        group: Group,
        read: Measurements,
        tool: str,
        context: Situation,
        peers: PeerClass | None = None,
    ) -> None:
        self.group = group
        self.read = read
        self.tool = TOOL_STEPS[tool]
        self.context = context
        self.peers = peers
        self._decisive = Decisive(read, self.tool)
        self._figures = {name: figure.value for name, figure in read.figures.items()}
        self._known = context.values()

    def judge(self, bar: Bar) -> tuple[ExpressionResult, ...] | LeftOut:
        """Evaluate a bar; a bar that does not apply to this run is left out with the reason."""
        try:
            expression = compile_bar(bar.key, bar.expression, self.tool.name, bar.scope)
        except ExpressionError as error:
            return (_result(bar, not_evaluated(bar.expression, error.message), None),)
        figures = figures_read(bar, expression, self.tool.name)
        if bar.scope in {"gpu", "row"}:
            return self._each(bar, expression, figures)
        whole = self._whole_run(expression)
        if bar.scope == "node":
            if self._together:
                return (self._unproven(bar, self._together),)
            whole = replace(whole, entity=self._place())
        if self._absent(bar, figures, whole.figures):
            return LeftOut(bar, "the output shows that it was not measured")
        if PEER_NAMES & expression.names:
            return self._with_peers(bar, expression, figures, whole)
        trial = attempt(expression, _values(bar, whole), bar.key)
        trial = self._unless_lost(bar, expression, figures, trial, whole)
        trial = self._unless_cut(
            bar, figures, trial, lambda most: attempt(expression, {**_values(bar, whole), **most})
        )
        return (self._of_run(bar, figures, trial, whole),)

    @property
    def _together(self) -> str | None:
        """Why figures of single nodes or GPUs are none of this run; None where one node ran."""
        count = max(len(self.group.nodes), self.context.nodes or 0)
        return f"{count} nodes ran together" if count > 1 else None

    def _place(self, gpu: int | None = None) -> Entity:
        """Name the node of a run of one node, where it has a name that is known."""
        return Entity(node=self.group.nodes[0] if self.context.nodes else None, gpu=gpu)

    def _of_run(
        self, bar: Bar, figures: tuple[str, ...], trial: Trial, whole: _Subject
    ) -> ExpressionResult:
        measured = tuple(name for name in figures if name in whole.figures)
        if trial.message is None:
            trial = replace(trial, message=computed_from(measured, self.read, self.tool))
        return _result(bar, trial, whole, whole.lines(measured, bar.expression, _most(trial)))

    def _absent(self, bar: Bar, figures: Iterable[str], known: Mapping[str, Any]) -> bool:
        """True when the bar is optional and the output shows that its figure was not to be had."""
        missing = [name for name in figures if name not in known]
        return bar.optional and any(self.tool.rightly_absent(name, self.read) for name in missing)

    def _unproven(self, bar: Bar, why: str, code: str = "FIGURE_MISSING") -> ExpressionResult:
        trial = Trial(Outcome.INCONCLUSIVE, bar.expression, {}, code, why)
        return _result(bar, trial, None)

    # one run as a whole

    def _whole_run(self, expression: Expression) -> _Subject:
        values: dict[str, Any] = self._figures | self._known
        if "rows" in expression.names:
            values["rows"] = self._rows
        return _Subject(values, self._figures, self._decisive.lines)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return [self.tool.fields(row) for row in self.tool.counted(self.read)]

    @cached_property
    def _lost(self) -> str | None:
        return self.tool.rows_lost(self.read)

    @cached_property
    def _figures_lost(self) -> str | None:
        return self.tool.figures_lost(self.read)

    @cached_property
    def _largest_lost(self) -> str | None:
        sweep = self.tool.sweep
        return sweep.largest_lost(self.read) if sweep else None

    @cached_property
    def _sizes_lost(self) -> str | None:
        sweep = self.tool.sweep
        return sweep.sizes_lost(self.read) if sweep else None

    def _unless_lost(
        self,
        bar: Bar,
        expression: Expression,
        figures: tuple[str, ...],
        trial: Trial,
        subject: _Subject,
    ) -> Trial:
        """Turn a PASS into not proven where rows are missing that could have made it false."""
        if trial.outcome is not Outcome.PASS:
            return trial
        if "rows" in expression.names:
            why = self._lost or self._sizes_lost
        else:
            read, printed, sweep = set(figures), self.tool.printed, self.tool.sweep
            why = None if read <= printed else self._figures_lost
            if why is None and sweep and not read <= printed | sweep.of_sizes:
                why = self._sizes_lost
                if why and read <= printed | sweep.of_sizes | sweep.greatest:
                    most = dict.fromkeys((*(read & sweep.greatest), "value"), sweep.ceiling)
                    still = attempt(expression, _values(bar, subject) | most)
                    why = None if still.outcome is Outcome.PASS else why
        return trial if why is None else not_proven(trial, "ROWS_MISSING", why)

    def _unless_cut(
        self,
        bar: Bar,
        figures: tuple[str, ...],
        trial: Trial,
        again: Callable[[Mapping[str, Any]], Trial],
    ) -> Trial:
        """Turn a FAIL into not proven where the missing largest sizes could have made it true.

        A run that hung or crashed at small messages says nothing about bandwidth.
        """
        sweep = self.tool.sweep
        if sweep is None or trial.outcome is not Outcome.FAIL or not self._largest_lost:
            return trial
        most = dict.fromkeys({*figures} & sweep.of_the_end, sweep.ceiling)
        if not most:
            return trial
        if bar.key in sweep.of_the_end:
            most["value"] = sweep.ceiling
        still = again(most).outcome is Outcome.FAIL
        return trial if still else not_proven(trial, "ROWS_MISSING", self._largest_lost)

    # compared with others

    def _with_peers(
        self, bar: Bar, expression: Expression, figures: tuple[str, ...], subject: _Subject
    ) -> tuple[ExpressionResult, ...] | LeftOut:
        peers = self.peers
        others = peers.others(self.group) if peers else 0
        if peers is None or others < FEWEST_PEERS:
            runs = "run" if others == 1 else "runs"
            why = f"{others} other {runs} of this kind, at least {FEWEST_PEERS} are needed"
            return LeftOut(bar, why if others else None)
        question = Question(bar, expression)
        trial = question.ask(peers, self.group, subject.values)
        trial = self._unless_lost(bar, expression, figures, trial, subject)
        trial = self._unless_cut(
            bar,
            figures,
            trial,
            lambda most: question.ask(peers, self.group, {**subject.values, **most}),
        )
        result = self._of_run(bar, figures, trial, subject)
        if trial.outcome is Outcome.FAIL:
            split = question.splits(peers, self._known)
            code = "FLEET_SPLIT" if split else "OUTLIER"
            message = f"against {trial.values.get('peer_count', others)} other runs of this kind"
            result = result.model_copy(update={"code": code, "message": message})
        return (result,)

    # on every GPU, on every row

    def _each(
        self, bar: Bar, expression: Expression, figures: tuple[str, ...]
    ) -> tuple[ExpressionResult, ...] | LeftOut:
        if bar.scope == "gpu" and self._together:
            return (self._unproven(bar, self._together),)
        subjects = list(
            self._gpus(expression) if bar.scope == "gpu" else self._each_row(expression)
        )
        if not subjects:
            what = "GPU" if bar.scope == "gpu" else "row"
            return (self._unproven(bar, f"the output has no {what} to test: not measured"),)
        if all(self._absent(bar, figures, subject.figures) for subject in subjects):
            return LeftOut(bar, "the output shows that it was not measured")
        if PEER_NAMES & expression.names:
            return (self._unproven(bar, "only whole runs have peers", "EXPRESSION_ERROR"),)
        trials = [
            (subject, attempt(expression, _values(bar, subject), bar.key)) for subject in subjects
        ]
        by_outcome: dict[Outcome, list[tuple[_Subject, Trial]]] = {}
        for subject, trial in trials:
            by_outcome.setdefault(trial.outcome, []).append((subject, trial))
        if set(by_outcome) == {Outcome.PASS}:
            return (self._every(bar, figures, trials),)
        found: list[ExpressionResult] = []
        for outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE):
            some = by_outcome.get(outcome, [])
            if bar.scope == "gpu" and outcome is Outcome.FAIL:
                found += [self._some(bar, figures, [one], len(trials)) for one in some]
            elif some:
                found.append(self._some(bar, figures, some, len(trials)))
        return tuple(found)

    def _every(
        self,
        bar: Bar,
        figures: tuple[str, ...],
        trials: list[tuple[_Subject, Trial]],
    ) -> ExpressionResult:
        """Return the one result of a bar that is true on every GPU or row."""
        subject, trial = trials[-1]
        why = self._lost or (self._gpus_lost(len(trials)) if bar.scope == "gpu" else None)
        why = why or self._sizes_lost
        if why:
            trial = not_proven(trial, "ROWS_MISSING", why)
        elif len(trials) > 1:
            trial = replace(
                trial, message=f"the last of {len(trials)} {_PLURALS[bar.scope]}, all true"
            )
        lines = subject.lines(figures, bar.expression, _most(trial))
        return _result(bar, trial, subject, lines, times=len(trials))

    def _some(
        self,
        bar: Bar,
        figures: tuple[str, ...],
        some: list[tuple[_Subject, Trial]],
        total: int,
    ) -> ExpressionResult:
        """Return one result for those GPUs or rows on which a bar came out the same, not true."""
        subject, trial = some[0]
        lines: tuple[Evidence, ...] = ()
        for one, _ in some[:MOST_LINES]:
            lines += one.lines(figures, bar.expression, MOST_LINES)
        result = _result(bar, trial, subject, lines[:MOST_LINES], times=len(some))
        if bar.scope == "row" or len(some) > 1:
            words = f"{len(some)} of {total} {_PLURALS[bar.scope]}"
            message = f"{result.message}; {words}" if result.message else words
            result = result.model_copy(update={"message": message})
        return result

    def _gpus(self, expression: Expression) -> Iterator[_Subject]:
        for gpu, (figures, rows) in self.tool.gpus(self.read).items():
            values: dict[str, Any] = {**figures, **self._known}
            if "rows" in expression.names:
                values["rows"] = [self.tool.fields(row) for row in rows]

            def lines(
                names: tuple[str, ...], text: str, most: int, rows: list[Row] = rows
            ) -> tuple[Evidence, ...]:
                mine = self.read.model_copy(update={"rows": tuple(rows)})
                return Decisive(mine, self.tool).lines(names, text, most)

            yield _Subject(values, figures, lines, f"GPU {gpu}", self._place(gpu))

    def _gpus_lost(self, seen: int) -> str | None:
        told = self.context.hardware.gpus_per_node or self._figures.get("gpusSeen")
        if not isinstance(told, int):
            return "it is not known how many GPUs the node has"
        return f"{seen} of {told} GPUs have results" if seen < told else None

    def _each_row(self, expression: Expression) -> Iterator[_Subject]:
        whole = self._whole_run(expression)
        for row, fields in zip(self.tool.counted(self.read), self._rows, strict=True):

            def lines(*_: object, row: Row = row) -> tuple[Evidence, ...]:
                return (self._decisive.line(row),)

            values = {**whole.values, "row": fields}
            yield _Subject(values, self._figures, lines, self.tool.row_name(row))


def _values(bar: Bar, subject: _Subject) -> dict[str, Any]:
    values = {**subject.values, **bar.values}
    if bar.key in subject.figures:
        values["value"] = subject.figures[bar.key]
    return values


def _most(trial: Trial) -> int:
    """A bar that is met needs no more than one line, and there are many of them."""
    return 1 if trial.outcome is Outcome.PASS else MOST_LINES


def _result(
    bar: Bar,
    trial: Trial,
    subject: _Subject | None,
    lines: tuple[Evidence, ...] = (),
    *,
    times: int = 1,
) -> ExpressionResult:
    origin = bar.origin
    place = f"{origin.file}:{origin.line}" if origin.line else origin.file
    code = trial.code or bar.code
    if code == "FIGURE_MISSING" and reason(bar.code).kind is Kind.DATA:
        code = bar.code  # It says what is missing, and what to do about it.
    return ExpressionResult(
        key=bar.key,
        expression=bar.expression,
        outcome=trial.outcome,
        with_values=trial.with_values,
        values=dict(trial.values),
        message=trial.message,
        source=bar.source or origin.rule,
        code=code,
        scope=bar.scope,
        subject=subject.name if subject else None,
        entity=subject.entity if subject else None,
        times=times,
        evidence=lines,
        rule=origin.rule if place == origin.rule else f"{origin.rule} ({place})",
        kind=bar.kind,
    )
