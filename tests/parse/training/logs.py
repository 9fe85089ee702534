"""Training logs of the real formats, with numbers of our own."""

from __future__ import annotations


def megatron(
    step: int,
    total: int = 60,
    *,
    ms: float = 2000.0,
    tflops: float | None = 410.5,
    loss: str | None = "6.5E+00",
    grad: str | None = "0.91",
    skipped: int = 0,
    nan: int = 0,
    stamp: str = "",
    scale: str = "1.0",
) -> str:
    fields = [
        f"{stamp} iteration {step:8d}/{total:8d}",
        f"consumed samples: {step * 32:12d}",
        f"elapsed time per iteration (ms): {ms}",
        f"throughput per GPU (TFLOP/s/GPU): {tflops}" if tflops is not None else None,
        "learning rate: 1.000000E-04",
        "global batch size:    32",
        f"lm loss: {loss}" if loss is not None else None,
        f"loss scale: {scale}",
        f"grad norm: {grad}" if grad is not None else None,
        f"number of skipped iterations: {skipped:3d}",
        f"number of nan iterations: {nan:3d}",
    ]
    return " | ".join(field for field in fields if field) + " |\n"


def megatron_run(steps: int = 60, *, every: int = 1, first_ms: float = 9000.0) -> str:
    return "".join(
        megatron(step, steps, ms=first_ms if step <= 10 else 2000.0 + step % 3)
        for step in range(every, steps + 1, every)
    )


def nemo(step: int, total: int = 39, *, seconds: float = 3.25, loss: str = "7.125") -> str:
    return (
        f"Training epoch 0, iteration {step}/{total} | lr: 2.5e-06 | global_batch_size: 64 | "
        f"global_step: {step} | reduced_train_loss: {loss} | "
        f"train_step_timing in s: {seconds:.3f} | TFLOPS_per_GPU: 611.0"
        + (f" | consumed_samples: {64 * (step + 1)}\n" if step else "\n")
    )


def bar(step: int, total: str, rate: str, fields: str, label: str = "Epoch 0") -> str:
    return f"{label}:  12%|█▏        | {step}/{total} [0:10:00<1:00:00, {rate}, {fields}]"


def watchdog(rank: int, seq: int = 88) -> str:
    return (
        f"[rank{rank}]:[E611 10:20:30.400000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, "
        "NumelIn=1024, NumelOut=1024, Timeout(ms)=900000) ran for 900031 milliseconds before "
        "timing out.\n"
    )


def old_watchdog(rank: int) -> str:
    return (
        f"[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1808499 milliseconds "
        "before timing out.\n"
    )


def at_work(rank: int, seq: int = 88, group: str = "PG ID 2 PG GUID 5") -> str:
    return (
        f"[rank{rank}]:[E611 10:20:30.4 ProcessGroupNCCL.cpp:1785] [{group} Rank {rank}] Exception "
        f"(either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL "
        f"work: {seq}, last completed NCCL work: {seq - 1}.\n"
    )


def dump(rank: int, source: int, enqueued: int, group: str = "PG ID 2 PG GUID 5") -> str:
    return (
        f"[rank{rank}]:[E611 10:20:31.1 ProcessGroupNCCL.cpp:1682] [{group} Rank {rank}] Received "
        f"a dump signal due to a collective timeout from  rank {source} and we will try our best "
        f"to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: "
        f"{enqueued}.This is most likely caused by incorrect usages of collectives\n"
    )
