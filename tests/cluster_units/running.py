"""Running a whole group against the cluster in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from catalog.entries.entry import Launcher
from catalog.hardware.hardware import Hardware
from catalog.workload.workload import Workload
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts.launch import launch
from steps.jobs.job import Job, JobResult
from tests.builders import ALL_REDUCE, group, workload
from tests.cluster_units.fake import FakeCluster

HEADING = (
    b"#       size         count      type   redop    root     time   algbw   busbw #wrong"
    b"     time   algbw   busbw #wrong\n"
)
TABLE = b"# nThread 1\n#       size\n     8   1.0\n"
NODES = ("gpu-a", "gpu-b")
WORKFLOW = WorkflowRun("certify-x7k2p", "u1")
HARDWARE = Hardware(platform="onprem", gpu="h100", gpus_per_node=8)
Script = Callable[[FakeCluster], None]


def row(size: int, microseconds: float = 31.2) -> bytes:
    """Return a row of nccl-tests."""
    speed = size / microseconds / 1e3
    side = f"{microseconds:8.2f} {speed:7.2f} {speed:7.2f}      0"
    return f"{size:12d} {size // 4:13d}     float     sum      -1 {side} {side}\n".encode()


def job(
    kind: Launcher = Launcher.MPI,
    nodes: tuple[str, ...] = NODES,
    category: str = ALL_REDUCE,
    **changed: object,
) -> Job:
    base = workload().model_copy(update={"launcher": kind, "hardware": HARDWARE, **changed})
    return Job(
        category=category,
        cohort="onprem-h100",
        workload=Workload.model_validate(base.model_dump()),
        group=group(nodes),
        start=datetime.now(UTC),
    )


def run(cluster: FakeCluster, what: Job, deadline_seconds: float | None = None) -> JobResult:
    store = ConfigMapStore(cluster, WORKFLOW)
    result = launch(store, what, deadline_seconds=deadline_seconds)
    assert set(result.logs) == {log.name for log in result.record.logs}
    return result


def assert_nothing_left(cluster: FakeCluster) -> None:
    kinds = {kind for kind, _ in cluster.objects}
    assert kinds <= {"Node", "Event", "Workflow"}


def when_runs(role: str, act: Script) -> Script:
    """Act on every look at which the pods of a role run."""

    def script(cluster: FakeCluster) -> None:
        pods = [p for p in cluster.of("Pod") if p["metadata"]["labels"]["readiness/role"] == role]
        if pods and all(pod["status"].get("phase") == "Running" for pod in pods):
            act(cluster)

    return script
