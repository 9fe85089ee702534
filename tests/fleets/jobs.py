"""Jobs as the runner makes them, without resolver and plan."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from catalog.entries.entry import find_entry
from catalog.hardware.hardware import Hardware
from catalog.hardware.profile import hardware_of_profile, match_profile
from catalog.reading.quantity import parse_duration
from catalog.reading.setting import Origin, Setting
from catalog.workload.workload import Workload
from steps.documents import Group
from steps.fleets.fleet import Fleet, Job, load_fleet

ALL_REDUCE = "communication/nccl-all-reduce"
START = datetime(2026, 5, 4, 6, 30, tzinfo=UTC)
_ORIGIN = Origin(rule="test", file="test")


def setting(value: Any) -> Setting:
    return Setting(value=value, origin=_ORIGIN)


def make_workload(
    category: str,
    *,
    gpus: int = 8,
    ranks: int = 8,
    transport: tuple[str, ...] = ("IB",),
    timeout: str | None = None,
    env: dict[str, str] | None = None,
    options: dict[str, Any] | None = None,
) -> Workload:
    entry = find_entry(category)
    values = {**entry.options, **(options or {})}
    words = {name: str(value) for name, value in values.items()}
    words |= {name: str(value) for name, value in entry.facts.items()}
    words |= {"gpusPerNode": str(gpus), "totalGpus": str(ranks), "tensorParallel": "2"}
    words |= {"dcgmHost": "localhost:5555", "recompute": ""}
    filled = (re.sub(r"\$\{(\w+)\}", lambda match: words[match[1]], w) for w in entry.command)
    command = tuple(word for word in filled if word)
    return Workload(
        launcher=entry.launcher,
        image=setting(entry.image),
        command=command,
        options={name: setting(value) for name, value in values.items()},
        env={name: setting(value) for name, value in (env or {}).items()},
        gpus_per_node=setting(gpus),
        nics_per_node=setting(8),
        nic_resource=setting(None),
        transport=setting(list(transport)),
        timeout_seconds=setting(
            parse_duration(timeout or str(entry.options["timeoutPerJob"])).total_seconds()
        ),
    )


def hardware_of(platform: str, gpu: str, gpus: int) -> Hardware:
    """Return the hardware of the shipped profile that fits, so that its bandwidth is known."""
    profile = match_profile(platform, None, gpu)
    if profile is None:
        return Hardware(platform=platform, gpu=gpu, gpus_per_node=gpus)
    return replace(hardware_of_profile(profile, gpu), gpus_per_node=gpus)


def make_job(
    category: str = ALL_REDUCE,
    nodes: tuple[str, ...] = ("n-1", "n-2"),
    *,
    group: Group | None = None,
    gpus: int = 8,
    gpu: str = "h100",
    platform: str = "onprem",
    attempt: int = 1,
    **workload: Any,
) -> Job:
    ranks = gpus * len(group.nodes if group else nodes)
    made = make_workload(category, gpus=gpus, ranks=ranks, **workload)
    return Job(
        category=category,
        cohort="cohort",
        workload=made.model_copy(update={"hardware": hardware_of(platform, gpu, gpus)}),
        group=group or Group(id="g-0", nodes=nodes),
        attempt=attempt,
        start=START,
    )


def simulated(tmp_path: Path, faults: str = "", *, nodes: str = "n-[1-8]", more: str = "") -> Fleet:
    """Load a simulated fleet; ``faults`` is the YAML of the list, ``more`` of the node set."""
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "apiVersion: readiness/v1\nkind: Fleet\nmetadata: {name: t}\nspec:\n"
        "  source: simulated\n  seed: 11\n  start: 2026-05-04T06:30:00Z\n"
        f"  nodes:\n  - names: {nodes}\n{more}"
        + (f"  faults:\n{faults}" if faults else "  faults: []\n"),
        encoding="utf-8",
    )
    return load_fleet(path)
