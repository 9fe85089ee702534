"""A run step that was lost with its node, where steps may stand, and what a retry runs again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import steps.__main__ as program
from catalog.errors import ElsewhereError
from steps.aggregate.step import aggregate_step
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts.clean import clean_step
from steps.cluster.attempts.leases import lease_name, run_name
from steps.cluster.attempts.witness import check_place
from steps.documents import (
    IsolationRound,
    Measurements,
    NodeEvent,
    NodeStatus,
    PlannedPair,
    Report,
    RunFailure,
    RunOutcome,
    RunRecord,
    digest,
)
from steps.evaluate.step import evaluate_step
from steps.jobs.job import JobResult
from steps.parse.step import parse_step
from steps.run.step import run_step
from steps.store.runs import collect_runs, planned_category, require_plan
from steps.store.store import DirectoryStore
from tests.builders import ALL_REDUCE, group, plan, record
from tests.cluster_units.fake import FakeCluster, event, node
from tests.cluster_units.running import (
    NODES,
    WORKFLOW,
    assert_nothing_left,
    job,
    run,
    when_runs,
)

NOW = datetime.now(UTC)
BEGAN = NOW - timedelta(minutes=10)
RUN = run_name(WORKFLOW, ALL_REDUCE, "full-scale-0")


def hold(cluster: FakeCluster, holder: str = RUN, workflow: WorkflowRun = WORKFLOW) -> None:
    """Put the leases there that a killed step left."""
    for name in NODES:
        cluster.put(
            {
                "kind": "Lease",
                "metadata": {
                    "name": lease_name(name),
                    "labels": {**workflow.labels, "readiness/lease": "run"},
                },
                "spec": {
                    "holderIdentity": f"{holder}/abcd1234",
                    "acquireTime": BEGAN.isoformat(),
                    "renewTime": BEGAN.isoformat(),
                    "leaseDurationSeconds": 60,
                },
            }
        )


def not_ready(cluster: FakeCluster, name: str, since: datetime) -> None:
    cluster.objects["Node", name]["status"]["conditions"][0] |= {
        "status": "Unknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": since.isoformat(),
    }


def test_next_step_says_what_became_of_the_node_that_took_its_watcher_along() -> None:
    cluster = FakeCluster(*NODES)
    hold(cluster)
    died = NOW - timedelta(minutes=3)
    not_ready(cluster, "gpu-b", died)
    found = run(cluster, job()).record
    assert found.outcome is RunOutcome.HARDWARE
    (seen,) = found.events
    assert (seen.node, seen.code, seen.at) == ("gpu-b", "NODE_NOT_READY", died)
    assert seen.text == (
        f"node gpu-b became NotReady at {died:%H:%M:%SZ} (Kubelet stopped posting node status.); "
        "the step that watched it was lost"
    )
    assert [item.code for item in found.failures] == ["HardwareFailureDetected", "INFRA_STEP_DIED"]
    assert cluster.created == []
    assert_nothing_left(cluster)


def test_node_that_booted_anew_took_its_watcher_along() -> None:
    cluster = FakeCluster(*NODES)
    hold(cluster)
    cluster.put(event("gpu-a", "Rebooted", "Node gpu-a has been rebooted", kind="Node"))
    found = run(cluster, job()).record
    assert [(item.node, item.code) for item in found.events] == [("gpu-a", "NODE_NOT_READY")]


@pytest.mark.parametrize(
    ("holder", "since"),
    [
        pytest.param(RUN, None, id="all-nodes-live"),
        pytest.param(RUN, BEGAN - timedelta(hours=1), id="not-ready-since-before"),
        pytest.param(run_name(WORKFLOW, ALL_REDUCE, "full-scale-00"), NOW, id="another-group"),
    ],
)
def test_nobody_is_blamed_for_a_step_that_was_lost_by_itself(
    holder: str, since: datetime | None
) -> None:
    cluster = FakeCluster(*NODES)
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 0))
    hold(cluster, holder)
    if holder != RUN:
        for lease in cluster.of("Lease"):
            lease["spec"]["leaseDurationSeconds"] = 0.001
    elif since:
        not_ready(cluster, "gpu-b", since)
    found = run(cluster, job()).record
    assert found.events == ()
    if since is None:
        assert (found.outcome, found.failures) == (RunOutcome.COMPLETED, ())


def test_clean_writes_what_lost_steps_could_not_and_touches_no_record() -> None:
    cluster = FakeCluster(*NODES)
    store = ConfigMapStore(cluster, WORKFLOW)
    whole, other = group(NODES), group(["gpu-a"], "single-0")
    store.put(plan([whole, other]))
    store.put(record(other), ALL_REDUCE, other.id)
    hold(cluster)
    not_ready(cluster, "gpu-b", NOW - timedelta(minutes=3))
    assert "nothing is left" in clean_step(store)
    found = store.get(RunRecord, ALL_REDUCE, whole.id)
    assert found is not None
    assert [item.node for item in found.events] == ["gpu-b"]
    assert store.get(RunRecord, ALL_REDUCE, other.id) == record(other)
    assert cluster.of("Lease") == []


@pytest.mark.parametrize("damaged", [RunRecord, IsolationRound])
def test_damage_costs_neither_the_cleaning_nor_what_other_lost_steps_tell(
    damaged: type[RunRecord] | type[IsolationRound],
) -> None:
    cluster = FakeCluster(*NODES)
    store = ConfigMapStore(cluster, WORKFLOW)
    whole, other = group(NODES), group(["gpu-a"], "single-0")
    store.put(plan([other, whole]))
    store.put(record(other), ALL_REDUCE, other.id)
    store.put(IsolationRound(category=ALL_REDUCE, round=1, pairs=()), ALL_REDUCE, "round-1")
    for item in cluster.of("ConfigMap"):
        if item["metadata"]["labels"]["readiness/kind"] == damaged.__name__:
            item["binaryData"]["data"] = "AAAA"
    hold(cluster)
    holder = run_name(WORKFLOW, ALL_REDUCE, other.id)
    cluster.objects["Lease", lease_name("gpu-a")]["spec"]["holderIdentity"] = f"{holder}/abcd1234"
    not_ready(cluster, "gpu-b", NOW - timedelta(minutes=3))
    assert "nothing is left" in clean_step(store)
    found = store.get(RunRecord, ALL_REDUCE, whole.id)
    assert found is not None
    assert [item.node for item in found.events] == ["gpu-b"]


@pytest.mark.parametrize(("ended", "told"), [(BEGAN - timedelta(minutes=1), 2), (NOW, 1)])
def test_clean_tells_of_a_step_that_was_lost_as_it_ran_again(ended: datetime, told: int) -> None:
    cluster = FakeCluster(*NODES)
    store = ConfigMapStore(cluster, WORKFLOW)
    store.put(plan([group(NODES)]))
    store.put(stopped().model_copy(update={"ended": ended}), ALL_REDUCE, "full-scale-0")
    hold(cluster)
    not_ready(cluster, "gpu-b", NOW - timedelta(minutes=3))
    clean_step(store)
    found = store.get(RunRecord, ALL_REDUCE, "full-scale-0")
    assert found is not None
    assert found.attempt == told
    assert bool(found.events) is (told == 2)


@pytest.mark.parametrize("damage", ["AAAA", None])
def test_report_of_a_workflow_that_succeeded_is_made_again_where_it_is_lost(
    damage: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = FakeCluster(*NODES)
    store = ConfigMapStore(cluster, WORKFLOW)
    store.put(plan([group(NODES)]))
    whole, _ = aggregate_step(store)
    for item in cluster.of("ConfigMap"):
        if item["metadata"]["annotations"]["readiness/key"] != "report.json":
            continue
        if damage:
            item["binaryData"]["data"] = damage
        else:
            del cluster.objects["ConfigMap", item["metadata"]["name"]]
    monkeypatch.setattr(program, "open_store", lambda _: store)
    done = CliRunner().invoke(
        program.app, ["finish", "--store", "x", "--status", "Succeeded", "--outputs", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    assert store.get(Report) == whole


TAINT = {"effect": "NoSchedule", "key": "dedicated"}
GPU_TAINT = {"effect": "NoSchedule", "key": "nvidia.com/gpu"}


@pytest.mark.parametrize(
    ("here", "other", "moves"),
    [
        ("gpu-a", node("cpu-0"), True),
        ("gpu-a", node("gpu-c", taints=[GPU_TAINT]), True),
        ("gpu-a", node("gpu-c", taints=[TAINT]), False),
        ("gpu-a", node("gpu-c", unschedulable=True), False),
        ("gpu-a", node("gpu-c") | {"status": {"conditions": []}}, False),
        ("gpu-a", None, False),
        ("cpu-0", node("cpu-0"), False),
        ("", node("cpu-0"), False),
    ],
)
def test_step_moves_off_a_node_of_its_group_where_another_takes_it(
    here: str, other: dict[str, Any] | None, *, moves: bool
) -> None:
    cluster = FakeCluster(*NODES)
    if other:
        cluster.put(dict(other) | {"metadata": dict(other["metadata"])})
    if not moves:
        check_place(cluster, here, NODES)
        return
    with pytest.raises(ElsewhereError, match="a node of its own group"):
        check_place(cluster, here, NODES)


def stopped(attempt: int = 1) -> RunRecord:
    failure = RunFailure(code="INFRA_STOPPED", message="told to stop")
    update = {"outcome": RunOutcome.STOPPED, "failures": (failure,), "attempt": attempt}
    return record(group(NODES)).model_copy(update=update)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    found = DirectoryStore(tmp_path)
    found.put(plan([group(NODES)]))
    return found


def test_retry_runs_again_what_was_stopped_and_nothing_else(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    def launch(_: object, what: Any, **__: object) -> JobResult:
        ran.append(what.attempt)
        if len(ran) == 1:
            return JobResult(stopped(what.attempt))
        return JobResult(record(group(NODES)).model_copy(update={"attempt": what.attempt}))

    monkeypatch.setattr("steps.cluster.attempts.launch.launch", launch)
    assert run_step(store, ALL_REDUCE, "full-scale-0").outcome is RunOutcome.STOPPED
    assert run_step(store, ALL_REDUCE, "full-scale-0").attempt == 2
    assert run_step(store, ALL_REDUCE, "full-scale-0").attempt == 2
    assert ran == [1, 2]


def test_retry_counts_attempts_of_which_only_measurements_are_left(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(_: object, what: Any, **__: object) -> JobResult:
        return JobResult(record(group(NODES)).model_copy(update={"attempt": what.attempt}))

    monkeypatch.setattr("steps.cluster.attempts.launch.launch", launch)
    store.put_log("a.log", b"half\n")
    store.put(record(group(NODES)), ALL_REDUCE, "full-scale-0")
    parse_step(store, ALL_REDUCE)
    for damaged in store.root.glob("records/*/*.json"):
        damaged.write_text("{")
    assert run_step(store, ALL_REDUCE, "full-scale-0").attempt == 2
    [run] = collect_runs(store, planned_category(require_plan(store), ALL_REDUCE))
    assert run.measurements is None


def test_run_of_other_nodes_clears_nobody_who_was_not_in_it(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that was lost can come out otherwise when it is made again."""
    category = planned_category(require_plan(store), ALL_REDUCE)
    ran = record(group(["gpu-a", "gpu-z"]))
    store.put(ran, ALL_REDUCE, "full-scale-0")
    planned, before = collect_runs(store, category)
    assert (planned.group.nodes, planned.record, planned.measurements) == (tuple(NODES), None, None)
    assert "gpu-a, gpu-z" in planned.damage[0]
    assert (before.group.id, before.group.nodes) == ("full-scale-0-before", ("gpu-a", "gpu-z"))
    assert before.record == ran
    monkeypatch.setattr(
        "steps.cluster.attempts.launch.launch",
        lambda _, what, **__: JobResult(what.record(RunOutcome.COMPLETED, ended=NOW)),
    )
    again = run_step(store, ALL_REDUCE, "full-scale-0")
    assert (again.group.nodes, again.attempt) == (tuple(NODES), 2)


def test_isolation_of_a_cohort_that_is_not_planned_any_more_is_left_out(
    store: DirectoryStore,
) -> None:
    pair = PlannedPair(cohort="gone", group=group(NODES, "pair-1-0", "isolate"))
    found = IsolationRound(category=ALL_REDUCE, round=1, pairs=(pair,))
    store.put(found, ALL_REDUCE, "round-1")
    category = planned_category(require_plan(store), ALL_REDUCE)
    assert [run.group.id for run in collect_runs(store, category)] == ["full-scale-0"]


def test_verdict_that_is_older_than_a_record_is_not_used(store: DirectoryStore) -> None:
    """Evaluate was lost after a retry, or somebody wrote for a run step that was lost."""
    evaluate_step(store, ALL_REDUCE)
    event = NodeEvent(node="gpu-b", at=NOW, code="NODE_NOT_READY", source="x", text="gone")
    lost = record(group(NODES), RunOutcome.HARDWARE, events=[event])
    store.put(lost, ALL_REDUCE, "full-scale-0")
    first, _ = aggregate_step(store)
    assert [node.node for node in first.nodes if node.status is NodeStatus.FAILED] == ["gpu-b"]
    assert evaluate_step(store, ALL_REDUCE).groups[0].record == digest(lost)
    store.put(stopped(2), ALL_REDUCE, "full-scale-0")
    second, _ = aggregate_step(store)
    assert {node.status for node in second.nodes} == {NodeStatus.NOT_PROVEN}


def test_what_a_stopped_run_measured_is_not_taken_for_the_next(store: DirectoryStore) -> None:
    category = planned_category(require_plan(store), ALL_REDUCE)

    def attempts() -> list[int | None]:
        reads = [run.measurements for run in collect_runs(store, category)]
        return [read.attempt if read else None for read in reads]

    store.put_log("a.log", b"half\n")
    store.put(record(group(NODES)), ALL_REDUCE, "full-scale-0")
    assert parse_step(store, ALL_REDUCE) == 1
    assert attempts() == [1]
    again = record(group(NODES)).model_copy(update={"attempt": 2})
    store.put(again, ALL_REDUCE, "full-scale-0")
    assert attempts() == [None]
    assert parse_step(store, ALL_REDUCE) == 1
    assert attempts() == [2]
    assert parse_step(store, ALL_REDUCE) == 0
    read = store.get(Measurements, ALL_REDUCE, "full-scale-0")
    assert read is not None
    assert read.attempt == 2


def test_stopped_step_has_failed_for_argo(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", f"--store={store.root}", f"--category={ALL_REDUCE}", "--group=full-scale-0"]
    words.append(f"--outputs={store.root}/outputs")
    for found, code in ((stopped(), program.STOPPED_EXIT), (record(group(NODES)), 0)):
        what = found.model_copy(update={"logs": ()})
        monkeypatch.setattr(program, "run_step", lambda *_, _what=what, **__: _what)
        assert CliRunner().invoke(program.app, words).exit_code == code


def test_step_that_should_be_elsewhere_says_so_by_its_exit_code(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def move(*_: object, may_move: bool, here: str, **__: object) -> RunRecord:
        assert (may_move, here) == (True, "gpu-a")
        raise ElsewhereError("runs on gpu-a, a node of its own group")

    monkeypatch.setattr(program, "run_step", move)
    monkeypatch.setenv("NODE_NAME", "gpu-a")
    words = ["steps", "run", f"--store={store.root}", "--category=x", "--group=g", "--starts=4"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as caught:
        program.main()
    assert caught.value.code == program.ELSEWHERE_EXIT
    assert "a node of its own group" in capsys.readouterr().err
