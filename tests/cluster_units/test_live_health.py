"""What speaks against a node while it runs: events of Kubernetes, kernel lines in outputs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.entries.entry import Launcher
from catalog.errors import ClusterError, ExpressionError, InputError
from catalog.facts.reasons import Effect
from catalog.hardware.health import compile_rule, default_rules, event_view, health_rules
from catalog.hardware.health_rule import HealthRule
from catalog.reading.source import Source, validate
from steps.cluster.api.client import Object, RefusedError
from steps.cluster.watching.events import EventWatch
from steps.cluster.watching.kernel_lines import KernelLines
from steps.cluster.watching.outputs import Outputs
from steps.documents import BarSet, Completeness, NodeEvent, Outcome, RunOutcome
from steps.evaluate.category import judge_category
from steps.evaluate.group import judge_group
from steps.parse.api import ParseContext
from steps.parse.kernel import KernelScanner
from steps.parse.lines import clean_line
from tests.builders import measured, setting
from tests.cluster_units.fake import FakeCluster, event
from tests.cluster_units.running import (
    HEADING,
    NODES,
    Script,
    assert_nothing_left,
    job,
    row,
    run,
    when_runs,
)

SINCE = datetime(2026, 3, 4, 5, 0, tzinfo=UTC)
LATER = (SINCE + timedelta(minutes=7)).isoformat()
DCGM = "diagnostics/dcgm-level3"

LOST = b"[ 8121.553311] NVRM: Xid (PCI:0000:4f:00): 79, pid=2231, GPU has fallen off the bus.\n"
FAULT = b"[ 8121.400000] NVRM: Xid (PCI:0000:4f:00): 31, pid=2231, MMU Fault: ENGINE GRAPHICS\n"
CLEAN_UP = b"[ 8121.500000] NVRM: Xid (PCI:0000:4f:00): 45, pid=2231, Ch 00000008\n"
LINK_FATAL = b"[ 8121.6] NVRM: Xid (PCI:0000:4f:00): 145, RLW_REMAP Fatal   XC0 i0 Link 07 (0x4)\n"
LINK = b"[ 8121.6] NVRM: Xid (PCI:0000:4f:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 07 (0x4)\n"
SWITCH = b"nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 12028, Fatal, Link 33 egress error\n"
SPLIT = (
    b"[ 912.1] NVRM: The NVIDIA GPU 0000:4f:00.0\n"
    b"               NVRM: (PCI ID: 10de:2330) installed in this system has\n"
    b"               NVRM: fallen off the bus and is not responding to commands.\n"
)


def about_node(reason: str, message: str = "", node: str = "gpu-a", **fields: Any) -> Object:
    return event(node, reason, message, kind="Node", lastTimestamp=LATER, **fields)


def happens(reason: str, message: str, node: str = "gpu-a") -> Object:
    """Return a warning about a node of this moment."""
    return event(node, reason, message, kind="Node")


def watch(cluster: FakeCluster, *rules: HealthRule, nodes: tuple[str, ...] = NODES) -> EventWatch:
    return EventWatch(cluster, health_rules(rules), nodes, SINCE)


@pytest.mark.parametrize(
    ("told", "code", "text"),
    [
        (
            about_node(
                "XIDErrorsDetected",
                "Node condition XIDErrors is now: True, reason: XIDErrorsDetected, message: Xid 79",
                type="Normal",
            ),
            "XID_79",
            "XIDErrorsDetected: Node condition XIDErrors is now: True, reason: XIDErrorsDetected,"
            " message: Xid 79 (test-agent)",
        ),
        (
            about_node("Rebooted", "Node gpu-a has been rebooted, boot id: 7f0c"),
            "NODE_NOT_READY",
            "Rebooted: Node gpu-a has been rebooted, boot id: 7f0c (test-agent)",
        ),
        (
            about_node("NvidiaXID79Error", "GPU has fallen off the bus"),
            "XID_79",
            "NvidiaXID79Error: GPU has fallen off the bus (test-agent)",
        ),
        (
            about_node("XIDErrors", "NVRM: Xid (PCI:0000:4f:00): 95, pid=7, Uncontained"),
            "XID_95",
            "XIDErrors: NVRM: Xid (PCI:0000:4f:00): 95, pid=7, Uncontained (test-agent)",
        ),
        (
            about_node("GPUMissing", "expected 8 GPUs, found 7"),
            "NODE_UNHEALTHY",
            "GPUMissing: expected 8 GPUs, found 7 (test-agent)",
        ),
    ],
    ids=["problem-detector", "rebooted", "xid-in-reason", "xid-in-message", "gpu-missing"],
)
def test_event_about_a_node_fails_it(told: Object, code: str, text: str) -> None:
    cluster = FakeCluster(*NODES)
    found = watch(cluster)
    cluster.put(told)
    (seen,) = found.look({})
    assert (seen.node, seen.code, seen.source, seen.text) == ("gpu-a", code, "event", text)
    assert seen.at == SINCE + timedelta(minutes=7)
    assert found.look({}) == []


@pytest.mark.parametrize(
    "told",
    [
        about_node("NodeHasDiskPressure", "disk", type="Warning"),
        about_node("Starting", "Starting kubelet.", type="Normal"),
        about_node("NodeNotReady", "not one of ours", node="gpu-z"),
        about_node("GPUMissing", "all 8 are back", type="Normal"),
        event("job-of-somebody", "NodeNotReady", "a Job of that name"),
        event("pod-of-somebody", "XIDErrors", "Xid 79", kind="Pod"),
        about_node("XIDErrors", "see the log"),
        event("gpu-a", "GPUMissing", "7 of 8", kind="Node", lastTimestamp="2026-03-04T03:10:00Z"),
        about_node("NoXIDErrors", "Node condition XIDErrors is now: False: Xid 79", type="Normal"),
        about_node("GPURecovered", "Xid 79 of GPU 3 is resolved by a reset", type="Normal"),
    ],
    ids=[
        *("pressure", "start", "other-node", "good-news", "job", "strange-pod", "no-number"),
        *("of-two-hours-before", "problem-detector-is-content", "resolved"),
    ],
)
def test_event_that_says_nothing_against_the_group_is_none(told: Object) -> None:
    cluster = FakeCluster(*NODES)
    found = watch(cluster)
    cluster.put(told)
    assert found.look({"worker-0": "gpu-a"}) == []
    assert (found.notes, found.omens) == ([], [])


@pytest.mark.parametrize("number", [13, 31, 43, 45])
def test_xid_of_the_application_in_an_event_is_only_noted(number: int) -> None:
    cluster = FakeCluster(*NODES)
    found = watch(cluster)
    cluster.put(about_node("XIDErrors", f"Xid error: {number} on GPU 3"))
    assert found.look({}) == []
    assert [(note.node, note.code) for note in found.notes] == [("gpu-a", f"XID_{number}")]


def test_event_about_a_pod_speaks_of_the_node_it_is_on_if_it_has_one() -> None:
    cluster = FakeCluster(*NODES)
    found = watch(cluster)
    cluster.put(event("worker-1", "XIDErrors", "Xid 79", kind="Pod", lastTimestamp=LATER))
    assert found.look({"worker-0": "gpu-a"}) == []
    assert [item.node for item in found.look({"worker-0": "gpu-a", "worker-1": "gpu-b"})] == [
        "gpu-b"
    ]


@pytest.mark.parametrize("many", [False, True], ids=["few-nodes", "many-nodes"])
def test_what_was_told_before_is_no_event_until_it_is_told_again(*, many: bool) -> None:
    nodes = tuple(f"gpu-{number}" for number in range(20)) if many else ("gpu-3",)
    cluster = FakeCluster(*nodes)
    old = cluster.put(about_node("GPUMissing", "7 of 8", node="gpu-3", count=4))
    found = watch(cluster, nodes=nodes)
    assert found.look({}) == []
    old["count"] = 5
    assert [item.node for item in found.look({})] == ["gpu-3"]


def test_what_was_told_while_events_could_not_be_read_is_no_event() -> None:
    cluster = FakeCluster(*NODES)
    cluster.put(about_node("GPUMissing", "7 of 8"))
    cluster.away = ClusterError("connection refused")
    found = watch(cluster)
    cluster.away = None
    assert found.look({}) == []
    assert found.look({}) == []


def test_account_that_may_not_read_events_still_watches_nodes() -> None:
    cluster = FakeCluster(*NODES)
    cluster.refusals["Event"] = RefusedError("events is forbidden")
    cluster.before_look = when_runs("launcher", cordon("gpu-b"))
    record = run(cluster, job()).record
    assert [(item.node, item.code) for item in record.events] == [("gpu-b", "NODE_CORDONED")]


def cordon(name: str) -> Script:
    def act(cluster: FakeCluster) -> None:
        cluster.objects["Node", name]["spec"]["unschedulable"] = True

    return act


def test_rule_of_the_user_over_events() -> None:
    rule = HealthRule(
        name="rack-alarm",
        over="event",
        expression="event.reason == 'RackAlarm' && event.source.component == 'bmc'",
    )
    cluster = FakeCluster(*NODES)
    found = watch(cluster, rule)
    cluster.put(about_node("RackAlarm", "leak", source={"component": "bmc"}))
    (seen,) = found.look({})
    assert (seen.code, seen.text) == ("NODE_UNHEALTHY", "RackAlarm: leak (bmc)")


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("node.metadata.name == 'a'", "event"),
        ("event.severity == 'bad'", "an event has type, reason"),
        ("event.count", "not a boolean"),
    ],
)
def test_rule_over_events_that_cannot_work_is_refused(expression: str, says: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_rule(HealthRule(name="mine", over="event", expression=expression))
    assert says in f"{caught.value} {caught.value.hint}"


def test_code_of_events_needs_a_rule_over_events() -> None:
    data = {"name": "mine", "expression": "true", "code": "XID"}
    with pytest.raises(InputError, match="over: event"):
        validate(Source("rules.yaml", data), HealthRule)


@pytest.mark.parametrize("bare", [{}, {"involvedObject": None, "source": None, "message": None}])
def test_default_rules_bear_events_with_nothing_in_them(bare: dict[str, Any]) -> None:
    assert event_view(bare)["involvedObject"]["kind"] == ""
    for rule in default_rules():
        assert rule.over == "node" or rule.holds(bare) is False


def test_event_ends_the_run_of_its_node_alone() -> None:
    cluster = FakeCluster(*NODES)

    def act(c: FakeCluster) -> None:
        c.put(happens("NvidiaXID95Error", "uncontained", node="gpu-b"))

    cluster.before_look = when_runs("launcher", act)
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.HARDWARE
    assert [(item.node, item.code) for item in record.events] == [("gpu-b", "XID_95")]
    assert [item.code for item in record.failures] == ["HardwareFailureDetected"]
    assert record.attempt == 1
    assert_nothing_left(cluster)


def test_clock_that_runs_ahead_does_not_make_the_cause_the_last() -> None:
    cluster = FakeCluster(*NODES)

    def act(c: FakeCluster) -> None:
        told = happens("NvidiaXID79Error", "GPU has fallen off the bus")
        ahead = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
        c.put(told | {"lastTimestamp": ahead})

    cluster.before_look = when_runs("launcher", act)
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.HARDWARE
    assert record.started <= record.events[0].at <= record.ended


def test_condition_and_event_of_one_loss_are_told_once() -> None:
    cluster = FakeCluster(*NODES)

    def lose(c: FakeCluster) -> None:
        c.put(happens("NodeNotReady", "gone", node="gpu-b"))
        # As when the tool fails first: everything is looked at once more.
        c.objects["Node", "gpu-b"]["status"]["conditions"][0]["status"] = "Unknown"
        c.end("launcher", 255)

    cluster.before_look = when_runs("launcher", lose)
    record = run(cluster, job()).record
    assert [(item.node, item.code) for item in record.events] == [("gpu-b", "NODE_NOT_READY")]


def test_node_that_is_not_ready_for_a_moment_lets_the_run_go_on_and_is_noted() -> None:
    cluster = FakeCluster(*NODES)
    looks = iter(range(1000))

    def flap(c: FakeCluster) -> None:
        look = next(looks)
        c.put(happens("NodeNotReady", "Node gpu-b status is now: NodeNotReady", node="gpu-b"))
        ready = c.objects["Node", "gpu-b"]["status"]["conditions"][0]
        ready["status"] = "False" if 2 < look < 5 else "True"
        if look == 20:
            c.end("launcher", 0)

    cluster.before_look = when_runs("launcher", flap)
    record = run(cluster, job()).record
    assert (record.outcome, record.exit_code) == (RunOutcome.COMPLETED, 0)
    assert [(item.node, item.code) for item in record.events] == [("gpu-b", "NODE_FLAPPED")]
    verdict = judge_group(
        record.group, "nccl", BarSet(nodes=2), record=record, measurements=measured()
    )
    judged = judge_category(record.category, NODES, [verdict], [record])
    assert Outcome.FAIL not in {node.outcome for node in judged.nodes}


def test_memory_of_the_node_explains_a_failure_but_ends_no_run() -> None:
    def script(code: int) -> Script:
        def act(c: FakeCluster) -> None:
            c.put(happens("SystemOOM", "System OOM encountered, victim process: python"))
            if c.looks > 20:
                c.end("launcher", code)

        return when_runs("launcher", act)

    cluster = FakeCluster(*NODES)
    cluster.before_look = script(0)
    assert run(cluster, job()).record.outcome is RunOutcome.COMPLETED
    cluster = FakeCluster(*NODES)
    cluster.before_look = script(137)
    record = run(cluster, job()).record
    assert record.outcome is RunOutcome.INFRASTRUCTURE
    assert [item.code for item in record.failures] == ["INFRA_OOM_KILLED", "WorkloadFailed"]
    assert (record.exit_code, record.attempt, record.events) == (137, 1, ())


def finish_after(looks: int, role: str, code: int = 0) -> Script:
    """Let the tool end after so many looks, which give a live rule the time to act."""
    return when_runs(role, lambda c: c.end(role, code) if c.looks > looks else None)


def of_worker(output: bytes) -> Any:
    cluster = FakeCluster("gpu-a")
    cluster.outputs["*"] = output
    cluster.before_look = finish_after(40, "worker")
    return run(cluster, job(Launcher.PER_NODE, ("gpu-a",), DCGM)).record


@pytest.mark.parametrize(
    ("output", "code", "text"),
    [
        (LOST, "XID_79", "GPU has fallen off the bus."),
        (FAULT + CLEAN_UP + LOST, "XID_79", "GPU has fallen off the bus."),
        (SPLIT, "GPU_FELL_OFF_BUS", "NVRM: The NVIDIA GPU 0000:4f:00.0"),
        (SWITCH, "HardwareFailureDetected", "SXid (PCI:0000:c4:00.0): 12028, Fatal"),
        (LINK_FATAL, "HardwareFailureDetected", "145, RLW_REMAP Fatal"),
    ],
    ids=["xid", "xid-among-others", "lost-without-xid", "sxid", "nvlink-fatal"],
)
def test_hardware_line_in_the_output_of_a_pod_ends_the_run(
    output: bytes, code: str, text: str
) -> None:
    record = of_worker(b"begun\n" + output)
    assert record.outcome is RunOutcome.HARDWARE
    (seen,) = record.events
    assert (seen.node, seen.code) == ("gpu-a", code)
    assert seen.source.startswith("output of pod certify-")
    assert text in seen.text
    (failure,) = record.failures
    assert failure.code == "HardwareFailureDetected"
    read = measured(None, Completeness.CUT_OFF)
    verdict = judge_group(record.group, "dcgm", BarSet(nodes=1), record=record, measurements=read)
    (node,) = judge_category(DCGM, ["gpu-a"], [verdict], [record]).nodes
    assert (node.outcome, node.reason) == (Outcome.FAIL, "HardwareFailureDetected")


@pytest.mark.parametrize(
    "output",
    [
        FAULT,
        CLEAN_UP,
        LINK,
        b"2024-11-02T03:04:05Z gpu-a kernel: NVRM: Xid (PCI:0000:4f:00): 79, gone long ago\n",
        b"2024-11-02T03:04:05Z gpu-z kernel: NVRM: Xid (PCI:0000:4f:00): 79, long ago, elsewhere\n",
        b"gpu-z kernel: NVRM: Xid (PCI:0000:4f:00): 79, a node that is not of the group\n",
        b"all Xid values are fine\n",
    ],
    ids=["application", "secondary", "nonfatal", "old", "old-elsewhere", "other-node", "no-xid"],
)
def test_line_that_proves_nothing_against_the_node_lets_the_run_go_on(output: bytes) -> None:
    record = of_worker(output)
    assert (record.outcome, record.events) == (RunOutcome.COMPLETED, ())


@pytest.mark.parametrize(
    ("line", "node"),
    [
        (LOST, None),
        (b"[1,3]<stderr>:" + LOST, "gpu-a"),
        (b"[1,11]<stderr>:" + LOST, "gpu-b"),
        (b"gpu-b: " + LOST, "gpu-b"),
        (b"[1,99]<stderr>:" + LOST, None),
        (b"gpu-z: " + LOST, None),
    ],
    ids=["untagged", "rank-of-a", "rank-of-b", "host-b", "no-such-rank", "other-host"],
)
def test_line_that_a_launcher_collected_speaks_only_of_a_node_that_it_names(
    line: bytes, node: str | None
) -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = HEADING + row(8) + line
    cluster.before_look = finish_after(40, "launcher")
    record = run(cluster, job()).record
    if node is None:
        assert (record.outcome, record.events) == (RunOutcome.COMPLETED, ())
    else:
        assert record.outcome is RunOutcome.HARDWARE
        assert [item.node for item in record.events] == [node]


def test_first_line_in_time_leads_whichever_arrives_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cause, echo = (
        NodeEvent(node=node, at=SINCE + timedelta(seconds=at), code=code, source="output", text="x")
        for node, at, code in (("gpu-a", 1, "XID_79"), ("gpu-b", 2, "XID_74"))
    )
    heard = iter([[], [], [echo], [echo, cause]])
    monkeypatch.setattr(Outputs, "hardware_events", lambda _: next(heard, [echo, cause]))
    record = run(FakeCluster(*NODES), job()).record
    assert record.events == (cause, echo)
    assert [item.entity.node for item in record.failures if item.entity] == ["gpu-a", "gpu-b"]


def test_lines_are_in_the_order_in_which_they_were_written() -> None:
    lines = KernelLines(
        "pod-1", ParseContext(), since=SINCE, nodes=NODES, pod_nodes={"pod-b": "gpu-b"}
    )
    for second, raw in enumerate((b"pod-b: " + LOST, b"nothing\n", b"gpu-a: " + LOST)):
        lines.take(raw.rstrip(), b"2026-03-04T05:07:%02d.123456789Z " % second)
    assert [(item.node, item.at.second) for item in lines.events()] == [("gpu-b", 0), ("gpu-a", 2)]
    assert lines.events()[0].at.microsecond == 123456


KERNEL_LINES = (
    *(LOST, FAULT, CLEAN_UP, LINK_FATAL, LINK, SWITCH, *SPLIT.splitlines(keepends=True)),
    b"[ 40.1] NVRM: Xid (PCI:0000:5d:00): 74, pid=9, NVLink: fatal error detected on link 3\n",
    b"[ 40.2] NVRM: Xid (PCI:0000:5d:00): 154, GPU recovery action changed to 0x1 (GPU Reset)\n",
    b"[ 40.3] NVRM: Xid (PCI:0000:5d:00): 48, DBE detected\n",
    b"[ 40.4] NVRM: Xid (PCI:0000:5d:00): 171, details of an ECC error\n",
    b"[ 40.5] mlx5_core 0000:9a:00.0 ib2: Port: 1 Link DOWN\n",
    b"[ 40.6] mlx5_core 0000:9a:00.0 ib2: Port: 1 Link ACTIVE\n",
    b"[ 40.7] pcieport 0000:97:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=x\n",
    b"[ 40.8] NVRM: rm_init_adapter(3) failed: RmInitAdapter failed! minor number 3\n",
)


@given(st.lists(st.tuples(st.sampled_from(KERNEL_LINES), st.sampled_from("ab")), max_size=12))
def test_what_ends_a_run_is_never_taken_back_by_a_later_line(told: list[tuple[bytes, str]]) -> None:
    lines = KernelLines("pod-1", ParseContext(), since=SINCE, nodes=NODES, pod_nodes={})
    whole = KernelScanner("whole")
    failed: set[str] = set()
    for number, (raw, letter) in enumerate(told):
        host = f"gpu-{letter} kernel: ".encode()
        lines.take(host + raw.rstrip(), b"2026-03-04T05:07:00.%09dZ " % number)
        failed |= {item.node for item in lines.events()}
        for line in clean_line(host + raw.rstrip(), number + 1):
            whole.feed(line)
    proven = {
        entity.node
        for item in whole.finish(ParseContext()).findings
        if item.effect is Effect.FAIL
        for entity in item.entities
    }
    assert failed <= proven


def test_port_that_is_down_may_come_back() -> None:
    record = of_worker(b"[ 40.5] mlx5_core 0000:9a:00.0 ib2: Port: 1 Link DOWN\n")
    assert (record.outcome, record.events) == (RunOutcome.COMPLETED, ())


def test_tool_that_its_gpu_ends_fails_by_the_gpu() -> None:
    class Late(FakeCluster):
        """The stream brings nothing in time; asking for the output does."""

        def logs(self, pod: str, *words: Any, follow: bool = False, **more: Any) -> Iterator[bytes]:
            if follow:
                raise ClusterError("connection reset")
            return super().logs(pod, *words, **more)

    cluster = Late("gpu-a")
    cluster.outputs["*"] = b"begun\n" + LOST
    cluster.before_look = when_runs("worker", lambda c: c.end("worker", 1))
    record = run(cluster, job(Launcher.PER_NODE, ("gpu-a",), DCGM)).record
    assert (record.outcome, record.exit_code) == (RunOutcome.HARDWARE, 1)
    assert [(item.node, item.code) for item in record.events] == [("gpu-a", "XID_79")]


def test_kubelet_that_stops_fails_its_node_and_no_other() -> None:
    class Silent(FakeCluster):
        """The kubelet of gpu-b answers no more, so the outputs there cannot be read."""

        def logs(self, pod: str, *words: Any, **more: Any) -> Iterator[bytes]:
            if self.objects["Pod", pod]["spec"]["nodeName"] == "gpu-b" and self.looks > 10:
                raise ClusterError("dial tcp 10.0.0.2:10250: connect: connection refused")
            return super().logs(pod, *words, **more)

    def stop(c: FakeCluster) -> None:
        if c.looks > 10:
            message = "Kubelet stopped posting node status."
            c.objects["Node", "gpu-b"]["status"]["conditions"][0] |= {
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": message,
            }
            c.put(happens("NodeNotReady", "Node gpu-b status is now: NodeNotReady", "gpu-b"))
            (lost,) = [p for p in c.pods_of("worker") if p["spec"]["nodeName"] == "gpu-b"]
            lost["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
            c.deaf = {lost["metadata"]["name"]}

    for kind, role in ((Launcher.MPI, "launcher"), (Launcher.TORCHRUN, "worker")):
        cluster = Silent(*NODES)
        cluster.before_look = when_runs(role, stop)
        record = run(cluster, job(kind)).record
        assert record.outcome is RunOutcome.HARDWARE
        assert [(item.node, item.code) for item in record.events] == [("gpu-b", "NODE_NOT_READY")]
        hard, left = record.failures
        assert (hard.code, hard.entity and hard.entity.node) == ("HardwareFailureDetected", "gpu-b")
        # Nobody confirms that its pod is gone.
        assert (left.code, left.entity and left.entity.node) == ("INFRA_NOT_FREED", "gpu-b")
        verdict = judge_group(
            record.group, "nccl", BarSet(nodes=2), record=record, measurements=None
        )
        nodes = judge_category(record.category, NODES, [verdict], [record]).nodes
        assert [node.outcome for node in nodes] == [Outcome.INCONCLUSIVE, Outcome.FAIL]


def test_event_in_the_last_moment_of_a_run_that_ends_well_still_counts() -> None:
    cluster = FakeCluster(*NODES)

    def act(c: FakeCluster) -> None:
        c.put(happens("NvidiaXID79Error", "GPU has fallen off the bus", node="gpu-b"))
        c.end("launcher", 0)

    cluster.before_look = when_runs("launcher", act)
    record = run(cluster, job()).record
    assert (record.outcome, record.exit_code) == (RunOutcome.HARDWARE, 0)
    assert [item.node for item in record.events] == ["gpu-b"]


def test_notes_are_in_the_record_of_a_run_that_ends_well() -> None:
    cluster = FakeCluster(*NODES)

    def act(c: FakeCluster) -> None:
        c.put(happens("XIDErrors", "Xid 31", node="gpu-b"))
        if c.looks > 20:
            c.end("launcher", 0)

    cluster.before_look = when_runs("launcher", act)
    record = run(cluster, job(options={"nodeHealth": setting(None)})).record
    assert record.outcome is RunOutcome.COMPLETED
    assert [(item.node, item.code) for item in record.events] == [("gpu-b", "XID_31")]
