"""Runs one benchmark by name."""

from __future__ import annotations

import argparse
import json
import sys

from tests.bench import chaos, gang_starts, judge, overhead, parse_log, plan_nodes

BENCHMARKS = {
    "parse-1gb": parse_log,
    "plan": plan_nodes,
    "judge": judge,
    "overhead": overhead,
    "gang-starts": gang_starts,
    "chaos": chaos,
}
"""Modules with ``NAME``'s ``add_options(parser)`` and ``run(options) -> dict``."""


def main() -> int:
    """Run the benchmark that the command line names and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    names = parser.add_subparsers(dest="name", required=True)
    for name, module in BENCHMARKS.items():
        entry = names.add_parser(name, help=(module.__doc__ or "").partition("\n")[0])
        entry.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
        module.add_options(entry)
    options = parser.parse_args()
    figures = BENCHMARKS[options.name].run(options)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for key, value in figures.items():
            print(f"{key:32} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
