"""Certifications on a real engine with one fault each, and which rules their outcomes break.

    python -m tests.bench chaos --seed 7 --runs 100

Every run is a small certification of the CPU stand-in on the lab of tests/cluster. The faults and
the rules stand in tests/cluster/chaos. A lab that is up is used; eight nodes are a good number.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.chaos.conductor import Ending

_NODES = 8


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this benchmark."""
    parser.add_argument("--seed", type=int, default=1, help="of faults, casts and moments")
    parser.add_argument("--runs", type=int, default=100, help="certifications in all")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many faults at first")
    parser.add_argument("--fault", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--evidence", type=Path, help="folder for what a broken rule is seen by")
    parser.add_argument("--list", action="store_true", help="show the faults and run nothing")


def run(options: argparse.Namespace) -> dict[str, object]:
    """Return the table: by fault the results, and every broken rule."""
    from tests.cluster.chaos.conductor import plays, stage  # noqa: PLC0415  (see overhead.py)
    from tests.cluster.chaos.faults import FAULTS, find  # noqa: PLC0415
    from tests.cluster.lifecycle import attach, down, up  # noqa: PLC0415
    from tests.cluster.shell import say  # noqa: PLC0415
    from tests.cluster.state import testing_lab  # noqa: PLC0415

    if options.list:
        return {fault.name: f"{fault.phase}: {fault.how}" for fault in FAULTS}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is broken gets mended
    chosen = [find(name) for name in options.fault] or FAULTS
    wanted = plays(options.seed, options.runs, chosen)[options.skip :]
    begin = time.monotonic()
    endings: list[Ending] = []
    with testing_lab():
        running = attach()
        lab = running or up(nodes=_NODES)
        try:
            with stage(lab, options.seed, options.evidence) as where:
                for ending in where.play_all(wanted):
                    endings.append(ending)
                    say(line_of(ending))
        finally:
            if running is None:
                down()
    return figures(endings, time.monotonic() - begin, as_data=options.json)


def line_of(ending: Ending) -> str:
    """Return one ending as a line."""
    late = "" if ending.happened else " (the fault came too late)"
    broken = "; ".join(f"{item.rule}: {item.seen}" for item in ending.violations)
    told = f"{ending.result} after {ending.seconds:.0f} s{late}"
    return f"{ending.number:3} {ending.fault} [{ending.cast}] {told} {broken or 'holds'}"


def figures(endings: Sequence[Ending], seconds: float, *, as_data: bool) -> dict[str, object]:
    """Return the figures to print."""
    found: dict[str, object] = {
        "runs": len(endings),
        "faults that came too late": sum(not ending.happened for ending in endings),
        "minutes": round(seconds / 60, 1),
    }
    broken = Counter(item.rule for ending in endings for item in ending.violations)
    found["broken rules"] = dict(broken) or "none"
    if as_data:
        return found | {"endings": [ending.as_data() for ending in endings]}
    for name in sorted({ending.fault for ending in endings}):
        mine = [ending for ending in endings if ending.fault == name]
        results = Counter(ending.result for ending in mine)
        told = ", ".join(f"{count} {result}" for result, count in sorted(results.items()))
        rules = "; ".join(f"{v.rule}: {v.seen}" for ending in mine for v in ending.violations)
        found[name] = f"{told:40} {rules or 'every rule holds'}"
    return found
