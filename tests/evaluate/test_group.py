"""Fail closed: what a single run may be called."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts.reasons import Effect, Kind, all_reasons
from steps.documents import (
    BarSet,
    Completeness,
    Entity,
    Finding,
    GroupVerdict,
    LogFile,
    Measurements,
    Outcome,
    RunFailure,
    RunOutcome,
    RunRecord,
    TrainingStep,
)
from steps.evaluate.group import judge_group
from tests.builders import bar, group, measured, record
from tests.evaluate.outputs import training

NODES = ("node-a", "node-b")
BARS = BarSet(nodes=2, bars=(bar(),))
CODES = [reason.code for reason in all_reasons() if not reason.code.endswith("*")]


def judge(run: RunRecord | None, read: Measurements | None, bars: BarSet = BARS) -> GroupVerdict:
    return judge_group(group(NODES), "nccl", bars, record=run, measurements=read)


def codes(verdict: GroupVerdict) -> set[str]:
    return {reason.code for reason in verdict.reasons}


def test_complete_run_over_the_bar_passes() -> None:
    verdict = judge(record(group(NODES)), measured(380.0))
    assert verdict.outcome is Outcome.PASS
    assert verdict.expressions[0].with_values == "380 >= 300.0"


def test_complete_run_below_the_bar_fails_with_its_numbers() -> None:
    verdict = judge(record(group(NODES)), measured(210.5))
    assert verdict.outcome is Outcome.FAIL
    assert codes(verdict) == {"NCCL_LOW_BANDWIDTH"}
    assert verdict.reasons[0].message == "210.5 >= 300.0"


@pytest.mark.parametrize("completeness", set(Completeness) - {Completeness.COMPLETE})
@pytest.mark.parametrize("bandwidth", [380.0, 1.0, None])
def test_incomplete_output_proves_nothing_either_way(
    completeness: Completeness, bandwidth: float | None
) -> None:
    verdict = judge(record(group(NODES)), measured(bandwidth, completeness))
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_missing_record_is_result_missing() -> None:
    verdict = judge(None, None)
    assert (verdict.outcome, codes(verdict)) == (Outcome.INCONCLUSIVE, {"RESULT_MISSING"})


def test_run_that_was_never_read_is_result_missing() -> None:
    verdict = judge(record(group(NODES)), None)
    assert (verdict.outcome, codes(verdict)) == (Outcome.INCONCLUSIVE, {"RESULT_MISSING"})


def test_no_bar_at_all_is_no_threshold() -> None:
    verdict = judge(record(group(NODES)), measured(), BarSet(nodes=2))
    assert (verdict.outcome, codes(verdict)) == (Outcome.INCONCLUSIVE, {"NO_THRESHOLD"})


def test_only_optional_bars_without_their_figures_is_no_pass() -> None:
    bars = BarSet(nodes=2, bars=(bar("wrongCount == 0", key="wrongCount", optional=True),))
    assert judge(record(group(NODES)), measured(), bars).outcome is Outcome.INCONCLUSIVE


def test_absent_figure_of_a_bar_is_figure_missing() -> None:
    verdict = judge(record(group(NODES)), measured(None))
    assert (verdict.outcome, codes(verdict)) == (Outcome.INCONCLUSIVE, {"FIGURE_MISSING"})


@pytest.mark.parametrize("outcome", set(RunOutcome) - {RunOutcome.COMPLETED, RunOutcome.HARDWARE})
def test_run_that_did_not_end_well_never_passes(outcome: RunOutcome) -> None:
    verdict = judge(record(group(NODES), outcome), measured(380.0))
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_finding_that_fails_stands_although_the_log_is_cut_off() -> None:
    finding = Finding(
        code="NCCL_TRANSPORT_FALLBACK", effect=Effect.FAIL, message="Using network Socket"
    )
    verdict = judge(record(group(NODES)), measured(3.1, Completeness.CUT_OFF, [finding]))
    assert verdict.outcome is Outcome.FAIL


def test_witnesses_of_a_failure_fail_nothing() -> None:
    finding = Finding(
        code="NCCL_IB_COMPLETION_ERROR",
        effect=Effect.FAIL,
        message="work request failed",
        entities=(Entity(node="node-a"), Entity(node="node-b")),
        witness=True,
    )
    verdict = judge(record(group(NODES)), measured(380.0, findings=[finding]))
    assert verdict.outcome is Outcome.INCONCLUSIVE


@given(
    code=st.sampled_from(CODES),
    effect=st.sampled_from([Effect.FAIL, Effect.INCONCLUSIVE]),
    bandwidth=st.one_of(st.none(), st.floats(0, 1000)),
)
def test_no_finding_that_stops_a_verdict_is_ever_outvoted(
    code: str, effect: Effect, bandwidth: float | None
) -> None:
    finding = Finding(code=code, effect=effect, message="x")
    verdict = judge(record(group(NODES)), measured(bandwidth, findings=[finding]))
    assert verdict.outcome is not Outcome.PASS


@given(code=st.sampled_from(CODES), outcome=st.sampled_from(RunOutcome))
def test_launcher_failures_are_never_a_measured_failure(code: str, outcome: RunOutcome) -> None:
    failure = RunFailure(code=code, message="x", entity=Entity(node="node-a"))
    verdict = judge(record(group(NODES), outcome, [failure]), measured(1.0))
    if any(
        r.kind is Kind.INFRASTRUCTURE and r.effect is Effect.INCONCLUSIVE for r in verdict.reasons
    ):
        assert verdict.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("role", "expected"), [("output", "INCONCLUSIVE"), ("kernel", "PASS")])
def test_output_of_which_the_launcher_lost_a_part_is_no_pass(
    role: Literal["output", "kernel"], expected: str
) -> None:
    run = record(group(NODES))
    log = LogFile(name="output.log", role=role, truncated=True)
    verdict = judge(run.model_copy(update={"logs": (log,)}), measured(380.0))
    assert verdict.outcome == expected
    assert ("LOG_TRUNCATED" in codes(verdict)) is (role == "output")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [({}, Outcome.INCONCLUSIVE), ({"end": "shown"}, Outcome.PASS)],
)
def test_training_log_that_stops_before_its_last_step_is_no_pass(
    facts: dict[str, str], expected: Outcome
) -> None:
    read = training().model_copy(update={"facts": facts})
    steps = [
        row.model_copy(update={"total_steps": 80})
        for row in read.rows
        if isinstance(row, TrainingStep)
    ]
    bars = BarSet(nodes=2, bars=(bar("avgStepTimeSec < 3.0", key="avgStepTimeSec"),))
    verdict = judge_group(
        group(NODES),
        "training",
        bars,
        record=record(group(NODES)),
        measurements=read.model_copy(update={"rows": tuple(steps)}),
    )
    assert verdict.outcome is expected
