"""The API server accepts what would be launched on every cell of the platform and GPU matrix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from catalog.workload.resolve import for_group
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.objects.names import GroupNames
from steps.cluster.objects.shapes import shape_of
from tests.cluster.cluster import Cluster
from tests.hardware.cells import CELLS, Cell
from tests.hardware.test_cells import plan_of

pytestmark = pytest.mark.cluster

NOT_SERVED = {"ComputeDomain"}
"""Kinds of drivers that a plain cluster does not have."""


def objects_of(cell: Cell) -> Iterator[dict[str, Any]]:
    """Return everything that the run step would create on a cell, launchers included."""
    for category in plan_of(cell).categories:
        for part in category.parts:
            nodes = part.groups[0].nodes
            names = GroupNames(WorkflowRun(f"{cell.id}-wf", "u-1"), category.id, part.groups[0].id)
            workload = for_group(part.workload, len(nodes))
            made = shape_of(workload, nodes, names, None, scheduling_seconds=600)
            yield from (dict(item) for item in made.objects if item["kind"] not in NOT_SERVED)
            if made.launcher:
                pods = {
                    node: {"status": {"podIP": f"10.0.0.{i}"}, "metadata": {"name": f"w-{i}"}}
                    for i, node in enumerate(nodes)
                }
                yield dict(made.launcher(pods))


@pytest.mark.parametrize("cell", CELLS, ids=[cell.id for cell in CELLS])
def test_jobs_of_a_cell_are_accepted(cell: Cell, cluster: Cluster) -> None:
    items = list(objects_of(cell))
    assert any(item["kind"] == "Job" for item in items)
    everything = {"apiVersion": "v1", "kind": "List", "items": items}
    done = cluster.try_kubectl(
        "create", "--dry-run=server", "-f", "-", stdin=json.dumps(everything), timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("created (server dry run)") == len(items)
