"""The record of everything the lab has changed on the machine.

It is written before or right after each change, so that `down` works from another process and
after a crash.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.cluster.config import state_dir
from tests.cluster.locks import exclusive
from tests.cluster.shell import LabError, run


@dataclass
class ProcessRecord:
    """One process: its id alone could be reused, so its start time belongs to it."""

    name: str
    pid: int
    start_ticks: int
    log: str
    inside: bool = False
    """It is a door into a node's namespaces; the program itself is its child."""


@dataclass
class NodeRecord:
    """One node: its number fixes addresses and directories."""

    name: str
    index: int
    images: dict[str, str] = field(default_factory=dict)
    """Image id by tag, of what was loaded."""


@dataclass
class State:
    """What `down` must undo and what `status` tells."""

    owner_pid: int = 0
    """The process whose end should end the lab; 0 when it was started to stay."""
    ready: bool = False
    argo_namespaced: bool = False
    processes: dict[str, ProcessRecord] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    made_directories: list[str] = field(default_factory=list)

    def save(self) -> None:
        """Write the record so that a reader sees the old or the new one, never a half."""
        path = state_dir() / "state.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1))
        partial.replace(path)


def load_state() -> State | None:
    """Return the record of the lab on this machine, or None if there is none.

    Raises:
        LabError: there is one that cannot be read.
    """
    path = state_dir() / "state.json"
    try:
        raw = json.loads(path.read_text())
        state = State(**raw)
        state.processes = {k: ProcessRecord(**v) for k, v in raw["processes"].items()}
        state.nodes = {k: NodeRecord(**v) for k, v in raw["nodes"].items()}
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"{path} is damaged or of another version: {error}") from None
    return state


_MEMORY_FOR_TMPFS_KIB = 8 * 1024 * 1024
"""Two nodes with a few images hold one or two gigabytes."""


def make_state_dir() -> None:
    """Create the directory of the lab, for nobody but its user.

    It is in memory where there is enough of it: some disks take a minute to delete what the nodes
    unpack, and nothing in it has to last.
    """
    path = state_dir()
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.geteuid():
        raise LabError(f"{path} belongs to somebody else")
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(line for line in lines if line.startswith("MemAvailable:"))
    if int(available.split()[1]) >= _MEMORY_FOR_TMPFS_KIB:
        run(["mount", "-t", "tmpfs", "-o", "mode=0700", "readiness-lab", path])


def remove_state_dir() -> None:
    """Remove the directory of the lab with all that is in it."""
    path = state_dir()
    for _ in range(10):  # mounted over and over only after crashes
        if not path.is_mount():
            break
        # Lazily: the kernel may still be busy with the memory of the programs that were killed.
        run(["umount", "--lazy", path])
    shutil.rmtree(path, ignore_errors=True)


def testing_lab() -> AbstractContextManager[None]:
    """Let one test session at a time use the lab: sessions would take each other's GPUs."""
    problem = "another test session has been using the lab for 15 minutes"
    return exclusive(state_dir().with_suffix(".tests.lock"), wait=900, problem=problem)


def changing_lab() -> AbstractContextManager[None]:
    """Let one process at a time start or stop the lab."""
    problem = "another process is starting or stopping the lab just now"
    return exclusive(state_dir().with_suffix(".lock"), wait=0, problem=problem)
