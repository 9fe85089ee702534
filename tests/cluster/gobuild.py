"""Builds the lab's Go programs into the cache, once per version.

A binary gets its name only when it is complete, so an interrupted build is simply run again; Go's
own build cache then resumes where it stopped.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.cluster.config import cache_dir
from tests.cluster.locks import exclusive
from tests.cluster.recipes import Part, go_env, parts
from tests.cluster.shell import LabError, say, tail

BUILD_SECONDS = 60 * 60
"""Bound for one binary; the longest takes about a tenth of it on two cores."""


def missing_binaries() -> list[str]:
    """Name what is not in the cache yet."""
    return [name for part in parts() for name in part.missing()]


def build_all() -> None:
    """Build what the cache lacks.

    Raises:
        LabError: Go is missing or a build failed; the message holds the end of its log.
    """
    if not missing_binaries():
        return
    if shutil.which("go") is None:
        raise LabError(
            "the lab's binaries are not in the cache, and building them needs Go 1.25 or newer: "
            "program not found: go"
        )
    with only_builder():
        for part in parts():
            if part.missing():
                _build(part)


def only_builder() -> AbstractContextManager[None]:
    """Keep two processes from building into the cache at once."""
    problem = "another process has been building for an hour"
    return exclusive(cache_dir() / "build.lock", wait=BUILD_SECONDS, problem=problem)


def _build(part: Part) -> None:
    started = time.monotonic()
    missing = part.missing()
    say(f"building {part.name} {part.version}: {', '.join(missing)} (minutes when cold)")
    source = part.source()
    partial = part.directory.with_name(part.directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    part.directory.mkdir(parents=True, exist_ok=True)
    for name in missing:
        if name in part.packages:
            command = ["go", "build", "-v", "-o", str(partial / name), "-ldflags", part.ldflags]
            _follow([*command, part.packages[name]], source, f"{part.name}/{name}")
        else:
            shutil.copytree(source / name, partial / name)
        (partial / name).replace(part.directory / name)
    shutil.rmtree(partial)
    say(f"built {part.name} {part.version} in {time.monotonic() - started:.0f} s")


def _follow(command: Sequence[str], cwd: Path, name: str) -> None:
    """Run a long build with its output in a log and a sign of life every half minute."""
    log = cache_dir() / "logs" / f"build-{name.replace('/', '-')}.log"
    log.parent.mkdir(exist_ok=True)
    deadline = time.monotonic() + BUILD_SECONDS
    with log.open("w") as output:
        # Low priority: a build on a machine in use may take longer, the user must not notice.
        child = subprocess.Popen(
            ["nice", "-n", "10", *command],
            cwd=cwd,
            env=go_env(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while True:
                try:
                    code = child.wait(timeout=30)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() > deadline:
                        raise LabError(f"building {name} takes too long\n{tail(log)}") from None
                    count = len(log.read_text(errors="replace").splitlines())
                    say(f"  {name}: {count} packages compiled")
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    if code != 0:
        raise LabError(f"building {name} failed\n{tail(log)}")
