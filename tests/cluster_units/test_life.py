"""A run is over when its nodes are known to be alive after it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import ClusterError
from catalog.facts.reasons import Effect
from steps.cluster.api.client import Object
from steps.cluster.watching.life import SignsOfLife
from steps.documents import BarSet, Entity, Outcome, RunOutcome, RunRecord
from steps.evaluate.category import judge_category
from steps.evaluate.group import judge_group
from steps.evaluate.reasons import effect_of
from tests.builders import bar, measured
from tests.cluster_units.fake import FakeCluster
from tests.cluster_units.running import NODES, Script, job, run, when_runs

GONE = {"status": "Unknown", "message": "Kubelet stopped posting node status."}


def outcomes(record: RunRecord) -> dict[str, Outcome]:
    """Judge a record whose output is all that could be wished for."""
    bars = BarSet(nodes=len(record.group.nodes), bars=(bar(),))
    verdict = judge_group(record.group, "nccl", bars, record=record, measurements=measured(400.0))
    nodes = judge_category(record.category, record.group.nodes, [verdict], [record]).nodes
    return {node.node: node.outcome for node in nodes}


def ends_and(act: Script, code: int = 0) -> Script:
    """Let the tool end, and something happen in the same moment."""

    def script(c: FakeCluster) -> None:
        c.end("launcher", code)
        act(c)

    return when_runs("launcher", script)


def condition_of(c: FakeCluster, node: str) -> Object:
    ready: Object = c.objects["Node", node]["status"]["conditions"][0]
    return ready


def test_run_that_ends_well_on_nodes_that_live_on_is_a_pass() -> None:
    cluster = FakeCluster(*NODES)
    cluster.before_look = ends_and(lambda _: None)
    record = run(cluster, job()).record
    assert (record.outcome, record.failures) == (RunOutcome.COMPLETED, ())
    assert set(outcomes(record).values()) == {Outcome.PASS}


@pytest.mark.parametrize("code", [0, 255])
def test_node_that_died_with_the_end_of_the_tool_leads(code: int) -> None:

    def die(c: FakeCluster) -> None:
        c.silent = {"gpu-b"}
        c.deaf = {pod["metadata"]["name"] for pod in c.pods_of("worker")[1:]}

    class LateNews(FakeCluster):
        """Kubernetes calls the node NotReady long after its last heartbeat."""

        asked = 0

        def get(self, kind: str, name: str) -> Object:
            if kind == "Node" and name in self.silent:
                self.asked += 1
                if self.asked > 8:
                    condition_of(self, name).update(GONE)
            return super().get(kind, name)

    cluster = LateNews(*NODES)
    cluster.before_look = ends_and(die, code)
    record = run(cluster, job()).record
    assert (record.outcome, record.exit_code) == (RunOutcome.HARDWARE, code)
    assert [(event.node, event.code) for event in record.events] == [("gpu-b", "NODE_NOT_READY")]
    codes = [failure.code for failure in record.failures]
    echo = ["WorkloadFailed"] if code else []
    assert codes == ["HardwareFailureDetected", *echo, "INFRA_NOT_FREED"]
    assert record.attempt == 1
    assert outcomes(record)["gpu-b"] is Outcome.FAIL
    assert outcomes(record)["gpu-a"] is Outcome.INCONCLUSIVE


def test_node_without_a_heartbeat_is_never_ready_and_no_other_is_named() -> None:
    cluster = FakeCluster(*NODES)
    cluster.silent = {"gpu-b"}
    cluster.before_look = ends_and(lambda _: None)
    record = run(cluster, job()).record
    # What was measured stays: it is not measured again.
    assert (record.outcome, record.attempt) == (RunOutcome.COMPLETED, 1)
    (failure,) = record.failures
    assert (failure.code, failure.entity) == ("NODE_STATE_UNKNOWN", Entity(node="gpu-b"))
    assert "no sign of life" in failure.message
    assert set(outcomes(record).values()) == {Outcome.INCONCLUSIVE}


def test_node_that_is_not_ready_at_the_end_and_comes_back_has_flapped() -> None:
    seen: list[str] = []

    class Blinks(FakeCluster):
        def get(self, kind: str, name: str) -> Object:
            if (kind, name) == ("Node", "gpu-b") and condition_of(self, name)["status"] != "True":
                seen.append(name)
                if len(seen) > 2:
                    condition_of(self, name)["status"] = "True"
            return super().get(kind, name)

    cluster = Blinks(*NODES)
    cluster.before_look = ends_and(lambda c: condition_of(c, "gpu-b").update(GONE))
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.COMPLETED
    assert [(event.node, event.code) for event in record.events] == [("gpu-b", "NODE_FLAPPED")]
    assert effect_of("NODE_FLAPPED") is Effect.WARN
    assert set(outcomes(record).values()) == {Outcome.PASS}


def test_node_that_booted_anew_between_two_looks_has_failed() -> None:
    cluster = FakeCluster(*NODES)
    for name in NODES:
        cluster.objects["Node", name]["status"]["nodeInfo"]["bootID"] = "one"

    def boot(c: FakeCluster) -> None:
        c.objects["Node", "gpu-b"]["status"]["nodeInfo"]["bootID"] = "two"

    cluster.before_look = ends_and(boot)
    record = run(cluster, job()).record
    assert [(event.node, event.text) for event in record.events] == [
        ("gpu-b", "booted anew: boot id two, before one")
    ]
    assert outcomes(record)["gpu-b"] is Outcome.FAIL


def test_node_that_vanishes_after_the_run_is_not_ready_and_not_blamed() -> None:

    class Vanishes(FakeCluster):
        asked = 0

        def get(self, kind: str, name: str) -> Object:
            self.asked += (kind, name) == ("Node", "gpu-b")
            if self.asked > 8:
                self.objects.pop(("Node", "gpu-b"), None)
            return super().get(kind, name)

    cluster = Vanishes(*NODES)
    cluster.silent = {"gpu-b"}
    cluster.before_look = ends_and(lambda _: None)
    record = run(cluster, job()).record
    assert (record.outcome, record.attempt) == (RunOutcome.COMPLETED, 1)
    assert [failure.code for failure in record.failures] == ["INFRA_NODE_GONE"]
    assert set(outcomes(record).values()) == {Outcome.INCONCLUSIVE}


def test_stop_while_the_nodes_are_waited_for_is_no_pass() -> None:

    class Stopped(FakeCluster):
        def in_namespace(self, namespace: str) -> Any:
            found = super().in_namespace(namespace)
            asked: list[int] = []
            get = found.get

            def told(kind: str, name: str) -> Object:
                asked.append(1)
                if len(asked) == 5:
                    signal.raise_signal(signal.SIGTERM)
                item: Object = get(kind, name)
                return item

            found.get = told  # type: ignore[method-assign]
            return found

    cluster = Stopped(*NODES)
    cluster.silent = {"gpu-b"}
    cluster.before_look = ends_and(lambda _: None)
    record = run(cluster, job()).record
    assert (record.outcome, record.exit_code) == (RunOutcome.STOPPED, 0)
    assert [failure.code for failure in record.failures] == ["INFRA_STOPPED"]
    assert set(outcomes(record).values()) == {Outcome.INCONCLUSIVE}


def test_api_that_is_away_after_the_run_leaves_what_was_measured() -> None:
    cluster = FakeCluster(*NODES)

    end = ends_and(lambda _: None)

    def leave(c: FakeCluster) -> None:
        if any(pod["status"].get("phase") == "Succeeded" for pod in c.of("Pod")):
            c.away = ClusterError("connection refused")
        end(c)

    cluster.before_look = leave
    record = run(cluster, job()).record
    assert (record.outcome, record.attempt) == (RunOutcome.COMPLETED, 1)
    assert "INFRA_API" in {failure.code for failure in record.failures}
    assert set(outcomes(record).values()) == {Outcome.INCONCLUSIVE}


def test_pod_that_its_kubelet_frees_while_it_is_waited_for_is_gone() -> None:

    class Frees(FakeCluster):
        def in_namespace(self, namespace: str) -> Any:
            found = super().in_namespace(namespace)
            get = found.get

            def freed(kind: str, name: str) -> Object:
                for pod in self.deaf if ("Job" in dict(self.deleted)) else ():
                    self.objects.pop(("Pod", pod), None)
                item: Object = get(kind, name)
                return item

            found.get = freed  # type: ignore[method-assign]
            return found

    cluster = Frees(*NODES)

    def hang(c: FakeCluster) -> None:
        c.deaf = {pod["metadata"]["name"] for pod in c.pods_of("worker")}

    cluster.before_look = ends_and(hang)
    record = run(cluster, job()).record
    assert (record.outcome, record.failures) == (RunOutcome.COMPLETED, ())


@given(
    beats=st.lists(
        st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3), max_size=6
    ),
    many=st.booleans(),
)
def test_only_a_heartbeat_that_has_changed_is_a_sign_of_life(
    beats: list[dict[str, int]], *, many: bool
) -> None:
    others = [f"x{number}" for number in range(9)] if many else []
    now: dict[str, int] = {}

    class Leases(FakeCluster):
        def in_namespace(self, _: str) -> Any:
            return self

        def lease(self, name: str) -> Object:
            spec = {"renewTime": f"t{now[name]}"} if name in now else {}
            return {"metadata": {"name": name}, "spec": spec}

        def get(self, _: str, name: str) -> Object:
            return self.lease(name)

        def find(self, *_: str, **__: str) -> list[Object]:
            return [self.lease(name) for name in "abc"]

    signs = SignsOfLife(Leases(), ("a", "b", "c", *others))
    seen: dict[str, set[int]] = {name: set() for name in "abc"}
    for number, heard in enumerate(beats):
        now.clear()
        now.update(heard)
        for name, beat in heard.items():
            seen[name].add(beat)
        listen: Callable[[], None] = signs.listen if number else signs.begin
        listen()
    # Once alive, always alive; alive exactly where two different beats were seen.
    assert signs.silent == {*others, *(name for name in "abc" if len(seen[name]) < 2)}
