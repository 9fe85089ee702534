"""What holds for any faults and any group."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from steps.documents import Group, RunOutcome
from steps.fleets.fleet import JobResult
from tests.fleets.jobs import ALL_REDUCE, make_job, simulated

NAMES = [f"n-{number}" for number in range(1, 9)]
KINDS = st.sampled_from(
    [
        "kind: slow-link, factor: 0.3",
        "kind: slow-link, GBps: 100",
        "kind: lost-gpu, gpu: 1",
        "kind: lost-gpu, gpu: 1, at: 40s",
        "kind: corrupt-data",
        "kind: crash, after: 9",
        "kind: hang, after: 40",
        "kind: cordon",
        "kind: cordon, at: 50s",
        "kind: not-ready, at: 2m",
        "kind: xid, number: 94, at: 30s",
        "kind: xid, number: 13, at: 30s, endsRun: false",
        "kind: infrastructure, code: INFRA_DNS, message: no host, healsAfter: 1",
        "kind: no-output",
        "kind: truncate-output, keep: 0.3",
        "kind: socket-fallback",
        "kind: slow-training, factor: 0.5",
        "kind: nan-loss, step: 12",
        "kind: dcgm-failure, test: pcie, errorId: 30",
    ]
)
FAULTS = st.lists(st.tuples(st.sampled_from(NAMES), KINDS), max_size=4)
GROUPS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True)
CATEGORIES = st.sampled_from(
    [ALL_REDUCE, "communication/nccl-alltoall", "training/nemotron5-8b", "diagnostics/dcgm-level3"]
)


def run(
    faults: list[tuple[str, str]], nodes: list[str], category: str, purpose: str, attempt: int
) -> JobResult:
    text = "".join(f"  - {{node: {node}, {kind}}}\n" for node, kind in faults)
    used = tuple(nodes[:1] if category.startswith("diagnostics") else nodes)
    group = Group(id="g-3", nodes=used, purpose="isolate" if purpose == "isolate" else "measure")
    options = {"numCycles": 2} if category.startswith("communication") else None
    job = make_job(category, group=group, attempt=attempt, options=options)
    with tempfile.TemporaryDirectory() as folder:
        return simulated(Path(folder), text).run(job)


@settings(max_examples=60, deadline=None)
@given(
    faults=FAULTS,
    nodes=GROUPS,
    category=CATEGORIES,
    purpose=st.sampled_from(["measure", "isolate"]),
    attempt=st.integers(1, 2),
)
def test_no_node_is_lost_and_none_is_blamed_without_a_fault(
    faults: list[tuple[str, str]], nodes: list[str], category: str, purpose: str, attempt: int
) -> None:
    result = run(faults, nodes, category, purpose, attempt)
    record = result.record
    faulty = {node for node, _ in faults}
    started = record.outcome is not RunOutcome.INFRASTRUCTURE
    assert tuple(record.placements.values()) == (record.group.nodes if started else ())
    assert set(record.group.nodes) <= set(nodes)
    assert {event.node for event in record.events} <= faulty & set(record.group.nodes)
    assert {f.entity.node for f in record.failures if f.entity} <= faulty
    assert all(record.started <= event.at <= record.ended for event in record.events)
    assert [log.name for log in record.logs] == list(result.logs)
    assert (record.ended - record.started).total_seconds() <= 24 * 3600
    if not faulty & set(record.group.nodes):
        assert (record.outcome, record.exit_code) == (RunOutcome.COMPLETED, 0)
    if record.outcome not in {RunOutcome.COMPLETED, RunOutcome.HARDWARE}:
        assert record.failures


@settings(max_examples=15, deadline=None)
@given(faults=FAULTS, nodes=GROUPS, category=CATEGORIES)
def test_a_run_is_a_function_of_file_and_job(
    faults: list[tuple[str, str]], nodes: list[str], category: str
) -> None:
    assert run(faults, nodes, category, "measure", 1) == run(faults, nodes, category, "measure", 1)
