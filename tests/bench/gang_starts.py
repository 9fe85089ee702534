"""Starts of a two-node MPI gang in a row: is one lost, and how long until the ranks speak?

Real pods, ssh and Open MPI on the lab of tests/cluster; the stand-in's collective is as short as it
can be. Beside it runs a bare Indexed Job of the same two pods that does nothing: what the cluster
itself takes for a gang of such pods, from creation until nothing is left.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steps.cluster.api.store import ConfigMapStore
    from steps.documents import RunRecord
    from tests.cluster.lab import Lab
    from tests.cluster.pod_watch import PodWatch, Seen

COMMAND = (
    "/bin/sh",
    "-c",
    "echo spoke at $(date +%s.%N)"
    " && exec /usr/local/bin/all_reduce_perf_mpi -b 8 -e 1K -f 2 -n 1 -w 0",
)
_SPOKE = re.compile(rb"^spoke at (\d+\.\d+)$", re.MULTILINE)
STARTS_PER_BARE_GANG = 5


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a gang.

    Attributes:
        record: what the run step says of it.
        begin, end: of the run step, clean-up included, in seconds since the epoch.
        moments: further moments in between, by name, in seconds since the epoch.
    """

    record: RunRecord
    begin: float
    end: float
    moments: Mapping[str, float] = field(default_factory=dict)

    @property
    def lost(self) -> bool:
        """True unless the first attempt went well."""
        return self.record.attempt != 1 or self.record.outcome.value != "completed"

    @property
    def ready_to_output(self) -> float:
        """Seconds from the last worker's becoming Ready to the first rank's first word."""
        return self.moments["first rank spoke"] - self.moments["last worker Ready"]

    @property
    def told(self) -> str:
        """Return when what happened, in seconds from the begin."""
        ordered = sorted(self.moments.items(), key=lambda item: item[1])
        parts = [f"{name} {when - self.begin:.1f}" for name, when in ordered]
        return ", ".join([*parts, f"end {self.end - self.begin:.1f}"])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this benchmark."""
    parser.add_argument("--count", type=int, default=50, help="starts in a row")


def run(options: argparse.Namespace) -> dict[str, object]:
    """Return how many starts were lost, and the seconds that they took."""
    from tests.cluster.gangs import build_standin  # noqa: PLC0415  (heavy; see overhead.py)
    from tests.cluster.lifecycle import attach, down, up  # noqa: PLC0415

    running = attach()
    lab = running or up()
    try:
        image = build_standin(lab)
        with lab.namespace("gangs", executor_role=False) as namespace, _kubeconfig(lab):
            starts: list[Start] = []
            bare: list[float] = []
            for number in range(options.count):
                # In turns, so that what else the machine does falls on both.
                if number % STARTS_PER_BARE_GANG == 0:
                    bare.append(bare_gang(lab, namespace, image, number))
                starts += start_gangs(lab, namespace, image, [number])
    finally:
        if running is None:
            down()
    return figures(starts, bare)


def figures(starts: list[Start], bare: list[float]) -> dict[str, object]:
    """Return the figures to print."""
    good = [start for start in starts if not start.lost]
    found: dict[str, object] = {"starts": len(starts), "lost": len(starts) - len(good)}
    lost = [f"{s.record.group.id}: {s.record.outcome}: {s.told}" for s in starts if s.lost]
    found |= {"lost ones": lost} if lost else {}
    if good:
        whole = [start.end - start.begin for start in good]
        speech = [start.ready_to_output for start in good]
        slowest = max(good, key=lambda start: start.end - start.begin)
        found |= {
            "last Ready to first output, s": _spread(speech),
            "whole run with clean-up, s": _spread(whole),
            "bare gang with clean-up, s": _spread(bare),
            "whole run / bare gang": round(median(whole) / median(bare), 2),
            "slowest, s from its begin": slowest.told,
        }
    return found


def start_gangs(lab: Lab, namespace: str, image: str, numbers: list[int]) -> Iterator[Start]:
    """Run gangs one after another, as the run step does, and yield what became of each."""
    from tests.cluster.gangs import job, open_store, run, work  # noqa: PLC0415
    from tests.cluster.pod_watch import PodWatch  # noqa: PLC0415

    store: ConfigMapStore = open_store(namespace)
    for number in numbers:
        what = job(work(image, COMMAND), group=f"gang-{number}")
        with PodWatch(lab, namespace, f"readiness/group={what.group.id}") as watch:
            begin = time.time()
            record, result = run(store, what)
            end = time.time()
        spoken = [float(word) for log in result.logs.values() for word in _SPOKE.findall(log)]
        yield Start(record, begin, end, _moments(watch, spoken))


def bare_gang(lab: Lab, namespace: str, image: str, number: int) -> float:
    """Return the seconds that a gang of pods like the workers takes when they do nothing."""
    from steps.cluster.attempts.clean import remove  # noqa: PLC0415
    from steps.cluster.objects.names import GroupNames  # noqa: PLC0415
    from steps.cluster.objects.shapes import shape_of  # noqa: PLC0415
    from tests.cluster.gangs import ALL_REDUCE, WORKFLOW, open_store, work  # noqa: PLC0415
    from tests.cluster.shell import wait_for  # noqa: PLC0415

    names = GroupNames(WORKFLOW, ALL_REDUCE, f"bare-{number}")
    nodes = lab.node_names
    shape = shape_of(work(image, COMMAND), nodes, names, None, scheduling_seconds=60)
    for item in shape.objects:
        if item["kind"] == "Job":
            (container,) = item["spec"]["template"]["spec"]["containers"]
            container["command"] = ["true"]
            del container["readinessProbe"]
    cluster = open_store(namespace).cluster
    begin = time.time()
    for item in shape.objects:
        cluster.create(item)

    def complete() -> bool:
        status = cluster.get("Job", shape.worker_job).get("status", {})
        return int(status.get("succeeded") or 0) == len(nodes)

    wait_for("the bare gang to complete", complete, timeout=120, interval=0.1)
    left = remove(cluster, names.selector, 60)
    if left:
        raise RuntimeError(f"a bare gang left {left}")
    return time.time() - begin


def _moments(watch: PodWatch, spoken: list[float]) -> dict[str, float]:
    """Return when the gang went through its stages, as far as it did."""
    moments: dict[str, list[float]] = {}
    ready: dict[str, float] = {}
    for seen in watch.heard:
        role = seen.pod["metadata"]["labels"].get("readiness/role", "")
        phase = seen.pod["status"].get("phase")
        if seen.kind == "ADDED":
            moments.setdefault(f"first {role} made", []).append(seen.when)
        elif role == "launcher" and phase != "Pending":
            moments.setdefault(f"launcher {str(phase).lower()}", []).append(seen.when)
        if role == "worker" and _is_ready(seen):
            ready.setdefault(seen.pod["metadata"]["uid"], seen.when)
    found = {name: min(times) for name, times in moments.items()}
    if ready:
        found["last worker Ready"] = max(ready.values())
    if spoken:
        found |= {"first rank spoke": min(spoken), "last rank spoke": max(spoken)}
    return found


def _is_ready(seen: Seen) -> bool:
    conditions: list[dict[str, Any]] = seen.pod["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    high = ordered[min(round(0.95 * len(ordered)), len(ordered) - 1)]
    spread = {"median": median(ordered), "p95": high, "max": ordered[-1]}
    return {name: round(value, 2) for name, value in spread.items()}


@contextmanager
def _kubeconfig(lab: Lab) -> Iterator[None]:
    """Lead the run step's client to the lab."""
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(lab.kubeconfig)
    try:
        yield
    finally:
        if before is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = before
