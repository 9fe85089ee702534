"""Resolved values with the rules that set them, for people and for annotations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from catalog.reading.setting import Setting
from catalog.workload.resolve import for_group
from catalog.workload.workload import Workload
from steps.documents import Plan, PlannedPart

PREFIX = "readiness"
"""Of the annotations' names; NVCRE's renderer writes the same three under its own."""


def settings_of(workload: Workload) -> Iterator[tuple[str, Setting]]:
    """Yield every resolved value of a workload under a name for people."""
    yield "image", workload.image
    yield "GPUs per node", workload.gpus_per_node
    yield "NICs per node", workload.nics_per_node
    yield "NIC resource", workload.nic_resource
    yield "transport", workload.transport
    yield "timeout (s)", workload.timeout_seconds
    for kind in ("env", "resources", "pod", "launch", "options"):
        for name, setting in sorted(getattr(workload, kind).items()):
            yield f"{kind} {name}", setting


def annotations_of(plan: Plan) -> dict[str, str]:
    """Return annotations that say what was detected, and each value with the rule that set it."""
    cohorts = {cohort.id: cohort for cohort in plan.cohorts}
    resolved = {
        planned.id: {part.cohort: _values(part) for part in planned.parts}
        for planned in plan.categories
    }
    return {
        f"{PREFIX}/detected-platform": _joined(c.hardware.platform for c in cohorts.values()),
        f"{PREFIX}/detected-gpu-architecture": _joined(c.hardware.gpu for c in cohorts.values()),
        f"{PREFIX}/profile": _joined(c.hardware.profile or "none" for c in cohorts.values()),
        f"{PREFIX}/resolved": json.dumps(resolved, sort_keys=True),
    }


def _values(part: PlannedPart) -> dict[str, Any]:
    size = max((len(group.nodes) for group in part.groups), default=1)
    return {
        name: {"value": setting.value, "rule": setting.origin.rule}
        for name, setting in settings_of(for_group(part.workload, size))
    }


def _joined(names: Iterator[str]) -> str:
    return ",".join(sorted(set(names)))
