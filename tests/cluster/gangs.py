"""Groups for the run step on the lab's nodes, and what a test does to them while they run.

The tools are the CPU stand-in's real MPI collectives, or small shell scripts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from catalog.entries.entry import Launcher
from catalog.hardware.hardware import Hardware
from catalog.reading.setting import Setting
from catalog.workload.workload import Workload
from steps.cluster.api.client import Cluster as Api
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts.launch import launch
from steps.documents import Group, RunRecord
from steps.jobs.job import Job, JobResult
from steps.store.runs import keep_run
from tests.builders import setting
from tests.cluster.cluster import Cluster
from tests.cluster.lab import Lab
from tests.cluster.shell import LabError, wait_for

ROOT = Path(__file__).parents[2]
STANDIN = "docker.io/library/readiness-standin:test"
ALL_REDUCE = "communication/nccl-all-reduce"
WORKFLOW = WorkflowRun("certify-run", "of-no-workflow")
QUICK = {
    "READINESS_SCHEDULING_DEADLINE": "120",
    "READINESS_POLL_SECONDS": "0.5",
    "READINESS_SETTLE_SECONDS": "4",
    "READINESS_CLEANUP_SECONDS": "90",
    "READINESS_BACKOFF_SECONDS": "1",
}
"""The run step waits as long as suits a test; bounds that only trouble reaches are wide."""

KINDS = "jobs,pods,secrets,configmaps,leases,resourceclaimtemplates"
"""Everything that runs create by these kinds; records are ConfigMaps too, but of no group."""


def build_standin(lab: Lab) -> str:
    """Bring the stand-in to every node and return its name."""
    folder = ROOT / "containers" / "standin"
    lab.build_image(folder, folder / "Containerfile", STANDIN)
    return STANDIN


def open_store(namespace: str) -> ConfigMapStore:
    """Return the record store of a workflow that does not exist."""
    return ConfigMapStore(Api.connect(namespace), WORKFLOW, owned=False)


def waiting_workflow(cluster: Cluster, namespace: str, name: str) -> WorkflowRun:
    """Create a Workflow that waits for ever, to own documents."""
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name},
        "spec": {"entrypoint": "wait", "templates": [{"name": "wait", "suspend": {}}]},
    }
    cluster.apply(workflow, namespace=namespace)
    found = cluster.get("workflow", name, "-n", namespace)
    return WorkflowRun(name, str(found["metadata"]["uid"]))


def left_over(cluster: Cluster, namespace: str, workflow: str = "") -> list[str]:
    """Name what the runs of a workflow, or of all, have left in a namespace."""
    selector = f"readiness/workflow={workflow}" if workflow else "readiness/workflow"
    found = cluster.get(KINDS, "-n", namespace, "-l", selector)["items"]
    return [
        f"{item['kind']}/{item['metadata']['name']}"
        for item in found
        # Leases are of no group.
        if item["kind"] == "Lease" or "readiness/group" in item["metadata"]["labels"]
    ]


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
    options: Mapping[str, object] | None = None,
) -> Workload:
    return Workload(
        options=settings(**(options or {})),
        launcher=kind,
        hardware=Hardware(platform="aws", gpu="h100", gpus_per_node=8, instance_type="p5.48xlarge"),
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


def sleeper(
    image: str, kind: Launcher = Launcher.MPI, *, seconds: float = 100, **changed: Any
) -> Workload:
    return work(image, ("/bin/sh", "-c", f"echo begun; sleep {seconds}"), kind, **changed)


def job(workload: Workload, *nodes: str, group: str = "full-scale-0") -> Job:
    return Job(
        category=ALL_REDUCE,
        cohort="aws",
        workload=workload,
        group=Group(id=group, nodes=nodes or ("node-1", "node-0")),
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


def told_by(record: RunRecord, result: JobResult) -> str:
    """Return all that a run tells, for the message of a test that fails."""
    text = record.model_dump_json(indent=1, exclude={"versions"})
    outputs = [f"--- {name}\n{log.decode(errors='replace')}" for name, log in result.logs.items()]
    return "\n".join([text, *outputs])


_RUN_PROGRAM = """
import sys
from tests.cluster.gangs import job, open_store, run, sleeper
namespace, image = sys.argv[1:]
print(run(open_store(namespace), job(sleeper(image)))[0].outcome)
"""


def start_run_step(namespace: str, image: str) -> subprocess.Popen[str]:
    """Run a sleeper in a process of its own, which prints the outcome."""
    words = [sys.executable, "-c", _RUN_PROGRAM, namespace, image]
    return subprocess.Popen(words, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True)


class InMidRun:
    """Does something once the tool has begun, in a thread beside the run step.

    At the end of the `with` block it has been done, or will not be done any more.
    """

    def __init__(self, cluster: Cluster, namespace: str, act: Callable[[], object]) -> None:
        self._cluster, self._namespace, self._act = cluster, namespace, act
        self._thread = threading.Thread(target=self._wait_and_act, daemon=True)
        self._over = threading.Event()
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(120)
        assert self.error is None, self.error
        assert not self._thread.is_alive(), "what was to be done in mid-run does not end"

    def _wait_and_act(self) -> None:
        try:
            wait_for_tool(self._cluster, self._namespace, self._over)
            self._act()
        except BaseException as error:  # noqa: BLE001  (shown by the test's own thread)
            self.error = error


def wait_for_tool(cluster: Cluster, namespace: str, over: threading.Event | None = None) -> None:
    """Wait until a tool has said that it has begun.

    Args:
        cluster: where.
        namespace: of its pods.
        over: set when it cannot begin any more.

    Raises:
        LabError: it never began.
    """

    def settled() -> bool:
        return (over is not None and over.is_set()) or _begun(cluster, namespace)

    wait_for(
        "the tool to begin",
        settled,
        timeout=180,
        interval=0.3,
        detail=lambda: cluster.kubectl("describe", "pods", "-n", namespace)[-4000:],
    )
    if over is not None and over.is_set():
        raise LabError("the run was over before its tool was seen to begin")


def _begun(cluster: Cluster, namespace: str) -> bool:
    for pod in cluster.get("pods", "-n", namespace)["items"]:
        done = cluster.try_kubectl("logs", pod["metadata"]["name"], "-n", namespace)
        if "begun" in done.stdout:
            return True
    return False


def worker_on(cluster: Cluster, namespace: str, node: str) -> str:
    """Return the name of the worker pod on a node."""
    words = ["pods", "-n", namespace, "-l", "readiness/role=worker"]
    pods = cluster.get(*words)["items"]
    return next(str(p["metadata"]["name"]) for p in pods if p["spec"]["nodeName"] == node)
