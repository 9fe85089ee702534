"""Runs that stand still: what is progress, how long none is borne, what is left of the run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.entries.entry import Launcher, builtin_entries
from catalog.errors import ClusterError
from steps.documents import BarSet, Completeness, Outcome, RunOutcome
from steps.evaluate.category import judge_category
from steps.evaluate.group import judge_group
from steps.jobs.job import Job
from steps.tools.stall import Progress, StallRules
from tests.builders import measured, setting
from tests.cluster_units.fake import FakeCluster
from tests.cluster_units.running import (
    HEADING,
    NODES,
    assert_nothing_left,
    job,
    row,
    run,
    when_runs,
)

TRAINING = "training/nemotron5-8b"
RULES = StallRules(tool="nccl", startup_seconds=100, least_seconds=10, multiplier=3)
STEP = (
    " [2026-04-02 11:20:0{0}] iteration {0:8d}/      50 | consumed samples: 128 | "
    "elapsed time per iteration (ms): 941.5 | lm loss: 8.1E+00 |"
)


def after(progress: Progress, lines: Sequence[tuple[float, bytes]]) -> Progress:
    for at, raw in lines:
        progress.take(raw, at)
    return progress


def rows(*times: float) -> Progress:
    lines = [(at, row(8 << number)) for number, at in enumerate(times)]
    return after(Progress("nccl", 0.0), [(0.0, HEADING), *lines])


@pytest.mark.parametrize(
    ("progress", "allowed"),
    [
        pytest.param(rows(), 100, id="before-the-first-row"),
        pytest.param(rows(1), 100, id="the-second-may-take-as-long-as-the-first"),
        pytest.param(rows(1, 2, 3), 10, id="quick-rows-have-the-least-time"),
        pytest.param(rows(1, 5, 13, 29), 3 * 2 * 16, id="rows-that-double-may-double-again"),
        pytest.param(rows(1, 50, 51, 52), 3 * 2 * 49, id="one-slow-row-makes-patient"),
    ],
)
def test_rows_are_waited_for_as_long_as_their_size_may_take(
    progress: Progress, allowed: float
) -> None:
    assert RULES.allowed(progress) == allowed


def test_training_step_is_waited_for_in_usual_steps() -> None:
    rules = StallRules(tool="training", startup_seconds=60, least_seconds=10, multiplier=3)
    slow_first = [(at, STEP.format(n + 1).encode()) for n, at in enumerate((70, 77, 84, 91))]
    assert rules.allowed(after(Progress("training", 0.0), slow_first)) == 3 * 7


@pytest.mark.parametrize(
    ("tool", "raw", "last"),
    [
        ("nccl", row(16 << 20), "16M"),
        ("nccl", b"[1,0]<stdout>:" + row(8 << 30), "8G"),
        ("nccl", row(4096)[:60] + b"\n", None),
        ("nccl", b"gpu-a:17:17 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0]\n", None),
        ("nccl", b"# Using devices\n", None),
        ("nccl", b"2026 was a good year for 8 rows\n", None),
        ("training", STEP.format(7).encode(), "7 of 50"),
        ("training", b"[rank3]: " + STEP.format(8).encode(), "8 of 50"),
        ("training", b"building iteration 5 of the dataset\n", None),
        ("training", b"> compiling kernels ...\n", None),
        ("training", b"Epoch 0:  1%|| 12/400 [01:10<38:00, 5.9s/it, loss=3.1]\n", "12 of 400"),
        ("training", b"Epoch 0: 5%|| 20/400 [02:01<38:00, v_num=, loss=3.1]\n", "20 of 400"),
        ("training", b"Epoch 0: 5%|| 21/400 [02:07<38:00, step_timing in s=5.9]\n", "21 of 400"),
        ("training", b"Epoch 2: : 815it [3:01, 4.49it/s, loss=2.1]\n", "815"),
        ("training", b"Downloading: 10%|#  | 10/100 [00:10<01:30, 1.1s/it]\n", None),
    ],
)
def test_only_whole_rows_and_steps_are_progress(tool: str, raw: bytes, last: str | None) -> None:
    progress = Progress(tool, 0.0)
    progress.take(raw, 5.0)
    assert progress.last == last
    assert progress.at == (5.0 if last else 0.0)


def test_a_step_that_every_node_prints_is_one_step() -> None:
    lines = [(float(at), STEP.format(at // 2).encode()) for at in range(2, 10)]
    progress = after(Progress("training", 0.0), lines)
    assert progress.usual_wait == 2
    progress.take(STEP.format(4).encode(), 30.0)
    assert progress.at == 8


def test_behind_the_last_step_every_line_is_progress() -> None:
    progress = Progress("training", 0.0)
    progress.take(STEP.format(9).replace("/      50", "/       9").encode(), 5.0)
    progress.take(b"Evaluating iter 1/100\n", 90.0)
    assert progress.at == 90


def test_a_redrawn_bar_arrives_late_and_cannot_stall() -> None:
    bar = b"Epoch 0:  1%|| 12/400 [01:10<38:00, 5.9s/it, loss=3.1]"
    rules = StallRules(tool="training", startup_seconds=60, least_seconds=10)
    assert rules.allowed(after(Progress("training", 0.0), [(50.0, bar)])) is None


def test_message_names_what_was_last_seen_and_hides_secrets() -> None:
    seen = rows(1, 2, 3)
    failure = RULES.failure(seen, 3 + 302)
    assert failure is not None
    assert failure.message == "no row since 32, 5m2s ago; 10s are allowed"
    silent = after(Progress("nccl", 0.0), [(1.0, b"token: HF_TOKEN=hf_abcdefghijklmnopqrst\n")])
    failure = RULES.failure(silent, 100)
    assert failure is not None
    assert failure.message.startswith("no row within 1m40s of the start; its last line is: token")
    assert "hf_abc" not in failure.message
    assert RULES.failure(silent, 99) is None


@given(st.lists(st.floats(0.001, 9.99), max_size=30), st.floats(0, 99))
def test_run_whose_rows_come_in_time_never_stalls(waits: list[float], first: float) -> None:
    times = list(itertools.accumulate([first, *waits]))
    lines = [(0.0, HEADING), *((at, row(8 << n)) for n, at in enumerate(times))]
    assert RULES.first_stall(lines, times[-1] + 9.99) is None
    stall = RULES.first_stall(lines, times[-1] + 10_000)
    assert stall is not None
    allowed = max(10.0, 6 * max(waits)) if waits else 100.0
    assert stall[0] == pytest.approx(times[-1] + allowed)


@pytest.mark.parametrize("entry", builtin_entries().values(), ids=lambda entry: entry.id)
def test_every_entry_has_stall_rules_that_fit_its_tool(entry: object) -> None:
    options = entry.options  # type: ignore[attr-defined]
    stated = {name: options.get(name) for name in ("startupStallTimeoutSeconds", "stallMultiplier")}
    # DCGM prints at its end only, so nothing can be missed before.
    silent = entry.tool == "dcgm"  # type: ignore[attr-defined]
    assert (stated["startupStallTimeoutSeconds"], stated["stallMultiplier"]) == (
        (None, None) if silent else (1200, 3)
    )


def test_zero_is_off_and_dcgm_has_none() -> None:
    off = {name: setting(0) for name in ("startupStallTimeoutSeconds", "stallTimeoutSeconds")}
    on = {"stallTimeoutSeconds": setting(5)}
    assert StallRules.of(job(options=off).workload, "nccl") is None
    assert StallRules.of(job(options={}).workload, "nccl") is None
    assert StallRules.of(job(options=on).workload, "dcgm") is None
    rules = StallRules.of(job(options=on).workload, "nccl")
    assert rules is not None
    assert rules.allowed(rows()) is None


def limited(startup: float, step: float, kind: Launcher = Launcher.MPI, **more: object) -> Job:
    options = {
        "startupStallTimeoutSeconds": setting(startup),
        "stallTimeoutSeconds": setting(step),
        "stallMultiplier": setting(3),
    }
    return job(kind, options=options, **more)  # type: ignore[arg-type]


def test_run_without_a_further_row_is_stalled_and_keeps_its_output() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = HEADING + row(8) + row(16 << 20)
    result = run(cluster, limited(9, 0.2))
    record = result.record
    assert (record.outcome, record.exit_code, record.attempt) == (RunOutcome.STALLED, None, 1)
    (failure,) = record.failures
    assert (failure.code, failure.entity) == ("WorkloadStalled", None)
    assert failure.message.startswith("no row since 16M, 0.")
    assert result.logs == {"full-scale-0-output.log": cluster.outputs["*"]}
    assert record.logs[0].truncated
    assert_nothing_left(cluster)


def test_run_without_a_first_row_is_stalled() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = b"gpu-a:17:17 [0] NCCL INFO Bootstrap: Using eth0\n"
    record = run(cluster, limited(0.2, 9)).record
    assert record.outcome is RunOutcome.STALLED
    assert "Bootstrap: Using eth0" in record.failures[0].message


def test_training_gang_is_judged_by_the_node_that_prints_the_steps() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = b"> compiling kernels ...\n"
    started = time.monotonic()

    def print_steps(c: FakeCluster) -> None:
        # Megatron prints on the last rank; the first pods stay silent for good.
        printer = c.pods_of("worker")[-1]["metadata"]["name"]
        done = int((time.monotonic() - started) / 0.05)
        steps = [STEP.format(number + 1) + "\n" for number in range(min(done, 40))]
        c.outputs[printer] = "".join(steps).encode()
        if done > 40:
            c.end("worker", 0)

    cluster.before_look = when_runs("worker", print_steps)
    what = limited(1.2, 1.2, Launcher.TORCHRUN, category=TRAINING)
    assert run(cluster, what).record.outcome is RunOutcome.COMPLETED


class Stuck(FakeCluster):
    """Streams hang; a plain read shows more and more rows, or fails."""

    def __init__(self, *, readable: bool) -> None:
        super().__init__(*NODES)
        self.readable = readable
        self.reads = 0

    def logs(self, *_: object, follow: bool = False, **__: object) -> Iterator[bytes]:
        if follow:
            time.sleep(0.05)
            raise ClusterError("nothing for 30 s")
        if not self.readable:
            raise ClusterError("dial tcp: i/o timeout")
        self.reads += 1
        for number in range(self.reads):
            yield b"2026-03-04T05:06:07.%09dZ " % number + row(8 << number)


def test_a_stream_that_hangs_is_no_run_that_hangs() -> None:
    cluster = Stuck(readable=True)
    cluster.before_look = when_runs(
        "launcher", lambda c: c.end("launcher", 0) if cluster.reads > 2 else None
    )
    assert run(cluster, limited(0.1, 0.1)).record.outcome is RunOutcome.COMPLETED


def test_an_output_that_cannot_be_read_proves_no_stall() -> None:
    record = run(Stuck(readable=False), limited(0.1, 0.1, timeout_seconds=setting(0.5))).record
    assert record.outcome is RunOutcome.TIMED_OUT


def test_stalled_group_is_suspect_and_nobody_fails() -> None:
    cluster = FakeCluster(*NODES)
    cluster.outputs["*"] = HEADING + row(8)
    record = run(cluster, limited(9, 0.1)).record
    read = measured(None, Completeness.CUT_OFF)
    verdict = judge_group(record.group, "nccl", BarSet(nodes=2), record=record, measurements=read)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "WorkloadStalled" in {item.code for item in verdict.reasons}
    judged = judge_category(record.category, NODES, [verdict], [record])
    assert [(node.outcome, node.suspect) for node in judged.nodes] == [
        (Outcome.INCONCLUSIVE, True),
        (Outcome.INCONCLUSIVE, True),
    ]
