"""Prints what Megatron-LM core 0.15 and torchrun print, step by step on the virtual clock.

Step lines: training_log of megatron/training/training.py; the NaN check: rerun_state_machine.py;
watchdog and agent lines: public logs of PyTorch 2.8.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from steps.simulator.clock import Script
from steps.simulator.faults import Crash, Hang, NanLoss, of_kind
from steps.simulator.machine import SimulatedRun
from steps.simulator.nccl_log import NCCL_VERSION, info_lines, pid_of
from steps.simulator.physics import training_tflops

VERSIONS = {"megatron-core": "0.15.2", "torch": "2.8.0", "nccl": NCCL_VERSION}

_FILE = "output.txt"
_STARTUP_SECONDS = 75.0
_FIRST_STEP_SLOWDOWN = 9.0
"""The first step compiles kernels and builds communicators."""
_WARM_STEPS = 5
_FINAL_LOSS_DROP = 4.2


@dataclass(frozen=True, slots=True)
class _Model:
    """The model and the run, from the command line of pretrain_gpt.py."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    query_groups: int
    sequence: int
    vocabulary: int
    batch: int
    steps: int
    tensor_parallel: int
    exit_minutes: int
    watchdog_minutes: int

    @property
    def flops_per_step(self) -> float:
        """Floating point operations of one step: 6 per parameter and token, plus attention."""
        head = self.hidden // self.heads
        attention = self.hidden * 2 * (self.hidden + head * self.query_groups)
        parameters = self.layers * (attention + 2 * self.hidden * self.ffn)
        parameters += self.hidden * self.vocabulary
        per_token = 6 * parameters + 6 * self.layers * self.hidden * self.sequence
        return float(per_token * self.sequence * self.batch)


def training_script(run: SimulatedRun) -> Script:
    """Return everything that the run prints when nothing from outside stops it."""
    model = _model_of(run)
    script = Script(_FILE, now=_STARTUP_SECONDS)
    _opening(script, run, model)
    seconds = model.flops_per_step / (training_tflops(run) * 1e12 * run.ranks)
    noise = run.random("steps")
    crash = min(of_kind(run.faults, Crash), key=lambda fault: fault.after, default=None)
    hang = min(of_kind(run.faults, Hang), key=lambda fault: fault.after, default=None)
    nan = min(of_kind(run.faults, NanLoss), key=lambda fault: fault.step, default=None)
    for step in range(1, model.steps + 1):
        if crash and step > crash.after:
            _crash(script, run, crash)
            return script
        if hang and step > hang.after:
            _hang(script, run, model, hang, step)
            return script
        if nan and step >= nan.step:
            _not_a_number(script, run, nan, step)
            return script
        slowdown = _FIRST_STEP_SLOWDOWN if step == 1 else 1.04 if step <= _WARM_STEPS else 1.0
        elapsed = seconds * slowdown * (1 + noise.uniform(-0.01, 0.01))
        script.now += elapsed
        script.say(f" [{_clock(script, run)}] {_step(run, model, step, elapsed, noise)}")
        if script.now > model.exit_minutes * 60:
            minutes = script.now / 60
            script.say(
                f"[exiting program after {minutes} minutes] datetime: {_clock(script, run)} "
            )
            return script
    script.say(f"[after training is done] datetime: {_clock(script, run)} ")
    script.now += 8.0
    return script


def _model_of(run: SimulatedRun) -> _Model:
    def number(flag: str, default: int) -> int:
        text = run.argv.get(flag, "")
        return int(text) if text.isdigit() else default

    heads = number("--num-attention-heads", 32)
    return _Model(
        layers=number("--num-layers", 32),
        hidden=number("--hidden-size", 4096),
        ffn=number("--ffn-hidden-size", 4 * number("--hidden-size", 4096)),
        heads=heads,
        query_groups=number("--num-query-groups", heads),
        sequence=number("--seq-length", 8192),
        vocabulary=number("--vocab-size", 131072),
        batch=number("--global-batch-size", run.ranks),
        steps=number("--train-iters", 50),
        tensor_parallel=number("--tensor-model-parallel-size", 1),
        exit_minutes=number("--exit-duration-in-mins", 24 * 60),
        watchdog_minutes=number("--distributed-timeout-minutes", 10),
    )


def _opening(script: Script, run: SimulatedRun, model: _Model) -> None:
    parallel = model.tensor_parallel
    script.say(
        f"using world size: {run.ranks}, data-parallel size: {max(1, run.ranks // parallel)}, "
        "context-parallel size: 1, hierarchical context-parallel sizes: None, "
        f"tensor-model-parallel size: {parallel}, pipeline-model-parallel size: 1",
        "> building NullTokenizer tokenizer ...",
        "> initializing torch distributed ...",
    )
    script.say(*info_lines(run))
    script.say(f"[after dataloaders are built] datetime: {_clock(script, run)} ", after=12.0)
    script.say("done with setup ...", "training ...")
    script.say(f"[before the start of training step] datetime: {_clock(script, run)} ")


def _step(run: SimulatedRun, model: _Model, step: int, elapsed: float, noise: random.Random) -> str:
    tflops = model.flops_per_step / elapsed / run.ranks / 1e12
    loss = math.log(model.vocabulary) - _FINAL_LOSS_DROP * (1 - math.exp(-step / 20))
    return (
        f"iteration {step:8d}/{model.steps:8d} |"
        f" consumed samples: {step * model.batch:12d} |"
        f" elapsed time per iteration (ms): {elapsed * 1e3:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
        f" learning rate: {3e-4 * min(1.0, step / 100):.6E} |"
        f" global batch size: {model.batch:5d} |"
        f" lm loss: {loss + noise.uniform(-0.02, 0.02):.6E} |"
        f" loss scale: 1.0 | grad norm: {0.8 + 3.0 / step + noise.uniform(0, 0.1):.3f} |"
        f" number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |"
    )


def _clock(script: Script, run: SimulatedRun) -> str:
    return (run.job.start + timedelta(seconds=script.now)).strftime("%Y-%m-%d %H:%M:%S")


def _crash(script: Script, run: SimulatedRun, fault: Crash) -> None:
    machine = run.first(fault)
    rank = run.rank_of(machine.name, fault.gpu)
    error = "torch.AcceleratorError: CUDA error: unspecified launch failure"
    script.say(*_traceback(rank, error))
    _agent(script, run, rank, 1)


def _not_a_number(script: Script, run: SimulatedRun, fault: NanLoss, step: int) -> None:
    machine = run.first(fault)
    rank = run.rank_of(machine.name, fault.gpu)
    _, gpu = run.place(rank)
    error = (
        f"RuntimeError: Rank {rank}, node {machine.name}, device {gpu}, iteration {step}: "
        "Unexpected result nan (message='found NaN in local forward loss calculation')"
    )
    script.say(*_traceback(rank, error))
    _agent(script, run, rank, 1)


def _hang(script: Script, run: SimulatedRun, model: _Model, fault: Hang, step: int) -> None:
    """The watchdog of every rank that still waits reports; the ranks that hang do not."""
    silent = {
        run.rank_of(machine.name, gpu)
        for machine in run.machines
        if machine.name in fault.node
        for gpu in range(run.gpus_per_node)
    }
    waiting = [rank for rank in range(run.ranks) if rank not in silent]
    if not waiting:
        script.now = math.inf
        return
    limit = model.watchdog_minutes * 60_000
    script.now += limit / 1e3
    stamp = (run.job.start + timedelta(seconds=script.now)).strftime("%m%d %H:%M:%S").lstrip("0")
    sequence = 40 * step
    for rank in waiting:
        script.say(
            f"[rank{rank}]:[E{stamp}.{200000000 + rank * 1000:09d} ProcessGroupNCCL.cpp:685] "
            f"[Rank {rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=16777216, NumelOut=16777216, "
            f"Timeout(ms)={limit}) ran for {limit + 40 + rank} milliseconds before timing out."
        )
    _agent(script, run, waiting[0], -6)


def _traceback(rank: int, error: str) -> Iterator[str]:
    head = f"[rank{rank}]:"
    yield f"{head} Traceback (most recent call last):"
    yield f'{head}   File "/opt/megatron-lm/pretrain_gpt.py", line 312, in <module>'
    yield f"{head}     pretrain("
    yield f'{head}   File "/opt/megatron-lm/megatron/training/training.py", line 839, in pretrain'
    yield f"{head}     iteration, num_floating_point_operations_so_far = train("
    yield f"{head} {error}"


def _agent(script: Script, run: SimulatedRun, rank: int, exit_code: int) -> None:
    """Print the summary of torchrun and end the run."""
    machine, _ = run.place(rank)
    local = rank % run.gpus_per_node
    rule = "=" * 60
    script.say(
        f"E{(run.job.start + timedelta(seconds=script.now)).strftime('%m%d %H:%M:%S')}.000000 "
        f"{pid_of(run, rank) - local - 1} torch/distributed/elastic/multiprocessing/api.py:874] "
        f"failed (exitcode: {exit_code}) local_rank: {local} (pid: {pid_of(run, rank)}) of binary: "
        "/usr/bin/python",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        rule,
        "pretrain_gpt.py FAILED",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : {_clock(script, run).replace(' ', '_')}",
        f"  host      : {machine.name}",
        f"  rank      : {rank} (local_rank: {local})",
        f"  exitcode  : {exit_code} (pid: {pid_of(run, rank)})",
        rule,
        after=3.0,
    )
    script.fail(1, f"torchrun ended with exit code 1; the first failure it saw was rank {rank}")
