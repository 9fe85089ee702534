"""Sample reports, built by hand so that renderings can be tested without running anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from catalog.facts.reasons import Effect, reason
from catalog.hardware.hardware import Hardware
from steps.documents import (
    Bounds,
    CategoryReport,
    Cohort,
    Coverage,
    Entity,
    Evidence,
    Exclusion,
    ExpressionResult,
    Figure,
    Group,
    GroupVerdict,
    NodeReport,
    NodeStatus,
    NodeVerdict,
    Outcome,
    ReasonGiven,
    Report,
    Result,
)

ALL_REDUCE = "communication/nccl-all-reduce"
ALL_GATHER = "communication/nccl-all-gather"
LOOPBACK = "communication/nccl-loopback"
DCGM = "diagnostics/dcgm-level4"
TRAINING = "training/nemotron5-8b"
SOURCE = "sample figures of 8 nodes (measured, 16G)"
SIZES = [f"{2**i}{unit}" for unit in ("", "K", "M", "G") for i in range(10)][3:35]


def give(
    code: str,
    message: str | None = None,
    *,
    effect: Effect | None = None,
    group: str | None = None,
    node: str | None = None,
    evidence: str | None = None,
    remedy: str | None = None,
) -> ReasonGiven:
    """A reason with the catalog's own effect and words where none are given."""
    known = reason(code)
    return ReasonGiven(
        code=code,
        effect=effect or known.effect,
        kind=known.kind,
        message=message or known.says,
        entities=(Entity(node=node),) if node else (),
        evidence=(Evidence(file="output.log", line=118, text=evidence),) if evidence else (),
        group=group,
        remedy=remedy or known.remedy,
    )


def bandwidth_bar(measured: float, reference: float = 467.5) -> ExpressionResult:
    met = measured >= 0.92 * reference
    return ExpressionResult(
        key="busBandwidthGBps",
        expression="largestSizeBusBandwidthGBps >= fraction * expected",
        outcome=Outcome.PASS if met else Outcome.FAIL,
        with_values=f"{measured} >= 0.92 * {reference}",
        values={
            "fraction": 0.92,
            "largestSizeBusBandwidthGBps": measured,
            "expected": reference,
        },
        source=SOURCE,
        code="NCCL_LOW_BANDWIDTH",
    )


def data_bar(wrong: int = 0) -> ExpressionResult:
    return ExpressionResult(
        key="wrongCount",
        expression="wrongCount == 0",
        outcome=Outcome.FAIL if wrong else Outcome.PASS,
        with_values=f"{wrong} == 0",
        values={"wrongCount": wrong},
        source="stage production",
        code="NCCL_DATA_CORRUPTION",
    )


def nccl_figures(peak: float, *, dip_at: str | None = None) -> dict[str, Figure]:
    curve = {}
    for position, size in enumerate(SIZES):
        value = peak / (1 + 2.0 ** (21 - position))
        curve[size] = round(value * (0.45 if size == dip_at else 1.0), 2)
    curve[SIZES[-1]] = peak
    return {
        "busBandwidthAtGBps": Figure(value=curve, unit="GB/s"),
        "largestSizeBusBandwidthGBps": Figure(value=peak, unit="GB/s"),
        "busBandwidthGBps": Figure(value=max(curve.values()), unit="GB/s"),
        "algBandwidthGBps": Figure(value=round(peak / 1.875, 2), unit="GB/s"),
        "bandwidthDip": Figure(value=0.55 if dip_at else 0.021, unit="ratio"),
        "smallMessageLatencyUs": Figure(value=38.4, unit="us"),
        "wrongCount": Figure(value=0, unit="count"),
    }


def nccl_group(
    group_id: str,
    nodes: Iterable[str],
    bandwidth: float,
    *,
    purpose: Literal["measure", "isolate"] = "measure",
    seconds: float = 180.0,
    dip_at: str | None = None,
) -> GroupVerdict:
    bar = bandwidth_bar(bandwidth)
    reasons: tuple[ReasonGiven, ...] = ()
    if bar.outcome is Outcome.FAIL:
        reasons = (give("NCCL_LOW_BANDWIDTH", bar.with_values, group=group_id),)
    return GroupVerdict(
        group=Group(id=group_id, nodes=tuple(nodes), purpose=purpose),
        outcome=bar.outcome,
        reasons=reasons,
        expressions=(bar, data_bar()),
        figures=nccl_figures(bandwidth, dip_at=dip_at),
        duration_seconds=seconds,
        facts={"transport": "AWS Libfabric", "ncclVersion": "2.27.3"},
    )


def passed(node: str, group: str, *reasons: ReasonGiven) -> NodeVerdict:
    return NodeVerdict(node=node, outcome=Outcome.PASS, decided_by=group, reasons=reasons)


def not_proven(node: str, *reasons: ReasonGiven, suspect: bool = False) -> NodeVerdict:
    return NodeVerdict(node=node, outcome=Outcome.INCONCLUSIVE, reasons=reasons, suspect=suspect)


def failed(
    node: str,
    why: Literal["ThresholdViolation", "HardwareFailureDetected", "WorkloadFailed"],
    group: str | None,
    *reasons: ReasonGiven,
) -> NodeVerdict:
    return NodeVerdict(
        node=node, outcome=Outcome.FAIL, reason=why, reasons=reasons, decided_by=group
    )


def make_report(
    categories: Iterable[CategoryReport],
    *,
    excluded: Iterable[Exclusion] = (),
    result: Result | None = None,
    **fields: Any,
) -> Report:
    """A report whose nodes, coverage and result follow from its categories."""
    categories, excluded = tuple(categories), tuple(excluded)
    verdicts: dict[str, dict[str, NodeVerdict]] = {item.node: {} for item in excluded}
    for category in categories:
        for verdict in category.nodes:
            verdicts.setdefault(verdict.node, {})[category.category] = verdict
    nodes = tuple(_node(name, verdicts[name], excluded) for name in sorted(verdicts))
    out = sum(node.status is NodeStatus.EXCLUDED for node in nodes)
    statuses = {node.status for node in nodes}
    if result is None:
        result = Result.INCOMPLETE if out else Result.PASS
        if NodeStatus.NOT_PROVEN in statuses or not nodes:
            result = Result.INCONCLUSIVE
        if NodeStatus.FAILED in statuses:
            result = Result.FAIL
    tested = tuple(node.node for node in nodes if node.status is not NodeStatus.EXCLUDED)
    known: dict[str, Any] = {
        "certification": "h100-acceptance",
        "stage": "production",
        "source": "cluster",
        "product_version": "0.1.0",
        "started": datetime(2026, 3, 2, 4, 5, 6, tzinfo=UTC),
        "ended": datetime(2026, 3, 2, 5, 9, 24, tzinfo=UTC),
        "platform": "aws",
        "gpu": "h100",
        "cohorts": (
            Cohort(
                id="aws-p5.48xlarge-h100",
                hardware=Hardware(
                    platform="aws",
                    gpu="h100",
                    instance_type="p5.48xlarge",
                    profile="aws/p5.48xlarge",
                ),
                profile_origin="label node.kubernetes.io/instance-type",
                nodes=tested,
            ),
        ),
        "versions": {"driver": "570.148.08", "nccl": "2.27.3"},
        "bounds": Bounds(
            longest_seconds=21600, gpu_hours=384.0, deadline_seconds=28800, node_cap=64
        ),
    }
    return Report(
        **(known | fields),
        result=result,
        coverage=Coverage(targeted=len(nodes), tested=len(tested), excluded=out),
        nodes=nodes,
        excluded=excluded,
        categories=categories,
    )


def _node(
    name: str, verdicts: Mapping[str, NodeVerdict], excluded: tuple[Exclusion, ...]
) -> NodeReport:
    outcomes = {category: verdict.outcome for category, verdict in verdicts.items()}
    open_cases = [v for v in verdicts.values() if v.outcome is not Outcome.PASS]
    reasons = tuple(item for verdict in open_cases for item in verdict.reasons)
    if not verdicts:
        own = tuple(give(item.code, item.message) for item in excluded if item.node == name)
        return NodeReport(node=name, status=NodeStatus.EXCLUDED, reasons=own)
    bad = [v for v in open_cases if v.outcome is Outcome.FAIL]
    if bad:
        return NodeReport(
            node=name,
            status=NodeStatus.FAILED,
            reason=bad[0].reason,
            reasons=reasons,
            categories=outcomes,
        )
    status = NodeStatus.NOT_PROVEN if open_cases else NodeStatus.READY
    return NodeReport(node=name, status=status, reasons=reasons, categories=outcomes)


def eight_nodes() -> Report:
    """The fleet of the README: one slow link, one lost GPU, six innocent nodes."""
    names = [f"gpu-node-{number:02}" for number in range(5, 13)]
    lost = "NVRM: Xid (PCI:0000:9b:00): 79, pid=41187, GPU has fallen off the bus."
    event = f"kernel log at 42m18s: {lost}"
    full = GroupVerdict(
        group=Group(id="full-scale-0", nodes=tuple(names)),
        outcome=Outcome.INCONCLUSIVE,
        reasons=(
            give("XID_79", event, effect=Effect.INCONCLUSIVE, group="full-scale-0", node=names[7]),
            give("WorkloadFailed", "all_reduce_perf was killed after 42m18s", group="full-scale-0"),
        ),
        duration_seconds=2538,
        facts={"transport": "AWS Libfabric"},
    )
    rounds = [
        [("05", "06", 466.9), ("07", "08", 61.1), ("09", "10", 468.2)],
        [("07", "05", 61.3), ("08", "06", 465.4), ("11", "09", 467.8)],
    ]
    pairs = tuple(
        nccl_group(
            f"pair-{turn}-{index}",
            (f"gpu-node-{left}", f"gpu-node-{right}"),
            bandwidth,
            purpose="isolate",
            seconds=181,
        )
        for turn, pairs in enumerate(rounds, 1)
        for index, (left, right, bandwidth) in enumerate(pairs)
    )
    slow = give("NCCL_LOW_BANDWIDTH", "61.3 >= 0.92 * 467.5", group="pair-2-0")
    xid = give("XID_79", event, effect=Effect.FAIL, group="full-scale-0", node=names[7])
    cleared_by = dict(
        zip(
            ("05", "06", "08", "09", "10", "11"),
            ("1-0", "1-0", "2-1", "1-2", "1-2", "2-2"),
            strict=True,
        )
    )
    nodes = {
        f"gpu-node-{number}": passed(f"gpu-node-{number}", f"pair-{pair}")
        for number, pair in cleared_by.items()
    }
    nodes["gpu-node-07"] = failed("gpu-node-07", "ThresholdViolation", "pair-2-0", slow)
    nodes["gpu-node-12"] = failed("gpu-node-12", "HardwareFailureDetected", "full-scale-0", xid)
    category = CategoryReport(
        category=ALL_REDUCE,
        outcome=Outcome.FAIL,
        scale="full-scale",
        reasons=full.reasons,
        groups=(full, *pairs),
        nodes=tuple(nodes[name] for name in sorted(nodes)),
        duration_seconds=2538,
        isolation_seconds=362,
    )
    return make_report([category], source="simulated", source_note="examples/fleet.yaml, seed 7")


def all_pass(size: int = 8) -> Report:
    """Every node passes three categories; one has a warning."""
    names = [f"h100-{number:03}" for number in range(1, size + 1)]
    group = nccl_group("full-scale-0", names, 469.31, seconds=611)
    warning = give("ROW_REMAP_PENDING", "GPU 3: a row remap waits for a reset", node=names[2])
    reduce = CategoryReport(
        category=ALL_REDUCE,
        outcome=Outcome.PASS,
        scale="full-scale",
        groups=(group,),
        nodes=tuple(passed(name, "full-scale-0") for name in names),
        duration_seconds=611,
    )
    diagnosed = tuple(
        GroupVerdict(
            group=Group(id=f"node-{name}", nodes=(name,)),
            outcome=Outcome.PASS,
            expressions=(
                ExpressionResult(
                    key="testsPassed",
                    expression="testsPassed > 0",
                    outcome=Outcome.PASS,
                    with_values="11 > 0",
                    values={"testsPassed": 11},
                    source="stage production",
                ),
            ),
            figures={
                "testsPassed": Figure(value=11, unit="count"),
                "testsFailed": Figure(value=0, unit="count"),
                "gpusSeen": Figure(value=8, unit="count"),
                "hostToDeviceMinGBps": Figure(value=53.1 + index / 10, unit="GB/s"),
            },
            duration_seconds=5400,
        )
        for index, name in enumerate(names)
    )
    dcgm = CategoryReport(
        category=DCGM,
        outcome=Outcome.PASS,
        scale="intra-node",
        groups=diagnosed,
        nodes=tuple(
            passed(name, f"node-{name}", *((warning,) if name == names[2] else ()))
            for name in names
        ),
        duration_seconds=5471,
    )
    trained = GroupVerdict(
        group=Group(id="full-scale-0", nodes=tuple(names)),
        outcome=Outcome.PASS,
        expressions=(
            ExpressionResult(
                key="avgTFLOPsPerGPU",
                expression="avgTFLOPsPerGPU >= fraction * expected",
                outcome=Outcome.PASS,
                with_values="611.4 >= 0.92 * 640.0",
                values={"avgTFLOPsPerGPU": 611.4, "fraction": 0.92, "expected": 640.0},
                source="sample figures of 8 nodes (measured)",
                code="TRAIN_SLOW",
            ),
        ),
        figures={
            "avgTFLOPsPerGPU": Figure(value=611.4, unit="TFLOP/s"),
            "avgStepTimeSec": Figure(value=6.412, unit="s"),
            "stepCount": Figure(value=40, unit="count"),
        },
        duration_seconds=402,
    )
    training = CategoryReport(
        category=TRAINING,
        outcome=Outcome.PASS,
        scale="full-scale",
        groups=(trained,),
        nodes=tuple(passed(name, "full-scale-0") for name in names),
        duration_seconds=402,
    )
    return make_report([reduce, dcgm, training])


def inconclusive() -> Report:
    """Many ways of not knowing: cut logs, dead pods, an unknown platform, missing results."""
    names = [f"ip-10-0-{number // 8}-{number:02}.ec2.internal" for number in range(64)]
    tested, out = names[:61], names[61:]
    slow = nccl_group("full-scale-0", tested, 401.7, seconds=3600).model_copy(
        update={"outcome": Outcome.INCONCLUSIVE}
    )
    suspect = give("SUSPECT", group="full-scale-0")
    soft = give(
        "NCCL_LOW_BANDWIDTH",
        "401.7 >= 0.92 * 467.5",
        effect=Effect.INCONCLUSIVE,
        group="full-scale-0",
    )
    reduce = CategoryReport(
        category=ALL_REDUCE,
        outcome=Outcome.INCONCLUSIVE,
        scale="full-scale",
        reasons=slow.reasons,
        groups=(slow,),
        nodes=tuple(not_proven(name, suspect, soft, suspect=True) for name in tested[:20])
        + tuple(passed(name, "full-scale-0") for name in tested[20:]),
        duration_seconds=3600,
    )
    kinds = [
        ("LOG_TRUNCATED", "the output ends in the row of 512M", "#  out-of-place in-pla"),
        ("LOG_EMPTY", None, None),
        ("INFRA_IMAGE_PULL", 'worker-0: Back-off pulling image "nvcr.io/nvidia/dcgm:9"', None),
        ("DCGM_ALL_SKIPPED", None, '"status": "Skip"'),
        ("RESULT_MISSING", None, None),
        ("TRAIN_OOM", "CUDA out of memory, tried to allocate 2.00 GiB on GPU 5", "torch.OutOf…"),
    ]
    nodes, groups = [], []
    for index, name in enumerate(tested):
        if index < 30:
            nodes.append(passed(name, f"node-{index}"))
            continue
        code, message, line = kinds[index % len(kinds)]
        item = give(code, message, group=f"node-{index}", evidence=line)
        nodes.append(not_proven(name, item))
        if code != "RESULT_MISSING":
            groups.append(
                GroupVerdict(
                    group=Group(id=f"node-{index}", nodes=(name,)),
                    outcome=Outcome.INCONCLUSIVE,
                    reasons=(item,),
                    duration_seconds=12.5,
                )
            )
    dcgm = CategoryReport(
        category=DCGM,
        outcome=Outcome.INCONCLUSIVE,
        scale="intra-node",
        groups=tuple(groups),
        nodes=tuple(nodes),
        duration_seconds=5400,
    )
    excluded = [
        Exclusion(node=out[0], code="NODE_EXCLUDED_GPU_COUNT", message="has 4, needs 8"),
        Exclusion(node=out[1], code="NODE_EXCLUDED_GPU_COUNT", message="has 7, needs 8"),
        Exclusion(node=out[2], code="NODE_EXCLUDED_CORDONED", message="is cordoned"),
        Exclusion(
            node=tested[-1],
            code="NODE_EXCLUDED_NIC_MISSING",
            message="has 31 vpc.amazonaws.com/efa, needs 32",
            category=ALL_GATHER,
        ),
    ]
    gather = CategoryReport(
        category=ALL_GATHER,
        outcome=Outcome.PASS,
        scale="full-scale",
        groups=(nccl_group("full-scale-0", tested[:-1], 470.02, seconds=590),),
        nodes=tuple(passed(name, "full-scale-0") for name in tested[:-1]),
        duration_seconds=590,
    )
    return make_report(
        [reduce, gather, dcgm],
        excluded=excluded,
        source="recorded",
        source_note="runs of 2 March",
        problems=(("PLATFORM_UNKNOWN", "instance type p5x.48xlarge is in no profile"),),
    )


def incomplete() -> Report:
    """What was tested passed, but three nodes were left out."""
    report = all_pass(61)
    out = [
        Exclusion(node="h100-062", code="NODE_EXCLUDED_GPU_COUNT", message="has 1, needs 8"),
        Exclusion(node="h100-063", code="NODE_EXCLUDED_GPU_COUNT", message="has 4, needs 8"),
        Exclusion(node="h100-064", code="NODE_EXCLUDED_CORDONED", message="is cordoned"),
    ]
    return make_report(report.categories, excluded=out)


def big(size: int = 1440, *, slow: int = 17) -> Report:
    """A large fleet tested in pairs, with some slow nodes and one cut log."""
    names = [f"gpu-{number:04}" for number in range(size)]
    bad_pairs = {(index * 37 + 5) % (size // 2) for index in range(slow)}
    groups, nodes, isolation = [], [], []
    for pair in range(size // 2):
        left, right = names[2 * pair : 2 * pair + 2]
        name = f"pairs-{pair}"
        if pair in bad_pairs:
            groups.append(nccl_group(name, (left, right), 200.0 + pair % 50, seconds=170))
            again = f"pair-1-{pair}"
            partner = names[(2 * pair + 4) % size]
            run = nccl_group(again, (left, partner), 201.5 + pair % 50, purpose="isolate")
            isolation += [
                run,
                nccl_group(f"pair-2-{pair}", (right, partner), 466.6, purpose="isolate"),
            ]
            nodes.append(
                failed(
                    left,
                    "ThresholdViolation",
                    again,
                    give("NCCL_LOW_BANDWIDTH", run.expressions[0].with_values, group=again),
                )
            )
            nodes.append(passed(right, f"pair-2-{pair}"))
        elif pair == 13:
            item = give("LOG_TRUNCATED", group=name, evidence="   33554432  8388608  float")
            groups.append(
                GroupVerdict(
                    group=Group(id=name, nodes=(left, right)),
                    outcome=Outcome.INCONCLUSIVE,
                    reasons=(item,),
                )
            )
            nodes += [not_proven(left, item), not_proven(right, item)]
        else:
            groups.append(
                nccl_group(name, (left, right), round(455.0 + (pair * 7919 % 300) / 20, 2))
            )
            nodes += [passed(left, name), passed(right, name)]
    category = CategoryReport(
        category=ALL_REDUCE,
        outcome=Outcome.FAIL,
        scale="pairs",
        reasons=tuple(item for group in groups for item in group.reasons),
        groups=tuple(groups + isolation),
        nodes=tuple(nodes),
        duration_seconds=1912,
        isolation_seconds=371,
    )
    return make_report([category])


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "[bold red]gpu[/bold red]",
    "gpu-\x1b[31mred\x1b[0m",
    "gpu-\u202eeman\u2066",
    "]]>&amp;<!--",
    "gpu\nready: all\x00\x08",
    "${{ 7*7 }}{% raw %}",
    "a" * 253,
)


def hostile() -> Report:
    """Names, messages and log lines that try to break out of their place."""
    bad, open_, out = HOSTILE[0:3], HOSTILE[3:6], HOSTILE[6:8]
    nodes = []
    for name in HOSTILE:
        if name in out:
            continue
        item = give(
            "LOG_UNREADABLE", f"cannot read {name}", group=name, evidence=f"{name} {'x' * 480}"
        )
        if name in bad:
            hard = give("XID_79", f"{name} fell", effect=Effect.FAIL, group=name, evidence=name)
            nodes.append(failed(name, "HardwareFailureDetected", name, hard, item))
        elif name in open_:
            nodes.append(not_proven(name, item))
        else:
            nodes.append(passed(name, name))
    category = CategoryReport(
        category=ALL_REDUCE,
        outcome=Outcome.FAIL,
        scale="full-scale",
        reasons=(give("LOG_UNREADABLE", HOSTILE[0], group=HOSTILE[1]),),
        groups=tuple(
            GroupVerdict(
                group=Group(id=name, nodes=(name,)),
                outcome=Outcome.INCONCLUSIVE,
                facts={name: HOSTILE[0]},
            )
            for name in HOSTILE[:6]
        ),
        nodes=tuple(nodes),
        duration_seconds=3,
    )
    return make_report(
        [category],
        excluded=[
            Exclusion(node=name, code="NODE_EXCLUDED_BUSY", message=f"pod {HOSTILE[0]}")
            for name in out
        ],
        certification=HOSTILE[0],
        platform=HOSTILE[1],
        source="recorded",
        source_note=HOSTILE[3],
        versions={HOSTILE[0]: HOSTILE[1]},
        problems=(("PLATFORM_UNKNOWN", HOSTILE[0]),),
    )


SAMPLES = {
    "eight_nodes": eight_nodes,
    "all_pass": all_pass,
    "incomplete": incomplete,
    "inconclusive": inconclusive,
    "big": lambda: big(128),
    "hostile": hostile,
}
"""Sample reports by name; the big one in a size that tests can afford."""
