"""Public bug reports as cases of judgment: the right verdict, the right node, the right code.

The reports: superbenchmark's rule files (B97), oci-hpc's health checks (B99), Azure's
azurehpc-health-checks 142 (B25), IBM's autopilot 66 (B61), Megatron-Bridge's known issues (B83),
NVIDIA-NeMo/Speech 14850 (B85), NeMo-Framework-Launcher 55 (B87), NVIDIA/aicr 2693 (B101). All
numbers are our own.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from catalog.bars.required import bars_for
from catalog.bars.stages import stages
from catalog.entries.entry import builtin_entries
from catalog.errors import ExpressionError
from catalog.facts.reasons import Effect
from catalog.hardware.hardware import Hardware
from catalog.language.expressions import check_threshold
from steps.aggregate.core import make_report
from steps.documents import (
    BarSet,
    Entity,
    Finding,
    GroupVerdict,
    Measurements,
    NodeStatus,
    Outcome,
    Result,
)
from steps.evaluate.comparison import flips
from steps.evaluate.core import evaluate
from steps.isolate.core import next_isolation
from steps.parse.api import ParseContext
from steps.parse.reader import parse_bytes
from steps.store.runs import Run
from tests.builders import group, measured, plan, record
from tests.evaluate.outputs import bar, dcgm, judged, nccl
from tests.parse.training.logs import bar as progress_bar
from tests.parse.training.logs import megatron


def codes(verdict: GroupVerdict) -> set[str]:
    return {reason.code for reason in verdict.reasons}


@pytest.mark.parametrize(
    "text", ['__import__("os").system("id") == 0', "lambda x: x > 1", "exec('1') == 1"]
)
def test_b97_rule_that_is_code_is_refused_before_anything_runs(text: str) -> None:
    with pytest.raises(ExpressionError):
        check_threshold("busBandwidthGBps", text, "nccl")
    assert judged(nccl(), bar("busBandwidthGBps", text), tool="nccl").outcome is not Outcome.PASS


@pytest.mark.parametrize("stage", list(stages())[1:])
def test_b99_hardware_without_a_number_is_no_threshold(stage: str) -> None:
    entry = builtin_entries()["communication/nccl-all-reduce"]
    unknown = Hardware(platform="unknown", gpu="unknown", gpus_per_node=8)
    bars, missing = bars_for(entry, stage, unknown, 2, {})
    read = measured(9000.0)
    run = record(group(["a", "b"]))
    of = plan([run.group], stage=stage)
    part = (
        of.categories[0]
        .parts[0]
        .model_copy(update={"bars": (BarSet(nodes=2, bars=bars, missing=missing),)})
    )
    verdict = evaluate(of, of.categories[0], [Run(part, run.group, run, read)])
    assert verdict.outcome is not Outcome.PASS
    assert "NO_THRESHOLD" in {reason.code for reason in verdict.reasons}


def test_b25_setting_that_differs_stands_beside_the_flip() -> None:
    slow = nccl(bus=381.0).model_copy(
        update={"facts": {"env.NCCL_TOPO_FILE": "/opt/topo.xml", "transport": "IB"}}
    )
    fast = nccl(bus=471.0).model_copy(
        update={"facts": {"env.NCCL_TOPO_FILE": "", "transport": "IB"}}
    )
    limit = bar("busBandwidthGBps", "value >= 459.0")
    runs = [(name, judged(read, limit, tool="nccl")) for name, read in (("a", slow), ("b", fast))]
    assert [verdict.outcome for _, verdict in runs] == [Outcome.FAIL, Outcome.PASS]
    assert flips(runs) == [
        "a failed and b passed; "
        "NCCL_TOPO_FILE was /opt/topo.xml where it failed and empty where it passed"
    ]
    assert runs[0][1].facts["env.NCCL_TOPO_FILE"] == "/opt/topo.xml"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_b61_good_light_check_does_not_outvote_a_failed_diagnostic(order: tuple[int, int]) -> None:
    one = group(["node-a"], "intra-node-0")
    fault = Finding(
        code="DCGM_FAIL_MEMORY",
        effect=Effect.FAIL,
        message="memory: fail",
        entities=(Entity(node="node-a", gpu=4),),
    )
    broken = dcgm(statuses={("memory", 4): "fail"}, findings=[fault])
    reads: list[tuple[str, Measurements, str]] = [
        ("diagnostics/dcgm-level4", broken, "testsPassed > 0"),
        ("communication/nccl-loopback-nvswitch", nccl(), "largestSizeBusBandwidthGBps > 100.0"),
    ]
    plans = [plan([one], category=name, bars=[bar("expr", text)]) for name, _, text in reads]
    of = plans[0].model_copy(
        update={"categories": tuple(plans[index].categories[0] for index in order)}
    )
    verdicts = {}
    for planned, index in zip(of.categories, order, strict=True):
        run = Run(planned.parts[0], one, record(one), reads[index][1])
        verdicts[planned.id] = evaluate(of, planned, [run])
    report = make_report(of, verdicts)
    assert report.result is Result.FAIL
    [node] = report.nodes
    assert node.status is NodeStatus.FAILED
    assert node.reasons[0].code == "DCGM_FAIL_MEMORY"


STEP_LIMIT = bar("avgStepTimeSec", "value <= 16.0", code="TRAIN_SLOW")
RATE_LIMIT = bar("avgTFLOPsPerGPU", "value >= 300.0", code="TRAIN_SLOW")


def _log(steps: Iterable[str], **known: int) -> Measurements:
    context = ParseContext(tool="training", **known)  # type: ignore[arg-type]
    return parse_bytes("".join(steps).encode(), "train.log", context)


def test_b83_throughput_printed_as_zero_is_unknown_and_the_step_time_still_judges() -> None:
    read = _log(megatron(step, 60, ms=15480.0 + step, tflops=0.0) for step in range(1, 61))
    rate = judged(read, RATE_LIMIT, tool="training")
    assert rate.outcome is Outcome.INCONCLUSIVE
    assert codes(rate) == {"FIGURE_MISSING", "THROUGHPUT_FIELD_INVALID"}
    assert judged(read, STEP_LIMIT, tool="training").outcome is Outcome.PASS


def test_b85_warm_up_is_left_out_of_the_mean() -> None:
    times = [97000.0, 75300.0, 75200.0, 75100.0, 75000.0]
    read = _log((megatron(n, 5, ms=ms) for n, ms in enumerate(times, 1)), warmup_steps=1)
    verdict = judged(read, STEP_LIMIT, tool="training")
    assert verdict.outcome is Outcome.FAIL
    assert verdict.expressions[0].with_values == "75.15 <= 16.0"
    assert verdict.figures["warmupStepTimeSec"].value == 97.0
    assert "TRAIN_TOO_FEW_STEPS" in codes(verdict)


def test_b87_seconds_per_step_are_not_steps_per_second() -> None:
    read = _log([progress_bar(612, "9000", "37.9s/it", "loss=3.2") + "\n"])
    verdict = judged(
        read, bar("avgStepTimeSec", "value <= 20.0", code="TRAIN_SLOW"), tool="training"
    )
    assert verdict.outcome is Outcome.FAIL
    assert "TRAIN_SLOW" in codes(verdict)
    assert verdict.expressions[0].with_values == "37.9 <= 20.0"


def test_b101_bad_node_of_a_failed_group_is_found_by_pairs_and_nobody_else_is_blamed() -> None:
    names = [f"gpu-{number}" for number in range(1, 9)]
    groups = [group(names[:4], "full-scale-0"), group(names[4:], "full-scale-1")]
    of = plan(groups)
    planned = of.categories[0]
    part = planned.parts[0]

    def run(nodes: tuple[str, ...]) -> Measurements:
        return measured(90.0 if "gpu-3" in nodes else 400.0)

    runs = [Run(part, one, record(one), run(one.nodes)) for one in groups]
    pairs = next_isolation(of, planned, runs, 1)
    assert sorted(sorted(pair.nodes) for _, pair in pairs) == [
        ["gpu-1", "gpu-5"],
        ["gpu-2", "gpu-6"],
        ["gpu-3", "gpu-7"],
        ["gpu-4", "gpu-8"],
    ]
    runs += [Run(part, pair, record(pair), run(pair.nodes)) for _, pair in pairs]
    assert next_isolation(of, planned, runs, 2) == []
    verdict = evaluate(of, planned, runs)
    failed = {node.node for node in verdict.nodes if node.outcome is Outcome.FAIL}
    assert failed == {"gpu-3"}
    assert {n.outcome for n in verdict.nodes if n.node not in failed} == {Outcome.PASS}
