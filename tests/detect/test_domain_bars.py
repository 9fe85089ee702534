"""What is expected of a group depends on whether NVLink joins all of its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from steps.detect.core import make_plan
from tests.detect.build import GB200, certification, node


def racks(*sizes: int, label: str = "ds.coreweave.com/nvlink.domain") -> list[dict[str, Any]]:
    return [
        node(
            f"{'abc'[rack]}{number:02}",
            product=GB200,
            gpus=4,
            allocatable={"rdma/ib": "1"},
            labels={"node.coreweave.cloud/type": "gb200-4x", label: f"rack-{rack}"},
        )
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]


def expected(nodes: list[dict[str, Any]], **options: Any) -> dict[int, float]:
    """Return the expected bandwidth by size of the group."""
    loaded, source = certification("communication/nccl-all-reduce", options=options)
    plan = make_plan(loaded, nodes, source="recorded", text=source)
    (part,) = plan.categories[0].parts
    return {
        bars.nodes: bar.values["expected"]
        for bars in part.bars
        for bar in bars.bars
        if bar.key == "busBandwidthGBps"
    }


def test_one_rack_is_expected_to_reach_what_its_nvlink_does() -> None:
    assert expected(racks(6)) == {1: 680.0, 2: 834.6, 6: 834.6}


def test_nodes_of_two_racks_are_bound_by_their_network_devices() -> None:
    """A pair of isolation may take one node of each, and must not be blamed for the distance."""
    wire = pytest.approx(0.85 * 4 * 400 / 8)
    assert expected(racks(3, 3)) == {1: 680.0, 2: wire, 6: wire}


def test_groups_within_racks_keep_the_bar_of_the_rack() -> None:
    assert expected(racks(4, 4), testScale="intra-rack", isolate=False) == {4: 834.6}


def test_without_labels_of_domains_nodes_are_taken_to_be_together() -> None:
    assert expected(racks(2, 2, label="site/row"))[4] == 834.6


def test_one_sweep_is_noted_to_be_too_few_where_the_stage_asks_for_more() -> None:
    loaded, source = certification("communication/nccl-all-reduce", options={"numCycles": 1})
    plan = make_plan(loaded, racks(2), source="recorded", text=source)
    assert any("numCycles 1" in note for note in plan.annotations["notes"])
