from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from catalog.bars.expected import Expected, expected_figure
from catalog.entries.entry import find_entry
from steps.fleets.fleet import Fleet, Job
from tests.fleets.jobs import ALL_REDUCE, make_job, simulated

NODES = tuple(f"n-{number}" for number in range(1, 9))


def bandwidths(fleet: Fleet, job: Job) -> dict[int, float]:
    """Out-of-place bus bandwidth by size, the last cycle's."""
    (text,) = fleet.run(job).logs.values()
    rows = re.findall(r"^ +(\d+) +\d+ +\w+ +\w+ +-1 +\S+ +\S+ +(\S+) ", text.decode(), re.M)
    return {int(size): float(busbw) for size, busbw in rows}


def largest(fleet: Fleet, job: Job) -> float:
    found = bandwidths(fleet, job)
    return found[max(found)]


@pytest.mark.parametrize(
    ("category", "nodes", "platform", "gpu"),
    [
        (ALL_REDUCE, 2, "onprem", "h100"),
        (ALL_REDUCE, 8, "onprem", "h100"),
        (ALL_REDUCE, 4, "gcp", "h200"),
        (ALL_REDUCE, 4, "onprem", "b200"),
        ("communication/nccl-alltoall", 3, "onprem", "h100"),
        ("communication/nccl-loopback-nvswitch", 1, "onprem", "h200"),
    ],
)
def test_a_healthy_group_is_about_as_fast_as_expected(
    tmp_path: Path, category: str, nodes: int, platform: str, gpu: str
) -> None:
    job = make_job(category, NODES[:nodes], platform=platform, gpu=gpu)
    expected = expected_figure(
        find_entry(category), "busBandwidthGBps", job.workload.hardware, nodes=nodes
    )
    assert isinstance(expected, Expected)
    assert largest(simulated(tmp_path), job) == pytest.approx(expected.value, rel=0.015)


def test_nvlink_across_nodes_is_used_where_it_is_on(tmp_path: Path) -> None:
    fleet = simulated(tmp_path)
    job = make_job(nodes=NODES[:4], gpus=4, gpu="gb200")
    both = []
    for used in (False, True):
        hardware = replace(job.workload.hardware, mnnvl=used)
        workload = job.workload.model_copy(update={"hardware": hardware})
        both.append(replace(job, workload=workload))
    off, on = (largest(fleet, job) for job in both)
    assert on == pytest.approx(834.6, rel=0.015)
    assert off < 0.5 * on


def test_bandwidth_grows_with_the_message_like_a_published_run(tmp_path: Path) -> None:
    found = bandwidths(simulated(tmp_path), make_job(nodes=NODES))
    sizes = sorted(found)
    assert all(found[a] <= found[b] * 1.02 for a, b in itertools.pairwise(sizes))
    # coreweave/nccl-tests README, eight H100 nodes
    published = {2**29: 356.01, 2**30: 365.90, 2**31: 380.73, 2**32: 383.23, 2**33: 386.56}
    for size, busbw in published.items():
        assert found[size] == pytest.approx(busbw, rel=0.03)


@pytest.mark.parametrize("rate", [20, 46, 150, 300])
def test_a_slow_link_bounds_every_group_with_the_node(tmp_path: Path, rate: int) -> None:
    fleet = simulated(tmp_path, f"  - {{kind: slow-link, node: n-2, GBps: {rate}}}\n")
    for nodes in (NODES, ("n-1", "n-2"), ("n-2", "n-5", "n-7")):
        job = make_job(nodes=nodes, timeout="10h")
        assert largest(fleet, job) == pytest.approx(rate, rel=0.02)


def test_a_slow_link_does_not_touch_nvlink(tmp_path: Path) -> None:
    fleet = simulated(tmp_path, "  - {kind: slow-link, node: n-2, factor: 0.1}\n")
    job = make_job("communication/nccl-loopback-nvswitch", ("n-2",))
    assert largest(fleet, job) == pytest.approx(480.2, rel=0.015)
    loopback = make_job("communication/nccl-loopback", ("n-2",))
    assert largest(fleet, loopback) == pytest.approx(3.6, rel=0.03)


def test_a_slow_link_in_all_to_all_is_shared_by_the_gpus(tmp_path: Path) -> None:
    fleet = simulated(tmp_path, "  - {kind: slow-link, node: n-2, GBps: 80}\n")
    job = make_job("communication/nccl-alltoall", NODES[:3], timeout="10h")
    # 16 of the 23 peers of a GPU are behind the link: 80 / 8 / (16 / 23).
    assert largest(fleet, job) == pytest.approx(14.4, rel=0.02)


def test_performance_of_a_node_bounds_its_group(tmp_path: Path) -> None:
    fleet = simulated(tmp_path, nodes="n-[1-2]", more="    performance: 0.8\n")
    assert largest(fleet, make_job()) == pytest.approx(0.8 * 467.5, rel=0.015)


def test_the_duration_is_that_of_the_rows(tmp_path: Path) -> None:
    job = make_job(nodes=NODES)
    result = simulated(tmp_path).run(job)
    (text,) = result.logs.values()
    rows = re.findall(r" sum +-1 +(\S+) .*? 0 +(\S+) ", text.decode())
    work = sum(float(out) + float(into) for out, into in rows) * 1e-6 * 100
    took = (result.record.ended - result.record.started).total_seconds()
    assert len(rows) == 320
    assert work < took < work + 60
