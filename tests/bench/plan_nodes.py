"""Planning of fleets of 100 to 10,000 nodes: seconds, memory and size of the plan."""

from __future__ import annotations

import argparse
import resource
import time
import tracemalloc
from typing import Any

from steps.detect.core import make_plan
from steps.documents import dump
from tests.detect.build import certification, fleet

CATEGORIES = (
    "communication/nccl-all-reduce",
    "communication/nccl-loopback-nvswitch",
    "diagnostics/dcgm-level4",
    "training/nemotron5-8b",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the benchmark."""
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[100, 1_000, 10_000], help="sizes of the fleets"
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Plan each size once for time and once for memory."""
    figures: dict[str, Any] = {}
    make_plan(certification()[0], fleet(1), source="simulated")  # reads the catalog
    for count in options.nodes:
        nodes = fleet(
            count,
            provider="aws:///us-east-1d/i-0",
            instance="p5.48xlarge",
            allocatable={"vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "5128Mi"},
        )
        loaded, source = certification(
            *CATEGORIES, spec={"nodesPerJob": 2, "limits": {"nodeCap": count}}
        )
        start = time.perf_counter()
        plan = make_plan(loaded, nodes, source="simulated", text=source)
        seconds = time.perf_counter() - start
        text = dump(plan)
        tracemalloc.start()
        make_plan(loaded, nodes, source="simulated", text=source)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        figures |= {
            f"seconds, {count} nodes": round(seconds, 2),
            f"ms per node, {count} nodes": round(1000 * seconds / count, 3),
            f"peak MiB, {count} nodes": round(peak / 2**20, 1),
            f"plan MiB, {count} nodes": round(len(text) / 2**20, 2),
            f"groups, {count} nodes": sum(
                len(part.groups) for category in plan.categories for part in category.parts
            ),
        }
    figures["peak RSS MiB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    return figures
