"""Cleaning: by label, verified, repeatable; documents and other workflows are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catalog.errors import ClusterError, InputError
from steps.cluster.api.client import Object, RefusedError
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts.clean import clean_step, everything_of, remove
from steps.cluster.objects.names import GroupNames
from steps.documents import RunRecord
from steps.store.store import DirectoryStore
from tests.builders import ALL_REDUCE, group, record
from tests.cluster_units.fake import FakeCluster

CERTIFY = WorkflowRun("certify", "u-1")
WHOLE = group(["node-a", "node-b"])


def thing(kind: str, workflow: WorkflowRun = CERTIFY, **more: Any) -> dict[str, Any]:
    names = GroupNames(workflow, ALL_REDUCE, "full-scale-0")
    head = {"name": names.object(kind), "labels": names.labels("worker")}
    return {"kind": kind, "metadata": head, "spec": {}, "status": {}, **more}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    found = FakeCluster()
    found.starts = False
    monkeypatch.setenv("READINESS_CLEANUP_SECONDS", "0.3")
    return found


def test_clean_removes_what_runs_made_and_keeps_documents(cluster: FakeCluster) -> None:
    store = ConfigMapStore(cluster, CERTIFY)
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    for kind in ("Pod", "Secret", "ConfigMap", "ResourceClaimTemplate", "ComputeDomain"):
        cluster.put(thing(kind))
    cluster.put(thing("Pod", WorkflowRun("certify", "u-2")))
    assert "nothing is left" in clean_step(ConfigMapStore(cluster, CERTIFY))
    assert sorted(kind for kind, _ in cluster.objects) == ["ConfigMap", "Pod"]
    assert store.get(RunRecord, ALL_REDUCE, WHOLE.id) == record(WHOLE)
    assert "nothing is left" in clean_step(ConfigMapStore(cluster, CERTIFY))


def test_clean_that_cannot_says_what_still_holds_gpus(cluster: FakeCluster) -> None:
    containers = [{"name": "tool", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]
    pod = thing("Pod", spec={"nodeName": "gpu-07", "containers": containers})
    cluster.put(pod)
    cluster.deaf.add(pod["metadata"]["name"])
    with pytest.raises(ClusterError, match=r"INFRA_CLEANUP.* on gpu-07, holds 8 GPUs"):
        clean_step(ConfigMapStore(cluster, CERTIFY))
    # It is asked once; asking again and again changes nothing.
    assert len(cluster.deleted) == 1


def test_clean_of_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="configmap:NAMESPACE/WORKFLOW/UID"):
        clean_step(DirectoryStore(tmp_path))


def test_removal_bears_an_api_that_is_away_for_a_moment(cluster: FakeCluster) -> None:
    cluster.put(thing("Secret"))
    cluster.away = ClusterError("connection refused")
    calls: list[float] = []

    def sleep(seconds: float) -> None:
        calls.append(seconds)
        cluster.away = None

    assert remove(cluster, everything_of(CERTIFY), 5, sleep) == []
    assert len(calls) >= 1


def test_kind_that_the_account_may_not_read_is_none_of_ours() -> None:
    class Strict(FakeCluster):
        forbidden = "ComputeDomain"

        def find(self, kind: str, *words: str, **more: str) -> list[Object]:
            if kind == self.forbidden:
                raise RefusedError(f"{kind} is forbidden")
            return super().find(kind, *words, **more)

    strict = Strict()
    strict.put(thing("Secret"))
    assert remove(strict, everything_of(CERTIFY), 5) == []
    strict.forbidden = "Pod"
    assert [str(item) for item in remove(strict, everything_of(CERTIFY), 0)] == [
        "Pod: Pod is forbidden"
    ]


def test_api_that_stays_away_is_told(cluster: FakeCluster) -> None:
    cluster.away = ClusterError("connection refused")
    left = remove(cluster, everything_of(CERTIFY), 0, lambda _: None)
    assert any("connection refused" in str(item) for item in left)
