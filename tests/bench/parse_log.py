"""Reads a made-up NCCL log of 4,096 ranks; compared with grep and a plain loop over its lines.

Each contender runs in a process of its own over the same stream, so that peak memory is its own;
their seconds are CPU time, those of grep wall time. Nothing is stored unless ``--file`` names
where; then all read that file.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

from tests.bench.nccl_log import ROWS, open_log

CONTENDERS = ("loop", "search loop", "text loop", "parse")
"""A bare loop over the lines as bytes; one that looks for a word in each, as grep does; the loop
over text that people write, ``for line in open(path, errors="replace")``; the parser."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this benchmark."""
    parser.add_argument("--size-mb", type=int, default=1024, help="size of the log (default 1024)")
    parser.add_argument("--file", type=Path, help="store the log here and read it from there")
    parser.add_argument("--only", choices=CONTENDERS, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> dict[str, object]:
    """Return seconds, MB/s and peak MB of each contender, and their ratios."""
    if options.only:
        return _contend(options)
    if options.file:
        _store(options)
    seconds = {"grep": _grep(options)}
    figures: dict[str, object] = {"megabytes": options.size_mb}
    for name in CONTENDERS:
        result = _in_own_process(name, options)
        seconds[name] = result["seconds"]
        figures[f"{name} peak MB"] = round(result["peak"], 1)
        figures |= {key: value for key, value in result.items() if key not in {"seconds", "peak"}}
    for name, value in seconds.items():
        figures[f"{name} seconds"] = round(value, 2)
        figures[f"{name} MB/s"] = round(options.size_mb / value)
    for name in ("loop", "search loop", "text loop", "grep"):
        figures[f"parse / {name}"] = round(seconds["parse"] / seconds[name], 2)
    return figures


def _open(options: argparse.Namespace) -> BinaryIO:
    return options.file.open("rb") if options.file else open_log(options.size_mb << 20)


def _store(options: argparse.Namespace) -> None:
    with options.file.open("wb") as target, open_log(options.size_mb << 20) as source:
        while block := source.read(1 << 20):
            target.write(block)


def _grep(options: argparse.Namespace) -> float:
    start = time.perf_counter()
    with (
        subprocess.Popen(
            ["grep", "-c", "NCCL INFO"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as process,
        _open(options) as source,
    ):
        assert process.stdin
        while block := source.read(1 << 20):
            process.stdin.write(block)
        process.stdin.close()
        process.wait()
    return time.perf_counter() - start


def _in_own_process(name: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench", "--json", "parse-1gb", "--only", name]
    command += ["--size-mb", str(options.size_mb)]
    command += ["--file", str(options.file)] if options.file else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _contend(options: argparse.Namespace) -> dict[str, object]:
    result: dict[str, object] = {}
    with _open(options) as source:
        if options.only == "loop":
            start = time.process_time()
            count = 0
            for _ in source:
                count += 1  # the plain loop that is compared with
            seconds = time.process_time() - start
            result["lines"] = count
        elif options.only == "search loop":
            start = time.process_time()
            count = 0
            for line in source:
                if b"NCCL WARN" in line:
                    count += 1
            seconds = time.process_time() - start
        elif options.only == "text loop":
            start = time.process_time()
            count = 0
            for _ in io.TextIOWrapper(source, encoding="utf-8", errors="replace"):
                count += 1  # noqa: SIM113  # the plain loop that is compared with
            seconds = time.process_time() - start
        else:
            from steps.parse import parse_stream  # noqa: PLC0415  # only this contender pays for it

            start = time.process_time()
            found = parse_stream(source, "log")
            seconds = time.process_time() - start
            result |= {
                "completeness": found.completeness,
                "rows": f"{len(found.rows)} of {len(ROWS)}",
                "findings": [item.code for item in found.findings],
            }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak": peak, **result}
