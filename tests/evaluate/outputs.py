"""Measurements with rows, as the parsers make them of healthy runs, to be damaged by tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from catalog.bars.bar import Bar
from catalog.bars.required import bars_for
from catalog.entries.entry import Entry
from catalog.facts.tools import output_kind
from catalog.hardware.hardware import Hardware, Situation
from catalog.language.expressions import compile_bar
from steps.documents import (
    BarSet,
    Completeness,
    DiagnosticRow,
    Figure,
    Finding,
    Group,
    GroupVerdict,
    Measurements,
    NcclRow,
    Outcome,
    TrainingStep,
)
from steps.evaluate.group import judge_output
from steps.evaluate.peers import PeerClass
from steps.parse.dcgm.measured import count_tests
from steps.parse.nccl.figures import compute
from tests.builders import ORIGIN

# cel-python raises the recursion limit when it first parses; hypothesis refuses that in a test.
compile_bar("rowCount", "value > 0", "nccl")

SIZES = tuple(1 << power for power in range(3, 35))
H100 = Hardware(platform="onprem", gpu="h100", gpus_per_node=8)
ONE = Situation(hardware=H100, nodes=1, stage="production")
Status = Literal["pass", "fail", "warn", "skip", "unknown"]


def nccl(
    bus: float = 460.0,
    *,
    cycles: int = 2,
    sizes: Sequence[int] = SIZES,
    slow: Mapping[int, float] | None = None,
    findings: Iterable[Finding] = (),
) -> Measurements:
    """A sweep whose bandwidth grows to ``bus``; ``slow`` gives single sizes their own."""
    rows = []
    for cycle in range(1, cycles + 1):
        for number, size in enumerate(sizes):
            speed = (slow or {}).get(size, round(bus / (1 + (1 << 20) / size), 2) + cycle / 100)
            rows.append(
                NcclRow(
                    size_bytes=size,
                    type="float",
                    redop="sum",
                    root=-1,
                    out_time_us=round(size / speed / 1e3 + 30, 2),
                    out_alg_gbps=round(speed / 1.75, 2),
                    out_bus_gbps=speed,
                    out_wrong=0,
                    in_bus_gbps=speed,
                    in_wrong=0,
                    cycle=cycle,
                    line=50 + (cycle - 1) * len(sizes) + number,
                )
            )
    return Measurements(
        mode=output_kind("nccl-table"),
        files=("output.log",),
        completeness=Completeness.COMPLETE,
        figures=compute(rows) | {"wrongCount": Figure(value=0, unit="count")},
        rows=tuple(rows),
        findings=tuple(findings),
    )


def dcgm(
    gpus: int = 8,
    *,
    statuses: Mapping[tuple[str, int], Status] | None = None,
    host_to_device: Mapping[int, float] | None = None,
    findings: Iterable[Finding] = (),
) -> Measurements:
    """Three tests on every GPU; ``statuses`` by test and GPU, bandwidths in GB/s by GPU."""
    rows = []
    speeds = dict.fromkeys(range(gpus), 55.2) | dict(host_to_device or {})
    for number, test in enumerate(("memory", "pcie", "targeted_power")):
        for gpu in range(gpus):
            words = f"GPU {gpu} Host to GPU bandwidth: {speeds[gpu]} GB/s"
            rows.append(
                DiagnosticRow(
                    test=test,
                    status=(statuses or {}).get((test, gpu), "pass"),
                    gpu=gpu,
                    text=words if test == "pcie" else None,
                    line=100 + 20 * number + gpu,
                )
            )
    by_test: dict[str, set[str]] = {}
    for row in rows:
        by_test.setdefault(row.test, set()).add(row.status)
    return Measurements(
        mode=output_kind("dcgm-json"),
        files=("diag.json",),
        completeness=Completeness.COMPLETE,
        figures=count_tests(by_test.values())
        | {
            "gpusSeen": Figure(value=gpus, unit="count"),
            "hostToDeviceMinGBps": Figure(value=min(speeds.values()), unit="GB/s"),
        },
        rows=tuple(rows),
        findings=tuple(findings),
    )


def training(
    seconds: Sequence[float] = (2.0,) * 40,
    *,
    warmup: int = 10,
    tflops: float | None = 410.0,
    nan_at: int | None = None,
) -> Measurements:
    """Steps of the given times after warm-up."""
    steps = [
        TrainingStep(
            step=number,
            step_time_s=9.0 if number <= warmup else seconds[number - warmup - 1],
            tflops_per_gpu=tflops,
            nan=number == nan_at,
            warmup=number <= warmup,
            line=200 + number,
        )
        for number in range(1, warmup + len(seconds) + 1)
    ]
    mean = sum(seconds) / len(seconds)
    spread = (sum((value - mean) ** 2 for value in seconds) / len(seconds)) ** 0.5 / mean
    figures = {
        "avgStepTimeSec": Figure(value=mean, unit="s"),
        "stepTimeSpread": Figure(value=spread, unit="ratio"),
        "stepCount": Figure(value=len(seconds), unit="count"),
        "warmupStepCount": Figure(value=warmup, unit="count"),
        "nanStepCount": Figure(value=int(nan_at is not None), unit="count"),
    }
    if tflops is not None:
        figures["avgTFLOPsPerGPU"] = Figure(value=tflops, unit="TFLOP/s")
    return Measurements(
        mode=output_kind("training-log"),
        files=("train.log",),
        completeness=Completeness.COMPLETE,
        figures=figures,
        rows=tuple(steps),
    )


def bar(key: str, expression: str, **fields: Any) -> Bar:
    """A bar with the fields that matter to a test."""
    return Bar.model_validate({"key": key, "expression": expression, "origin": ORIGIN} | fields)


def judged(
    read: Measurements,
    *bars: Bar,
    tool: str,
    nodes: Sequence[str] = ("node-a",),
    context: Situation = ONE,
    peers: PeerClass | None = None,
) -> GroupVerdict:
    """Judge one output."""
    group = Group(id="intra-node-0", nodes=tuple(nodes))
    known = BarSet(nodes=len(nodes), bars=bars)
    return judge_output(group, tool, known, read, context=context, peers=peers)


def outcome(read: Measurements, one: Bar, *, tool: str, **more: Any) -> Outcome:
    """Judge one output by one bar."""
    return judged(read, one, tool=tool, **more).outcome


def without_figure(read: Measurements, name: str) -> Measurements:
    return read.model_copy(
        update={"figures": {key: item for key, item in read.figures.items() if key != name}}
    )


def without_row(read: Measurements, index: int) -> Measurements:
    return read.model_copy(update={"rows": (*read.rows[:index], *read.rows[index + 1 :])})


def without_finding(read: Measurements, index: int) -> Measurements:
    findings = (*read.findings[:index], *read.findings[index + 1 :])
    return read.model_copy(update={"findings": findings})


def by_stage(  # noqa: PLR0917  (what bars depend on)
    entry: Entry,
    stage: str,
    hardware: Hardware,
    nodes: int,
    read: Measurements,
    scale: str | None = None,
) -> Outcome:
    """Judge one output by the bars of a stage."""
    scale = scale or entry.scale
    bars, missing = bars_for(entry, stage, hardware, nodes, {}, scale=scale)
    of = Group(id="g", nodes=tuple(f"n{number}" for number in range(nodes)))
    context = Situation(hardware=hardware, nodes=nodes, stage=stage, scale=scale)
    known = BarSet(nodes=nodes, bars=bars, missing=missing)
    return judge_output(of, entry.tool, known, read, context=context).outcome
