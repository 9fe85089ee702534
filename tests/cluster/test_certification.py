"""Certifications over both nodes of a real Kubernetes with Argo; no GPU is ever shared.

The nodes look like H100 machines, the workload is the CPU stand-in's real MPI over the pod network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import pytest

from tests.cluster import dress
from tests.cluster.gangs import STANDIN
from tests.cluster.lab import Lab
from tests.cluster.pod_watch import PodWatch, Stay
from tests.cluster.product import SLOW, Product, certification, node_statuses, reason_codes
from tests.cluster.shell import wait_for

pytestmark = pytest.mark.cluster

OURS = "readiness/workflow"


@pytest.fixture(scope="module", autouse=True)
def onprem_nodes(lab: Lab) -> None:
    lab.dress_all(dress.ONPREM_H100)


def shared(stays: Iterable[Stay]) -> list[tuple[Stay, Stay]]:
    """Return pairs of stays of different workflows that had GPUs of a node at the same time."""
    by_node: dict[str, list[Stay]] = defaultdict(list)
    for stay in stays:
        if stay.gpus:
            by_node[stay.node].append(stay)
    found = []
    for node_stays in by_node.values():
        node_stays.sort(key=lambda stay: stay.begin)
        found += [
            (before, after)
            for before, after in pairwise(node_stays)
            if before.labels[OURS] != after.labels[OURS] and after.begin < before.end
        ]
    return found


def nodes_by_workflow(stays: Iterable[Stay]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for stay in stays:
        if stay.gpus:
            found[stay.labels[OURS]].add(stay.node)
    return dict(found)


def test_second_certification_of_a_pool_waits_and_each_gets_its_report(
    product: Product, lab: Lab
) -> None:
    both = set(lab.node_names)
    with PodWatch(lab, product.namespace, OURS) as watch:
        green = product.submit(certification("green"), wait=False)
        product.wait_running(green)
        red = product.submit(certification("red", bar="value > 100000.0"), wait=False)
        wait_for(
            "the second to say what it waits for",
            lambda: "lock" in str(product.workflow(red).get("status", {}).get("message")),
            timeout=120,
            detail=lambda: product.told_by(red),
        )
        product.wait(green)
        product.wait(red)
    assert nodes_by_workflow(watch.stays()) == {green: both, red: both}
    assert shared(watch.stays()) == []
    assert product.left() == []

    assert product.phase(green) == "Succeeded", product.words(green)
    report = product.report(green)
    assert report["result"] == "PASS", product.told_by(green)
    assert report["source"] == "cluster"
    assert node_statuses(report) == dict.fromkeys(both, "ready")
    figures = report["categories"][0]["groups"][0]["figures"]
    assert figures["rankCount"]["value"] == 4
    lab.argo("delete", green, "-n", product.namespace)
    assert product.report(green)["result"] == "PASS", "the report went with the workflow"

    # A bar that the group missed says of no single node that it is at fault.
    assert product.phase(red) == "Failed"
    report = product.report(red)
    assert report["result"] == "FAIL", product.told_by(red)
    assert node_statuses(report) == dict.fromkeys(both, "not-proven")


def test_pools_that_overlap_take_turns_on_the_node_they_share(product: Product, lab: Lab) -> None:
    """The second is submitted while the first still plans, so neither sees the other's pods."""
    both = set(lab.node_names)
    with PodWatch(lab, product.namespace, OURS) as watch:
        names = [
            product.submit(certification(pool, pause_ms=20), "-p", f"node-pool={pool}", wait=False)
            for pool in ("blue", "green")
        ]
        for name in names:
            product.wait(name)
    assert shared(watch.stays()) == []
    used = nodes_by_workflow(watch.stays())
    for name in names:
        report = product.report(name)
        if name in used:
            assert report["result"] == "PASS", product.words(name)
            assert used[name] == both
        else:
            # Its plan came late enough to find the nodes busy.
            assert reason_codes(report) == {"NODE_EXCLUDED_BUSY"}, product.told_by(name)
    assert used


def test_busy_node_is_left_alone_and_the_idle_one_certified(product: Product, lab: Lab) -> None:
    busy, idle = lab.node_names[:2]
    container = {
        "name": "training",
        "image": STANDIN,
        "command": ["sleep", "600"],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "somebody-elses"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": busy},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }
    with lab.namespace("team", executor_role=False) as team:
        lab.apply(pod, namespace=team)
        lab.wait_pods(team, {"Running": 1})
        with PodWatch(lab, product.namespace, OURS) as watch:
            name = product.submit(
                certification("beside", nodes=[busy, idle], options={"testScale": "intra-node"})
            )
        lab.wait_pods(team, {"Running": 1}, timeout=1)
    report = product.report(name)
    assert node_statuses(report)[busy] == "excluded", product.told_by(name)
    assert "NODE_EXCLUDED_BUSY" in reason_codes(report)
    assert nodes_by_workflow(watch.stays()) == {name: {idle}}
    assert report["result"] == "INCOMPLETE"


def test_cordoned_node_fails_and_no_other(product: Product) -> None:
    node = product.lab.node_names[0]
    workflow = product.submit(certification("cordoned", pause_ms=SLOW), wait=False)
    product.wait_for_workers(2, workflow)
    try:
        product.lab.cordon(node)
        product.wait(workflow)
    finally:
        product.lab.uncordon(node)
    product.wait_clean(workflow)
    report = product.report(workflow)
    assert report["result"] == "FAIL", product.told_by(workflow)
    statuses = node_statuses(report)
    assert statuses.pop(node) == "failed"
    assert "failed" not in statuses.values()
