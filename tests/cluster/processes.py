"""Starting and stopping the lab's long-running programs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cluster.config import state_dir
from tests.cluster.shell import LabError, tail, wait_for
from tests.cluster.state import ProcessRecord, State

MARK = "READINESS_LAB"
"""Variable in the environment of every process of a lab; its value is the lab's directory."""


def start(
    state: State,
    name: str,
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    inside: bool = False,
) -> ProcessRecord:
    """Start a program that outlives this one, with its output in a log, and record it."""
    words = [str(word) for word in argv]
    log = state_dir() / "logs" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    if not Path(words[0]).exists():
        raise LabError(f"program not found: {words[0]}")
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    # posix_spawn rather than subprocess, whose objects complain when their process outlives them.
    pid = os.posix_spawn(
        words[0],
        words,
        os.environ | dict(env or {}) | {MARK: str(state_dir())},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        # Signals that this process ignores must not be ignored by the program.
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM],
    )
    record = ProcessRecord(name, pid, _start_ticks(pid) or 0, str(log), inside)
    state.processes[name] = record
    state.save()
    return record


def alive(record: ProcessRecord) -> bool:
    """Tell whether the very process of the record still runs."""
    _reap(record.pid)
    return _start_ticks(record.pid) == record.start_ticks


def wait_up(
    record: ProcessRecord,
    probe: Callable[[], bool],
    *,
    timeout: float,
    detail: Callable[[], str] = str,
) -> None:
    """Wait until a program answers; notice at once when it ended instead."""
    log = Path(record.log)

    def up() -> bool:
        # The probe's own LabError means "not yet", so an ended program is told apart here.
        if not alive(record):
            raise _EndedError(f"{record.name} ended while starting\n{tail(log)}")
        return probe()

    try:
        wait_for(record.name, up, timeout=timeout, interval=0.1, logs=[log], detail=detail)
    except _EndedError as error:
        raise LabError(str(error)) from None


class _EndedError(Exception):
    """Not a LabError, so that waiting stops."""


def stop(state: State, name: str, *, grace: float = 10) -> None:
    """Ask a program to end, insist after the grace time, and forget it.

    Raises:
        LabError: it does not end even so.
    """
    record = state.processes.get(name)
    if record is None:
        return
    _end(record, grace)
    del state.processes[name]
    state.save()


def stop_all(state: State) -> None:
    """End everything that is recorded at once; nothing of it has to be kept in order.

    The end of a node's first process ends all that is on it, containers too. The record on disk is
    left alone: it goes with the lab, and a full disk must not keep the lab from going.
    """
    for record in state.processes.values():
        _signal(record, signal.SIGKILL)
    for record in state.processes.values():
        _end(record, 0)
    state.processes.clear()


def restart(state: State, name: str, *, down: float = 0) -> None:
    """Kill a program that is no door into a node and start it again as it was started.

    Args:
        state: record of the lab.
        name: of the program.
        down: seconds between its end and its start.
    """
    pid = state.processes[name].pid
    line = Path(f"/proc/{pid}/cmdline")
    # A program that has only just been started may not have its words yet.
    wait_for(f"the words of {name}", lambda: bool(line.read_bytes()), timeout=5)
    words = line.read_bytes().split(b"\0")[:-1]
    pairs = (item.decode().partition("=") for item in _environment(pid) if item)
    stop(state, name, grace=0)
    time.sleep(down)
    start(
        state, name, [word.decode() for word in words], env={key: value for key, _, value in pairs}
    )


def _end(record: ProcessRecord, grace: float) -> None:
    if grace:
        _signal(record, signal.SIGTERM)
        _await_end(record, grace)
    _signal(record, signal.SIGKILL)
    if not _await_end(record, 10):
        name = f"{record.name} (process {record.pid})"
        raise LabError(f"{name} does not end\n{tail(Path(record.log))}")


@contextmanager
def paused(record: ProcessRecord) -> Iterator[None]:
    """Freeze a program for the time of a `with` block: it keeps its ports and answers nobody."""
    _signal(record, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(record, signal.SIGCONT)


def _signal(record: ProcessRecord, number: int) -> None:
    if alive(record):
        inner = children(record.pid) if record.inside else []
        for pid in inner or [record.pid]:
            _send(pid, number)


def _await_end(record: ProcessRecord, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(record):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def marked() -> list[int]:
    """Return the processes that carry this lab's mark."""
    mark = f"{MARK}={state_dir()}".encode()
    found = [pid for pid in _pids() if mark in _environment(pid) and pid != os.getpid()]
    return [pid for pid in found if _start_ticks(pid) is not None]


def kill_marked() -> list[int]:
    """Kill what still carries this lab's mark, such as helpers of programs that crashed."""
    found = marked()
    for pid in found:
        _send(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(_start_ticks(pid) is not None for pid in found) and time.monotonic() < deadline:
        for pid in found:
            _reap(pid)
        time.sleep(0.05)
    return found


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    return [other for other in _pids() if (stat := _stat(other)) and int(stat[1]) == pid]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name: state, parent, ..., start time at 19."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _start_ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def _reap(pid: int) -> None:
    # Started by an earlier process, it is not ours: its new parent reaps it.
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
