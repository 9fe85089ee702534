"""The aggregate step: the report, from whatever the store still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from catalog.entries.entry import builtin_entries
from catalog.errors import NoPlanError, ReadinessError, RecordError
from steps.aggregate.core import make_report, report_without_plan
from steps.documents import Plan, Report, RunRecord, Verdict, digest
from steps.evaluate.step import judge_stored
from steps.report.faces import FACES
from steps.store.runs import require_plan
from steps.store.store import RecordStore


def aggregate_step(store: RecordStore) -> tuple[Report, str]:
    """Write the report; a category whose verdict is absent or damaged is judged here.

    Returns:
        The report, and the same as HTML.
    """
    report = _made(store, require_plan(store))
    return report, _keep(store, report)


def last_report(
    store: RecordStore,
    name: str,
    plan_again: Callable[[], Plan],
    named: Iterable[str] = (),
) -> tuple[Report, bool]:
    """Return the report of a workflow that is over without success, and whether it is new.

    The report that is there stands if it says what the store holds: then aggregate has written it,
    or detect where the input was wrong.

    Args:
        store: the store of the workflow.
        name: of the certification, where neither plan nor report say it.
        plan_again: plans the certification anew where its plan is lost, and writes the plan.
        named: nodes that the certification names.
    """
    known: Report | None = None
    with suppress(RecordError):
        known = store.get(Report)
    try:
        report = _made(store, require_plan(store))
    except NoPlanError as error:
        report = known or _planned_anew(store, name, plan_again, named, str(error))
    if report == known:
        return report, False
    _keep(store, report)
    return report, True


def _planned_anew(
    store: RecordStore, name: str, plan_again: Callable[[], Plan], named: Iterable[str], why: str
) -> Report:
    try:
        return _made(store, plan_again())
    except ReadinessError as error:
        # Nobody can tell any more what was planned; the nodes of which anything tells stay named.
        known = [
            node
            for category in builtin_entries()
            for record in store.list(RunRecord, category, [])
            for node in record.group.nodes
        ]
        text = f"{why}; a new one cannot be made: {error}"
        return report_without_plan(name, "PLAN_MISSING", text, [*named, *known])


def refuse_input(store: RecordStore, name: str, message: str) -> Report:
    """Write the report of a certification whose input is wrong.

    Args:
        store: the store of the workflow.
        name: of the certification.
        message: what is wrong, where, and what would be right.
    """
    report = report_without_plan(name, "INVALID_INPUT", message)
    _keep(store, report)
    return report


def _made(store: RecordStore, plan: Plan) -> Report:
    verdicts: dict[str, Verdict] = {}
    records: list[RunRecord] = []
    for planned in plan.categories:
        # What is wrong with one stands in the verdict.
        here = list(store.list(RunRecord, planned.id, []))
        verdict = _verdict(store, planned.id, here) or judge_stored(store, plan, planned.id)
        verdicts[planned.id] = verdict
        records += here
    return make_report(plan, verdicts, records)


def _verdict(store: RecordStore, category: str, records: Iterable[RunRecord]) -> Verdict | None:
    """Return the verdict of a category; None where evaluate has written none that can be used.

    One that does not know a record is older than that: a run was made again, or was lost and is
    told of by whoever came next. A record that is lost since leaves the verdict as it is.
    """
    with suppress(RecordError):
        verdict = store.get(Verdict, category)
        if verdict is not None and verdict.category == category:
            judged = {group.record for group in verdict.groups}
            return verdict if all(digest(record) in judged for record in records) else None
    return None


def _keep(store: RecordStore, report: Report) -> str:
    """Write a report with its other faces; return it as HTML."""
    store.put(report)
    texts = {face.name: face.render(report) for face in FACES}
    for face in FACES:
        store.put_text(face.file, texts[face.name])
    return texts["html"]
