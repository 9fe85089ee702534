"""The run step against a real Kubernetes: how runs end, what the records say, nothing left over.

The tools are the CPU stand-in's real MPI collectives, or small shell scripts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catalog.bars import Hardware
from catalog.entry import find_entry
from catalog.resolved import Launcher, Setting, Workload
from steps.cluster import mpi
from steps.cluster import torchrun as module
from steps.cluster.api import Cluster as Api
from steps.cluster.launch import launch
from steps.cluster.store import ConfigMapStore
from steps.documents import Group, RunOutcome, RunRecord
from steps.parse.measure import measure
from steps.programs.runs import keep_run
from steps.run.job import Job, JobResult
from tests.builders import setting
from tests.cluster.cluster import Cluster
from tests.cluster.lab import Lab
from tests.cluster.shell import wait_for

pytestmark = pytest.mark.cluster

STANDIN = "docker.io/library/readiness-standin:test"
ROOT = Path(__file__).parents[2]
ALL_REDUCE = "communication/nccl-all-reduce"
WORKFLOW = "certify-run"
QUICK = {
    "READINESS_SCHEDULING_DEADLINE": "20",
    "READINESS_POLL_SECONDS": "0.5",
    "READINESS_SETTLE_SECONDS": "8",
    "READINESS_CLEANUP_SECONDS": "30",
    "READINESS_BACKOFF_SECONDS": "1",
}


@pytest.fixture(scope="session")
def standin(lab: Lab) -> str:
    folder = ROOT / "containers" / "standin"
    lab.build_image(folder, folder / "Containerfile", STANDIN)
    return STANDIN


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def store(namespace: str) -> ConfigMapStore:
    return ConfigMapStore(Api.connect(namespace), WORKFLOW)


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster, namespace: str) -> Iterator[None]:
    yield
    words = ["jobs,pods,secrets,leases", "-n", namespace, "-l", "readiness/workflow"]
    left = cluster.get(*words)["items"]
    assert [(item["kind"], item["metadata"]["name"]) for item in left] == []


def settings(**values: object) -> dict[str, Setting]:
    return {name: setting(value) for name, value in values.items()}


def work(
    image: str,
    command: tuple[str, ...],
    kind: Launcher = Launcher.MPI,
    *,
    ranks: int = 2,
    gpus: int = 8,
    timeout: float = 120,
) -> Workload:
    return Workload(
        launcher=kind,
        image=setting(image),
        command=command,
        env=settings(NCCL_DEBUG="WARN"),
        resources={"nvidia.com/gpu": setting(gpus)},
        gpus_per_node=setting(ranks),
        nics_per_node=setting(0),
        nic_resource=setting(None),
        transport=setting([]),
        pod=settings(
            volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
            volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}],
        ),
        launch=settings(
            mpirun="/usr/bin/mpirun",
            flags={"-N": str(ranks), "--allow-run-as-root": "", "--oversubscribe": ""},
            mca={"plm_rsh_args": "-o StrictHostKeyChecking=no"},
        ),
        timeout_seconds=setting(timeout),
    )


def collective(image: str, **changed: Any) -> Workload:
    command = ("/usr/local/bin/all_reduce_perf_mpi", "-b", "8", "-e", "64K", "-f", "2", "-n", "5")
    return work(image, command, **changed)


def sleeper(image: str, kind: Launcher = Launcher.MPI, **changed: Any) -> Workload:
    return work(image, ("/bin/sh", "-c", "echo begun; sleep 100"), kind, **changed)


def job(workload: Workload, *nodes: str, group: str = "full-scale-0") -> Job:
    return Job(
        category=ALL_REDUCE,
        cohort="aws",
        workload=workload,
        group=Group(id=group, nodes=nodes or ("node-1", "node-0")),
        hardware=Hardware(
            platform="aws",
            gpu_architecture="h100",
            gpus_per_node=8,
            instance_type="p5.48xlarge",
            profile=None,
        ),
        start=datetime.now(UTC),
    )


def run(store: ConfigMapStore, what: Job) -> tuple[RunRecord, JobResult]:
    """Run a group, keep its record, and return it as the store gives it back."""
    result = launch(store, what)
    keep_run(store, result)
    kept = store.get(RunRecord, what.category, what.group.id)
    assert kept is not None
    assert [log.bytes for log in kept.logs] == [len(store.get_log(log.name)) for log in kept.logs]
    return kept, result


class InMidRun:
    """Does something once the tool has begun, in a thread beside the run step."""

    def __init__(self, cluster: Cluster, namespace: str, act: Callable[[], object]) -> None:
        self._cluster, self._namespace, self._act = cluster, namespace, act
        self._thread = threading.Thread(target=self._wait_and_act, daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        assert self.error is None, self.error

    def _wait_and_act(self) -> None:
        try:
            wait_for("the tool to begin", self._begun, timeout=60, interval=0.3)
            self._act()
        except BaseException as error:  # noqa: BLE001  (shown by the test's own thread)
            self.error = error

    def _begun(self) -> bool:
        return tool_has_begun(self._cluster, self._namespace)


def tool_has_begun(cluster: Cluster, namespace: str) -> bool:
    for pod in cluster.get("pods", "-n", namespace)["items"]:
        done = cluster.try_kubectl("logs", pod["metadata"]["name"], "-n", namespace)
        if "begun" in done.stdout:
            return True
    return False


def worker_on(cluster: Cluster, namespace: str, node: str) -> str:
    words = ["pods", "-n", namespace, "-l", "readiness/role=worker"]
    pods = cluster.get(*words)["items"]
    return next(str(p["metadata"]["name"]) for p in pods if p["spec"]["nodeName"] == node)


def test_gang_runs_a_real_collective_on_both_nodes(standin: str, store: ConfigMapStore) -> None:
    record, result = run(store, job(collective(standin)))
    (output,) = result.logs.values()
    assert record.outcome is RunOutcome.COMPLETED, output.decode()
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
    assert record.outcome is RunOutcome.COMPLETED, result.logs
    assert record.logs[0].node == "node-0"


def test_per_node_tool_gives_its_exit_code_and_output(standin: str, store: ConfigMapStore) -> None:
    command = ("/bin/sh", "-c", "echo one; echo two >&2; exit 226")
    what = job(work(standin, command, Launcher.PER_NODE), "node-1", group="node-1")
    record, result = run(store, what)
    assert (record.outcome, record.exit_code) == (RunOutcome.FAILED, 226)
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
    assert record.outcome is RunOutcome.COMPLETED, result.logs
    told = {log.node: result.logs[f"full-scale-0-{log.node}.log"].decode() for log in record.logs}
    assert "--node-rank=0" in told["node-1"]
    assert "--node-rank=1" in told["node-0"]
    masters = {text.split("--master-addr=")[1].split()[0] for text in told.values()}
    assert len(masters) == 1
    assert next(iter(masters)).startswith("10.244.")
    assert told["node-0"].split()[0] == "--nnodes=2"
    assert told["node-0"].split()[-2:] == ["train", "--bf16"]


def test_worker_pod_deleted_in_mid_run(
    standin: str, store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    def delete() -> None:
        name = worker_on(cluster, namespace, "node-0")
        cluster.kubectl("delete", "pod", name, "-n", namespace, "--wait=false")

    with InMidRun(cluster, namespace, delete):
        record, _ = run(store, job(sleeper(standin, timeout=15)))
    # The second attempt has nobody who deletes pods, and runs into its timeout.
    assert record.attempt == 2
    assert record.outcome is RunOutcome.TIMED_OUT


def test_image_that_does_not_exist(store: ConfigMapStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READINESS_SCHEDULING_DEADLINE", "5")
    record, _ = run(store, job(collective("registry.invalid/none:1")))
    assert record.outcome is RunOutcome.INFRASTRUCTURE
    assert record.failures[0].code == "INFRA_IMAGE_PULL"
    assert "registry.invalid/none:1" in record.failures[0].message
    assert record.attempt == 3
    assert record.events == ()


def test_image_without_sshd(lab: Lab, store: ConfigMapStore) -> None:
    image = lab.load_python_image()
    record, _ = run(store, job(collective(image)))
    assert [failure.code for failure in record.failures] == ["INFRA_IMAGE_NO_SSHD"]
    assert record.attempt == 1
    assert "python" in record.failures[0].message


def test_too_few_gpus(standin: str, store: ConfigMapStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READINESS_SCHEDULING_DEADLINE", "5")
    record, _ = run(store, job(collective(standin, gpus=9)))
    assert record.failures[0].code == "INFRA_UNSCHEDULABLE"
    assert "Insufficient nvidia.com/gpu" in record.failures[0].message


def test_quota(cluster: Cluster, standin: str, store: ConfigMapStore, namespace: str) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "8"}},
    }
    cluster.apply(quota, namespace=namespace)
    record, _ = run(store, job(collective(standin)))
    assert record.failures[0].code == "INFRA_QUOTA"
    assert "exceeded quota: gpus" in record.failures[0].message


def test_wrong_key(standin: str, store: ConfigMapStore, monkeypatch: pytest.MonkeyPatch) -> None:
    original = mpi.key_secret

    def spoiled(*args: Any) -> Any:
        secret, other = original(*args), original(*args)
        secret["data"]["id_ed25519"] = other["data"]["id_ed25519"]
        return secret

    monkeypatch.setattr(mpi, "key_secret", spoiled)
    record, result = run(store, job(collective(standin)))
    assert record.outcome is RunOutcome.INFRASTRUCTURE, result.logs
    assert record.failures[0].code == "INFRA_SSH_AUTH"
    assert record.failures[0].entity is not None
    assert record.failures[0].entity.node in {"node-0", "node-1"}
    assert record.attempt == 3


def test_tool_that_fails_on_a_rank(standin: str, store: ConfigMapStore) -> None:
    what = work(standin, ("/bin/sh", "-c", 'exit "$OMPI_COMM_WORLD_RANK"'))
    record, _ = run(store, job(what))
    assert record.outcome is RunOutcome.FAILED
    assert record.failures[0].code == "WorkloadFailed"
    assert record.attempt == 1


def test_tool_out_of_memory(standin: str, store: ConfigMapStore) -> None:
    what = work(standin, ("tail", "/dev/zero"), Launcher.PER_NODE)
    what.resources["limits.memory"] = setting("64Mi")
    record, _ = run(store, job(what, "node-0", group="node-0"))
    assert [failure.code for failure in record.failures] == ["INFRA_OOM_KILLED"]
    assert (record.attempt, record.events) == (1, ())


def test_cordon_in_mid_run(standin: str, store: ConfigMapStore, lab: Lab, namespace: str) -> None:
    try:
        with InMidRun(lab, namespace, lambda: lab.cordon("node-0")):
            record, _ = run(store, job(sleeper(standin)))
    finally:
        lab.uncordon("node-0")
    assert record.outcome is RunOutcome.HARDWARE
    assert [(event.node, event.code) for event in record.events] == [("node-0", "NODE_CORDONED")]
    assert record.attempt == 1


def test_gpu_health_taint_in_mid_run(
    standin: str, store: ConfigMapStore, lab: Lab, namespace: str
) -> None:
    taint = "nvidia.com/gpu-xid-error=true:NoSchedule"
    try:
        with InMidRun(lab, namespace, lambda: lab.kubectl("taint", "node", "node-1", taint)):
            record, _ = run(store, job(sleeper(standin)))
    finally:
        lab.kubectl("taint", "node", "node-1", "nvidia.com/gpu-xid-error-")
    assert [(e.node, e.code, e.text) for e in record.events] == [
        ("node-1", "NODE_UNHEALTHY", taint)
    ]


def test_kubelet_that_stops_in_mid_run(
    standin: str, store: ConfigMapStore, lab: Lab, namespace: str
) -> None:
    try:
        with InMidRun(lab, namespace, lambda: lab.stop_kubelet("node-0")):
            record, _ = run(store, job(sleeper(standin)))
    finally:
        lab.start_kubelet("node-0")
    assert record.outcome is RunOutcome.HARDWARE
    assert [(event.node, event.code) for event in record.events] == [("node-0", "NODE_NOT_READY")]
    # Its pod cannot be confirmed gone while the kubelet is away, and that is said.
    assert [failure.code for failure in record.failures] == [
        "HardwareFailureDetected",
        "INFRA_CLEANUP",
    ]
    wait_for(
        "the pod to go with the kubelet's return",
        lambda: not lab.get("pods", "-n", namespace)["items"],
        timeout=60,
    )


def test_cordoned_node_is_told_at_once(standin: str, store: ConfigMapStore, lab: Lab) -> None:
    lab.cordon("node-1")
    before = time.monotonic()
    try:
        record, _ = run(store, job(collective(standin)))
    finally:
        lab.uncordon("node-1")
    assert record.failures[0].code == "INFRA_UNSCHEDULABLE"
    assert "node-1 is cordoned" in record.failures[0].message
    assert time.monotonic() - before < 15


RUN_PROGRAM = """
import sys
from tests.cluster.test_run_step import job, sleeper, run, WORKFLOW
from steps.cluster.api import Cluster
from steps.cluster.store import ConfigMapStore
namespace, image = sys.argv[1:]
print(run(ConfigMapStore(Cluster.connect(namespace), WORKFLOW), job(sleeper(image)))[0].outcome)
"""


def start_run_step(namespace: str, image: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", RUN_PROGRAM, namespace, image]
    return subprocess.Popen(words, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True)


def test_sigterm_cleans_up_and_leaves_a_record(
    standin: str, store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    with start_run_step(namespace, standin) as step:
        wait_for("the tool to begin", lambda: tool_has_begun(cluster, namespace), timeout=60)
        before = time.monotonic()
        step.terminate()
        output, _ = step.communicate(timeout=60)
        took = time.monotonic() - before
    assert output.strip() == "stopped"
    # Argo and Kubernetes give 30 seconds.
    assert took < 25
    record = store.get(RunRecord, ALL_REDUCE, "full-scale-0")
    assert record is not None
    assert [failure.code for failure in record.failures] == ["INFRA_STOPPED"]
    assert b"begun" in store.get_log(record.logs[0].name)


def test_next_run_removes_what_a_killed_step_left(
    standin: str, store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    with start_run_step(namespace, standin) as step:
        wait_for("the tool to begin", lambda: tool_has_begun(cluster, namespace), timeout=60)
        step.kill()
    record, _ = run(store, job(collective(standin)))
    assert record.outcome is RunOutcome.COMPLETED
