"""Each way in which a launch goes wrong: its code, whether it is tried again, who is named.

Nobody is ever blamed: whatever happens here speaks of us, the image or the cluster's services.
The cases of bug reports carry their numbers (B29, B31, B33, B35, B55, B57).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.entries.entry import Launcher, find_entry
from catalog.errors import ClusterError
from catalog.facts.reasons import Kind, all_reasons, reason
from steps.cluster.api.client import RefusedError
from steps.documents import BarSet, Outcome, RunOutcome, Verdict
from steps.evaluate.category import judge_category
from steps.evaluate.group import judge_group
from steps.jobs.job import Job, JobResult
from steps.jobs.retry import MAX_ATTEMPTS
from steps.parse.measure import measure
from tests.builders import bar, setting
from tests.cluster_units.fake import FINISHED, FakeCluster, end_pod, event
from tests.cluster_units.running import (
    NODES,
    WORKFLOW,
    Script,
    assert_nothing_left,
    job,
    run,
    when_runs,
)

TOLD_BY_OTHERS = {"INFRA_SHM"}
"""A hint in an output."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A situation and what the record must say of it.

    Attributes:
        script: what happens on every look.
        output: what the launcher prints.
        starts: whether pods start by themselves.
        code: of the first failure.
        words: what its message must tell.
        place: the node that is named as the place; None names none.
        permanent: it is not tried again although failures of this code can heal.
        deadline: seconds that the certification may take.
    """

    code: str
    script: Script = lambda _: None
    output: bytes = b""
    starts: bool = True
    words: str = ""
    place: str | None = None
    permanent: bool = False
    deadline: float | None = None
    outcome: RunOutcome = RunOutcome.INFRASTRUCTURE
    job: Callable[[], Job] = field(default=job)


def ends(code: int = 1, role: str = "launcher") -> Script:
    return when_runs(role, lambda c: c.end(role, code))


def worker_on(cluster: FakeCluster, node: str) -> dict[str, Any]:
    return next(p for p in cluster.pods_of("worker") if p["spec"]["nodeName"] == node)


def worker_ends(code: int, **ended: Any) -> Script:
    """The worker on gpu-b ends, and the launcher feels it."""

    def act(c: FakeCluster) -> None:
        end_pod(worker_on(c, "gpu-b"), code, **ended)
        c.end("launcher", 255)

    return when_runs("launcher", act)


def worker_status(**status: Any) -> Script:
    def act(c: FakeCluster) -> None:
        worker_on(c, "gpu-b")["status"].update(status)

    return when_runs("launcher", act)


def disrupted(why: str, message: str) -> Script:
    found = {"type": "DisruptionTarget", "status": "True", "reason": why, "message": message}
    return worker_status(conditions=[{"type": "Ready", "status": "False"}, found])


def waiting(why: str, message: str) -> Script:
    """The pod on gpu-b waits, the other one runs."""

    def act(c: FakeCluster) -> None:
        for pod in c.pods_of("worker"):
            state: dict[str, Any] = {"running": {}}
            if pod["spec"]["nodeName"] == "gpu-b":
                state = {"waiting": {"reason": why, "message": message}}
            image = "registry.example/nccl:1"
            pod["status"]["containerStatuses"] = [{"name": "tool", "image": image, "state": state}]

    return act


def unschedulable(c: FakeCluster) -> None:
    for pod in c.of("Pod"):
        pod["spec"].pop("nodeName", None)
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/4 nodes are available: 2 Insufficient nvidia.com/gpu.",
            }
        ]


def running_but_not_ready(c: FakeCluster) -> None:
    for pod in c.of("Pod"):
        pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


def no_pods(message: str) -> Script:
    def act(c: FakeCluster) -> None:
        c.refusals["Job pods"] = ClusterError()
        for item in c.of("Job"):
            c.put(event(item["metadata"]["name"], "FailedCreate", message))

    return act


def refuses(kind: str, message: str) -> Script:
    def act(c: FakeCluster) -> None:
        c.refusals[kind] = RefusedError(message)

    return act


def breaks(_: FakeCluster) -> None:
    raise ValueError("a number without digits")


def away_for_good(c: FakeCluster) -> None:
    c.away = ClusterError("dial tcp 10.96.0.1:443: connect: connection refused")


def deleted_worker(c: FakeCluster) -> None:
    worker_on(c, "gpu-b")["metadata"]["deletionTimestamp"] = FINISHED


def vanished_worker(c: FakeCluster, *, suspended: bool = False) -> None:
    """Gone before anybody read its conditions; who took it away tells so afterwards."""
    lost = worker_on(c, "gpu-b")["metadata"]["name"]
    del c.objects["Pod", lost]
    if suspended:
        c.job_of("worker")["spec"]["suspend"] = True
        return
    c.put(event(lost, "TaintManagerEviction", "Cancelling deletion of Pod", "Pod", type="Normal"))
    told = event(lost, "Preempted", "Preempted by pod 7 on node gpu-b", "Pod", type="Normal")
    told["metadata"]["name"] += ".2"
    c.put(told)


def lingers(c: FakeCluster) -> None:
    c.deaf = {c.of("Secret")[0]["metadata"]["name"]}
    c.end("launcher", 0)


def stays(c: FakeCluster) -> None:
    c.deaf = {worker_on(c, "gpu-b")["metadata"]["name"]}
    c.end("launcher", 0)


def with_workflow(c: FakeCluster) -> None:
    c.put(
        {
            "kind": "Workflow",
            "metadata": {
                "name": WORKFLOW.name,
                "uid": WORKFLOW.uid,
                "creationTimestamp": "2020-01-01T00:00:00Z",
            },
            "status": {"startedAt": datetime.now(UTC).isoformat()},
        }
    )


CASES = {
    "no-node-has-the-gpus": Case(
        code="INFRA_UNSCHEDULABLE",
        script=unschedulable,
        starts=False,
        words="2 Insufficient nvidia.com/gpu",
    ),
    "gpus-taken-between-scheduling-and-start": Case(
        code="INFRA_UNSCHEDULABLE",
        script=worker_status(phase="Failed", reason="OutOfnvidia.com/gpu", message="used: 8"),
        words="used: 8",
        place="gpu-b",
    ),
    "node-cordoned-before-the-start": Case(
        code="INFRA_UNSCHEDULABLE",
        script=lambda c: c.objects["Node", "gpu-b"]["spec"].update(unschedulable=True),
        words="gpu-b is cordoned; nothing was started",
        place="gpu-b",
    ),
    "B33-workers-run-but-are-not-ready": Case(
        code="INFRA_WORKERS_NOT_READY",
        script=running_but_not_ready,
        starts=False,
        words="did not become Ready",
        place="gpu-b",
    ),
    "pods-are-never-made": Case(
        code="INFRA_WORKERS_NOT_READY",
        script=lambda c: c.refusals.update({"Job pods": ClusterError()}),
        words="has 0 of 2 pods",
    ),
    "registry-is-away": Case(
        code="INFRA_IMAGE_PULL",
        script=waiting("ImagePullBackOff", "dial tcp 10.0.0.9:443: i/o timeout"),
        starts=False,
        words="i/o timeout",
        place="gpu-b",
    ),
    "image-does-not-exist": Case(
        code="INFRA_IMAGE_PULL",
        script=waiting("ErrImagePull", "registry.example/nccl:1: not found"),
        starts=False,
        words="registry.example/nccl:1",
        place="gpu-b",
        permanent=True,
    ),
    "B31-image-without-sshd": Case(
        code="INFRA_IMAGE_NO_SSHD",
        script=when_runs(
            "worker",
            lambda c: end_pod(
                worker_on(c, "gpu-b"), 67, message="the image has no /usr/sbin/sshd: no such file"
            ),
        ),
        words="image registry.example/nccl:1 has no /usr/sbin/sshd",
        place="gpu-b",
    ),
    "B29-ssh-refuses-the-key": Case(
        code="INFRA_SSH_AUTH",
        script=ends(255),
        output=b"root@gpu-b: Permission denied (publickey).\n"
        b"ORTE was unable to reliably start one or more daemons.\n",
        words="root@gpu-b: Permission denied",
        place="gpu-b",
    ),
    "ssh-cannot-connect": Case(
        code="INFRA_SSH_CONNECT",
        script=ends(255),
        output=b"ssh: connect to host gpu-b port 2222: Connection timed out\n",
        place="gpu-b",
    ),
    "name-does-not-resolve": Case(
        code="INFRA_DNS",
        script=ends(255),
        output=b"ssh: Could not resolve hostname gpu-b: Name or service not known\n",
        place="gpu-b",
    ),
    "B35-more-gpus-than-a-node-can-have": Case(
        code="INFRA_BAD_ARGS",
        script=ends(5),
        output=b"# nThread 1 nGpus 99 minBytes 1048576 maxBytes 1048576 step: 2(factor)\n"
        b"# Using devices\n"
        b"Invalid number of GPUs: 198 requested but only 8 were found.\n"
        b" .. gpu-a pid 812: Test failure common.cu:1454\n",
        words="198",
    ),
    "slots-do-not-fit": Case(
        code="INFRA_BAD_ARGS",
        script=ends(1),
        output=b"There are not enough slots available in the system to satisfy the 16\n",
    ),
    "mpirun-loses-a-daemon": Case(
        code="INFRA_MPI",
        script=ends(1),
        output=b"ORTE has lost communication with a remote daemon.\n",
    ),
    "quota-refuses-the-pods": Case(
        code="INFRA_QUOTA",
        script=no_pods('pods "worker-0" is forbidden: exceeded quota: gpus, requested: 8'),
        words="exceeded quota: gpus",
    ),
    "quota-refuses-the-job": Case(
        code="INFRA_QUOTA",
        script=refuses("Job", 'jobs.batch "x" is forbidden: exceeded quota: jobs'),
        words="exceeded quota: jobs",
    ),
    "webhook-denies-the-job": Case(
        code="INFRA_ADMISSION",
        script=refuses("Job", 'admission webhook "policy.example" denied the request: no IPC_LOCK'),
        words="no IPC_LOCK",
    ),
    "policy-denies-the-pods": Case(
        code="INFRA_ADMISSION",
        script=no_pods('pods "worker-0" is forbidden: violates PodSecurity "restricted:latest"'),
        words="restricted:latest",
    ),
    "account-lacks-a-permission": Case(
        code="INFRA_API",
        script=refuses("Job", 'jobs.batch is forbidden: User "u" cannot create resource "jobs"'),
        words="cannot create resource",
        permanent=True,
    ),
    "api-server-has-not-read-its-roles-yet": Case(
        code="INFRA_API",
        script=refuses(
            "Job",
            'jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch" '
            'in the namespace "n": RBAC: role.rbac.authorization.k8s.io "runner" not found',
        ),
    ),
    "token-is-not-known-yet": Case(code="INFRA_API", script=refuses("Job", "Unauthorized")),
    "run-step-has-a-bug": Case(
        code="INFRA_STEP_DIED",
        script=when_runs("launcher", breaks),
        output=b"half a table\n",
        words="ValueError: a number without digits",
    ),
    "api-server-stays-away": Case(
        code="INFRA_API", script=when_runs("launcher", away_for_good), words="connection refused"
    ),
    "kubelet-evicts": Case(
        code="INFRA_EVICTED",
        script=worker_status(
            phase="Failed", reason="Evicted", message="The node was low on resource: memory."
        ),
        words="low on resource: memory",
        place="gpu-b",
    ),
    "somebody-drains": Case(
        code="INFRA_EVICTED",
        script=disrupted("EvictionByEvictionAPI", "Eviction API: evicting"),
        place="gpu-b",
    ),
    "scheduler-preempts": Case(
        code="INFRA_PREEMPTED",
        script=disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate"),
        place="gpu-b",
    ),
    "scheduler-preempts-and-the-pod-is-gone": Case(
        code="INFRA_PREEMPTED",
        script=when_runs("launcher", vanished_worker),
        words="Preempted by pod 7 on node gpu-b",
        place="gpu-b",
    ),
    "queue-preempts": Case(
        code="INFRA_PREEMPTED",
        script=when_runs("launcher", lambda c: vanished_worker(c, suspended=True)),
        words="suspended in mid-run",
    ),
    "worker-runs-out-of-memory": Case(
        code="INFRA_OOM_KILLED", script=worker_ends(137, reason="OOMKilled"), place="gpu-b"
    ),
    "secret-is-missing": Case(
        code="INFRA_CONTAINER_CONFIG",
        script=waiting("CreateContainerConfigError", 'secret "pull" not found'),
        starts=False,
        words='secret "pull" not found',
        place="gpu-b",
    ),
    "container-cannot-start": Case(
        code="INFRA_CONTAINER_CONFIG",
        script=worker_ends(128, reason="StartError", message="exec: /bin/sh: no such file"),
        words="/bin/sh: no such file",
        place="gpu-b",
    ),
    "worker-is-deleted": Case(
        code="INFRA_POD_LOST", script=when_runs("launcher", deleted_worker), place="gpu-b"
    ),
    "worker-ends-before-the-launcher": Case(
        code="INFRA_POD_LOST",
        script=when_runs("launcher", lambda c: end_pod(worker_on(c, "gpu-b"), 0)),
        place="gpu-b",
    ),
    "node-leaves-the-cluster": Case(
        code="INFRA_NODE_GONE",
        script=when_runs("launcher", lambda c: c.objects.pop(("Node", "gpu-b"), None)),  # type: ignore[arg-type]
        place="gpu-b",
    ),
    "deadline-of-the-certification": Case(
        code="INFRA_DEADLINE", deadline=0.4, outcome=RunOutcome.TIMED_OUT, words="passed"
    ),
    "told-to-stop": Case(
        code="INFRA_STOPPED",
        script=when_runs("launcher", lambda _: signal.raise_signal(signal.SIGTERM)),
        outcome=RunOutcome.STOPPED,
        words="SIGTERM",
    ),
    "pod-that-does-not-go": Case(
        code="INFRA_NOT_FREED",
        script=when_runs("launcher", stays),
        outcome=RunOutcome.COMPLETED,
        words="still there after clean-up: Pod",
        place="gpu-b",
    ),
    "secret-that-does-not-go": Case(
        code="INFRA_CLEANUP",
        script=when_runs("launcher", lingers),
        outcome=RunOutcome.COMPLETED,
        words="Secret",
    ),
}


def result_of(case: Case) -> tuple[FakeCluster, JobResult]:
    cluster = FakeCluster(*NODES)
    cluster.starts = case.starts
    cluster.outputs["*"] = case.output
    cluster.before_look = case.script
    if case.deadline:
        with_workflow(cluster)
    return cluster, run(cluster, case.job(), case.deadline)


def judged(what: Job, result: JobResult, tool: str = "nccl") -> Verdict:
    record = result.record
    entry = find_entry(record.category)
    read = measure(entry, what.workload, record, lambda name: result.logs[name])
    bars = BarSet(nodes=len(record.group.nodes), bars=(bar("rowCount >= 1"),))
    verdict = judge_group(record.group, tool, bars, record=record, measurements=read)
    return judge_category(record.category, record.group.nodes, [verdict], [record])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_launch_that_goes_wrong(case: Case) -> None:
    cluster, result = result_of(case)
    record = result.record
    assert record.outcome is case.outcome
    assert record.failures[0].code == case.code
    assert case.words in record.failures[0].message
    entity = record.failures[0].entity
    assert (entity.node if entity else None) == case.place
    heals = reason(case.code).heals and not case.permanent
    assert record.attempt == (MAX_ATTEMPTS if heals else 1)
    assert record.events == ()
    if cluster.away is None and not cluster.deaf:
        assert_nothing_left(cluster)
    # Nobody is blamed, and nobody passes.
    verdict = judged(case.job(), result)
    assert {node.outcome for node in verdict.nodes} == {Outcome.INCONCLUSIVE}
    assert all(node.reason is None for node in verdict.nodes)


def test_every_infrastructure_code_has_a_case() -> None:
    codes = {
        item.code
        for item in all_reasons()
        if item.kind is Kind.INFRASTRUCTURE and item.code.startswith("INFRA_")
    }
    assert {case.code for case in CASES.values()} == codes - TOLD_BY_OTHERS


def test_b35_a_gpu_that_is_missing_is_found_on_its_node() -> None:
    cluster = FakeCluster("gpu-a")
    cluster.outputs["*"] = (
        b"# nThread 1 nGpus 8 minBytes 1048576 maxBytes 1048576 step: 2(factor)\n"
        b"# Using devices\n"
        b"Invalid number of GPUs: 8 requested but only 7 were found.\n"
        b" .. gpu-a pid 812: Test failure common.cu:1454\n"
    )
    cluster.before_look = ends(5, "worker")
    what = job(nodes=("gpu-a",))
    result = run(cluster, what)
    assert (result.record.outcome, result.record.attempt) == (RunOutcome.FAILED, 1)
    (node,) = judged(what, result).nodes
    assert node.outcome is Outcome.FAIL
    assert "GPU_MISSING" in {item.code for item in node.reasons}


def diagnostic() -> Job:
    return job(
        Launcher.PER_NODE,
        ("gpu-a",),
        "diagnostics/dcgm-level2",
        command=("dcgmi", "diag", "--run", "2", "--json"),
        timeout_seconds=setting(0.2),
    )


def test_b57_diagnostic_that_hangs_is_a_timeout_of_its_node_alone() -> None:
    cluster = FakeCluster("gpu-a")
    result = run(cluster, diagnostic())
    record = result.record
    assert (record.outcome, record.exit_code, record.attempt) == (RunOutcome.TIMED_OUT, None, 1)
    (failure,) = record.failures
    assert failure.code == "DCGM_TIMEOUT"
    assert failure.entity is not None
    assert failure.entity.node == "gpu-a"
    assert_nothing_left(cluster)
    (node,) = judged(diagnostic(), result, "dcgm").nodes
    assert (node.outcome, node.reason) == (Outcome.INCONCLUSIVE, None)
    assert node.reasons[0].code == "DCGM_TIMEOUT"


def test_b55_diagnostic_that_ends_without_a_word_did_not_run() -> None:
    cluster = FakeCluster("gpu-a")
    cluster.before_look = ends(226, "worker")
    result = run(cluster, diagnostic())
    assert (result.record.outcome, result.record.attempt) == (RunOutcome.FAILED, 1)
    (node,) = judged(diagnostic(), result, "dcgm").nodes
    assert (node.outcome, node.reason) == (Outcome.INCONCLUSIVE, None)
    assert "DCGM_DID_NOT_RUN" in {item.code for item in node.reasons}
