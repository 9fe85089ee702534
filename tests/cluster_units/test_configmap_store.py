"""The record store on ConfigMaps: parts, damage, size, owners."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from catalog.errors import ClusterError, RecordError
from steps.cluster.api import store as module
from steps.cluster.api.client import Object, RefusedError
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import PART_BYTES, ConfigMapStore, object_name
from steps.documents import Plan, Report, RunRecord
from steps.jobs.job import JobResult
from steps.store.runs import keep_run
from tests.builders import ALL_REDUCE, group, plan, record
from tests.cluster_units.fake import FakeCluster
from tests.report.samples import all_pass

RUN = WorkflowRun("certify-x7k2p", "u-1")
WHOLE = group(["node-a", "node-b"])


def noise(size: int, seed: int = 7) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)  # noqa: S311  (no secret)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def store(cluster: FakeCluster) -> ConfigMapStore:
    return ConfigMapStore(cluster, RUN)


def test_document_comes_back_as_it_was(store: ConfigMapStore) -> None:
    store.put(plan([WHOLE]))
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    assert store.get(Plan) == plan([WHOLE])
    assert store.get(RunRecord, ALL_REDUCE, WHOLE.id) == record(WHOLE)
    assert list(store.list(RunRecord, ALL_REDUCE)) == [record(WHOLE)]


def test_document_that_was_never_written_is_none(store: ConfigMapStore) -> None:
    assert store.get(Plan) is None
    assert list(store.list(RunRecord, ALL_REDUCE)) == []


def test_big_log_is_cut_into_parts_the_first_written_last(
    store: ConfigMapStore, cluster: FakeCluster
) -> None:
    data = noise(3 * PART_BYTES)
    store.put_log("all/one.log", data)
    assert store.get_log("all/one.log") == data
    names = [item["metadata"]["name"] for item in cluster.created]
    assert [name.rpartition("-")[2] for name in names[:3]] == ["3", "2", "1"]
    assert names[3:] == [object_name(RUN, "logs/all/one.log")]
    sizes = [len(item["binaryData"]["data"]) for item in cluster.created]
    # The API server refuses objects over 1 MiB.
    assert max(sizes) < 1024 * 1024


def test_log_that_is_too_big_even_compressed_says_so(
    store: ConfigMapStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1024)
    with pytest.raises(RecordError, match=r"logs/big: .* MiB compressed"):
        store.put_log("big", noise(2048))


def test_half_written_document_is_not_there_yet(
    store: ConfigMapStore, cluster: FakeCluster
) -> None:
    store.put_log("one", noise(2 * PART_BYTES))
    first = cluster.created[-1]["metadata"]["name"]
    del cluster.objects["ConfigMap", first]
    with pytest.raises(RecordError, match="is not in the record store"):
        store.get_log("one")


def _drop_part(parts: list[dict[str, Any]], cluster: FakeCluster) -> None:
    del cluster.objects["ConfigMap", parts[1]["metadata"]["name"]]


def _flip(parts: list[dict[str, Any]], _: FakeCluster) -> None:
    raw = bytearray(base64.b64decode(parts[1]["binaryData"]["data"]))
    raw[5] ^= 1
    parts[1]["binaryData"]["data"] = base64.b64encode(bytes(raw)).decode()


def _no_data(parts: list[dict[str, Any]], _: FakeCluster) -> None:
    del parts[0]["binaryData"]


def _no_base64(parts: list[dict[str, Any]], _: FakeCluster) -> None:
    parts[0]["binaryData"]["data"] = "!!"


@pytest.mark.parametrize("damage", [_drop_part, _flip, _no_data, _no_base64])
def test_damage_is_noticed(store: ConfigMapStore, cluster: FakeCluster, damage: Any) -> None:
    store.put_log("one", noise(2 * PART_BYTES))
    parts = sorted(cluster.of("ConfigMap"), key=lambda item: len(item["metadata"]["name"]))
    damage(parts, cluster)
    with pytest.raises(RecordError):
        store.get_log("one")


def test_listing_notices_a_part_that_is_gone(
    store: ConfigMapStore, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 100)
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    parts = sorted(cluster.of("ConfigMap"), key=lambda item: item["metadata"]["name"])
    assert len(parts) > 2
    del cluster.objects["ConfigMap", parts[-1]["metadata"]["name"]]
    with pytest.raises(RecordError):
        list(store.list(RunRecord, ALL_REDUCE))


def test_documents_go_with_the_workflow_and_the_report_stays(
    store: ConfigMapStore, cluster: FakeCluster
) -> None:
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    store.put_log("one", b"text")
    store.put(all_pass())
    store.put_text("report.html", "<html></html>")
    owned = {
        item["metadata"]["annotations"]["readiness/key"]: "ownerReferences" in item["metadata"]
        for item in cluster.of("ConfigMap")
    }
    assert {key for key, has in owned.items() if not has} == {"report.json", "report.html"}
    assert store.get(Report) == all_pass()


def test_documents_carry_labels_to_find_them_by(
    store: ConfigMapStore, cluster: FakeCluster
) -> None:
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    (item,) = cluster.of("ConfigMap")
    assert item["metadata"]["labels"] == {
        "readiness/uid": "u-1",
        "readiness/workflow": "certify-x7k2p",
        "readiness/kind": "RunRecord",
        "readiness/category": "communication-nccl-all-reduce",
    }


def test_workflows_of_one_namespace_do_not_see_each_other(cluster: FakeCluster) -> None:
    one = ConfigMapStore(cluster, WorkflowRun("certify", "u-1"))
    other = ConfigMapStore(cluster, WorkflowRun("certify", "u-2"))
    one.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    assert other.get(RunRecord, ALL_REDUCE, WHOLE.id) is None
    assert list(other.list(RunRecord, ALL_REDUCE)) == []


def test_run_is_kept_with_its_output(store: ConfigMapStore) -> None:
    kept = keep_run(store, JobResult(record(WHOLE)))
    assert store.get(RunRecord, kept.category, kept.group.id) == kept


def test_document_is_written_when_the_api_is_back(
    store: ConfigMapStore, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [ClusterError("connection refused"), ClusterError("HTTP 500")]
    create = cluster.create

    def flaky(body: Object) -> Object:
        if answers:
            raise answers.pop()
        return create(body)

    monkeypatch.setattr("steps.cluster.api.store._RETRY_SECONDS", 0.01)
    monkeypatch.setattr(cluster, "create", flaky)
    store.put_log("a-output.log", b"42")
    assert store.get_log("a-output.log") == b"42"
    answers.append(RefusedError("configmaps is forbidden"))
    with pytest.raises(RefusedError):
        store.put_log("b-output.log", b"42")


def test_document_that_cannot_be_replaced_is_an_error_and_no_endless_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster()
    store = ConfigMapStore(cluster, RUN)
    store.put_log("all/one.log", b"first")
    monkeypatch.setattr(module, "OUTAGE_SECONDS", 0.05)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(cluster, "delete", lambda *_, **__: None)  # a finalizer keeps it
    with pytest.raises(RecordError, match="does not go"):
        store.put_log("all/one.log", b"second")
    assert store.get_log("all/one.log") == b"first"
