"""Small builders of documents for tests; every value has a default that makes a healthy run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from catalog.bars.bar import Bar
from catalog.entries.entry import Launcher
from catalog.facts.tools import output_kind
from catalog.hardware.hardware import Hardware
from catalog.reading.setting import Origin, Setting
from catalog.workload.workload import Workload
from steps.documents import (
    BarSet,
    Bounds,
    Cohort,
    Completeness,
    Exclusion,
    Figure,
    Finding,
    Group,
    Measurements,
    NcclRow,
    NodeEvent,
    NodeFacts,
    Plan,
    PlannedCategory,
    PlannedPart,
    RunFailure,
    RunOutcome,
    RunRecord,
)

START = datetime(2026, 3, 4, 5, 0, tzinfo=UTC)
ALL_REDUCE = "communication/nccl-all-reduce"
ORIGIN = Origin(rule="test", file="test.yaml")


def setting(value: object) -> Setting:
    return Setting(value=value, origin=ORIGIN)


def workload(gpus: int = 8) -> Workload:
    return Workload(
        launcher=Launcher.MPI,
        image=setting("registry.example/nccl:1"),
        command=("all_reduce_perf",),
        gpus_per_node=setting(gpus),
        nics_per_node=setting(8),
        nic_resource=setting("rdma/ib"),
        transport=setting(["IB"]),
        timeout_seconds=setting(3600),
    )


def bar(expression: str = "busBandwidthGBps >= 300.0", **values: object) -> Bar:
    data: dict[str, object] = {
        "key": "busBandwidthGBps",
        "code": "NCCL_LOW_BANDWIDTH",
        "origin": ORIGIN,
    }
    return Bar.model_validate(data | {"expression": expression} | values)


def group(nodes: Sequence[str], name: str = "full-scale-0", purpose: str = "measure") -> Group:
    return Group.model_validate({"id": name, "nodes": tuple(nodes), "purpose": purpose})


def record(
    of: Group,
    outcome: RunOutcome = RunOutcome.COMPLETED,
    failures: Iterable[RunFailure] = (),
    events: Iterable[NodeEvent] = (),
    minutes: float = 5,
) -> RunRecord:
    return RunRecord(
        category=ALL_REDUCE,
        cohort="onprem-h100",
        group=of,
        started=START,
        ended=START + timedelta(minutes=minutes),
        outcome=outcome,
        exit_code=0 if outcome is RunOutcome.COMPLETED else 1,
        failures=tuple(failures),
        events=tuple(events),
    )


def measured(
    bandwidth: float | None = 380.0,
    completeness: Completeness = Completeness.COMPLETE,
    findings: Iterable[Finding] = (),
) -> Measurements:
    figures = {}
    rows = []
    if bandwidth is not None:
        figures["busBandwidthGBps"] = Figure(value=bandwidth, unit="GB/s")
        figures["rowCount"] = Figure(value=1, unit="count")
        rows.append(NcclRow(size_bytes=16 << 30, out_bus_gbps=bandwidth, line=57))
    return Measurements(
        mode=output_kind("nccl-table"),
        files=("output.log",),
        completeness=completeness,
        figures=figures,
        rows=tuple(rows),
        findings=tuple(findings),
    )


def plan(
    groups: Sequence[Group],
    *,
    category: str = ALL_REDUCE,
    bars: Sequence[Bar] | None = None,
    excluded: Sequence[Exclusion] = (),
    profile: str | None = "onprem/h100",
    stage: str = "production",
    isolate: bool = True,
) -> Plan:
    nodes = sorted({node for item in groups for node in item.nodes})
    sizes = sorted({len(item.nodes) for item in groups} | {2})
    chosen = tuple(bars if bars is not None else [bar()])
    hardware = Hardware(platform="onprem", gpu="h100", gpus_per_node=8, profile=profile)
    part = PlannedPart(
        cohort="onprem-h100",
        workload=workload().model_copy(update={"hardware": hardware}),
        bars=tuple(BarSet(nodes=size, bars=chosen) for size in sizes),
        groups=tuple(groups),
    )
    return Plan(
        certification="test",
        stage=stage,
        source="simulated",
        targeted=tuple(sorted({*nodes, *(item.node for item in excluded)})),
        nodes=tuple(NodeFacts(name=node, platform="onprem", gpus=8) for node in nodes),
        cohorts=(
            Cohort(
                id="onprem-h100",
                hardware=hardware,
                nodes=tuple(nodes),
            ),
        ),
        categories=(
            PlannedCategory(id=category, scale="full-scale", parts=(part,), isolate=isolate),
        ),
        excluded=tuple(excluded),
        bounds=Bounds(longest_seconds=3600, gpu_hours=64, deadline_seconds=86400, node_cap=1024),
    )


def written(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
