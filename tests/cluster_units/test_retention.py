"""Old reports are deleted by number and age, and only those that nobody can need any more."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import ClusterError
from steps.cluster.api import store as module
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.retention import forget_reports
from steps.cluster.api.store import ConfigMapStore
from steps.documents import Report, RunRecord
from tests.builders import ALL_REDUCE, group, record
from tests.cluster_units.fake import FakeCluster
from tests.report.samples import all_pass

OURS = WorkflowRun("certify-now", "u-now")


def write(cluster: FakeCluster, run: WorkflowRun, days_ago: float, *, exists: bool = False) -> None:
    """Write the report of a run as its last step does, so many days ago."""
    store = ConfigMapStore(cluster, run)
    known = set(cluster.objects)
    store.put(all_pass())
    store.put_text("report.html", f"<html>{run}</html>" * 40)
    when = (datetime.now(UTC) - timedelta(days=days_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for key in set(cluster.objects) - known:
        cluster.objects[key]["metadata"]["creationTimestamp"] = when
    if exists:
        head: dict[str, Any] = {"name": run.name, "uid": run.uid}
        cluster.put({"kind": "Workflow", "metadata": head})


def those_left(cluster: FakeCluster, runs: list[WorkflowRun]) -> set[WorkflowRun]:
    return {run for run in runs if ConfigMapStore(cluster, run).get(Report) is not None}


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=6, unique_by=lambda x: x[0]),
    st.integers(1, 4),
    st.integers(1, 15),
    st.integers(0, 20),
)
def test_what_goes_is_too_old_or_too_many_and_never_of_a_workflow_that_is_there(
    others: list[tuple[int, bool]], keep: int, days: int, own_age: int
) -> None:
    cluster = FakeCluster()
    ages = {OURS: own_age + 0.25}
    there: set[WorkflowRun] = set()
    for number, (age, exists) in enumerate(others):
        # The cron of every night has the same name until it is cut off.
        run = WorkflowRun(f"certify-{number % 2}", f"u-{number}")
        ages[run] = age + 0.5
        alone = exists and not any(name.name == run.name for name in there)
        there |= {run} if alone else set()
        write(cluster, run, ages[run], exists=alone)
    write(cluster, OURS, ages[OURS])
    newest = sorted(ages, key=lambda run: ages[run])
    wanted = {
        run
        for place, run in enumerate(newest)
        if run == OURS or run in there or (place < keep and ages[run] < days)
    }
    count = forget_reports(cluster, OURS, keep=keep, days=days)
    assert those_left(cluster, newest) == wanted
    assert count == len(ages) - len(wanted)
    left = [item for item in cluster.of("ConfigMap") if "report" in str(item["metadata"])]
    assert len(left) == 2 * len(wanted), "the other faces of a report go with it, or stay with it"


def test_nothing_but_reports_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 100)
    cluster = FakeCluster()
    old = WorkflowRun("certify-old", "u-old")
    write(cluster, old, 400)
    whole = group(["node-a"])
    ConfigMapStore(cluster, old).put(record(whole), ALL_REDUCE, whole.id)
    strangers: list[dict[str, Any]] = [
        {"name": "mine", "labels": {"readiness/kind": "Report"}},
        {"name": "yours", "labels": {"readiness/kind": "Report", "readiness/uid": "u-old"}},
        {
            "name": "owned",
            "labels": {"readiness/kind": "text", "readiness/uid": "u-old"},
            "annotations": {"readiness/uid": "u-old", "readiness/workflow": "certify-old"},
            "ownerReferences": [old.owner],
        },
    ]
    for head in strangers:
        cluster.put({"kind": "ConfigMap", "metadata": head})
    assert forget_reports(cluster, OURS, keep=5, days=30) == 1
    assert {"mine", "yours", "owned"} <= {name for _, name in cluster.objects}
    assert ConfigMapStore(cluster, old).get(RunRecord, ALL_REDUCE, whole.id) == record(whole)
    assert ConfigMapStore(cluster, old).get(Report) is None
    assert forget_reports(cluster, OURS, keep=5, days=30) == 0


def test_report_whose_age_nobody_tells_stays() -> None:
    cluster = FakeCluster()
    for number in range(2):
        run = WorkflowRun(f"certify-{number}", f"u-{number}")
        write(cluster, run, 400)
    for item, text in zip(cluster.of("ConfigMap"), itertools.cycle([None, "yesterday"])):
        item["metadata"]["creationTimestamp"] = text
    assert forget_reports(cluster, OURS, keep=5, days=30) == 0


def test_report_stays_where_it_cannot_be_told_whether_its_workflow_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster()
    old = WorkflowRun("certify-old", "u-old")
    write(cluster, old, 400)
    get = cluster.get

    def away(kind: str, name: str) -> dict[str, Any]:
        if kind == "Workflow":
            raise ClusterError("HTTP 500")
        return get(kind, name)

    monkeypatch.setattr(cluster, "get", away)
    with pytest.raises(ClusterError):
        forget_reports(cluster, OURS, keep=5, days=30)
    assert those_left(cluster, [old]) == {old}
