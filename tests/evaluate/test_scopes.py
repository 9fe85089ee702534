"""Bars by scope: what they are evaluated for, whom a false one names, what a true one needs."""

from __future__ import annotations

import pytest

from catalog.bars.bar import Bar
from catalog.facts.reasons import Effect
from catalog.hardware.hardware import Situation
from steps.documents import (
    Completeness,
    DiagnosticRow,
    Entity,
    Figure,
    Finding,
    GroupVerdict,
    Measurements,
    Outcome,
)
from steps.evaluate.category import judge_category
from tests.evaluate.outputs import (
    H100,
    ONE,
    bar,
    dcgm,
    judged,
    nccl,
    outcome,
    training,
    without_figure,
    without_row,
)

PAIR = ("node-a", "node-b")
TWO = Situation(hardware=H100, nodes=2, stage="production")
GIB = 1 << 30
FAST_ROWS = bar("expr", "row.size_bytes < 67108864 || row.out_bus_gbps >= 300.0", scope="row")


def codes(verdict: GroupVerdict) -> set[str]:
    return {reason.code for reason in verdict.reasons}


def failed_nodes(verdict: GroupVerdict) -> set[str]:
    found = judge_category("c", verdict.group.nodes, [verdict], [])
    return {node.node for node in found.nodes if node.outcome is Outcome.FAIL}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("nodes == 1 && testsFailed == 0", Outcome.PASS),
        ("gpusSeen >= gpus_per_node", Outcome.PASS),
        ("gpusSeen > gpus_per_node", Outcome.FAIL),
        ("gpu == 'h100' && gpusSeen == 8", Outcome.PASS),
        ("gpu == 'a100' ? gpusSeen == 4 : gpusSeen == 8", Outcome.PASS),
        ("platform == 'aws' || testsFailed > 0", Outcome.FAIL),
        ("stage == 'production' && testsPassed >= 3", Outcome.PASS),
        ("scale == '' && instance_type == '' && testsPassed >= 3", Outcome.PASS),
    ],
)
def test_context_is_known_to_expressions(expression: str, expected: Outcome) -> None:
    assert outcome(dcgm(), bar("expr", expression), tool="dcgm") is expected


def test_number_that_nobody_knows_proves_nothing() -> None:
    one = bar("gpusSeen", "gpusSeen >= gpus_per_node")
    verdict = judged(dcgm(), one, tool="dcgm", context=Situation(nodes=1))
    assert (verdict.outcome, codes(verdict)) == (Outcome.INCONCLUSIVE, {"FIGURE_MISSING"})


def test_node_scope_names_the_node() -> None:
    one = bar("busBandwidthGBps", "value >= 470.0", scope="node")
    verdict = judged(nccl(), one, tool="nccl")
    assert verdict.outcome is Outcome.FAIL
    assert verdict.expressions[0].entity == Entity(node="node-a")
    assert failed_nodes(verdict) == {"node-a"}


@pytest.mark.parametrize("scope", ["node", "gpu"])
def test_figures_of_nodes_that_ran_together_are_of_no_single_node(scope: str) -> None:
    one = bar("testsFailed", "value == 0", scope=scope)
    verdict = judged(dcgm(), one, tool="dcgm", nodes=PAIR, context=TWO)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "2 nodes ran together" in verdict.reasons[0].message
    assert failed_nodes(verdict) == set()


SLOW_LINK = bar("hostToDeviceMinGBps", "value >= 50.0", scope="gpu", code="DCGM_LOW_BANDWIDTH")


def test_gpu_scope_names_node_and_gpu_and_the_line() -> None:
    verdict = judged(dcgm(host_to_device={3: 12.6, 6: 25.1}), SLOW_LINK, tool="dcgm")
    assert verdict.outcome is Outcome.FAIL
    shown = [(e.statement, e.entity, e.evidence[0].line) for e in verdict.expressions]
    assert shown == [
        ("GPU 3: 12.6 >= 50.0", Entity(node="node-a", gpu=3), 123),
        ("GPU 6: 25.1 >= 50.0", Entity(node="node-a", gpu=6), 126),
    ]
    assert [r.entities for r in verdict.reasons] == [(e.entity,) for e in verdict.expressions]
    assert failed_nodes(verdict) == {"node-a"}


def test_gpu_scope_that_holds_is_one_result_for_all_gpus() -> None:
    verdict = judged(dcgm(), SLOW_LINK, tool="dcgm")
    assert verdict.outcome is Outcome.PASS
    assert [(e.times, e.outcome) for e in verdict.expressions] == [(8, Outcome.PASS)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("testsWarned == 0", Outcome.FAIL),
        ("testsWarned + testsSkipped <= 1", Outcome.PASS),
        ("rows.all(r, r.status != 'unknown')", Outcome.PASS),
        ("rows.exists(r, r.test == 'pcie' && r.status == 'pass')", Outcome.FAIL),
        ("rows.all(r, r.test != 'none' || r.value > 0.0)", Outcome.PASS),
    ],
)
def test_gpu_scope_has_the_results_of_each_gpu(expression: str, expected: Outcome) -> None:
    read = dcgm(statuses={("pcie", 5): "warn"})
    assert outcome(read, bar("expr", expression, scope="gpu"), tool="dcgm") is expected


@pytest.mark.parametrize(
    ("read", "context"),
    [
        pytest.param(dcgm(gpus=7), ONE, id="one GPU of the profile is absent"),
        pytest.param(without_row(dcgm(), 11), ONE, id="one result of one GPU is absent"),
        pytest.param(
            without_figure(dcgm(), "gpusSeen"), Situation(nodes=1), id="nobody knows how many"
        ),
        pytest.param(dcgm().model_copy(update={"rows": ()}), ONE, id="no row"),
    ],
)
def test_gpu_scope_holds_only_where_every_gpu_has_every_result(
    read: Measurements, context: Situation
) -> None:
    one = bar("testsFailed", "value == 0", scope="gpu")
    assert outcome(read, one, tool="dcgm", context=context) is Outcome.INCONCLUSIVE


def test_row_scope_names_the_first_row_and_its_line_and_counts_the_others() -> None:
    verdict = judged(nccl(slow={GIB: 120.0, 2 * GIB: 130.0}), FAST_ROWS, tool="nccl")
    assert verdict.outcome is Outcome.FAIL
    [result] = verdict.expressions
    assert result.statement == "1G, cycle 1: 1073741824 < 67108864 || 120 >= 300.0"
    assert result.times == 4
    assert [line.line for line in result.evidence] == [77, 78, 109]
    assert "4 of 64 rows" in verdict.reasons[0].message
    assert verdict.reasons[0].evidence == result.evidence


def test_row_scope_of_training_leaves_the_warm_up_out() -> None:
    steady = bar("expr", "row.step_time_s <= 2.5", scope="row")
    assert outcome(training(), steady, tool="training") is Outcome.PASS
    verdict = judged(training((2.0,) * 30 + (4.1,) + (2.0,) * 9), steady, tool="training")
    assert verdict.expressions[0].statement == "step 41: 4.1 <= 2.5"


ROW_BARS = [
    pytest.param(nccl(), FAST_ROWS, "nccl", id="nccl"),
    pytest.param(dcgm(), bar("expr", "row.status == 'pass'", scope="row"), "dcgm", id="dcgm"),
    pytest.param(
        training(), bar("expr", "row.step_time_s < 3.0", scope="row"), "training", id="training"
    ),
]


@pytest.mark.parametrize(("read", "one", "tool"), ROW_BARS)
def test_row_scope_holds_only_on_all_rows(read: Measurements, one: Bar, tool: str) -> None:
    assert outcome(read, one, tool=tool) is Outcome.PASS
    for index in (12, len(read.rows) - 1):
        assert outcome(without_row(read, index), one, tool=tool) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("read", "one", "tool"), ROW_BARS)
def test_row_scope_without_any_row_proves_nothing(read: Measurements, one: Bar, tool: str) -> None:
    verdict = judged(read.model_copy(update={"rows": ()}), one, tool=tool)
    assert (verdict.outcome, codes(verdict)) == (Outcome.INCONCLUSIVE, {"FIGURE_MISSING"})


def test_row_without_the_field_is_not_proven() -> None:
    one = bar("expr", "row.out_wrong == 0.0", scope="row")
    read = nccl()
    blank = read.rows[5].model_copy(update={"out_wrong": None})
    damaged = read.model_copy(update={"rows": (*read.rows[:5], blank, *read.rows[6:])})
    assert outcome(read, one, tool="nccl") is Outcome.PASS
    assert outcome(damaged, one, tool="nccl") is Outcome.INCONCLUSIVE


def test_rows_as_a_list_are_those_that_count() -> None:
    one = bar("expr", "rows.all(r, r.step_time_s < 3.0) && rows.size() == 40")
    assert outcome(training(), one, tool="training") is Outcome.PASS
    assert outcome(without_row(training(), 20), one, tool="training") is not Outcome.PASS


# what is missing


HOLE = Finding(
    code="SIZE_MISSING", effect=Effect.NOTE, message="rows of the sweep are not here: after 1G"
)


@pytest.mark.parametrize(
    ("key", "expression", "expected"),
    [
        ("bandwidthDip", "value <= 0.4", Outcome.INCONCLUSIVE),
        ("largestSizeBusBandwidthGBps", "value >= 400.0", Outcome.PASS),
        ("busBandwidthGBps", "value >= 400.0", Outcome.PASS),
        ("busBandwidthGBps", "value >= 400.0 && value <= 500.0", Outcome.INCONCLUSIVE),
        ("busBandwidthAtGBps", "busBandwidthAtGBps['8G'] >= 400.0", Outcome.PASS),
        ("wrongCount", "value == 0", Outcome.PASS),
        ("rowCount", "value < 100", Outcome.INCONCLUSIVE),
        ("expr", "rows.all(r, r.out_wrong == 0.0)", Outcome.INCONCLUSIVE),
    ],
)
def test_lost_sizes_leave_only_what_they_cannot_change(
    key: str, expression: str, expected: Outcome
) -> None:
    read = nccl(findings=[HOLE])
    assert outcome(read, bar(key, expression), tool="nccl") is expected


BROKEN_OFF = Finding(
    code="SIZE_MISSING",
    effect=Effect.INCONCLUSIVE,
    message="no row has 32G, which was asked for; the largest is 16G",
)
STOPPED = {"completeness": Completeness.CUT_OFF, "facts": {"maxBytes": str(32 << 30)}}


@pytest.mark.parametrize(
    ("key", "expression", "expected"),
    [
        ("largestSizeBusBandwidthGBps", "value >= 900.0", Outcome.INCONCLUSIVE),
        ("busBandwidthGBps", "largestSizeBusBandwidthGBps >= 900.0", Outcome.INCONCLUSIVE),
        ("busBandwidthGBps", "value >= 900.0 && wrongCount == 0", Outcome.INCONCLUSIVE),
        ("busBandwidthGBps", "value <= 100.0", Outcome.FAIL),
        ("busBandwidthGBps", "value >= 900.0 && wrongCount > 0", Outcome.FAIL),
        ("busBandwidthAtGBps", "busBandwidthAtGBps['8G'] >= 900.0", Outcome.FAIL),
        ("wrongCount", "value > 0", Outcome.FAIL),
    ],
)
@pytest.mark.parametrize(
    "read",
    [nccl(findings=[BROKEN_OFF]), nccl().model_copy(update=STOPPED)],
    ids=["asked for more", "set out for more"],
)
def test_sweep_that_broke_off_proves_nothing_about_larger_messages(
    read: Measurements, key: str, expression: str, expected: Outcome
) -> None:
    """A run that hung or crashed at small messages would else be called slow."""
    (result,) = judged(read, bar(key, expression), tool="nccl").expressions
    assert result.outcome is expected
    (whole,) = judged(nccl(), bar(key, expression), tool="nccl").expressions
    assert whole.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("total", "expression", "expected"),
    [
        (None, "value < 3.0", Outcome.PASS),
        (90, "value < 3.0", Outcome.INCONCLUSIVE),
        (90, "value < 1.0", Outcome.FAIL),
    ],
    ids=["length not told", "as fast as it should be", "too slow"],
)
def test_training_log_that_stops_before_its_last_step_never_passes(
    total: int | None, expression: str, expected: Outcome
) -> None:
    """A run that was killed leaves what an excerpt of a good one is."""
    unknown = Finding(code="EXIT_CODE_UNKNOWN", effect=Effect.NOTE, message="stops at step 50")
    read = training()
    rows = tuple(row.model_copy(update={"total_steps": total}) for row in read.rows)
    stopped = read.model_copy(update={"rows": rows, "findings": (unknown,)})
    assert outcome(stopped, bar("avgStepTimeSec", expression), tool="training") is expected


def test_lost_row_of_one_cycle_is_seen_although_its_size_is_there() -> None:
    one = bar("largestSizeBusBandwidthGBps", "value >= 400.0")
    read = without_row(nccl(), 31)
    counted = read.figures | {"rowCount": read.figures["rowCount"].model_copy(update={"value": 63})}
    assert outcome(nccl(), one, tool="nccl") is Outcome.PASS
    damaged = read.model_copy(update={"figures": counted})
    assert outcome(damaged, one, tool="nccl") is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("read", "key", "tool", "expected"),
    [
        pytest.param(nccl(), "wrongCount", "nccl", Outcome.INCONCLUSIVE, id="counted and lost"),
        pytest.param(
            nccl(findings=[Finding(code="VALIDATION_OFF", effect=Effect.NOTE, message="off")]),
            "wrongCount",
            "nccl",
            Outcome.PASS,
            id="never counted",
        ),
        pytest.param(nccl(cycles=1), "cycleSpread", "nccl", Outcome.PASS, id="one cycle"),
        pytest.param(nccl(), "cycleSpread", "nccl", Outcome.INCONCLUSIVE, id="two cycles"),
        pytest.param(dcgm(), "hostToDeviceMinGBps", "dcgm", Outcome.INCONCLUSIVE, id="in rows"),
        pytest.param(dcgm(), "deviceToDeviceMinGBps", "dcgm", Outcome.PASS, id="in no row"),
        pytest.param(dcgm(), "gpusSeen", "dcgm", Outcome.INCONCLUSIVE, id="GPUs in rows"),
        pytest.param(training(), "stepTimeSpread", "training", Outcome.INCONCLUSIVE, id="steps"),
        pytest.param(
            training(tflops=None), "avgTFLOPsPerGPU", "training", Outcome.PASS, id="not printed"
        ),
        pytest.param(nccl(), "avgBusBandwidthGBps", "nccl", Outcome.INCONCLUSIVE, id="who knows"),
    ],
)
def test_optional_bar_is_left_out_only_where_the_output_shows_why(
    read: Measurements, key: str, tool: str, expected: Outcome
) -> None:
    sure = {
        "nccl": bar("busBandwidthGBps", "value >= 400.0"),
        "dcgm": bar("testsFailed", "value == 0"),
        "training": bar("avgStepTimeSec", "value < 3.0"),
    }[tool]
    optional = bar(key, "value >= 0", optional=True)
    verdict = judged(without_figure(read, key), sure, optional, tool=tool)
    assert verdict.outcome is expected
    left_out = "BAR_LEFT_OUT" in codes(verdict)
    assert left_out is (expected is Outcome.PASS)


def test_bars_that_are_all_left_out_are_no_threshold() -> None:
    one = bar("deviceToDeviceMinGBps", "value >= 0", optional=True)
    verdict = judged(dcgm(), one, tool="dcgm")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert codes(verdict) == {"BAR_LEFT_OUT", "NO_THRESHOLD"}


# what a verdict tells


def test_result_tells_rule_kind_values_and_line() -> None:
    one = bar(
        "busBandwidthGBps",
        "largestSizeBusBandwidthGBps >= fraction * expected",
        values={"fraction": 0.92, "expected": 480.0},
        kind="published",
        source="a paper (measured, 2025)",
        origin={"rule": "stage production", "file": "catalog/bars/references.yaml", "line": 12},
    )
    [result] = judged(nccl(bus=400.0), one, tool="nccl").expressions
    assert result.outcome is Outcome.FAIL
    assert result.values == {
        "expected": 480.0,
        "fraction": 0.92,
        "largestSizeBusBandwidthGBps": nccl(bus=400.0).figures["largestSizeBusBandwidthGBps"].value,
    }
    assert result.rule == "stage production (catalog/bars/references.yaml:12)"
    assert (result.kind, result.source) == ("published", "a paper (measured, 2025)")
    assert [(line.file, line.line) for line in result.evidence] == [
        ("output.log", 81),
        ("output.log", 113),
    ]


@pytest.mark.parametrize(
    ("read", "tool", "key", "expression", "lines"),
    [
        (nccl(slow={GIB: 120.0}), "nccl", "bandwidthDip", "value < 0.1", [76, 77]),
        (nccl(), "nccl", "busBandwidthAtGBps", "busBandwidthAtGBps['8M'] > 900.0", [70, 102]),
        (nccl(), "nccl", "smallMessageLatencyUs", "value < 1.0", None),
        (nccl(), "nccl", "cycleSpread", "value > 0.5", [81, 113]),
        (dcgm(statuses={("memory", 2): "fail"}), "dcgm", "testsFailed", "value == 0", [102]),
        (dcgm(host_to_device={4: 9.0}), "dcgm", "hostToDeviceMinGBps", "value > 50.0", [124]),
        (training((2.0,) * 20 + (6.0,)), "training", "maxStepTimeSec", "value < 3.0", []),
        (training((2.0,) * 20 + (6.0,)), "training", "avgStepTimeSec", "value < 1.0", [231]),
        (training(nan_at=17), "training", "nanStepCount", "value == 0", [217]),
    ],
)
def test_evidence_is_the_line_that_the_figure_came_from(
    read: Measurements, tool: str, key: str, expression: str, lines: list[int] | None
) -> None:
    [result] = judged(read, bar(key, expression), tool=tool).expressions
    assert result.outcome is not Outcome.PASS
    found = [line.line for line in result.evidence]
    assert found == lines if lines is not None else found


def test_check_that_names_a_gpu_only_where_it_has_an_error_is_whole() -> None:
    """DCGM 3's deployment checks."""
    read = dcgm()
    warned = DiagnosticRow(test="denylist", category="Deployment", status="warn", gpu=2)
    counted = {**read.figures, "testsWarned": Figure(value=1, unit="count")}
    more = read.model_copy(update={"rows": (*read.rows, warned), "figures": counted})
    one = bar("testsPassed", "value >= 3")
    assert outcome(more, one, tool="dcgm") is Outcome.PASS
    listed = warned.model_copy(update={"entity_group": "GPU"})
    uneven = more.model_copy(update={"rows": (*read.rows, listed)})
    assert outcome(uneven, one, tool="dcgm") is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("expression", "scope", "expected"),
    [
        ("testsPassed >= 11 && testsFailed == 0", "group", Outcome.PASS),
        ("row.status == 'pass'", "row", Outcome.INCONCLUSIVE),
        ("rows.all(r, r.status == 'pass')", "group", Outcome.INCONCLUSIVE),
    ],
)
def test_preflight_check_counts_what_it_does_not_list(
    expression: str, scope: str, expected: Outcome
) -> None:
    counted = {
        "testsPassed": Figure(value=11, unit="count"),
        "testsFailed": Figure(value=0, unit="count"),
    }
    read = dcgm().model_copy(
        update={
            "tool": "preflight-dcgm-diag",
            "figures": counted,
            "rows": (DiagnosticRow(test="counted_tests", status="pass"),),
        }
    )
    assert outcome(read, bar("expr", expression, scope=scope), tool="dcgm") is expected
