"""Every way in which a launch fails that is not the nodes' fault, made to happen for real.

Each has its code and the words of whoever refused, fails no node, and leaves nothing behind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from catalog.entries.entry import Launcher, find_entry
from catalog.workload.workload import Workload
from pipelines.templates.access import RUNNER_CLUSTER_RULES, RUNNER_RULES
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts import attempt
from steps.cluster.objects import mpi
from steps.cluster.objects.names import GroupNames
from steps.documents import Outcome, RunOutcome, RunRecord
from steps.evaluate.core import evaluate
from steps.jobs import retry
from steps.jobs.job import Job
from steps.parse.measure import measure
from steps.store.runs import Run
from tests.builders import plan, setting
from tests.cluster import dress
from tests.cluster.gangs import (
    ALL_REDUCE,
    WORKFLOW,
    InMidRun,
    collective,
    job,
    open_store,
    run,
    sleeper,
    told_by,
    work,
    worker_on,
)
from tests.cluster.lab import Lab
from tests.cluster.policies import REFUSAL, refusing
from tests.cluster.processes import paused
from tests.cluster.shell import wait_for
from tests.cluster.signs import PatienceUntil, Sign, image_not_pulled, unschedulable, warned

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("run_step")]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a failure is staged."""

    lab: Lab
    namespace: str
    standin: str
    patch: pytest.MonkeyPatch

    def apply(self, *documents: Mapping[str, Any]) -> None:
        self.lab.apply(*documents, namespace=self.namespace)

    def impatient(self, sign: Sign) -> None:
        """Let the scheduling deadline pass when a sign has shown, however long that takes."""

        def patience(seconds: float) -> PatienceUntil:
            return PatienceUntil(seconds, self.lab, self.namespace, sign)

        self.patch.setattr(attempt, "Patience", patience)

    def wait_refused(self, words: str, pod: Mapping[str, Any]) -> None:
        """Wait until the API server refuses a pod by what was set up for that."""
        create = ["create", "--dry-run=server", "-n", self.namespace, "-f", "-"]
        wait_for(
            f"the API server to say {words!r}",
            lambda: words in self.lab.try_kubectl(*create, stdin=json.dumps(pod)).stderr,
            timeout=60,
        )

    def in_mid_run(self, act: Callable[[], object]) -> InMidRun:
        return InMidRun(self.lab, self.namespace, act)

    def worker(self, node: str) -> str:
        return worker_on(self.lab, self.namespace, node)

    def sleeper(self) -> Job:
        return job(sleeper(self.standin))


Scene = Callable[[Stage], AbstractContextManager[Job]]


def probe_pod(gpus: int = 0) -> dict[str, Any]:
    """A pod to ask the API server about."""
    box: dict[str, Any] = {"name": "one", "image": "none"}
    if gpus:
        box["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {"containers": [box]},
    }


@contextmanager
def image_that_does_not_exist(stage: Stage) -> Iterator[Job]:
    stage.impatient(image_not_pulled)
    yield job(collective("registry.invalid/none:1"))


@contextmanager
def image_name_that_cannot_be(stage: Stage) -> Iterator[Job]:
    yield job(collective("registry.invalid/Not//aName"))


@contextmanager
def image_without_sshd(stage: Stage) -> Iterator[Job]:
    yield job(collective(stage.lab.load_python_image()))


@contextmanager
def key_of_another_run(stage: Stage) -> Iterator[Job]:
    original = mpi.key_secret

    def spoiled(*args: Any) -> Any:
        secret, other = original(*args), original(*args)
        secret["data"]["id_ed25519"] = other["data"]["id_ed25519"]
        return secret

    stage.patch.setattr(mpi, "key_secret", spoiled)
    yield job(collective(stage.standin))


@contextmanager
def host_names_nobody_knows(stage: Stage) -> Iterator[Job]:
    stage.patch.setattr(mpi, "host_names", lambda addresses: ({n: n for n in addresses}, []))
    yield job(collective(stage.standin))


@contextmanager
def sshd_on_another_port(stage: Stage) -> Iterator[Job]:
    moved = mpi._SSH_CONFIG.replace(str(mpi.SSH_PORT), "2223")
    stage.patch.setattr(mpi, "_SSH_CONFIG", moved)
    yield job(collective(stage.standin))


@contextmanager
def more_gpus_than_a_node_has(stage: Stage) -> Iterator[Job]:
    stage.impatient(unschedulable("Insufficient nvidia.com/gpu"))
    yield job(collective(stage.standin, gpus=9))


@contextmanager
def cordoned_node(stage: Stage) -> Iterator[Job]:
    stage.lab.cordon("node-1")
    try:
        yield job(collective(stage.standin))
    finally:
        stage.lab.uncordon("node-1")


@contextmanager
def tainted_node(stage: Stage) -> Iterator[Job]:
    stage.impatient(unschedulable("untolerated taint"))
    stage.lab.kubectl("taint", "node", "node-1", "team=other:NoSchedule")
    try:
        yield job(collective(stage.standin))
    finally:
        stage.lab.kubectl("taint", "node", "node-1", "team-")


@contextmanager
def quota(stage: Stage) -> Iterator[Job]:
    stage.impatient(warned("exceeded quota: gpus"))
    limit = {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}
    stage.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, **limit}
    )
    # A quota counts only once its controller has seen it.
    stage.wait_refused("exceeded quota: gpus", probe_pod(gpus=9))
    yield job(collective(stage.standin))


@contextmanager
def policy_against_pods(stage: Stage) -> Iterator[Job]:
    with refusing(stage.lab, stage.namespace, "pods"):
        yield job(collective(stage.standin))


@contextmanager
def policy_against_jobs(stage: Stage) -> Iterator[Job]:
    with refusing(stage.lab, stage.namespace, "jobs"):
        yield job(collective(stage.standin))


@contextmanager
def pod_security_standard(stage: Stage) -> Iterator[Job]:
    label = "pod-security.kubernetes.io/enforce=restricted"
    stage.lab.kubectl("label", "namespace", stage.namespace, label)
    stage.wait_refused("violates PodSecurity", probe_pod())
    yield job(collective(stage.standin))


@contextmanager
def volume_that_does_not_exist(stage: Stage) -> Iterator[Job]:
    stage.impatient(warned('configmap "topology" not found', objects=2))
    what = collective(stage.standin)
    volumes = [{"name": "dshm", "configMap": {"name": "topology"}}]
    what.pod["volumes"] = setting(volumes)
    yield job(what)


@contextmanager
def program_that_does_not_exist(stage: Stage) -> Iterator[Job]:
    what = work(stage.standin, ("/opt/none/dcgmi",), Launcher.PER_NODE)
    yield job(what, "node-0", group="node-0")


@contextmanager
def tool_that_eats_memory(stage: Stage) -> Iterator[Job]:
    what = work(stage.standin, ("tail", "/dev/zero"), Launcher.PER_NODE)
    what.resources["limits.memory"] = setting("64Mi")
    yield job(what, "node-0", group="node-0")


@contextmanager
def tool_that_fills_the_disk(stage: Stage) -> Iterator[Job]:
    fill = ("/bin/sh", "-c", "head -c 64M /dev/zero > /tmp/filled; sleep 500")
    # The kubelet measures disks only now and then.
    what = work(stage.standin, fill, Launcher.PER_NODE, timeout=600)
    what.resources["limits.ephemeral-storage"] = setting("8Mi")
    yield job(what, "node-0", group="node-0")


@contextmanager
def worker_deleted(stage: Stage) -> Iterator[Job]:
    def delete() -> None:
        name = stage.worker("node-0")
        stage.lab.kubectl("delete", "pod", name, "-n", stage.namespace, "--wait=false")

    with stage.in_mid_run(delete):
        yield stage.sleeper()


@contextmanager
def worker_evicted(stage: Stage) -> Iterator[Job]:
    """As `kubectl drain` and cluster autoscalers do."""

    def evict() -> None:
        head = {"name": stage.worker("node-0"), "namespace": stage.namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": head}
        path = f"/api/v1/namespaces/{stage.namespace}/pods/{head['name']}/eviction"
        stage.lab.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    with stage.in_mid_run(evict):
        yield stage.sleeper()


@contextmanager
def worker_preempted(stage: Stage) -> Iterator[Job]:
    name = stage.namespace
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000000}
    container = {
        "name": "one",
        "image": stage.standin,
        "command": ["sleep", "60"],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "urgent"},
        "spec": {
            "priorityClassName": name,
            "nodeSelector": {"kubernetes.io/hostname": "node-0"},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }
    stage.apply({**priority, "metadata": {"name": name}})
    try:
        with stage.in_mid_run(lambda: stage.apply(pod)):
            yield stage.sleeper()
    finally:
        stage.lab.kubectl("delete", "priorityclass", name)


@contextmanager
def node_deleted(stage: Stage) -> Iterator[Job]:
    """As autoscalers and repair controllers do."""
    try:
        with stage.in_mid_run(lambda: stage.lab.kubectl("delete", "node", "node-0")):
            yield stage.sleeper()
    finally:
        # A kubelet makes its node only when it starts.
        stage.lab.stop_kubelet("node-0")
        stage.lab.start_kubelet("node-0")
        stage.lab.dress("node-0", dress.AWS_P5)


@dataclass(frozen=True, slots=True)
class Case:
    """A failure.

    Attributes:
        scene: makes it happen.
        code: what the record must say first.
        words: what the message must hold.
        outcome: how the run must have ended.
    """

    scene: Scene
    code: str
    words: str
    outcome: RunOutcome = RunOutcome.INFRASTRUCTURE


CASES = (
    Case(image_that_does_not_exist, "INFRA_IMAGE_PULL", "registry.invalid/none:1"),
    Case(image_name_that_cannot_be, "INFRA_IMAGE_PULL", "InvalidImageName"),
    Case(image_without_sshd, "INFRA_IMAGE_NO_SSHD", "python"),
    Case(key_of_another_run, "INFRA_SSH_AUTH", "Permission denied"),
    Case(host_names_nobody_knows, "INFRA_DNS", "node-"),
    Case(sshd_on_another_port, "INFRA_SSH_CONNECT", "refused"),
    Case(more_gpus_than_a_node_has, "INFRA_UNSCHEDULABLE", "Insufficient nvidia.com/gpu"),
    Case(cordoned_node, "INFRA_UNSCHEDULABLE", "node-1 is cordoned"),
    Case(tainted_node, "INFRA_UNSCHEDULABLE", "untolerated taint"),
    Case(quota, "INFRA_QUOTA", "exceeded quota: gpus"),
    Case(policy_against_pods, "INFRA_ADMISSION", REFUSAL),
    Case(policy_against_jobs, "INFRA_ADMISSION", REFUSAL),
    Case(pod_security_standard, "INFRA_ADMISSION", "violates PodSecurity"),
    Case(volume_that_does_not_exist, "INFRA_WORKERS_NOT_READY", 'configmap "topology" not found'),
    Case(program_that_does_not_exist, "INFRA_CONTAINER_CONFIG", "/opt/none/dcgmi"),
    Case(tool_that_eats_memory, "INFRA_OOM_KILLED", "killed for memory"),
    Case(tool_that_fills_the_disk, "INFRA_EVICTED", "ephemeral"),
    Case(worker_deleted, "INFRA_POD_LOST", "was deleted while it was needed"),
    Case(worker_evicted, "INFRA_EVICTED", "viction"),
    Case(worker_preempted, "INFRA_PREEMPTED", "preempt"),
    Case(node_deleted, "INFRA_NODE_GONE", "node-0 is no longer in the cluster"),
)


@pytest.fixture(scope="module", autouse=True)
def p5_nodes(lab: Lab) -> None:
    lab.dress_all(dress.AWS_P5)


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try only once: what heals is tried again with the same outcome, and there is a test of it."""
    monkeypatch.setattr(retry, "MAX_ATTEMPTS", 1)


@pytest.fixture
def stage(lab: Lab, namespace: str, standin: str, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(lab, namespace, standin, monkeypatch)


def failed_nodes(store: ConfigMapStore, record: RunRecord, workload: Workload) -> set[str]:
    """Return the nodes that the evaluate step fails because of a run."""
    read = measure(find_entry(record.category), workload, record, store.get_log)
    planned = plan([record.group])
    category = planned.categories[0]
    verdict = evaluate(planned, category, [Run(category.parts[0], record.group, record, read)])
    return {node.node for node in verdict.nodes if node.outcome is Outcome.FAIL}


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("case", CASES, ids=[case.scene.__name__ for case in CASES])
def test_failure_has_its_code_and_blames_nobody(
    case: Case, stage: Stage, store: ConfigMapStore
) -> None:
    with case.scene(stage) as what:
        record, result = run(store, what)
    assert record.outcome is case.outcome, told_by(record, result)
    assert record.failures[0].code == case.code, told_by(record, result)
    assert case.words in record.failures[0].message, told_by(record, result)
    codes = {failure.code for failure in record.failures}
    assert "INFRA_CLEANUP" not in codes, told_by(record, result)
    assert record.events == (), told_by(record, result)
    assert failed_nodes(store, record, what.workload) == set()


def test_account_without_the_right_to_start_jobs(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything else that the runner's role allows is there."""
    rules = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create"]}
        if rule["resources"] == ["jobs"]
        else rule
        for rule in RUNNER_RULES
    ]
    monkeypatch.setenv("KUBECONFIG", str(account_with(stage, rules, tmp_path)))
    record, result = run(open_store(stage.namespace), job(collective(stage.standin)))
    assert record.failures, told_by(record, result)
    assert record.failures[0].code == "INFRA_API", told_by(record, result)
    assert 'cannot create resource "jobs"' in record.failures[0].message, record.failures
    assert record.events == (), record.events


def account_with(stage: Stage, rules: list[Any], folder: Path) -> Path:
    """Make a service account with these rights and return a kubeconfig for it."""
    group = "rbac.authorization.k8s.io"
    name = stage.namespace
    account = {"kind": "ServiceAccount", "name": "weak", "namespace": name}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "weak"}}
    ]
    for kind, granted in (("Role", rules), ("ClusterRole", list(RUNNER_CLUSTER_RULES))):
        version = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
        role = {"apiGroup": group, "kind": kind, "name": name}
        objects += [
            {**version, "kind": kind, "rules": granted},
            {**version, "kind": f"{kind}Binding", "roleRef": role, "subjects": [account]},
        ]
    stage.apply(*objects)
    who = ["--as", f"system:serviceaccount:{name}:weak", "-n", name]
    for asked in (["create", "leases.coordination.k8s.io"], ["get", "nodes"]):
        # The API server learns of roles and bindings a moment after it has them.
        wait_for(
            f"the account to have the right to {' '.join(asked)}",
            lambda asked=asked: (  # type: ignore[misc]
                stage.lab.try_kubectl("auth", "can-i", *asked, *who).returncode == 0
            ),
            timeout=30,
        )
    config = yaml.safe_load(stage.lab.kubeconfig.read_text())
    token = stage.lab.kubectl("create", "token", "weak", "-n", name).strip()
    config["users"][0]["user"] = {"token": token}
    path = folder / "weak.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_what_can_heal_is_tried_again(stage: Stage, store: ConfigMapStore) -> None:
    def delete() -> None:
        stage.lab.kubectl(
            "delete", "pod", stage.worker("node-0"), "-n", stage.namespace, "--wait=false"
        )

    # Only the ranks of the first attempt sleep, for as long as it takes to delete one of them.
    first = GroupNames(WORKFLOW, ALL_REDUCE, "full-scale-0").object("worker")
    script = f"echo begun; case $(uname -n) in {first}-*) sleep 300;; esac"
    what = work(stage.standin, ("/bin/sh", "-c", script), timeout=400)
    with stage.in_mid_run(delete):
        record, result = run(store, job(what))
    outcome = (record.attempt, record.outcome)
    assert outcome == (2, RunOutcome.COMPLETED), told_by(record, result)


def test_gang_needs_no_dns(stage: Stage, store: ConfigMapStore) -> None:
    with paused(stage.lab.state.processes["coredns"]):
        record, result = run(store, job(collective(stage.standin)))
    outcome = (record.attempt, record.outcome)
    assert outcome == (1, RunOutcome.COMPLETED), told_by(record, result)


def test_api_server_that_is_away_for_a_while_costs_no_run(
    stage: Stage, store: ConfigMapStore
) -> None:
    def outage() -> None:
        # Shorter than what makes its nodes NotReady.
        with paused(stage.lab.state.processes["kube-apiserver"]):
            time.sleep(8)

    with stage.in_mid_run(outage):
        record, result = run(store, job(sleeper(stage.standin, seconds=15)))
    outcome = (record.attempt, record.outcome)
    assert outcome == (1, RunOutcome.COMPLETED), told_by(record, result)
    stage.lab.wait_ready()
