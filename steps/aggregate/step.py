"""The aggregate step: the report, from whatever the store still holds."""

from __future__ import annotations

from contextlib import suppress

from catalog.errors import NoPlanError, RecordError
from steps.aggregate.core import make_report, report_without_plan
from steps.documents import Plan, Report, RunRecord, Verdict
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


def last_report(store: RecordStore, name: str) -> tuple[Report, bool]:
    """Return the report of a workflow that is over without success, and whether it is new.

    The report that is there stands if it says what the store holds: then aggregate has written it,
    or detect where the input was wrong.

    Args:
        store: the store of the workflow.
        name: of the certification, where neither plan nor report say it.
    """
    known: Report | None = None
    with suppress(RecordError):
        known = store.get(Report)
    try:
        report = _made(store, require_plan(store))
    except NoPlanError:
        report = known or report_without_plan(name, "PLAN_MISSING", "detect has not made one")
    except RecordError as error:
        report = known or report_without_plan(name, "PLAN_MISSING", str(error))
    if report == known:
        return report, False
    _keep(store, report)
    return report, True


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
        verdicts[planned.id] = _verdict(store, planned.id) or judge_stored(store, plan, planned.id)
        # They only add times and versions here; what is wrong with one stands in the verdict.
        records += store.list(RunRecord, planned.id, [])
    return make_report(plan, verdicts, records)


def _verdict(store: RecordStore, category: str) -> Verdict | None:
    """Return the verdict of a category; None where evaluate has written none that can be used."""
    with suppress(RecordError):
        verdict = store.get(Verdict, category)
        if verdict is not None and verdict.category == category:
            return verdict
    return None


def _keep(store: RecordStore, report: Report) -> str:
    """Write a report with its other faces; return it as HTML."""
    store.put(report)
    texts = {face.name: face.render(report) for face in FACES}
    for face in FACES:
        store.put_text(face.file, texts[face.name])
    return texts["html"]
