"""The run step against a real Kubernetes: how runs end, what the records say, nothing left over.

Failures to launch have a module of their own.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from catalog.entries.entry import Launcher, find_entry
from catalog.workload.workload import Workload
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.objects import torchrun as module
from steps.cluster.watching import patience
from steps.documents import RunOutcome, RunRecord
from steps.parse.measure import measure
from tests.bench.gang_starts import start_gangs
from tests.builders import setting
from tests.cluster import dress
from tests.cluster.cluster import Cluster
from tests.cluster.gangs import (
    ALL_REDUCE,
    InMidRun,
    collective,
    job,
    run,
    sleeper,
    start_run_step,
    told_by,
    wait_for_tool,
    work,
)
from tests.cluster.lab import Lab
from tests.cluster.policies import QUEUE, queueing
from tests.cluster.shell import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("run_step")]


@pytest.fixture(scope="module", autouse=True)
def p5_nodes(lab: Lab) -> None:
    lab.dress_all(dress.AWS_P5)


def test_gang_runs_a_real_collective_on_both_nodes(standin: str, store: ConfigMapStore) -> None:
    record, result = run(store, job(collective(standin)))
    assert record.outcome is RunOutcome.COMPLETED, told_by(record, result)
    (output,) = result.logs.values()
    assert (record.exit_code, record.attempt, record.failures) == (0, 1, ())
    assert not record.logs[0].truncated
    assert set(record.placements.values()) == {"node-0", "node-1"}
    assert "sha256:" in record.versions["image"]
    assert record.versions["driver"] == "570.133.20"
    read = measure(find_entry(ALL_REDUCE), collective(standin), record, store.get_log)
    assert read.completeness == "complete", output.decode()
    assert len(read.rows) > 5
    # Ranks 0 and 1 are on the first node of the group, whatever the scheduler did.
    places = {place.rank: place.node for place in read.ranks}
    assert places == {0: "node-1", 1: "node-1", 2: "node-0", 3: "node-0"}


def test_single_node_runs_without_ssh(standin: str, store: ConfigMapStore) -> None:
    record, result = run(store, job(collective(standin), "node-0", group="node-0"))
    assert record.outcome is RunOutcome.COMPLETED, told_by(record, result)
    assert record.logs[0].node == "node-0"


def test_per_node_tool_gives_its_exit_code_and_output(standin: str, store: ConfigMapStore) -> None:
    command = ("/bin/sh", "-c", "echo one; echo two >&2; exit 226")
    what = job(work(standin, command, Launcher.PER_NODE), "node-1", group="node-1")
    record, result = run(store, what)
    outcome = (record.outcome, record.exit_code)
    assert outcome == (RunOutcome.FAILED, 226), told_by(record, result)
    assert sorted(next(iter(result.logs.values())).split()) == [b"one", b"two"]
    assert not record.logs[0].truncated


def test_torchrun_gang_gets_its_places(
    standin: str, store: ConfigMapStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The stand-in has no torch; what matters here is what torchrun would be told.
    torchrun = "/usr/bin/torchrun"
    fake = f"printf '#!/bin/sh\\necho \"$@\"\\n' > {torchrun}; chmod +x {torchrun}"
    original = module.worker_command

    def with_fake(workload: Workload, nodes: int) -> list[str]:
        *shell, script = original(workload, nodes)
        return [*shell, f"{fake}\n{script}"]

    monkeypatch.setattr(module, "worker_command", with_fake)
    what = work(standin, ("train", "--bf16"), Launcher.TORCHRUN)
    record, result = run(store, job(what))
    assert record.outcome is RunOutcome.COMPLETED, told_by(record, result)
    told = {log.node: result.logs[f"full-scale-0-{log.node}.log"].decode() for log in record.logs}
    assert "--node-rank=0" in told["node-1"]
    assert "--node-rank=1" in told["node-0"]
    masters = {text.split("--master-addr=")[1].split()[0] for text in told.values()}
    assert len(masters) == 1
    assert next(iter(masters)).startswith("10.244.")
    assert told["node-0"].split()[0] == "--nnodes=2"
    assert told["node-0"].split()[-2:] == ["train", "--bf16"]


def test_tool_that_fails_on_a_rank(standin: str, store: ConfigMapStore) -> None:
    what = work(standin, ("/bin/sh", "-c", 'exit "$OMPI_COMM_WORLD_RANK"'))
    record, result = run(store, job(what))
    assert record.outcome is RunOutcome.FAILED, told_by(record, result)
    assert record.failures[0].code == "WorkloadFailed", told_by(record, result)
    assert record.attempt == 1


def test_collective_that_hangs_has_stalled(standin: str, store: ConfigMapStore) -> None:
    # Rows come within milliseconds of each other, unless the machine does something else.
    what = collective(standin, options={"stallTimeoutSeconds": 10, "stallMultiplier": 3})
    what.env["STANDIN_HANG_BYTES"] = setting(4096)
    record, result = run(store, job(what))
    assert record.outcome is RunOutcome.STALLED, told_by(record, result)
    (failure,) = record.failures
    assert failure.code == "WorkloadStalled"
    assert "no row since 2K" in failure.message, told_by(record, result)
    assert (record.attempt, record.events) == (1, ())


def test_tool_that_never_begins_has_stalled(standin: str, store: ConfigMapStore) -> None:
    # Without mpirun, so that its first word is there as soon as it runs.
    command = ("/bin/sh", "-c", "trap exit TERM; echo begun; sleep 100 & wait")
    what = work(standin, command, Launcher.PER_NODE, options={"startupStallTimeoutSeconds": 4})
    record, result = run(store, job(what))
    assert record.outcome is RunOutcome.STALLED, told_by(record, result)
    (failure,) = record.failures
    assert failure.code == "WorkloadStalled"
    assert "its last line is: begun" in failure.message, told_by(record, result)


def test_cordon_in_mid_run(standin: str, store: ConfigMapStore, lab: Lab, namespace: str) -> None:
    try:
        with InMidRun(lab, namespace, lambda: lab.cordon("node-0")):
            record, result = run(store, job(sleeper(standin)))
    finally:
        lab.uncordon("node-0")
    assert record.outcome is RunOutcome.HARDWARE, told_by(record, result)
    assert [(event.node, event.code) for event in record.events] == [("node-0", "NODE_CORDONED")]
    assert record.attempt == 1


def test_gpu_health_taint_in_mid_run(
    standin: str, store: ConfigMapStore, lab: Lab, namespace: str
) -> None:
    taint = "nvidia.com/gpu-xid-error=true:NoSchedule"
    try:
        with InMidRun(lab, namespace, lambda: lab.kubectl("taint", "node", "node-1", taint)):
            record, result = run(store, job(sleeper(standin)))
    finally:
        # Not there where the run ended too early for it.
        lab.try_kubectl("taint", "node", "node-1", "nvidia.com/gpu-xid-error-")
    assert record.events, told_by(record, result)
    assert [(e.node, e.code, e.text) for e in record.events] == [
        ("node-1", "NODE_UNHEALTHY", taint)
    ]


def test_kubelet_that_stops_in_mid_run(
    standin: str,
    store: ConfigMapStore,
    lab: Lab,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("READINESS_CLEANUP_SECONDS", "5")
    try:
        with InMidRun(lab, namespace, lambda: lab.stop_kubelet("node-0")):
            record, result = run(store, job(sleeper(standin, seconds=400, timeout=500)))
    finally:
        lab.start_kubelet("node-0")
    assert record.outcome is RunOutcome.HARDWARE, told_by(record, result)
    assert [(event.node, event.code) for event in record.events] == [("node-0", "NODE_NOT_READY")]
    # Its pod cannot be confirmed gone while the kubelet is away, and that is said.
    first, *others = [failure.code for failure in record.failures]
    assert first == "HardwareFailureDetected"
    assert set(others) == {"INFRA_NOT_FREED"}  # its worker, and the launcher where that was there
    wait_for(
        "the pod to go with the kubelet's return",
        lambda: not lab.get("pods", "-n", namespace)["items"],
        timeout=120,
    )


def test_kubelet_that_stops_shortly_before_the_tool_ends_well(
    standin: str,
    store: ConfigMapStore,
    lab: Lab,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tool is over long before Kubernetes calls the node NotReady."""
    monkeypatch.setenv("READINESS_CLEANUP_SECONDS", "5")
    stopped: list[str] = []

    def stop() -> None:
        words = ["pods", "-n", namespace, "-l", "readiness/role=launcher"]
        (launcher,) = lab.get(*words)["items"]
        (node,) = {"node-0", "node-1"} - {launcher["spec"]["nodeName"]}
        stopped.append(node)
        lab.stop_kubelet(node)

    try:
        with InMidRun(lab, namespace, stop):
            record, result = run(store, job(sleeper(standin, seconds=10)))
    finally:
        for node in stopped:
            lab.start_kubelet(node)
    assert (record.outcome, record.exit_code) == (RunOutcome.HARDWARE, 0), told_by(record, result)
    assert [(event.node, event.code) for event in record.events] == [(stopped[0], "NODE_NOT_READY")]
    first, *others = [failure.code for failure in record.failures]
    assert first == "HardwareFailureDetected"
    assert set(others) == {"INFRA_NOT_FREED"}  # its worker, and the launcher where that was there
    wait_for(
        "the pod to go with the kubelet's return",
        lambda: not lab.get("pods", "-n", namespace)["items"],
        timeout=120,
    )


class SkippingClock:
    """The run step's clock of patience, which a test can put forward."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self.asked = False

    def monotonic(self) -> float:
        self.asked = True
        return time.monotonic() + self._ahead

    def skip(self, seconds: float) -> None:
        self._ahead += seconds
        self.asked = False


def test_time_in_a_queue_does_not_count(
    standin: str,
    store: ConfigMapStore,
    lab: Lab,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SkippingClock()
    monkeypatch.setattr(patience, "time", clock)

    def admit() -> None:
        jobs = ["jobs", "-n", namespace, "-l", QUEUE]
        wait_for("the Job to be queued", lambda: bool(lab.get(*jobs)["items"]), timeout=60)
        clock.skip(3600)
        wait_for("the run step to see that time passed", lambda: clock.asked, timeout=60)
        name = lab.get(*jobs)["items"][0]["metadata"]["name"]
        lab.kubectl("patch", "job", name, "-n", namespace, "-p", '{"spec": {"suspend": false}}')

    what = collective(standin)
    what.pod["jobLabels"] = setting({QUEUE: "gpus"})
    with queueing(lab, namespace), ThreadPoolExecutor(1) as beside:
        admitted = beside.submit(admit)
        record, result = run(store, job(what))
        admitted.result()
    outcome = (record.attempt, record.outcome)
    assert outcome == (1, RunOutcome.COMPLETED), told_by(record, result)


def test_sigterm_cleans_up_and_leaves_a_record(
    standin: str, store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    with start_run_step(namespace, standin) as step:
        wait_for_tool(cluster, namespace)
        before = time.monotonic()
        step.terminate()
        output, _ = step.communicate(timeout=60)
        took = time.monotonic() - before
    assert output.splitlines()[-1] == "stopped"
    # Argo and Kubernetes give 30 seconds.
    assert took < 25
    record = store.get(RunRecord, ALL_REDUCE, "full-scale-0")
    assert record is not None
    assert [failure.code for failure in record.failures] == ["INFRA_STOPPED"], record.failures
    assert b"begun" in store.get_log(record.logs[0].name)


def test_next_run_removes_what_a_killed_step_left(
    standin: str, store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    with start_run_step(namespace, standin) as step:
        wait_for_tool(cluster, namespace)
        step.kill()
    record, result = run(store, job(collective(standin)))
    assert record.outcome is RunOutcome.COMPLETED, told_by(record, result)


def test_ten_starts_in_a_row_lose_none(
    standin: str, store: ConfigMapStore, lab: Lab, namespace: str
) -> None:
    """A short run of `python -m tests.bench gang-starts`."""
    starts = list(start_gangs(lab, namespace, standin, list(range(10))))
    assert [(start.told, start.record.failures) for start in starts if start.lost] == []
    slow = [start.told for start in starts if start.ready_to_output > 30]
    assert slow == []
