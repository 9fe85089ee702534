"""Fail closed, as properties: losing data, or asking for more, never makes a verdict better."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.bars.bar import Bar
from catalog.bars.stages import stages
from catalog.entries.entry import Entry, builtin_entries
from catalog.facts.reasons import Effect
from catalog.hardware.hardware import Hardware
from catalog.hardware.profile import builtin_profiles, hardware_of_profile
from steps.documents import (
    Completeness,
    Figure,
    Finding,
    Measurements,
    NodeEvent,
    Outcome,
    RunOutcome,
)
from steps.evaluate.core import evaluate
from steps.store.runs import Run
from tests.builders import START, bar, group, measured, plan, record
from tests.evaluate.outputs import (
    SIZES,
    by_stage,
    dcgm,
    judged,
    nccl,
    outcome,
    training,
    without_figure,
    without_row,
)
from tests.evaluate.outputs import bar as make

# losing a part of a measurement

POOL: dict[str, tuple[Bar, ...]] = {
    "nccl": (
        make("busBandwidthGBps", "largestSizeBusBandwidthGBps >= 400.0"),
        make("busBandwidthGBps", "value >= 300.0 && value <= 500.0"),
        make("bandwidthDip", "value <= 0.4"),
        make("wrongCount", "value == 0", optional=True),
        make("cycleSpread", "value <= 0.15", optional=True),
        make("smallMessageLatencyUs", "value <= 60.0", optional=True),
        make("rowCount", "rowCount < 65 || busBandwidthGBps < 0.0"),
        make("expr", "!(bandwidthDip > 0.4)"),
        make("expr", "row.out_wrong == 0.0", scope="row"),
        make("expr", "row.size_bytes < 67108864 || row.out_bus_gbps >= 300.0", scope="row"),
        make("expr", "rows.all(r, r.in_wrong == 0.0)"),
        make("expr", "rows.filter(r, r.size_bytes > 1048576).all(r, r.out_bus_gbps > 100.0)"),
    ),
    "dcgm": (
        make("testsFailed", "value == 0"),
        make("testsPassed", "testsPassed + testsWarned > 0"),
        make("gpusSeen", "gpusSeen >= gpus_per_node", optional=True),
        make("hostToDeviceMinGBps", "value >= 50.0", optional=True),
        make("hostToDeviceMinGBps", "value >= 50.0", scope="gpu"),
        make("hostToDeviceMinGBps", "value >= 50.0", scope="gpu", optional=True),
        make("testsWarned", "value == 0", scope="gpu"),
        make("expr", "row.status == 'pass'", scope="row"),
        make("expr", "rows.all(r, r.status == 'pass')"),
    ),
    "training": (
        make("nanStepCount", "value == 0"),
        make("stepCount", "value >= 20"),
        make("avgStepTimeSec", "value <= 2.5"),
        make("stepTimeSpread", "value <= 0.1", optional=True),
        make("avgTFLOPsPerGPU", "value >= 400.0", optional=True),
        make("expr", "row.step_time_s <= 2.5", scope="row"),
        make("expr", "rows.all(r, !r.nan)"),
    ),
}
READ: dict[str, tuple[Measurements, ...]] = {
    "nccl": (
        nccl(),
        nccl(bus=250.0),
        nccl(slow={1 << 30: 90.0}),
        nccl(cycles=1),
        nccl(sizes=SIZES[:9]),
        nccl(findings=[Finding(code="VALIDATION_OFF", effect=Effect.NOTE, message="off")]),
    ),
    "dcgm": (
        dcgm(),
        dcgm(gpus=7),
        dcgm(host_to_device={2: 11.0}),
        dcgm(statuses={("memory", 1): "warn"}),
        dcgm(statuses={("memory", gpu): "warn" for gpu in range(8)}),
    ),
    "training": (
        training(),
        training((2.0,) * 30 + (9.0,)),
        training((3.0,) * 40),
        training(nan_at=33),
        training((2.0,) * 12),
        training(tflops=None),
    ),
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, Measurements, list[Bar]]:
    tool = draw(st.sampled_from(sorted(POOL)))
    bars = draw(st.lists(st.sampled_from(POOL[tool]), min_size=1, max_size=4))
    return tool, draw(st.sampled_from(READ[tool])), bars


@settings(max_examples=300, deadline=None)
@given(case=cases(), data=st.data())
def test_losing_rows_and_figures_never_makes_a_pass(
    case: tuple[str, Measurements, list[Bar]], data: st.DataObject
) -> None:
    tool, read, bars = case
    before = judged(read, *bars, tool=tool).outcome
    for _ in range(3):
        lose_row: bool = data.draw(st.booleans())
        if read.rows and lose_row:
            read = without_row(read, data.draw(st.integers(0, len(read.rows) - 1)))
        elif read.figures:
            read = without_figure(read, data.draw(st.sampled_from(sorted(read.figures))))
        after = judged(read, *bars, tool=tool).outcome
        assert after is not Outcome.PASS or before is Outcome.PASS
        before = after


@pytest.mark.parametrize("tool", sorted(POOL))
def test_losing_any_one_row_or_all_never_makes_a_pass(tool: str) -> None:
    for read in READ[tool]:
        damaged = [without_row(read, index) for index in range(len(read.rows))]
        damaged += [read.model_copy(update={"rows": ()})]
        for one in POOL[tool]:
            if outcome(read, one, tool=tool) is Outcome.PASS:
                continue
            for item in damaged:
                assert outcome(item, one, tool=tool) is not Outcome.PASS, one.expression


@settings(max_examples=100, deadline=None)
@given(case=cases(), completeness=st.sampled_from(sorted(set(Completeness) - {"complete"})))
def test_output_that_is_not_whole_is_never_a_pass(
    case: tuple[str, Measurements, list[Bar]], completeness: Completeness
) -> None:
    tool, read, bars = case
    cut = read.model_copy(update={"completeness": completeness})
    assert judged(cut, *bars, tool=tool).outcome is not Outcome.PASS


# values that are none


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "expression",
    [
        "value >= 300.0",
        "value <= 300.0",
        "!(value < 300.0)",
        "value != 300.0",
        "value >= 300.0 || true",
        "value == value",
        "min([value, 1.0]) <= 1.0",
        "rowCount == 1 || value > 0.0",
    ],
)
def test_value_that_is_no_finite_number_is_never_a_pass(expression: str, value: float) -> None:
    read = measured(380.0)
    # A document cannot hold it; a figure that was computed wrong can.
    bad = Figure.model_construct(value=value, unit="GB/s")
    damaged = read.model_copy(update={"figures": {**read.figures, "busBandwidthGBps": bad}})
    for one in (
        make("busBandwidthGBps", expression),
        make("busBandwidthGBps", expression, scope="node"),
    ):
        found = judged(damaged, one, tool="nccl")
        assert found.outcome is Outcome.INCONCLUSIVE
        assert {reason.code for reason in found.reasons} == {"EXPRESSION_ERROR"}


@pytest.mark.parametrize(
    "expression",
    [
        "busBandwidthGBps",
        "busBandwidthGBps + 1.0",
        "busBandwidthGBps / 0.0 > 1.0",
        "1.0 / (busBandwidthGBps - 380.0) > 0.0",
        "rows.filter(r, r.size_bytes < 0).all(r, r.out_bus_gbps > 1.0)",
        "busBandwidthAtGBps['64G'] > 1.0",
        "notAFigure > 1.0",
        "busBandwidthGBps >= ",
        "'a' < busBandwidthGBps",
        "avgBusBandwidthGBps > 0.0 || busBandwidthGBps > 0.0",
        '__import__("os").system("id") == 0',
    ],
)
def test_expression_that_means_nothing_is_never_a_pass(expression: str) -> None:
    found = judged(measured(380.0), make("busBandwidthGBps", expression), tool="nccl")
    assert found.outcome is Outcome.INCONCLUSIVE


# stricter stages

HARDWARE = [
    Hardware(platform="unknown", gpu="unknown", gpus_per_node=None),
    *(
        hardware_of_profile(
            loaded, gpu, instance_type=next(iter(loaded.profile.instance_types), None)
        )
        for loaded in builtin_profiles().all()
        for gpu in loaded.profile.gpu
    ),
]
FIGURES = {
    "nccl": {"speed": (1.0, 1500.0), "ratio": (0.0, 0.9), "count": (0, 3)},
    "dcgm": {"speed": (1.0, 120.0), "ratio": (0.0, 0.9), "count": (0, 9)},
    "training": {"speed": (1.0, 900.0), "ratio": (0.0, 0.6), "count": (0, 60)},
}


@settings(max_examples=150, deadline=None)
@given(
    entry=st.sampled_from(list(builtin_entries().values())),
    hardware=st.sampled_from(HARDWARE),
    nodes=st.sampled_from([1, 2, 4, 16]),
    data=st.data(),
)
def test_stricter_stage_never_passes_what_a_looser_one_fails(
    entry: Entry, hardware: Hardware, nodes: int, data: st.DataObject
) -> None:
    read = _drawn(entry, data)
    scale = data.draw(st.sampled_from(entry.scales))
    found = [by_stage(entry, stage, hardware, nodes, read, scale) for stage in stages()]
    for looser, stricter in pairwise(found):
        if stricter is Outcome.PASS:
            assert looser is Outcome.PASS


def _drawn(entry: Entry, data: st.DataObject) -> Measurements:
    """Draw a measurement of the entry whose rows are whole and whose figures are anything."""
    read = {"nccl": nccl(), "dcgm": dcgm(), "training": training()}[entry.tool]
    ranges = FIGURES[entry.tool]
    good = data.draw(st.booleans())
    drawn = dict(read.figures)
    for name, figure in read.figures.items():
        if name in {"rowCount", "stepCount", "cycleCount", "testsPassed", "testsFailed"}:
            continue
        if name in {"testsWarned", "testsSkipped"} or isinstance(figure.value, dict):
            continue
        kind = "ratio" if figure.unit == "ratio" else "count" if figure.unit == "count" else "speed"
        low, high = ranges[kind]
        value: float | int
        if kind == "count":
            value = data.draw(st.integers(int(low), int(high))) if not good else figure.value
        else:
            value = data.draw(st.floats(low, high if kind == "speed" or not good else 0.2))
        drawn[name] = figure.model_copy(update={"value": value})
    hosts = Figure(value=data.draw(st.sampled_from([0, 1, 2, 4, 16])), unit="count")
    if entry.tool == "nccl":
        drawn["fabricHostCount"] = hosts
    return read.model_copy(update={"figures": drawn})


# the order of groups, and who is innocent


@settings(max_examples=60, deadline=None)
@given(
    bandwidths=st.lists(st.floats(20.0, 480.0), min_size=2, max_size=10),
    dead=st.sets(st.integers(0, 9)),
    data=st.data(),
)
def test_order_of_groups_does_not_change_verdicts(
    bandwidths: list[float], dead: set[int], data: st.DataObject
) -> None:
    groups = [group([f"n{number}"], f"g-{number}") for number in range(len(bandwidths))]
    bars = [bar(), bar("value >= 0.95 * peer_median", code="OUTLIER")]
    shuffled = data.draw(st.permutations(groups))
    found = []
    for order in (groups, shuffled):
        of = plan(order, bars=bars)
        part = of.categories[0].parts[0]
        runs = []
        for one in order:
            number = int(one.nodes[0][1:])
            event = NodeEvent(node=one.nodes[0], at=START, code="XID_79", source="log", text="x")
            ended = RunOutcome.HARDWARE if number in dead else RunOutcome.COMPLETED
            events = [event] if number in dead else []
            runs.append(
                Run(part, one, record(one, ended, events=events), measured(bandwidths[number]))
            )
        verdict = evaluate(of, of.categories[0], runs)
        found.append((verdict.outcome, {node.node: node for node in verdict.nodes}))
    assert found[0][0] is found[1][0]
    for name, node in found[0][1].items():
        other = found[1][1][name]
        assert (node.outcome, node.reason) == (other.outcome, other.reason)
        assert {r.code for r in node.reasons} == {r.code for r in other.reasons}


@settings(max_examples=60, deadline=None)
@given(
    slow=st.dictionaries(st.integers(0, 11), st.floats(20.0, 200.0), max_size=4),
    lost=st.sets(st.integers(0, 11), max_size=6),
)
def test_innocent_node_is_never_failed(slow: dict[int, float], lost: set[int]) -> None:
    """Six pairs and twelve single nodes; what is lost or slow elsewhere is nobody else's fault."""
    bars = [bar(), bar("value >= 0.95 * peer_median", code="OUTLIER")]
    for size in (1, 2):
        groups = [
            group([f"n{at + i:02}" for i in range(size)], f"g-{at:02}") for at in range(0, 12, size)
        ]
        of = plan(groups, bars=bars)
        part = of.categories[0].parts[0]
        runs = [
            Run(
                part,
                one,
                record(one),
                measured(min(slow.get(int(n[1:]), 400.0) for n in one.nodes)),
            )
            for one in groups
            if not any(int(node[1:]) in lost for node in one.nodes)
        ]
        verdict = evaluate(of, of.categories[0], runs)
        guilty = {node.node for node in verdict.nodes if node.outcome is Outcome.FAIL}
        assert guilty <= {f"n{number:02}" for number in slow}
        passed = {node.node for node in verdict.nodes if node.outcome is Outcome.PASS}
        assert passed.isdisjoint({f"n{number:02}" for number in {*slow, *lost}})


def _slowest(nodes: tuple[str, ...], slow: dict[int, float]) -> float:
    return min(slow.get(int(node[1:]), 400.0) for node in nodes)
