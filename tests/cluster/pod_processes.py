"""The processes of a pod's containers, found by their control group, and what is done to them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any


def programs_of(pod: dict[str, Any]) -> list[int]:
    """Return the processes of a pod, without those that only hold or watch the others."""
    uid = pod["metadata"]["uid"].encode()
    return [pid for pid in _pids() if _belongs(pid, uid) and not _is_helper(pid)]


def send(pids: list[int], number: signal.Signals) -> int:
    """Send a signal to processes and return how many were there to get it."""
    reached = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            reached += 1
    return reached


def squeeze_memory(pid: int, room_bytes: int) -> bool:
    """Leave the container of a process only so much more memory than it has now.

    The kernel kills it when it asks for more. Returns False where the group is not to be found.
    """
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            group = Path("/sys/fs/cgroup/memory") / path.lstrip("/")
            used, limit = group / "memory.usage_in_bytes", group / "memory.limit_in_bytes"
        elif not controllers:
            group = Path("/sys/fs/cgroup") / path.lstrip("/")
            used, limit = group / "memory.current", group / "memory.max"
        else:
            continue
        if used.exists():
            limit.write_text(str(int(used.read_text()) + room_bytes))
            return True
    return False


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _belongs(pid: int, uid: bytes) -> bool:
    with suppress(OSError):
        return uid in Path(f"/proc/{pid}/cgroup").read_bytes()
    return False


def _is_helper(pid: int) -> bool:
    """Tell the sandbox and Argo's own process around a step from the program itself."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        name = words[0].rpartition(b"/")[2]
        return name in {b"pause", b"argoexec", b"runc", b""} or b"init" in words[1:2]
    return True
