from __future__ import annotations

from collections.abc import Mapping

import pytest

from catalog.facts.tools import output_kind
from steps.documents import Completeness, TrainingStep
from steps.parse.api import ParseContext, Part
from steps.parse.training import TrainingScanner
from tests.feeding import scan, show
from tests.parse.training.logs import bar, megatron, megatron_run, nemo

_BRIDGE = "Step Time : {:.2f}s GPU utilization: {}MODEL_TFLOP/s/GPU\n"
_SANITY = "Sanity Checking DataLoader 0: 100%|##########| 2/2 [00:01<00:00,  1.25it/s]"
_LOADING = "Loading checkpoint shards: 100%|██████████| 4/4 [00:02<00:00,  1.50it/s]"


def _figures(part: Part) -> dict[str, object]:
    return {name: figure.value for name, figure in part.figures.items()}


CASES: dict[str, tuple[str, ParseContext, Mapping[str, object]]] = {
    "megatron, 10 of 60 steps are warm-up": (
        megatron_run(),
        ParseContext(),
        {
            "avgStepTimeSec": pytest.approx(2.001, abs=1e-3),
            "warmupStepTimeSec": 9.0,
            "maxStepTimeSec": 2.002,
            "avgTFLOPsPerGPU": 410.5,
            "samplesPerSec": pytest.approx(15.99, abs=0.01),
            "stepCount": 50,
            "warmupStepCount": 10,
            "nanStepCount": 0,
            "firstLoss": 6.5,
        },
    ),
    "a line of a log interval stands for its steps": (
        megatron_run(every=10),
        ParseContext(),
        {"stepCount": 50, "warmupStepCount": 10, "warmupStepTimeSec": 9.0, "maxStepTimeSec": 2.002},
    ),
    "warm-up as asked for": (
        megatron_run(),
        ParseContext(warmup_steps=30),
        {"stepCount": 30, "warmupStepCount": 30},
    ),
    "all steps warm-up leaves no average": (
        megatron_run(5),
        ParseContext(warmup_steps=10),
        {"stepCount": 0, "warmupStepCount": 5, "avgStepTimeSec": None, "avgTFLOPsPerGPU": None},
    ),
    "a short run gives a fifth": (
        megatron_run(8),
        ParseContext(),
        {"stepCount": 7, "warmupStepCount": 1},
    ),
    "an excerpt from later on has no warm-up": (
        megatron(71, 90) + megatron(72, 90) + megatron(73, 90),
        ParseContext(),
        {"stepCount": 3, "warmupStepCount": 0, "avgStepTimeSec": 2.0},
    ),
    "tokens of the plan": (
        megatron_run(),
        ParseContext(tokens_per_step=262144, gpus=8, warmup_steps=10),
        {
            "tokensPerSec": pytest.approx(262144 / 2.001, rel=1e-3),
            "tokensPerSecPerGPU": pytest.approx(262144 / 2.001 / 8, rel=1e-3),
        },
    ),
    "batch size x sequence length, world size from the banner": (
        "using world size: 16, data-parallel size: 16, tensor-model-parallel size: 1\n"
        "  seq_length ...................................... 4096\n" + megatron_run(),
        ParseContext(),
        {
            "tokensPerSec": pytest.approx(32 * 4096 / 2.001, rel=1e-3),
            "tokensPerSecPerGPU": pytest.approx(32 * 256 / 2.001, rel=1e-3),
        },
    ),
    "deepspeed: consumed tokens, samples and TFLOPs by name, in another order": (
        "".join(
            f" iteration {step}/ 20 | TFLOPs: 155.5 | samples per second: 40.25 | consumed tokens: "
            f"{step * 65536} | lm loss: 4.0E+00 | elapsed time per iteration (ms): 4000.0 |\n"
            for step in range(11, 21)
        ),
        ParseContext(warmup_steps=0),
        {
            "samplesPerSec": 40.25,
            "avgTFLOPsPerGPU": 155.5,
            "tokensPerSec": 16384.0,
            "avgStepTimeSec": 4.0,
        },
    ),
    "nemo 2 counts from 0": (
        "".join(nemo(step, seconds=20.0 if step == 0 else 3.25) for step in range(40)),
        ParseContext(warmup_steps=1),
        {
            "avgStepTimeSec": 3.25,
            "warmupStepTimeSec": 20.0,
            "stepCount": 39,
            "avgTFLOPsPerGPU": 611.0,
            "lastLoss": 7.125,
        },
    ),
    "bridge: step time and iteration on two lines": (
        "".join(_BRIDGE.format(5.5, 701.5) + megatron(step, tflops=None) for step in range(31, 43)),
        ParseContext(),
        {"avgTFLOPsPerGPU": 701.5, "avgStepTimeSec": 2.0, "stepCount": 12},
    ),
    "bridge: step times alone": (
        "".join(_BRIDGE.format(9.0 + step / 100, 744.1) for step in range(20)),
        ParseContext(warmup_steps=10),
        {"avgTFLOPsPerGPU": 744.1, "avgStepTimeSec": pytest.approx(9.145), "stepCount": 10},
    ),
    "lightning bar in s/it": (
        bar(120, "5000", "17.50s/it", "loss=2.5, v_num=, reduced_train_loss=2.510"),
        ParseContext(),
        {"avgStepTimeSec": 17.5, "lastLoss": 2.51, "stepCount": 1},
    ),
    "lightning bar in it/s": (
        bar(120, "5000", "4.00it/s", "v_num=7, train_loss=2.510") + "\n",
        ParseContext(),
        {"avgStepTimeSec": 0.25, "lastLoss": 2.51},
    ),
    "bar without a total": (
        bar(120, "?", "4.00it/s", "v_num=7") + "\n",
        ParseContext(),
        {"avgStepTimeSec": 0.25, "stepCount": 1},
    ),
    "a bar without a name, beside losses of the Hugging Face trainer": (
        "{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
        " 12%|█▏        | 100/800 [05:00<35:00,  3.00s/it]\n",
        ParseContext(),
        {"avgStepTimeSec": 3.0, "stepCount": 1},
    ),
    "bars redrawn by CR, other bars between": (
        _SANITY
        + "\r"
        + _LOADING
        + "\r"
        + "\r".join(
            bar(step, "40", "1.00it/s", f"loss=3.0, train_step_timing in s={2.0 + step}")
            for step in range(21, 41)
        )
        + "\n",
        ParseContext(),
        {"stepCount": 20, "avgStepTimeSec": pytest.approx(32.5)},
    ),
    "a table of means": (
        "Elapsed Time (ms) and Throughput (TFLOP/s/GPU) Analysis (iterations 35-44)\n"
        + "=" * 60
        + "\nRun Status Time Mean (ms) Time Std (ms) TFLOPS_per_GPU Mean TFLOPS_per_GPU Dev\n"
        "----------- -------- ------------- ------------ ------------------- ------------------\n"
        "pretrain_x_bf16_gpus32     Success      2125.500       11.250     402.50         3.00\n",
        ParseContext(),
        {"avgStepTimeSec": 2.1255, "avgTFLOPsPerGPU": 402.5, "stepCount": 10},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_figures(name: str) -> None:
    text, context, expected = CASES[name]
    part = scan(TrainingScanner, text, context)
    got = {name: _figures(part).get(name) for name in expected}
    show(name, expected, got)
    assert got == expected
    assert part.mode is output_kind("training-log")
    assert part.claimed > 0


def test_rows_keep_step_line_and_warmup() -> None:
    rows = scan(TrainingScanner, "x\n" + megatron_run(5)).rows
    steps = [row for row in rows if isinstance(row, TrainingStep)]
    assert [(row.step, row.line, row.warmup) for row in steps[:2]] == [(1, 2, True), (2, 3, False)]
    assert steps[0].total_steps == 5
    assert steps[1].tflops_per_gpu == 410.5


@pytest.mark.parametrize("printed", ["0.0", "-3.0", "nan", "99999.0"])
def test_impossible_throughput_is_unknown(printed: str) -> None:
    text = "".join(_BRIDGE.format(15.5, printed) + megatron(s, tflops=None) for s in range(31, 45))
    part = scan(TrainingScanner, text)
    assert "avgTFLOPsPerGPU" not in part.figures
    assert part.figures["avgStepTimeSec"].value == 2.0
    assert "THROUGHPUT_FIELD_INVALID" in {f.code for f in part.findings}
    assert all(isinstance(r, TrainingStep) and r.tflops_per_gpu is None for r in part.rows)


def test_throughput_that_scatters_at_a_steady_step_time_is_unknown() -> None:
    text = "".join(megatron(s, tflops=60.0 if s % 2 else 990.0) for s in range(31, 51))
    part = scan(TrainingScanner, text)
    assert "avgTFLOPsPerGPU" not in part.figures
    assert "THROUGHPUT_FIELD_INVALID" in {f.code for f in part.findings}


def test_throughput_that_follows_the_step_time_is_real() -> None:
    text = "".join(
        megatron(s, ms=1000.0 if s % 2 else 8000.0, tflops=800.0 if s % 2 else 100.0)
        for s in range(31, 51)
    )
    assert scan(TrainingScanner, text).figures["avgTFLOPsPerGPU"].value == 450.0


def test_scattering_table_is_unknown() -> None:
    text = CASES["a table of means"][0].replace("402.50         3.00", "402.50       360.10")
    part = scan(TrainingScanner, text)
    assert "avgTFLOPsPerGPU" not in part.figures
    assert part.figures["avgStepTimeSec"].value == 2.1255
    assert [f.code for f in part.findings] == ["THROUGHPUT_FIELD_INVALID"]


def test_a_step_that_every_rank_prints_counts_once() -> None:
    text = "".join(f"[1,{rank}]<stdout>:{megatron(s)}" for s in range(31, 36) for rank in range(4))
    assert scan(TrainingScanner, text).figures["stepCount"].value == 5


def test_long_runs_stay_in_memory() -> None:
    text = "".join(megatron(step, 9000) for step in range(1, 6001))
    part = scan(TrainingScanner, text)
    assert len(part.rows) <= 2500
    assert int(part.facts["stepsLeftOut"]) + len(part.rows) == 6000


_UNKNOWN, _GOOD, _BAD = ParseContext(), ParseContext(exit_code=0), ParseContext(exit_code=1)
_HALF = megatron(31) + megatron(32)[:95]

ENDINGS: dict[str, tuple[str, ParseContext, str, set[str]]] = {
    "last step is the total": (megatron_run(12), _UNKNOWN, "complete", set()),
    "last interval is the total": (megatron_run(60, every=20), _UNKNOWN, "complete", set()),
    "nemo's last is total, from 0": (nemo(38) + nemo(39), _UNKNOWN, "complete", set()),
    "an end line": (
        megatron(31) + "`Trainer.fit` stopped: `max_steps=31` reached.\n",
        _UNKNOWN,
        "complete",
        set(),
    ),
    "exit duration": (
        megatron(31) + "[exiting program after 30.02 minutes] datetime: 2026-01-01 10:00:00\n",
        _UNKNOWN,
        "complete",
        set(),
    ),
    "an excerpt": (megatron(31) + megatron(32), _UNKNOWN, "complete", {"EXIT_CODE_UNKNOWN"}),
    "steps missing in the middle": (
        megatron(31) + megatron(32) + megatron(43) + megatron(44),
        _UNKNOWN,
        "cut-off",
        {"LOG_TRUNCATED"},
    ),
    "steps missing in the middle of a whole run": (
        "".join(megatron(step) for step in range(1, 61) if step not in range(20, 30)),
        _GOOD,
        "cut-off",
        {"LOG_TRUNCATED"},
    ),
    "a missing line of a log interval": (
        "".join(megatron(step) for step in (10, 20, 30, 50, 60)),
        _GOOD,
        "cut-off",
        {"LOG_TRUNCATED"},
    ),
    "two lines that the printed log interval does not join": (
        "  log_interval .................................... 5\n" + megatron(5) + megatron(60),
        _GOOD,
        "cut-off",
        {"LOG_TRUNCATED"},
    ),
    "every tenth step": (
        "".join(megatron(step) for step in range(10, 61, 10)),
        _GOOD,
        "complete",
        set(),
    ),
    "the first step and every tenth": (
        "".join(megatron(step) for step in (1, 10, 20, 30, 40, 50, 60)),
        _GOOD,
        "complete",
        set(),
    ),
    "steps of a bar that was not redrawn for each": (
        bar(3, "9", "1.00it/s", "loss=2.0") + "\r" + bar(9, "9", "1.00it/s", "loss=2.0") + "\n",
        _GOOD,
        "complete",
        set(),
    ),
    "steps below the total, exit code 0": (megatron(31), _GOOD, "complete", set()),
    "steps below the total, exit code 1": (megatron(31), _BAD, "aborted", {"EXIT_CODE_NONZERO"}),
    "half a line": (_HALF, _UNKNOWN, "cut-off", {"LOG_TRUNCATED"}),
    "half a bar": (
        bar(3, "9", "1.00it/s", "loss=2.0") + "\r" + bar(4, "9", "1.00it/s", "loss=2.0")[:-6],
        _UNKNOWN,
        "cut-off",
        {"LOG_TRUNCATED"},
    ),
    "only the last newline is gone": (
        (nemo(30) + nemo(31))[:-1],
        _UNKNOWN,
        "complete",
        {"EXIT_CODE_UNKNOWN"},
    ),
    "a banner and no step": (
        "using world size: 8, data-parallel size: 8\n",
        _UNKNOWN,
        "cut-off",
        {"NO_RESULT_ROWS"},
    ),
    "an error after the last step": (
        megatron(31) + "Traceback (most recent call last):\nKeyError: 'x'\n",
        _UNKNOWN,
        "aborted",
        {"TRAIN_CRASHED"},
    ),
    "an error that was handled": (
        "Traceback (most recent call last):\nImportError: no apex\n" + megatron_run(12),
        _UNKNOWN,
        "complete",
        set(),
    ),
    "noise while python shuts down": (
        megatron_run(12) + "Traceback (most recent call last):\nAttributeError: x\n",
        _GOOD,
        "complete",
        {"TRAIN_CRASHED"},
    ),
    "an NCCL error is told by the NCCL reader": (
        megatron(31) + "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote error\n",
        _UNKNOWN,
        "aborted",
        {"TRAIN_CRASHED"},
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_completeness(name: str) -> None:
    text, context, completeness, codes = ENDINGS[name]
    part = scan(TrainingScanner, text, context)
    got = {f.code for f in part.findings} - {"TRAIN_TOO_FEW_STEPS"}
    show(name, (completeness, codes), (part.completeness, got))
    assert part.completeness is Completeness(completeness)
    assert got == codes


def test_a_gap_is_named() -> None:
    text = megatron(31) + megatron(32) + megatron(43) + megatron(44)
    says = [f.message for f in scan(TrainingScanner, text).findings if f.code == "LOG_TRUNCATED"]
    assert says == ["steps are missing between 32 and 43"]


def test_the_log_of_a_restarted_run_has_no_gap() -> None:
    banner = "using world size: 8, data-parallel size: 8\n"
    first, second = (1, 2, 3, 4, 5), (4, 5, 6, 7)
    text = "".join(banner + "".join(megatron(s) for s in steps) for steps in (first, second))
    assert scan(TrainingScanner, text, _GOOD).completeness is Completeness.COMPLETE


def test_a_note_says_where_an_excerpt_stops() -> None:
    findings = scan(TrainingScanner, megatron(31) + megatron(32)).findings
    says = [f.message for f in findings if f.code == "EXIT_CODE_UNKNOWN"]
    assert says == ["the log stops at step 32 of 60; the exit code is not known"]


def test_a_cut_number_is_not_believed() -> None:
    text = megatron(31, ms=2000.0) + " iteration 32/ 60 | elapsed time per iteration (ms): 20"
    part = scan(TrainingScanner, text)
    assert part.figures["maxStepTimeSec"].value == 2.0


def test_output_of_another_kind_is_not_claimed() -> None:
    part = scan(
        TrainingScanner, "#  size count type\n 8 2 float sum -1 10.2 0.0 0.0 0\n" + _LOADING
    )
    assert part.claimed == 0
    assert part.completeness is None


def test_goodput_subtracts_restart_lost_work_and_saves() -> None:
    def at(second: int) -> str:
        return f" [2026-05-06 07:{second // 60:02d}:{second % 60:02d}]"

    text = (
        f"{at(0)} using world size: 8, data-parallel size: 8\n"
        + megatron(1, 9, ms=10000, stamp=at(10))
        + megatron(2, 9, ms=10000, stamp=at(20))
        + "saving checkpoint at iteration 2 to /c\n"
        + "  successfully saved checkpoint from iteration 2 to /c\n"
        + megatron(3, 9, ms=10000, stamp=at(35))  # 5 s of saving
        + f"{at(55)} using world size: 8, data-parallel size: 8\n"  # 20 s until it is back
        + "loading checkpoint from /c at iteration 2\n"
        + megatron(3, 9, ms=10000, stamp=at(80))  # 15 s of loading; step 3 is done again
        + megatron(4, 9, ms=10000, stamp=at(90))
    )
    ratio = scan(TrainingScanner, text).figures["goodputRatio"].value
    assert ratio == pytest.approx((90 - 5 - 10 - 20 - 15) / (90 - 20))


def test_no_goodput_without_time_stamps_or_without_any_start_or_save() -> None:
    assert "goodputRatio" not in scan(TrainingScanner, megatron_run()).figures
    stamped = "".join(megatron(s, stamp=f" [2026-05-06 07:08:{s}]") for s in range(10, 30))
    assert "goodputRatio" not in scan(TrainingScanner, stamped).figures
