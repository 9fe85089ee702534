"""Node health: default rules, users' rules, and what counts as an event of a run."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.errors import ExpressionError
from catalog.hardware.health import compile_rule, default_rules, health_rules
from catalog.hardware.health_rule import HealthRule
from steps.cluster.watching.health import NodeWatch
from tests.cluster_units.fake import node

SINCE = datetime(2026, 3, 4, 5, 0, tzinfo=UTC)
NOW = SINCE + timedelta(minutes=5)
IN_BETWEEN = "2026-03-04T05:03:00Z"


def with_condition(kind: str, status: str, **words: str) -> dict[str, Any]:
    found = node("gpu-a")
    found["status"]["conditions"].append({"type": kind, "status": status, **words})
    return found


def with_taint(key: str, **more: str) -> dict[str, Any]:
    return node("gpu-a", taints=[{"key": key, "effect": "NoSchedule", **more}])


def look(before: dict[str, Any], after: dict[str, Any], *rules: HealthRule) -> list[Any]:
    watch = NodeWatch(health_rules(rules), {"gpu-a": before}, SINCE)
    assert watch.look([before], SINCE) == []
    return watch.look([after], NOW)


@pytest.mark.parametrize(
    ("after", "code", "source", "words"),
    [
        (node("gpu-a", unschedulable=True), "NODE_CORDONED", "node spec", "cordoned"),
        (
            with_condition("GpuMemWatch", "True", reason="GpuMemWatchIsNotHealthy"),
            "NODE_UNHEALTHY",
            "node condition",
            "GpuMemWatch is True: GpuMemWatchIsNotHealthy",
        ),
        (
            with_condition("SysLogsXIDError", "True", message="Xid 79 on 0000:19:00"),
            "NODE_UNHEALTHY",
            "node condition",
            "SysLogsXIDError is True: Xid 79 on 0000:19:00",
        ),
        (
            with_condition("GPUHealthy", "False", reason="GPUXIDError"),
            "NODE_UNHEALTHY",
            "node condition",
            "GPUHealthy is False: GPUXIDError",
        ),
        (
            with_condition("KernelDeadlock", "True", reason="DockerHung"),
            "NODE_UNHEALTHY",
            "node condition",
            "KernelDeadlock is True: DockerHung",
        ),
        (
            with_condition("IBLinkFlapping", "True"),
            "NODE_UNHEALTHY",
            "node condition",
            "IBLinkFlapping is True",
        ),
        (
            with_condition("AcceleratedHardwareReady", "False", reason="NvidiaXID79Error"),
            "NODE_UNHEALTHY",
            "node condition",
            "AcceleratedHardwareReady is False: NvidiaXID79Error",
        ),
        (
            with_taint("nvidia.com/gpu-xid-error", value="true"),
            "NODE_UNHEALTHY",
            "taint",
            "nvidia.com/gpu-xid-error=true:NoSchedule",
        ),
        (
            with_taint("cloud.google.com/impending-node-termination"),
            "NODE_UNHEALTHY",
            "taint",
            "cloud.google.com/impending-node-termination=:NoSchedule",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "_" in value else "",
)
def test_default_rules_see_what_health_agents_write(
    after: dict[str, Any], code: str, source: str, words: str
) -> None:
    (event,) = look(node("gpu-a"), after)
    assert (event.node, event.code, event.source, event.text) == ("gpu-a", code, source, words)
    assert event.at == NOW


@pytest.mark.parametrize(
    "after",
    [
        node("gpu-a"),
        with_condition("MemoryPressure", "True"),
        with_condition("GpuMemWatch", "False"),
        with_condition("KernelReady", "True"),
        with_condition("DCGMError", "True"),
        with_taint("nvidia.com/gpu", value="present"),
        with_taint("example.com/team"),
        node(
            "gpu-a",
            unschedulable=True,
            taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}],
        ),
    ],
    ids=[
        *("same", "pressure", "healthy", "eks-healthy", "monitor-failed", "gpu-taint"),
        *("team-taint", "autoscaler-takes-it-away"),
    ],
)
def test_what_says_nothing_against_a_node_is_no_event(after: dict[str, Any]) -> None:
    assert look(node("gpu-a"), after) == []


def test_what_was_so_before_the_run_is_no_event() -> None:
    before = with_condition("GpuNvlinkWatch", "True")
    before["spec"]["unschedulable"] = True
    after = copy.deepcopy(before)
    after["status"]["conditions"][0]["lastHeartbeatTime"] = IN_BETWEEN
    assert look(before, after) == []


def test_the_first_in_time_leads_and_times_are_the_reporters() -> None:
    after = node("gpu-a", unschedulable=True)
    after["spec"]["taints"] = [
        {
            "key": "node.kubernetes.io/unschedulable",
            "effect": "NoSchedule",
            "timeAdded": "2026-03-04T05:03:05Z",
        }
    ]
    after["status"]["conditions"].append(
        {"type": "GpuXidError", "status": "True", "lastTransitionTime": IN_BETWEEN}
    )
    events = look(node("gpu-a"), after)
    assert [event.code for event in events] == ["NODE_UNHEALTHY", "NODE_CORDONED"]
    assert events[0].at == SINCE + timedelta(minutes=3)


def test_time_of_a_reporter_whose_clock_is_behind_is_not_before_the_run() -> None:
    after = with_condition("GPUMissing", "True", lastTransitionTime="2026-03-01T00:00:00Z")
    assert look(node("gpu-a"), after)[0].at == SINCE


def test_cordon_is_told_with_the_taints_beside_it() -> None:
    after = node("gpu-a", unschedulable=True)
    after["spec"]["taints"] = [{"key": "dgxc/quarantine", "value": "xid", "effect": "NoExecute"}]
    (event,) = look(node("gpu-a"), after)
    assert event.text == "cordoned, taints dgxc/quarantine=xid:NoExecute"


def test_lost_heartbeat_is_told_in_the_controllers_words() -> None:
    after = node("gpu-a")
    after["status"]["conditions"][0] |= {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    }
    watch = NodeWatch(default_rules(), {"gpu-a": node("gpu-a")}, SINCE)
    assert watch.look([after], NOW) == []
    (event,) = watch.look([after], NOW + timedelta(seconds=31))
    assert (event.code, event.at) == ("NODE_NOT_READY", NOW)
    assert (watch.notes, watch.doubts) == ([], {})
    assert event.text == (
        "Ready is Unknown: NodeStatusUnknown: Kubelet stopped posting node status."
    )


def test_kubelet_that_restarts_is_only_noted() -> None:
    after = node("gpu-a")
    after["status"]["conditions"][0] |= {
        "status": "False",
        "reason": "KubeletNotReady",
        "message": "PLEG is not healthy: pleg has yet to be successful",
    }
    watch = NodeWatch(default_rules(), {"gpu-a": node("gpu-a")}, SINCE)
    for minute in range(3):
        start = NOW + timedelta(minutes=minute)
        assert watch.look([after], start) == []
        assert watch.doubts
        assert watch.look([after], start + timedelta(seconds=12)) == []
        assert watch.look([node("gpu-a")], start + timedelta(seconds=15)) == []
        assert not watch.doubts
    assert {(note.node, note.code) for note in watch.notes} == {("gpu-a", "NODE_FLAPPED")}
    assert "PLEG is not healthy" in watch.notes[0].text


def test_event_is_told_once() -> None:
    watch = NodeWatch(default_rules(), {"gpu-a": node("gpu-a")}, SINCE)
    cordoned = node("gpu-a", unschedulable=True)
    assert len(watch.look([cordoned], NOW)) == 1
    cordoned["metadata"]["labels"]["changed"] = "yes"
    assert watch.look([cordoned], NOW) == []


def test_rule_of_the_user_of_the_same_name_replaces_ours() -> None:
    never = HealthRule(name="cordoned", expression="false")
    assert look(node("gpu-a"), node("gpu-a", unschedulable=True), never) == []


def test_rule_that_breaks_on_a_node_is_no_event_and_is_not_silent() -> None:
    rule = HealthRule(name="zone", expression="node.status.conditions[3].status == 'True'")
    watch = NodeWatch((compile_lenient(rule),), {}, SINCE)
    assert watch.look([node("gpu-a")], NOW) == []
    (failure,) = watch.broken_rules.values()
    assert failure.code == "EXPRESSION_ERROR"
    assert "zone" in failure.message


def compile_lenient(rule: HealthRule) -> Any:
    """A rule that passed the check at load and yet does not fit this node."""
    good = compile_rule(rule.model_copy(update={"expression": "true"}))

    class Broken:
        name, over, code = rule.name, rule.over, good.code

        def holds(self, _: object) -> bool:
            raise ExpressionError("index out of range")

    return Broken()


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("node.spec.unschedulable", "ask has"),
        ("node.metadata.labels['team'] == 'a'", "ask has"),
        ("has(node.spec.taints) && node.spec.taints.exists(t, t.value == 'x')", "ask has"),
        ("nodes.spec.unschedulable", "did you mean 'node'"),
        ("1 + 1", "not a boolean"),
        ("has(node.spec.taints", "not valid CEL"),
        ('__import__("os").system("id")', "unknown function"),
    ],
)
def test_rule_that_cannot_work_is_refused_before_anything_runs(expression: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        compile_rule(HealthRule(name="mine", expression=expression))


@pytest.mark.parametrize("rule", default_rules(), ids=lambda rule: rule.name)
def test_default_rules_bear_nodes_with_nothing_in_them(rule: Any) -> None:
    bare: dict[str, Any]
    for bare in ({}, {"spec": {}, "status": {}}, {"spec": None, "status": None}):
        assert rule.holds({"metadata": {"name": "a"}, **bare}) is False
