"""Running programs and waiting, always with a bound and never without saying what went wrong."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

_START = time.monotonic()


class LabError(Exception):
    """The lab cannot do what was asked; the message says why and is meant for a person."""


def say(message: str) -> None:
    """Print one progress line with the seconds since the program started."""
    print(f"[lab {time.monotonic() - _START:6.1f}s] {message}", file=sys.stderr, flush=True)


def tail(path: Path, lines: int = 25) -> str:
    """Return the end of a log under its name, or a note that there is none."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        return f"--- {path}: {error.strerror}"
    end = "\n".join(text.splitlines()[-lines:])
    return f"--- last lines of {path}\n{end}"


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float = 60,
    check: bool = True,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return it with its text output.

    Raises:
        LabError: it is missing, took too long, or failed while `check` is on.
    """
    words = [str(word) for word in argv]
    shown = " ".join(words)[:300]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            env=None if env is None else dict(env),
            cwd=cwd,
            check=False,
        )
    except FileNotFoundError:
        raise LabError(f"program not found: {words[0]}") from None
    except subprocess.TimeoutExpired as expired:
        output = "".join(_text(part) for part in (expired.stdout, expired.stderr))
        raise LabError(f"no end after {timeout:.0f} s: {shown}\n{output[-2000:]}") from None
    if check and done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise LabError(f"exit {done.returncode}: {shown}\n{output[-3000:]}")
    return done


def _text(part: bytes | str | None) -> str:
    # subprocess hands bytes over in TimeoutExpired even in text mode.
    return part.decode(errors="replace") if isinstance(part, bytes) else part or ""


def wait_for(
    what: str,
    probe: Callable[[], bool],
    *,
    timeout: float,
    interval: float = 0.2,
    logs: Iterable[Path] = (),
    detail: Callable[[], str] = str,
) -> None:
    """Wait until the probe is true.

    Args:
        what: the thing waited for, for the message.
        probe: asked again and again; a LabError from it counts as "not yet".
        timeout: seconds.
        interval: seconds between questions.
        logs: logs of the responsible processes, whose tails go into the message.
        detail: more for the message, asked only when time is up.

    Raises:
        LabError: time is up.
    """
    deadline = time.monotonic() + timeout
    problem = ""
    while True:
        try:
            if probe():
                return
        except LabError as error:
            problem = str(error)
        if time.monotonic() > deadline:
            parts = [f"timed out after {timeout:.0f} s waiting for {what}", problem, detail()]
            raise LabError("\n".join([part for part in parts if part] + [tail(p) for p in logs]))
        time.sleep(interval)


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Tell whether an address answers with success."""
    try:
        with urlopen(url, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except (HTTPException, OSError):
        return False
