"""Waiting for nodes and places: in order, one at a time, past holders that died."""

from __future__ import annotations

import threading
import time

import pytest

from catalog.errors import ClusterError
from steps.cluster.api.client import Object, RefusedError
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.attempts.leases import Leases, place_names, run_name
from tests.cluster_units.fake import FakeCluster

CERTIFY = WorkflowRun("certify", "u-1")


def leases(cluster: FakeCluster, holder: str, duration: float = 60, outage: float = 0) -> Leases:
    return Leases(cluster, CERTIFY, holder, None, duration=duration, outage=outage)


def no_wait(_: float) -> bool:
    return True


def test_node_is_held_by_one_run_at_a_time() -> None:
    cluster = FakeCluster()
    one, other = leases(cluster, "one"), leases(cluster, "other")
    assert one.take(["b", "a"], [], no_wait, 0.01) is None
    assert other.take(["b"], [], no_wait, 0.01) == f"node b, which {one._holder} holds"
    one.release()
    assert cluster.objects == {}
    assert leases(cluster, "third").take(["b"], [], no_wait, 0.01) is None


def test_waiting_run_goes_on_when_the_holder_is_done() -> None:
    cluster = FakeCluster()
    one, other = leases(cluster, "one"), leases(cluster, "other")
    one.take(["a"], [], no_wait, 0.01)
    threading.Timer(0.2, one.release).start()
    stop = threading.Event()
    before = time.monotonic()
    assert other.take(["a"], [], stop.wait, 0.02) is None
    assert time.monotonic() - before > 0.1
    other.release()


def test_lease_of_a_dead_holder_runs_out() -> None:
    cluster = FakeCluster()
    dead = leases(cluster, "dead", duration=1)
    dead._renew_one = lambda name: None  # type: ignore[method-assign]
    dead.take(["a"], [], no_wait, 0.01)
    stop = threading.Event()
    other = leases(cluster, "other", duration=1)
    assert other.take(["a"], [], stop.wait, 0.05) is None
    dead.release()
    assert cluster.objects["Lease", "readiness-a"]["spec"]["holderIdentity"] == other._holder
    other.release()


def test_lease_that_another_run_of_the_group_takes_over_at_this_moment_is_left_alone() -> None:
    cluster = FakeCluster()
    old, new = leases(cluster, "one"), leases(cluster, "one")
    old.take(["a"], [], no_wait, 0.01)
    get = cluster.get

    def late(kind: str, name: str) -> Object:
        found = get(kind, name)
        cluster.get = get  # type: ignore[method-assign]
        new.take(["a"], [], no_wait, 0.01)
        return found

    cluster.get = late  # type: ignore[method-assign]
    old.release()
    assert cluster.objects["Lease", "readiness-a"]["spec"]["holderIdentity"] == new._holder
    new.release()
    assert cluster.objects == {}


def test_lease_of_a_living_holder_does_not_run_out() -> None:
    cluster = FakeCluster()
    one = leases(cluster, "one", duration=1)
    one.take(["a"], [], no_wait, 0.01)
    tries = iter(range(30))

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return next(tries, None) is None

    other = leases(cluster, "other", duration=1)
    assert other.take(["a"], [], wait, 0.05) == f"node a, which {one._holder} holds"
    one.release()


def test_run_that_waits_bears_an_api_that_is_away_for_a_while() -> None:
    cluster = FakeCluster()
    one, other = leases(cluster, "one", duration=1), leases(cluster, "other", duration=1, outage=5)
    one.take(["a"], [], no_wait, 0.01)
    waits = iter(range(60))

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        cluster.away = ClusterError("connection refused") if 5 < (n := next(waits)) < 35 else None
        # While it was away nobody could renew, so nobody is taken for dead.
        assert n > 50 or cluster.objects["Lease", "readiness-a"]["spec"]["holderIdentity"] == (
            one._holder
        )
        return n > 50

    assert other.take(["a"], [], wait, 0.05) == f"node a, which {one._holder} holds"
    one.release()


@pytest.mark.parametrize("error", [RefusedError("leases is forbidden"), ClusterError("away")])
def test_run_that_waits_gives_up_on_an_api_that_refuses_or_stays_away(error: ClusterError) -> None:
    cluster = FakeCluster()
    leases(cluster, "one").take(["a"], [], no_wait, 0.01)
    cluster.away = error
    with pytest.raises(type(error)):
        leases(cluster, "other", outage=0.1).take(["a"], [], lambda _: False, 0.01)


def test_no_more_runs_than_places() -> None:
    cluster = FakeCluster()
    places = place_names(CERTIFY, "diagnostics/dcgm-level1", 2)
    runs = [leases(cluster, f"run-{number}") for number in range(3)]
    assert runs[0].take(["a"], places, no_wait, 0.01) is None
    assert runs[1].take(["b"], places, no_wait, 0.01) is None
    assert runs[2].take(["c"], places, no_wait, 0.01) == "a free place (maxConcurrent)"
    runs[0].release()
    again = leases(cluster, "again")
    assert again.take(["c"], places, no_wait, 0.01) is None
    assert place_names(CERTIFY, "x", 0) == []


def test_overlapping_groups_never_wait_for_each_other_for_ever() -> None:
    cluster = FakeCluster()
    done: list[str] = []

    def run(holder: str, nodes: list[str]) -> None:
        mine = leases(cluster, holder)
        assert mine.take(nodes, [], threading.Event().wait, 0.005) is None
        time.sleep(0.02)
        mine.release()
        done.append(holder)

    groups = {"one": ["a", "b"], "two": ["b", "a"], "three": ["c", "b"], "four": ["c", "a"]}
    threads = [threading.Thread(target=run, args=item) for item in groups.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(done) == sorted(groups)


def test_run_takes_over_at_once_what_its_killed_predecessor_held() -> None:
    cluster = FakeCluster()
    killed = leases(cluster, "certify/all-reduce/full-scale-0")
    killed.take(["a"], [], no_wait, 0.01)
    again = leases(cluster, "certify/all-reduce/full-scale-0")
    assert again.take(["a"], [], no_wait, 0.01) is None
    longer = leases(cluster, "certify/all-reduce/full-scale-01")
    assert longer.take(["a"], [], no_wait, 0.01) is not None


def test_run_of_a_workflow_of_the_same_name_waits_like_any_other() -> None:
    """A workflow that was deleted and made again must not take its predecessor's GPUs."""
    cluster = FakeCluster()
    again = WorkflowRun(CERTIFY.name, "u-2")
    names = [run_name(run, "diagnostics/dcgm-level1", "full-scale-0") for run in (CERTIFY, again)]
    one = leases(cluster, names[0])
    other = Leases(cluster, again, names[1], None, duration=60)
    assert one.take(["a"], [], no_wait, 0.01) is None
    assert other.take(["a"], [], no_wait, 0.01) == f"node a, which {one._holder} holds"
    assert place_names(WorkflowRun("certify", "u-2"), "x", 1) != place_names(CERTIFY, "x", 1)
    one.release()
