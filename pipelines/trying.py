"""Trying a bar on runs that are over: which of them would be judged otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from catalog.bars.bar import Bar, Missing
from catalog.bars.bar_file import NO_BARS, OwnBars
from catalog.bars.required import Slot, bars_for, slot_of
from catalog.entries.entry import find_entry
from catalog.errors import InputError, Place
from catalog.language.expressions import compile_bar
from catalog.language.vocabulary import Scope
from pipelines.own_bar import own_bar, with_numbers
from steps.documents import (
    BarSet,
    ExpressionResult,
    GroupVerdict,
    Outcome,
    Plan,
    PlannedCategory,
    PlannedPart,
    Verdict,
)
from steps.evaluate.core import bars_of, judge_runs
from steps.store.runs import Run, collect_runs, require_plan
from steps.store.store import DirectoryStore


@dataclass(frozen=True, slots=True)
class Tried:
    """What is tried; every part of it may be left out.

    Attributes:
        expressions: CEL texts that replace the bar of their key, or are added.
        scope: what they are evaluated for; None takes ``row`` where they name ``row``.
        stage: whose numbers and bars judge, instead of the stage of the certification.
        own: bar files of the user; where there are some, the bars are worked out anew.
    """

    expressions: Sequence[str] = ()
    scope: Scope | None = None
    stage: str | None = None
    own: OwnBars = NO_BARS

    @property
    def anew(self) -> bool:
        """Whether the bars are worked out anew instead of taken from the plan."""
        return self.stage is not None or self.own is not NO_BARS


@dataclass(frozen=True, slots=True)
class Trial:
    """One stored run, judged twice.

    Attributes:
        store: directory of the certification.
        certification: its name.
        category: category id.
        before: by the bars of its plan.
        after: by the bars that are tried.
        stored: what the report of that time says; None when it was never judged.
    """

    store: Path
    certification: str
    category: str
    before: GroupVerdict
    after: GroupVerdict
    stored: Outcome | None

    @property
    def flips(self) -> bool:
        """Whether the verdict differs."""
        return self.before.outcome is not self.after.outcome

    @property
    def numbers(self) -> tuple[ExpressionResult, ...]:
        """The expressions that came out otherwise than before, or were not there."""
        known = {(item.key, item.expression, item.outcome) for item in self.before.expressions}
        return tuple(
            item
            for item in self.after.expressions
            if (item.key, item.expression, item.outcome) not in known
        )


def find_stores(root: Path) -> list[Path]:
    """Return the directories of certifications in a directory and below.

    Raises:
        InputError: there is none.
    """
    found = sorted(path.parent for path in root.rglob("plan.json"))
    if not found:
        why = "does not exist" if not root.exists() else "holds no certification (plan.json)"
        hint = "name the --out directory of readiness certify, or one above several of them"
        raise InputError(f"{root} {why}", Place("--runs"), hint)
    return found


def try_bars(stores: Iterable[Path], tried: Tried, entry: str | None = None) -> Iterator[Trial]:
    """Judge every stored run by the bars of its plan and by those that are tried.

    Args:
        stores: directories of certifications.
        tried: what is tried.
        entry: the only category to look at; None looks at all whose figures the expressions name.

    Raises:
        RecordError: a document is damaged or of another version.
        ExpressionError: an expression does not fit the entry.
    """
    for path in stores:
        store = DirectoryStore(path)
        plan = require_plan(store)
        for planned in plan.categories:
            if entry is not None and planned.id != entry:
                continue
            if entry is None and not _fits(tried, planned):
                continue
            runs = collect_runs(store, planned)
            verdict = store.get(Verdict, planned.id)
            stored = {item.group.id: item.outcome for item in verdict.groups} if verdict else {}
            before = judge_runs(plan, planned, runs)
            for one, other in zip(before, _judged(plan, planned, runs, tried), strict=True):
                known = stored.get(one.group.id)
                yield Trial(path, plan.certification, planned.id, one, other, known)


def _fits(tried: Tried, planned: PlannedCategory) -> bool:
    """Whether the expressions are over figures that the category measures."""
    try:
        for text in tried.expressions:
            own_bar(text, find_entry(planned.id).tool, tried.scope)
    except InputError:
        return False
    return True


def _judged(
    plan: Plan, planned: PlannedCategory, runs: Sequence[Run], tried: Tried
) -> list[GroupVerdict]:
    """Judge the runs of a category by the bars that are tried."""
    sizes = sorted({len(run.group.nodes) for run in runs})
    changed: dict[str, PlannedPart] = {}
    for part in planned.parts:
        sets = tuple(_bars(plan, planned, part, size, tried) for size in sizes)
        changed[part.cohort] = part.model_copy(update={"bars": sets})
    return judge_runs(
        plan.model_copy(update={"stage": tried.stage}) if tried.stage else plan,
        planned.model_copy(update={"parts": tuple(changed.values())}),
        [Run(changed[run.part.cohort], run.group, run.record, run.measurements) for run in runs],
    )


def _bars(
    plan: Plan, planned: PlannedCategory, part: PlannedPart, nodes: int, tried: Tried
) -> BarSet:
    """Return the bars that are tried, for groups of one size."""
    entry = find_entry(planned.id)
    stage = tried.stage or plan.stage
    hardware, options = part.workload.hardware, part.workload.options
    found = bars_of(plan, planned, part, nodes)
    if tried.anew:
        bars, missing = bars_for(
            *(entry, stage, hardware, nodes, options),
            scale=planned.scale,
            own=tried.own,
            recorded=plan.source == "recorded",
        )
        found = BarSet(nodes=nodes, bars=bars, missing=missing)
    for text in tried.expressions:
        own = own_bar(text, entry.tool, tried.scope)
        bar = with_numbers(
            *(own, entry, stage, hardware),
            nodes=nodes,
            options=options,
            scale=planned.scale,
        )
        found = _with(found, own, bar, entry.tool)
    return found


def _with(found: BarSet, own: Bar, made: Bar | Missing, tool: str) -> BarSet:
    """Replace the bar of the same slot, and what was said of its absence; add where there is none.

    Args:
        found: the bars.
        own: the bar that is tried, without numbers.
        made: the same with numbers, or why there is none.
        tool: whose figures it is over.
    """
    slot = _slot(own, tool)
    bars = [known for known in found.bars if _slot(known, tool) != slot]
    missing = []
    for item in found.missing:
        keys = tuple(known for known in item.keys if (known, False) != slot)
        if keys or not item.keys:
            missing.append(item.model_copy(update={"keys": keys}))
    if isinstance(made, Bar):
        bars.append(made)
    else:
        missing.append(made)
    return found.model_copy(update={"bars": tuple(bars), "missing": tuple(missing)})


def _slot(bar: Bar, tool: str) -> Slot:
    return slot_of(bar.key, compile_bar(bar.key, bar.expression, tool, bar.scope).names)
