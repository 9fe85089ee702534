"""The control group of each node, in every hierarchy the machine has mounted."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.cluster.config import state_dir
from tests.cluster.shell import LabError, say


def cgroup_name(node: str) -> str:
    """Return the name of a node's control group."""
    return f"{state_dir().name}.{node}"


def cgroups_of_lab() -> list[Path]:
    """Return every control group that this lab or a crashed one in its place has made."""
    return [path for root in _hierarchies() for path in sorted(root.glob(cgroup_name("*")))]


def make_cgroup(name: str) -> None:
    """Make a group of this name at the top of every hierarchy."""
    for root in _hierarchies():
        _enable_controllers(root)
        group = root / name
        group.mkdir(exist_ok=True)
        # A version 1 cpuset takes no process until both lists are filled.
        for kind in ("cpuset.cpus", "cpuset.mems"):
            if (root / kind).exists():
                (group / kind).write_text((root / kind).read_text())


def _enable_controllers(root: Path) -> None:
    """Pass the controllers of a version 2 hierarchy on to its groups, as a kubelet needs them."""
    listed = root / "cgroup.controllers"
    if listed.exists():
        for name in listed.read_text().split():
            with suppress(OSError):  # some machines keep one for themselves
                (root / "cgroup.subtree_control").write_text(f"+{name}")


def remove_cgroup(group: Path) -> None:
    """Kill what is left in a group and remove it with everything below it."""
    _empty(group)
    _remove_tree(group)


def _hierarchies() -> list[Path]:
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(line[1]) for line in lines if line[2] in {"cgroup", "cgroup2"}]


def _processes(group: Path) -> list[int]:
    found = []
    for path in group.rglob("cgroup.procs"):
        try:
            found += [int(line) for line in path.read_text().split()]
        except OSError:
            continue  # the group went away meanwhile
    return found


def _empty(group: Path) -> None:
    deadline = time.monotonic() + 10
    while (pids := _processes(group)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    if pids:
        raise LabError(f"processes in {group} do not end: {pids}")


def _remove_tree(group: Path) -> None:
    below = [path for path in group.rglob("*") if path.is_dir()]
    for path in [*sorted(below, key=lambda path: len(path.parts), reverse=True), group]:
        # The kernel frees a group a moment after its last process.
        for _ in range(50):
            try:
                path.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02)
        else:
            say(f"cannot remove control group {path}")
