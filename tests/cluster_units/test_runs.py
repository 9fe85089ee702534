"""A whole run of a group against a cluster in memory: how it can end, and what it leaves."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catalog.entries.entry import Launcher
from catalog.errors import ClusterError, InputError
from steps.cluster.api.client import Object, RefusedError
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts.launch import launch
from steps.documents import Entity, RunOutcome
from steps.store.store import DirectoryStore
from tests.builders import setting
from tests.cluster_units.fake import FINISHED, FakeCluster, end_pod, event
from tests.cluster_units.running import (
    NODES,
    TABLE,
    WORKFLOW,
    Script,
    assert_nothing_left,
    job,
    run,
    when_runs,
)


def test_mpi_gang_completes_and_leaves_nothing() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = TABLE
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 0))
    result = run(cluster, job())
    record = result.record
    assert record.outcome is RunOutcome.COMPLETED
    assert (record.exit_code, record.attempt, record.failures) == (0, 1, ())
    assert result.logs == {"full-scale-0-output.log": TABLE}
    assert not record.logs[0].truncated
    assert set(record.placements.values()) == set(NODES)
    assert record.versions == {
        "image": "registry.example/nccl:1@sha256:abc",
        "driver": "570.133.20",
        "kernel": "6.8.0-1021",
    }
    assert_nothing_left(cluster)
    assert all(item["metadata"]["ownerReferences"][0]["uid"] == "u1" for item in cluster.created)


def test_launcher_is_made_when_all_workers_are_ready_and_names_nodes_in_rank_order() -> None:
    cluster = FakeCluster(*NODES)
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 0))
    run(cluster, job(nodes=("gpu-b", "gpu-a")))
    kinds = [(item["kind"], item["metadata"]["name"]) for item in cluster.created]
    assert [kind for kind, _ in kinds] == ["Secret", "Job", "Job"]
    launcher = cluster.created[-1]["spec"]["template"]["spec"]
    script = launcher["containers"][0]["command"][-1]
    assert script.index("gpu-b slots=8") < script.index("gpu-a slots=8")
    assert [alias["hostnames"] for alias in launcher["hostAliases"]] == [["gpu-b"], ["gpu-a"]]
    assert "nvidia.com/gpu" not in str(launcher["containers"][0]["resources"])


def test_tool_that_fails_is_no_infrastructure_failure_and_is_not_tried_again() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = TABLE
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 3))
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.FAILED
    assert (record.exit_code, record.attempt) == (3, 1)
    assert [failure.code for failure in record.failures] == ["WorkloadFailed"]
    assert_nothing_left(cluster)


def test_ssh_refusal_in_the_output_is_ours_and_is_tried_again() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = b"root@gpu-b: Permission denied (publickey).\n"
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 255))
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.INFRASTRUCTURE
    assert record.failures[0].code == "INFRA_SSH_AUTH"
    assert record.failures[0].entity is not None
    assert record.failures[0].entity.node == "gpu-b"
    assert record.attempt == 3
    assert_nothing_left(cluster)


def test_second_attempt_can_succeed() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = b"ssh: Could not resolve hostname gpu-b: Name or service not known\n"

    def end(c: FakeCluster) -> None:
        second = len([item for item in c.created if item["kind"] == "Secret"]) == 2
        c.outputs["*"] = TABLE if second else c.outputs["*"]
        c.end("launcher", 0 if second else 255)

    cluster.before_look = when_runs("launcher", end)
    record = run(cluster, job()).record
    assert (record.outcome, record.attempt) == (RunOutcome.COMPLETED, 2)


def test_worker_killed_for_memory_leads_over_the_launchers_echo() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = b"ssh: connect to host gpu-b port 2222: Connection refused\n"

    def kill(c: FakeCluster) -> None:
        end_pod(c.pods_of("worker")[1], 137, reason="OOMKilled")
        c.end("launcher", 255)

    cluster.before_look = when_runs("launcher", kill)
    record = run(cluster, job()).record
    assert [failure.code for failure in record.failures] == ["INFRA_OOM_KILLED"]
    assert record.attempt == 1
    assert_nothing_left(cluster)


def test_cause_that_shows_after_the_echo_still_leads() -> None:
    cluster = FakeCluster(*NODES)
    looks = []

    def fail(c: FakeCluster) -> None:
        c.end("launcher", 255)
        looks.append(c.looks)

    def script(c: FakeCluster) -> None:
        when_runs("launcher", fail)(c)
        if looks and c.looks == looks[0] + 2:
            conditions = c.objects["Node", "gpu-b"]["status"]["conditions"]
            conditions[0] |= {
                "status": "Unknown",
                "message": "Kubelet stopped posting node status.",
            }

    cluster.before_look = script
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.HARDWARE
    assert [event.node for event in record.events] == ["gpu-b"]
    assert record.events[0].code == "NODE_NOT_READY"
    assert record.exit_code == 255
    assert record.failures[0].code == "HardwareFailureDetected"


@pytest.mark.parametrize("role", ["worker", "launcher"])
def test_pod_deleted_in_mid_run_is_lost_and_tried_again(role: str) -> None:
    cluster = FakeCluster(*NODES)
    gone: list[str] = []

    def delete(c: FakeCluster) -> None:
        if not gone:
            name = c.pods_of(role)[0]["metadata"]["name"]
            gone.append(name)
            del c.objects["Pod", name]
        elif c.of("Job")[0]["metadata"]["name"] not in gone[0]:
            c.end("launcher", 0)

    cluster.before_look = when_runs("launcher", delete)
    record = run(cluster, job()).record
    assert gone
    assert record.outcome in {RunOutcome.COMPLETED, RunOutcome.INFRASTRUCTURE}
    assert record.attempt > 1
    assert_nothing_left(cluster)


def test_cordon_in_mid_run_ends_the_run_and_names_that_node_only() -> None:
    cluster = FakeCluster(*NODES)

    def cordon(c: FakeCluster) -> None:
        c.objects["Node", "gpu-a"]["spec"]["unschedulable"] = True

    cluster.before_look = when_runs("launcher", cordon)
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.HARDWARE
    assert [(e.node, e.code, e.source) for e in record.events] == [
        ("gpu-a", "NODE_CORDONED", "node spec")
    ]
    assert record.attempt == 1
    assert_nothing_left(cluster)


def test_node_that_leaves_the_cluster_is_not_blamed() -> None:
    cluster = FakeCluster(*NODES)
    cluster.before_look = when_runs("launcher", lambda c: c.objects.pop(("Node", "gpu-b"), None))  # type: ignore[arg-type]
    record = run(cluster, job()).record
    assert [failure.code for failure in record.failures] == ["INFRA_NODE_GONE"]
    assert record.events == ()


def test_cordoned_node_fails_at_once_without_any_pod() -> None:
    cluster = FakeCluster(*NODES)
    cluster.objects["Node", "gpu-b"]["spec"]["unschedulable"] = True
    record = run(cluster, job()).record
    assert record.failures[0].code == "INFRA_UNSCHEDULABLE"
    assert "gpu-b is cordoned" in record.failures[0].message
    assert cluster.created == []


def test_timeout_of_the_job() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = TABLE
    result = run(cluster, job(timeout_seconds=setting(0.1)))
    assert result.record.outcome is RunOutcome.TIMED_OUT
    assert [failure.code for failure in result.record.failures] == ["JobTimedOut"]
    assert result.logs["full-scale-0-output.log"] == TABLE
    assert result.record.logs[0].truncated
    assert_nothing_left(cluster)


def _pending(reason: str, message: str) -> Script:
    def script(c: FakeCluster) -> None:
        for pod in c.of("Pod"):
            waiting = {"reason": reason, "message": message}
            pod["status"]["containerStatuses"] = [
                {"name": "tool", "image": "registry.example/nccl:1", "state": {"waiting": waiting}}
            ]

    return script


def _unschedulable(c: FakeCluster) -> None:
    for pod in c.of("Pod"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/9 nodes are available: 1 Insufficient nvidia.com/gpu.",
            }
        ]


def _quota(c: FakeCluster) -> None:
    c.refusals["Job pods"] = ClusterError()
    for item in c.of("Job"):
        name = item["metadata"]["name"]
        c.put(event(name, "FailedCreate", f'pods "{name}-0" is forbidden: exceeded quota: gpus'))


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        pytest.param(
            _unschedulable, "INFRA_UNSCHEDULABLE", "Insufficient nvidia.com/gpu", id="no-gpus"
        ),
        pytest.param(
            _pending("ImagePullBackOff", "Back-off: not found"),
            "INFRA_IMAGE_PULL",
            "registry.example/nccl:1",
            id="no-image",
        ),
        pytest.param(
            _pending("ErrImagePull", "dial tcp: i/o timeout"),
            "INFRA_IMAGE_PULL",
            "i/o timeout",
            id="registry-away",
        ),
        pytest.param(
            _pending("CreateContainerConfigError", 'secret "x" not found'),
            "INFRA_CONTAINER_CONFIG",
            'secret "x" not found',
            id="no-secret",
        ),
        pytest.param(_quota, "INFRA_QUOTA", "exceeded quota: gpus", id="quota"),
        pytest.param(lambda _: None, "INFRA_WORKERS_NOT_READY", "did not become", id="not-ready"),
    ],
)
def test_gang_that_never_is_whole_is_taken_away_and_the_cause_is_named(
    script: Script, code: str, words: str
) -> None:
    cluster = FakeCluster(*NODES)
    cluster.starts = False
    cluster.before_look = script
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.INFRASTRUCTURE
    assert record.failures[0].code == code
    assert words in record.failures[0].message
    assert not any("launcher" in item["metadata"]["name"] for item in cluster.created)
    assert_nothing_left(cluster)


def test_time_in_a_queue_does_not_count() -> None:
    cluster = FakeCluster(*NODES)
    started = datetime.now(UTC)

    def queue(c: FakeCluster) -> None:
        for item in c.of("Job"):
            waited = (datetime.now(UTC) - started).total_seconds()
            item["spec"]["suspend"] = item["metadata"]["name"].find("worker") > 0 and waited < 0.8
        when_runs("launcher", lambda x: x.end("launcher", 0))(c)

    cluster.before_look = queue
    assert run(cluster, job()).record.outcome is RunOutcome.COMPLETED


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('pods "x" is forbidden: exceeded quota: jobs', "INFRA_QUOTA"),
        ('admission webhook "policy" denied the request: no', "INFRA_ADMISSION"),
        ('jobs.batch is forbidden: User "u" cannot create resource "jobs"', "INFRA_API"),
    ],
)
def test_refused_object_is_told_in_the_api_servers_words(message: str, code: str) -> None:
    cluster = FakeCluster(*NODES)
    cluster.refusals["Job"] = RefusedError(message)
    record = run(cluster, job()).record
    assert record.failures[0].code == code
    assert message in record.failures[0].message
    assert_nothing_left(cluster)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ClusterError("connection refused"), id="away"),
        # What a server says until it has read its rules again, or the new token of the pod.
        pytest.param(RefusedError("pods is forbidden: clusterrole not found"), id="refuses"),
    ],
)
def test_api_that_is_away_for_a_while_is_borne(error: ClusterError) -> None:
    cluster = FakeCluster(*NODES)
    away: list[int] = []

    def blink(c: FakeCluster) -> None:
        away.append(c.looks)
        c.away = error if 3 < len(away) < 7 else None
        when_runs("launcher", lambda x: x.end("launcher", 0) if len(away) > 8 else None)(c)

    def find(kind: str, selector: str = "", field_selector: str = "") -> list[Object]:
        cluster.away = None if kind == "Job" else cluster.away
        return original(kind, selector, field_selector)

    original = cluster.find
    cluster.find = find  # type: ignore[method-assign]
    cluster.before_look = blink
    record = run(cluster, job()).record
    assert (record.outcome, record.attempt) == (RunOutcome.COMPLETED, 1)


def test_tool_that_ends_right_behind_a_look_is_read_with_its_exit_code() -> None:
    cluster = FakeCluster(*NODES)
    end = when_runs("launcher", lambda c: c.end("launcher", 3))

    def find(kind: str, selector: str = "", field_selector: str = "") -> list[Object]:
        found = original(kind, selector, field_selector)
        if kind == "Pod":
            end(cluster)
        return found

    original = cluster.find
    cluster.find = find  # type: ignore[method-assign]
    record = run(cluster, job()).record
    assert (record.outcome, record.exit_code, record.attempt) == (RunOutcome.FAILED, 3, 1)


def test_api_that_stays_away_is_an_infrastructure_failure() -> None:
    cluster = FakeCluster(*NODES)

    def leave(c: FakeCluster) -> None:
        c.away = ClusterError("connection refused")

    cluster.before_look = when_runs("launcher", leave)
    record = run(cluster, job()).record
    assert record.failures[0].code == "INFRA_API"
    assert record.failures[-1].code == "INFRA_CLEANUP"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_run_cleans_up_and_still_gives_a_record(number: signal.Signals) -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = TABLE
    seen: list[int] = []

    def stop(_: FakeCluster) -> None:
        seen.append(1)
        if len(seen) == 3:
            signal.raise_signal(number)

    before = signal.getsignal(number)
    cluster.before_look = when_runs("launcher", stop)
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.STOPPED
    assert [failure.code for failure in record.failures] == ["INFRA_STOPPED"]
    assert number.name in record.failures[0].message
    assert record.attempt == 1
    assert_nothing_left(cluster)
    assert signal.getsignal(number) is before


def test_pod_that_does_not_go_away_is_told() -> None:
    cluster = FakeCluster(*NODES)

    def hang(c: FakeCluster) -> None:
        c.deaf = {c.pods_of("worker")[0]["metadata"]["name"]}
        c.end("launcher", 0)

    cluster.before_look = when_runs("launcher", hang)
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.COMPLETED
    assert [failure.code for failure in record.failures] == ["INFRA_NOT_FREED"]
    assert "on gpu-a" in record.failures[0].message
    assert record.failures[0].entity == Entity(node="gpu-a")


def left_over(cluster: FakeCluster) -> None:
    """Put a pod there that a killed step left."""
    labels = {
        **WORKFLOW.labels,
        "readiness/category": "communication-nccl-all-reduce",
        "readiness/group": "full-scale-0",
        "readiness/role": "worker",
    }
    cluster.put(
        {
            "kind": "Pod",
            "metadata": {"name": "old", "labels": labels},
            "spec": {"nodeName": "gpu-a", "containers": []},
            "status": {"phase": "Running"},
        }
    )


def test_left_overs_of_a_killed_step_are_removed_first() -> None:
    cluster = FakeCluster(*NODES)
    store = ConfigMapStore(cluster, WORKFLOW, owned=False)
    cluster.before_look = when_runs("launcher", lambda c: c.end("launcher", 0))
    left_over(cluster)
    assert launch(store, job()).record.outcome is RunOutcome.COMPLETED
    assert cluster.deleted[0] == ("Pod", "old")


def test_step_that_is_told_to_stop_while_left_overs_linger_starts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("READINESS_CLEANUP_SECONDS", "60")
    cluster = FakeCluster(*NODES)
    left_over(cluster)
    cluster.deaf = {"old"}

    def stop(c: FakeCluster) -> None:
        if c.looks == 3:
            signal.raise_signal(signal.SIGTERM)
        # It is freed once its kubelet has confirmed it, so that the last clean-up is quick.
        if c.looks > 4:
            c.objects.pop(("Pod", "old"), None)

    cluster.before_look = stop
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.STOPPED
    assert cluster.created == []
    assert cluster.looks < 12


def test_single_node_runs_in_one_job_without_ssh() -> None:
    cluster = FakeCluster("gpu-a")
    cluster.outputs["*"] = TABLE
    cluster.before_look = when_runs("worker", lambda c: c.end("worker", 0))
    result = run(cluster, job(nodes=("gpu-a",)))
    assert result.record.outcome is RunOutcome.COMPLETED
    assert [item["kind"] for item in cluster.created] == ["Job"]
    assert result.record.logs[0].node == "gpu-a"


def test_per_node_tool_that_fails_does_not_wait_for_other_causes() -> None:
    cluster = FakeCluster("gpu-a")
    cluster.before_look = when_runs("worker", lambda c: c.end("worker", 226))
    record = run(cluster, job(Launcher.PER_NODE, ("gpu-a",))).record
    assert (record.outcome, record.exit_code) == (RunOutcome.FAILED, 226)


def test_torchrun_gang_learns_its_places_when_all_run() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = b"iteration 1\n"
    places: dict[str, str] = {}

    def end(c: FakeCluster) -> None:
        for pod in c.pods_of("worker"):
            place = pod["metadata"]["annotations"].get("readiness/place")
            if place:
                places[pod["spec"]["nodeName"]] = place
        if len(places) == 2:
            c.end("worker", 0)

    cluster.before_look = when_runs("worker", end)
    result = run(cluster, job(Launcher.TORCHRUN, ("gpu-b", "gpu-a")))
    assert result.record.outcome is RunOutcome.COMPLETED
    ranks = {node: place.split()[0] for node, place in places.items()}
    assert ranks == {"gpu-b": "0", "gpu-a": "1"}
    assert len({place.split()[1] for place in places.values()}) == 1
    assert sorted(result.logs) == ["full-scale-0-gpu-a.log", "full-scale-0-gpu-b.log"]
    assert {log.node for log in result.record.logs} == set(NODES)
    assert [item["kind"] for item in cluster.created] == ["Job"]


def test_torchrun_workers_that_the_job_takes_away_are_the_echo_of_the_one_that_failed() -> None:
    cluster = FakeCluster(*NODES)

    def fail(c: FakeCluster) -> None:
        first, second = c.pods_of("worker")
        end_pod(first, 1)
        second["metadata"] |= {
            "deletionTimestamp": "2026-03-04T05:06:18Z",
            "deletionGracePeriodSeconds": 10,
        }
        c.job_of("worker")["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}

    cluster.before_look = when_runs("worker", fail)
    record = run(cluster, job(Launcher.TORCHRUN)).record
    assert (record.outcome, record.exit_code) == (RunOutcome.FAILED, 1)
    assert FINISHED < "2026-03-04T05:06:08Z"


def test_torchrun_workers_that_fail_because_another_was_preempted_are_its_echo() -> None:
    """The preempted one is gone before anybody looks."""
    cluster = FakeCluster(*NODES)

    def preempt(c: FakeCluster) -> None:
        first, second = c.pods_of("worker")
        end_pod(first, 1)
        lost = second["metadata"]["name"]
        del c.objects["Pod", lost]
        c.put(event(lost, "Preempted", "Preempted by pod 7 on node gpu-b", "Pod", type="Normal"))
        c.job_of("worker")["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}

    cluster.before_look = when_runs("worker", preempt)
    record = run(cluster, job(Launcher.TORCHRUN)).record
    assert record.outcome is RunOutcome.INFRASTRUCTURE
    assert record.failures[0].code == "INFRA_PREEMPTED"


def test_directory_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="record store"):
        launch(DirectoryStore(tmp_path), job())


def test_health_rule_of_the_user_ends_the_run() -> None:
    cluster = FakeCluster(*NODES)
    expression = "has(node.metadata.labels.repair) && node.metadata.labels.repair == 'yes'"
    rule = {"name": "maintenance", "expression": expression}
    what = job(options={"nodeHealth": setting([rule])})

    def mark(c: FakeCluster) -> None:
        c.objects["Node", "gpu-b"]["metadata"]["labels"]["repair"] = "yes"

    cluster.before_look = when_runs("launcher", mark)
    record = run(cluster, what).record
    assert record.outcome is RunOutcome.HARDWARE
    assert [(e.node, e.code, e.text) for e in record.events] == [
        ("gpu-b", "NODE_UNHEALTHY", "rule maintenance")
    ]


def test_secrets_do_not_get_into_kept_outputs() -> None:
    cluster = FakeCluster("gpu-a")
    cluster.outputs["*"] = b'{"env": {"HF_TOKEN": "hf_abcdefghijklmnopqrstu", "A": "b"}}\nfine\n'
    cluster.before_look = when_runs("worker", lambda c: c.end("worker", 0))
    result = run(cluster, job(nodes=("gpu-a",)))
    (kept,) = result.logs.values()
    assert b"hf_abc" not in kept
    assert kept.endswith(b"fine\n")


def test_secrets_do_not_get_into_messages() -> None:
    cluster = FakeCluster(*NODES)
    cluster.before_look = when_runs(
        "worker",
        lambda c: end_pod(
            c.pods_of("worker")[0], 7, message="pull https://me:pa55@git.example failed"
        ),
    )
    record = run(cluster, job()).record
    assert "pa55" not in record.model_dump_json()
    assert record.failures[0].message.endswith("pull https://***@git.example failed")
