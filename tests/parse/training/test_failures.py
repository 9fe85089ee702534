from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts.reasons import Effect, reason
from catalog.facts.tools import output_kind
from catalog.hardware.hardware import Hardware
from steps.documents import TrainingStep
from steps.parse.api import ParseContext
from steps.parse.reader import parse_bytes
from steps.parse.training import TrainingScanner
from tests.feeding import said, scan, show
from tests.parse.training.logs import (
    at_work,
    bar,
    dump,
    megatron,
    megatron_run,
    nemo,
    old_watchdog,
    watchdog,
)

_NODES = ParseContext(
    gpus=8,
    nodes=("n-0", "n-1"),
    rank_nodes={r: f"n-{r // 4}" for r in range(8)},
    hardware=Hardware(gpus_per_node=4),
)
_NONE = ParseContext()

CASES: dict[str, tuple[str, ParseContext, list[str]]] = {
    "loss gone, gradient nan, counter 0": (
        megatron(31) + megatron(32, loss=None, grad="nan"),
        _NONE,
        ["TRAIN_NAN inconclusive []"],
    ),
    "loss nan": (
        nemo(30) + nemo(31, loss="nan"),
        _NONE,
        ["TRAIN_NAN inconclusive []"],
    ),
    "nan counter": (
        megatron(30) + megatron(40, nan=3),
        _NONE,
        ["TRAIN_NAN inconclusive [] x3"],
    ),
    "gradient inf": (
        megatron(30) + megatron(31, grad="inf"),
        _NONE,
        ["TRAIN_NAN inconclusive []"],
    ),
    "search for a loss scale is no nan": (
        megatron(1, loss=None, grad=None, skipped=1, scale="4294967296.0")
        + megatron(2, grad="inf", skipped=1, scale="2147483648.0")
        + megatron(3, scale="65536.0"),
        _NONE,
        ["TRAIN_STEPS_SKIPPED note [] x2"],
    ),
    "nan check names rank, device and node": (
        "Traceback (most recent call last):\n"
        "AssertionError: Rank 11: found NaN in local grad norm in backward pass before "
        "data-parallel communication collective. Device: 3, node: gpu-0c\n",
        _NODES,
        ["TRAIN_NAN inconclusive [gpu-0c GPU 3 rank 11]"],
    ),
    "nan check of the rerun machine": (
        "RuntimeError: Rank 6, node gpu-0d, device 2, iteration 77: Unexpected result nan "
        "(message='found NaN in local grad norm for bucket #0')\n",
        _NONE,
        ["TRAIN_NAN inconclusive [gpu-0d GPU 2 rank 6]"],
    ),
    "memory and nan check of one rank keep the GPU that each names": (
        "AssertionError: Rank 6, node gpu-0d: found NaN in local grad norm\n"
        "[rank6]: torch.OutOfMemoryError: CUDA out of memory. GPU 5 has 1.00 GiB free\n",
        _NONE,
        ["TRAIN_NAN inconclusive [gpu-0d rank 6]", "TRAIN_OOM inconclusive [gpu-0d GPU 5 rank 6]"],
    ),
    "nan on all ranks accuses none": (
        "".join(f"AssertionError: Rank {r}: found NaN in local grad norm\n" for r in range(8)),
        _NODES,
        [
            "TRAIN_NAN inconclusive ["
            + ", ".join(f"n-{r // 4} rank {r}" for r in range(8))
            + "] x8 witness"
        ],
    ),
    "loss spike": (
        "".join(megatron(s, loss="2.0E+00" if s != 48 else "9.0E+00") for s in range(31, 55)),
        _NONE,
        ["TRAIN_LOSS_SPIKE warn []"],
    ),
    "watchdog: silent ranks are the suspects": (
        watchdog(0) + watchdog(5) + at_work(0) + at_work(3),
        _NODES,
        [
            "TRAIN_HANG_WATCHDOG inconclusive [n-0 rank 1, n-0 rank 2, n-1 rank 4, n-1 rank 6, "
            "n-1 rank 7] x5",
            "TRAIN_HANG_WATCHDOG inconclusive [n-0 rank 0, n-0 rank 3, n-1 rank 5] x4 witness",
        ],
    ),
    "watchdog: world size unknown": (
        watchdog(0) + watchdog(5),
        _NONE,
        ["TRAIN_HANG_WATCHDOG inconclusive [rank 0, rank 5] x2 witness"],
    ),
    "watchdog: world size from the log": (
        "using world size: 3, data-parallel size: 3\n" + watchdog(0) + watchdog(2),
        _NONE,
        [
            "TRAIN_HANG_WATCHDOG inconclusive [rank 1]",
            "TRAIN_HANG_WATCHDOG inconclusive [rank 0, rank 2] x2 witness",
        ],
    ),
    "watchdog: every rank reports": (
        "".join(watchdog(rank) for rank in range(8)),
        _NODES,
        [
            "TRAIN_HANG_WATCHDOG inconclusive ["
            + ", ".join(f"n-{r // 4} rank {r}" for r in range(8))
            + "] x8 witness"
        ],
    ),
    "watchdog: old words, glued to a bar": (
        bar(40, "900", "7.00s/it", "loss=1.9") + old_watchdog(2),
        _NONE,
        ["TRAIN_HANG_WATCHDOG inconclusive [rank 2] witness"],
    ),
    "watchdog: a rank that had not enqueued the collective": (
        at_work(7, 120) + dump(2, 7, 119) + dump(3, 7, 120),
        _NODES,
        [
            "TRAIN_HANG_WATCHDOG inconclusive [n-0 rank 2]",
            "TRAIN_HANG_WATCHDOG inconclusive [n-1 rank 7] witness",
        ],
    ),
    "monitored barrier names the missing": (
        "RuntimeError: [Rank 0]: Ranks 4, 6 failed to pass monitoredBarrier in 300000 ms\n",
        _NODES,
        ["TRAIN_HANG_WATCHDOG inconclusive [n-1 rank 4, n-1 rank 6] x2"],
    ),
    "a rank that died explains the waiting": (
        "[rank6]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + watchdog(0),
        _NODES,
        [
            "ECC_UNCORRECTABLE fail [n-1 rank 6]",
            "TRAIN_HANG_WATCHDOG inconclusive [n-0 rank 0] <ECC_UNCORRECTABLE witness",
        ],
    ),
    "ecc error that ended the watchdog": (
        "[E ProcessGroupNCCL.cpp:1182] [PG 0 Rank 5] Process group watchdog thread terminated with "
        "exception: CUDA error: uncorrectable ECC error encountered\n",
        _NODES,
        ["ECC_UNCORRECTABLE fail [n-1 rank 5]"],
    ),
    "ecc error without a rank fails nobody": (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
        _NONE,
        ["ECC_UNCORRECTABLE inconclusive []"],
    ),
    "ecc error, host from torchrun's summary": (
        "[rank9]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-02_03:04:05\n"
        "  host      : gpu-0e\n  rank      : 9 (local_rank: 1)\n  exitcode  : -6 (pid: 41)\n",
        _NONE,
        [
            "ECC_UNCORRECTABLE fail [gpu-0e rank 9]",
            "TRAIN_CRASHED inconclusive [gpu-0e rank 9] <ECC_UNCORRECTABLE witness",
        ],
    ),
    "device-side assert is the program's": (
        "[rank1]: RuntimeError: CUDA error: device-side assert triggered\n",
        _NODES,
        ["TRAIN_CRASHED inconclusive [n-0 rank 1]"],
    ),
    "another CUDA error": (
        "[rank1]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n",
        _NODES,
        ["TRAIN_CUDA_ERROR inconclusive [n-0 rank 1]"],
    ),
    "out of memory, new words": (
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 3 "
        "has a total capacity of 79.25 GiB of which 0.75 GiB is free.\n",
        _NODES,
        ["TRAIN_OOM inconclusive [n-0 GPU 3 rank 3]"],
    ),
    "out of memory, old words": (
        "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 1; 39.50 GiB total "
        "capacity; 38.10 GiB already allocated; 90.25 MiB free)\n",
        _NONE,
        ["TRAIN_OOM inconclusive [GPU 1]"],
    ),
    "missing module on all ranks": (
        "".join(
            f"[rank{r}]: ModuleNotFoundError: No module named 'flash_attn_9'\n" for r in range(2)
        ),
        _NODES,
        ["TRAIN_CONFIG inconclusive [n-0 rank 0, n-0 rank 1] x2 witness"],
    ),
    "arguments": (
        "usage: pretrain_x.py [-h]\npretrain_x.py: error: unrecognized arguments: --colour\n",
        _NONE,
        ["TRAIN_CONFIG inconclusive [] witness"],
    ),
    "divisibility": (
        "AssertionError: global batch size (30) is not divisible by micro batch size (4)\n",
        _NONE,
        ["TRAIN_CONFIG inconclusive [] witness"],
    ),
    "missing file": (
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.idx'\n",
        _NONE,
        ["TRAIN_CONFIG inconclusive [] witness"],
    ),
    "another exception": (
        "Traceback (most recent call last):\n[rank2]: ValueError: x\n",
        _NODES,
        ["TRAIN_CRASHED inconclusive [n-0 rank 2]"],
    ),
    "words about errors are no errors": (
        "UserWarning: Error-prone setting\nINFO no exception so far\n" + megatron_run(12),
        _NONE,
        [],
    ),
}
_NOTES = ("TRAIN_TOO_FEW_STEPS", "EXIT_CODE_UNKNOWN")


@pytest.mark.parametrize("name", CASES)
def test_finds_failures(name: str) -> None:
    text, context, expected = CASES[name]
    part = scan(TrainingScanner, text, context)
    got = [line for line in said(part) if not line.startswith(_NOTES)]
    show(name, expected, got)
    assert got == expected


def test_nan_tells_the_iteration_and_marks_the_row() -> None:
    part = scan(TrainingScanner, CASES["loss gone, gradient nan, counter 0"][0])
    assert "iteration 32" in part.findings[0].message
    assert part.findings[0].evidence[0].line == 2
    assert part.figures["nanStepCount"].value == 1
    assert [row.nan for row in part.rows if isinstance(row, TrainingStep)] == [False, True]


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        ([31], "iteration 31"),
        ([31, 60], "iterations 31, 60"),
        ([31, *range(40, 52)], "iterations 31, 40, 41, 42, 43, 13 steps in all"),
    ],
    ids=["one", "two that are far apart", "many"],
)
def test_nan_names_the_first_iterations(bad: list[int], where: str) -> None:
    log = "".join(megatron(step, grad="nan" if step in bad else "0.7") for step in range(30, 62))
    [message] = [f.message for f in scan(TrainingScanner, log).findings if f.code == "TRAIN_NAN"]
    assert message == f"loss or gradient is NaN or infinite at {where}"


def test_out_of_memory_tells_the_sizes() -> None:
    message = scan(TrainingScanner, CASES["out of memory, new words"][0]).findings[0].message
    assert all(size in message for size in ("3.50 GiB", "79.25 GiB", "0.75 GiB"))


def test_hang_tells_collective_and_silent_ranks() -> None:
    text, context, _ = CASES["watchdog: silent ranks are the suspects"]
    message = scan(TrainingScanner, text, context).findings[0].message
    assert "ALLREDUCE SeqNum 88" in message
    assert "ranks 1-2, 4, 6-7 (n-0, n-1)" in message


def test_evidence_has_no_secrets() -> None:
    text = "FileNotFoundError: No such file or directory: x?token=abcdef0123456789abcdef\n"
    (finding, *_) = scan(TrainingScanner, text).findings
    assert "abcdef0123456789" not in finding.evidence[0].text + finding.message


_RANKS = st.integers(0, 15)


@given(
    st.lists(
        st.one_of(
            st.builds(watchdog, _RANKS, st.integers(1, 3)),
            st.builds(old_watchdog, _RANKS),
            st.builds(at_work, _RANKS, st.integers(1, 3)),
            st.builds(dump, _RANKS, _RANKS, st.integers(0, 3)),
        ),
        min_size=1,
        max_size=20,
    ),
    st.one_of(st.none(), st.integers(1, 16)),
)
def test_who_reports_a_timeout_is_never_blamed(lines: list[str], gpus: int | None) -> None:
    text = "".join(lines)
    part = scan(TrainingScanner, text, ParseContext(gpus=gpus))
    reporters = {
        rank for rank in range(16) if watchdog(rank)[:9] in text and f"[Rank {rank}] W" in text
    } | {rank for rank in range(16) if f"Rank {rank}] Exception (either" in text}
    for finding in part.findings:
        if not finding.witness:
            assert reporters.isdisjoint({entity.rank for entity in finding.entities})
        assert finding.effect is not Effect.FAIL


_PIECES = st.sampled_from(
    [
        " iteration 7/ 9 | ", "elapsed time per iteration (ms): ", "lm loss: ", "nan | ",
        "1e999 | ",
        "inf | ", "grad norm: ", "global batch size: ", "TFLOPs: ", "consumed tokens: ",
        "Epoch 0: ",
        "1%|#| 3/9 [", "1.0s/it, ", "loss=", "]", "\r", "\n",
        "Step Time : 1.5s GPU utilization: ",
        "MODEL_TFLOP/s/GPU", "[Rank 3] ", "Watchdog caught collective operation timeout",
        "WorkNCCL(",
        "SeqNum=", "9" * 40, "CUDA error: ", "Root Cause (first observed failure):\n", "  rank : ",
        "[2026-05-06 07:08:09] ", "saving checkpoint at iteration 7",
        "using world size: 4",
        "TFLOPS Analysis (iterations 3-9)\n", "x Success 1.5 0.1 0 0\n",
        "number of nan iterations: ",
    ]
)  # fmt: skip


@given(
    st.lists(st.one_of(_PIECES, st.text(max_size=8)), max_size=60).map("".join),
    st.one_of(st.none(), st.integers(0, 100)),
    st.one_of(st.none(), st.integers(0, 3)),
)
def test_any_text_is_read_without_raising(text: str, warmup: int | None, code: int | None) -> None:
    part = scan(TrainingScanner, text, ParseContext(warmup_steps=warmup, exit_code=code))
    assert all(reason(finding.code) for finding in part.findings)
    for figure in part.figures.values():
        assert not isinstance(figure.value, dict)
        assert math.isfinite(figure.value)


@given(st.lists(st.floats(0.001, 1e5), min_size=12, max_size=40), st.integers(0, 8))
def test_average_is_that_of_the_steps_after_warmup(times: list[float], warmup: int) -> None:
    text = "".join(
        megatron(step, len(times), ms=seconds * 1000) for step, seconds in enumerate(times, start=1)
    )
    part = scan(TrainingScanner, text, ParseContext(warmup_steps=warmup))
    kept = [float(repr(seconds * 1000)) / 1000 for seconds in times[warmup:]]
    assert part.figures["avgStepTimeSec"].value == pytest.approx(sum(kept) / len(kept))
    assert part.figures["maxStepTimeSec"].value == pytest.approx(max(kept))


def _skipping(which: Collection[int], *, falling: bool = False, total: int = 40) -> list[str]:
    text, scale = "", 2.0**32
    for step in range(1, total + 1):
        skipped = int(step in which)
        scale = scale / 2 if falling and skipped else scale
        text += megatron(step, total, skipped=skipped, scale=str(scale if falling else 1.0))
    findings = scan(TrainingScanner, text, ParseContext(exit_code=0)).findings
    return [f"{f.effect} {f.message}" for f in findings if f.code == "TRAIN_STEPS_SKIPPED"]


def test_a_run_whose_steps_were_skipped_is_no_proof() -> None:
    assert _skipping(range(1, 41)) == [
        "inconclusive 40 iterations were skipped, 32 of 32 after warm-up: "
        "the optimizer did not step in them"
    ]
    assert _skipping(range(20, 25))[0].startswith("inconclusive 5 iterations")
    assert _skipping(range(1, 41), falling=True)[0].startswith("inconclusive 40 iterations")


def test_a_few_skipped_steps_are_a_note() -> None:
    assert _skipping({20, 30}) == ["note 2 iterations were skipped"]
    assert _skipping(range(1, 6)) == ["note 5 iterations were skipped"]
    assert _skipping(()) == []


def test_the_search_for_a_loss_scale_is_a_note_however_long() -> None:
    assert _skipping(range(1, 18), falling=True) == ["note 17 iterations were skipped"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("srun: error: node-q: task 3: Out Of Memory", "INFRA_OOM_KILLED"),
        (
            "slurmstepd: error: *** JOB 7 ON n-7 CANCELLED AT 2026-04-05T06:07:08 ***",
            "INFRA_STOPPED",
        ),
        (
            "mpirun noticed that process rank 3 with PID 99 on node node-q exited on signal 9 "
            "(Killed).",
            "TRAIN_CRASHED",
        ),
        ("Segmentation fault (core dumped)", "TRAIN_CRASHED"),
        ("Killed", "TRAIN_CRASHED"),
    ],
)
@pytest.mark.parametrize("exit_code", [0, None, 1])
def test_no_run_is_good_whose_process_was_ended(
    line: str, code: str, exit_code: int | None
) -> None:
    context = ParseContext(tool="training", exit_code=exit_code)
    read = parse_bytes(f"{megatron_run(60)}{line}\n".encode(), "out.log", context)
    found = {finding.code: finding for finding in read.findings}
    assert found[code].effect is Effect.INCONCLUSIVE
    assert read.mode is output_kind("training-log")
