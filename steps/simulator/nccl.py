"""Prints what nccl-tests 2.17 and NCCL print, row by row on the virtual clock.

With ``-N`` the sweep is repeated under one heading. Lines of failures: public logs of NCCL 2.28
and Open MPI.
"""

from __future__ import annotations

import math

from steps.simulator.clock import Script
from steps.simulator.faults import CorruptData, Crash, Hang, of_kind
from steps.simulator.machine import SimulatedRun
from steps.simulator.nccl_log import NCCL_VERSION, info_lines, line_head, pid_of
from steps.simulator.nccl_table import HEADINGS, Row, Sweep, Totals, sweep_of
from steps.simulator.physics import collective_curve

_TESTS_VERSION = "2.17.6"
_NCCL_CODE = 22809
"""NCCL's version as a number, as nccl-tests prints it."""
VERSIONS = {"nccl": NCCL_VERSION, "nccl-tests": _TESTS_VERSION}

_NOISY_BELOW = 2**20
"""Below this size times are latencies, which vary more; corrupt data shows from it on."""


def nccl_script(run: SimulatedRun) -> Script:
    """Return everything that the run prints when nothing from outside stops it."""
    sweep = sweep_of(run)
    script = Script("output.txt", now=8.0 + 0.1 * run.ranks)
    script.say(*_header(run, sweep))
    script.say(*info_lines(run, sweep.gpus_per_process))
    totals = Totals()
    if _rows(script, run, sweep, totals):
        script.say(*totals.footer(sweep))
        if totals.wrong:
            script.fail(1, "the test found wrong data and ended with exit code 1")
        script.now += 3.0
    return script


def _header(run: SimulatedRun, sweep: Sweep) -> list[str]:
    step = f"{sweep.factor}(factor)" if sweep.factor > 1 else "1048576(bytes)"
    lines = [
        f"# nccl-tests version {_TESTS_VERSION} nccl-headers={_NCCL_CODE} "
        f"nccl-library={_NCCL_CODE}",
        f"# Collective test starting: {sweep.program}",
        f"# nThread 1 nGpus {sweep.gpus_per_process} minBytes {sweep.min_bytes} "
        f"maxBytes {sweep.max_bytes} step: {step} warmup iters: {sweep.warmup} "
        f"iters: {sweep.iterations} agg iters: 1 validation: {int(sweep.checks)} graph: 0",
        "#",
        "# Using devices",
    ]
    for rank in range(run.ranks):
        machine, gpu = run.place(rank)
        lines.append(
            f"#  Rank {rank:2d} Group  0 Pid {pid_of(run, rank, sweep.gpus_per_process):6d} "
            f"on {machine.name:>10} device {gpu:2d} [{machine.pci(gpu)}] {machine.gpu_name}"
        )
    return lines


def _rows(script: Script, run: SimulatedRun, sweep: Sweep, totals: Totals) -> bool:
    """Print the rows; False when a fault ends them before the last."""
    curve = collective_curve(run)
    warmup = sweep.warmup * curve.time_us(sweep.max_bytes) * 1e-6
    script.say("#", *HEADINGS, after=2.0 + warmup)
    noise = run.random("rows")
    bias = 1 + noise.uniform(-0.003, 0.003)
    corrupt = sum(fault.wrong for fault in of_kind(run.faults, CorruptData)) * sweep.checks
    stop = _first_stop(run)
    for _ in range(sweep.cycles):
        for asked in sweep.sizes():
            if stop is not None and totals.rows >= stop.after:
                _stop(script, run, sweep, stop)
                return False
            size, count = sweep.shape(asked)
            spread = 0.04 if size < _NOISY_BELOW else 0.007
            mean = curve.time_us(size) * bias
            out, into = (mean * (1 + noise.uniform(-spread, spread)) for _ in range(2))
            row = Row(size, count, (out, into), corrupt if size >= _NOISY_BELOW else 0)
            script.say(row.text(sweep), after=(out + into) * 1e-6 * sweep.iterations)
            totals.add(row, sweep)
    return True


def _first_stop(run: SimulatedRun) -> Crash | Hang | None:
    stops: list[Crash | Hang] = [*of_kind(run.faults, Crash), *of_kind(run.faults, Hang)]
    return min(stops, key=lambda fault: fault.after, default=None)


def _stop(script: Script, run: SimulatedRun, sweep: Sweep, fault: Crash | Hang) -> None:
    if isinstance(fault, Hang):
        script.now = math.inf
    elif len(run.machines) == 1:
        _crash_alone(script, run, sweep, fault)
    else:
        _crash_in_group(script, run, sweep, fault)


def _crash_alone(script: Script, run: SimulatedRun, sweep: Sweep, fault: Crash) -> None:
    machine = run.machines[0]
    pid = pid_of(run, run.rank_of(machine.name, fault.gpu), sweep.gpus_per_process)
    script.say(
        f"{machine.name}: Test CUDA failure common.cu:302 'unspecified launch failure'",
        f" .. {machine.name} pid {pid}: Test failure common.cu:415",
        after=1.0,
    )
    script.fail(2, f"{sweep.program} ended with exit code 2 on {machine.name}")


def _crash_in_group(script: Script, run: SimulatedRun, sweep: Sweep, fault: Crash) -> None:
    """One process dies; its peers see the connection close, and mpirun names what it saw first."""
    machine = run.first(fault)
    rank = run.rank_of(machine.name, fault.gpu)
    for peer in [other for other in run.machines if other is not machine][:2]:
        witness = run.rank_of(peer.name, fault.gpu)
        head = line_head(run, witness, sweep.gpus_per_process)
        script.say(
            f"{head} misc/socket.cc:915 NCCL WARN socketProgress: Connection closed by remote peer "
            f"{machine.name}<{40000 + rank}>",
            f"{head} NCCL INFO transport/net.cc:1298 -> 6",
            f"{peer.name}: Test NCCL failure common.cu:415 "
            "'remote process exited or there was a network error / '",
            f" .. {peer.name} pid {pid_of(run, witness, sweep.gpus_per_process)}: "
            "Test failure common.cu:612",
            after=0.5,
        )
    rule = "-" * 74
    script.say(
        rule,
        f"mpirun noticed that process rank {rank} with PID "
        f"{pid_of(run, rank, sweep.gpus_per_process)} on node {machine.name} "
        "exited on signal 6 (Aborted).",
        rule,
        after=2.0,
    )
    script.fail(134, f"mpirun ended with exit code 134: rank {rank} on {machine.name} aborted")
