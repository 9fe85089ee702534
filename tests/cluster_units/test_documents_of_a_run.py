"""Documents belong to one run: names, foreign documents at every place, replacing."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import InputError, RecordError
from steps.address import open_store
from steps.cluster.api import store as module
from steps.cluster.api.client import Object
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore, object_name
from steps.documents import (
    Document,
    IsolationRound,
    Measurements,
    Plan,
    Report,
    RunRecord,
    Verdict,
    dump,
)
from steps.evaluate.category import judge_category
from steps.store.store import KINDS, key_of
from tests.builders import ALL_REDUCE, group, measured, plan, record
from tests.cluster_units.fake import FakeCluster
from tests.cluster_units.test_configmap_store import noise
from tests.report.samples import all_pass

WHOLE = group(["node-a", "node-b"])
LONG = "acceptance-h100-frankfurt-dc2-room4-rack-21"
OURS = WorkflowRun(LONG, "7c7f7a0e-6c0f-4e6f-9a53-0f3a4f1d0001")
OTHERS = {
    "name that begins alike": WorkflowRun(LONG[:-1] + "2", "7c7f7a0e-6c0f-4e6f-9a53-0f3a4f1d0002"),
    "same name, made again": WorkflowRun(LONG, "7c7f7a0e-6c0f-4e6f-9a53-0f3a4f1d0003"),
}
DOCUMENTS: list[tuple[Document, str, str]] = [
    (plan([WHOLE]), "", ""),
    (record(WHOLE), ALL_REDUCE, WHOLE.id),
    (measured(), ALL_REDUCE, WHOLE.id),
    (IsolationRound(category=ALL_REDUCE, round=1), ALL_REDUCE, "round-1"),
    (judge_category(ALL_REDUCE, WHOLE.nodes, [], []), ALL_REDUCE, ""),
    (all_pass(), "", ""),
]


def test_every_kind_of_document_is_tried_below() -> None:
    kinds = {Plan, RunRecord, Measurements, IsolationRound, Verdict, Report}
    assert {type(document) for document, _, _ in DOCUMENTS} == kinds == set(KINDS)


# Names

WORDS = st.text(st.sampled_from('ab-./"\\0\n,'), min_size=1, max_size=8)


@given(st.tuples(WORDS, WORDS, WORDS), st.tuples(WORDS, WORDS, WORDS))
def test_two_documents_never_share_a_name(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    names = [object_name(WorkflowRun(name, uid), key) for name, uid, key in (one, other)]
    assert (names[0] == names[1]) == (one == other)


def test_no_pair_of_run_and_key_shares_a_name_with_another_nor_with_its_parts() -> None:
    runs = [OURS, *OTHERS.values(), WorkflowRun(LONG[:40], OURS.uid), WorkflowRun("a", OURS.uid)]
    keys = [key_of(kind, c, p) for kind in KINDS for c in ("a/b", "a/c") for p in ("g-0", "g-1")]
    identities = {(run, key) for run in runs for key in keys}
    names = [
        object_name(run, key, part, digest)
        for run, key in identities
        for part, digest in ((0, ""), (1, "ab" * 32), (2, "ab" * 32), (1, "cd" * 32))
    ]
    assert len(set(names)) == len(names) == 4 * len(identities)


@pytest.mark.parametrize(
    "address",
    [
        "configmap:",
        "configmap:argo/certify",
        "configmap:argo/certify/",
        "configmap:argo/certify/{{workflow.uid}}",
        "configmap:argo/certify/a,b",
        "configmap:argo/certify/a/b",
    ],
)
def test_address_without_a_uid_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="configmap:NAMESPACE/WORKFLOW/UID"):
        open_store(address)


# Documents of other runs

Disguise = Callable[[Object, Object], None]
"""Changes a foreign object (first) that takes the place of one of ours (second)."""


def _our_name_and_labels(foreign: Object, ours: Object) -> None:
    foreign["metadata"]["name"] = ours["metadata"]["name"]
    foreign["metadata"]["labels"] = dict(ours["metadata"]["labels"])


def _our_owner_too(foreign: Object, ours: Object) -> None:
    _our_name_and_labels(foreign, ours)
    foreign["metadata"]["ownerReferences"] = ours["metadata"].get("ownerReferences", [])


def _our_annotations_too(foreign: Object, ours: Object) -> None:
    _our_owner_too(foreign, ours)
    theirs = foreign["metadata"]["annotations"]
    mine = ours["metadata"]["annotations"]
    digest = {"readiness/sha256": theirs["readiness/sha256"]}
    foreign["metadata"]["annotations"] = {**mine, **digest}


def _our_digest_too(foreign: Object, ours: Object) -> None:
    _our_owner_too(foreign, ours)
    foreign["metadata"]["annotations"] = dict(ours["metadata"]["annotations"])


def _all_but_the_owner(foreign: Object, ours: Object) -> None:
    theirs = foreign["metadata"].get("ownerReferences")
    _our_digest_too(foreign, ours)
    foreign["binaryData"] = ours["binaryData"]
    foreign["metadata"]["ownerReferences"] = theirs or [OTHERS["same name, made again"].owner]


DISGUISES: Mapping[Disguise, bool] = {
    _our_name_and_labels: True,
    _our_owner_too: True,
    _our_annotations_too: False,
    _our_digest_too: False,
    _all_but_the_owner: True,
}
"""Whether it can still be told whose the document is."""


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def _plant(cluster: FakeCluster, other: WorkflowRun, disguise: Disguise, number: int) -> str:
    """Put a foreign document, equal to ours but for an empty line, into the place of ours."""
    document, category, part = DOCUMENTS[number]
    key, kind = key_of(type(document), category, part), type(document).__name__
    lasting = isinstance(document, Report)
    elsewhere = FakeCluster()
    for place, run, text in ((cluster, OURS, ""), (elsewhere, other, "\n")):
        content = (dump(document) + text).encode()
        ConfigMapStore(place, run)._write(key, content, kind, category, lasting=lasting)
    (ours,), (foreign,) = cluster.of("ConfigMap"), elsewhere.of("ConfigMap")
    disguise(foreign, ours)
    cluster.objects.clear()
    cluster.put(foreign)
    return key


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("number", range(len(DOCUMENTS)))
def test_document_of_another_run_is_refused_and_said(
    cluster: FakeCluster, other: WorkflowRun, disguise: Disguise, number: int
) -> None:
    document, category, part = DOCUMENTS[number]
    key = _plant(cluster, other, disguise, number)
    store = ConfigMapStore(cluster, OURS)
    before = copy.deepcopy(cluster.objects)
    with pytest.raises(RecordError) as told:
        store.get(type(document), category, part)
    with pytest.raises(RecordError) as listed:
        list(store.list(type(document), category))
    for error in (told, listed):
        assert key in str(error.value)
        assert not DISGUISES[disguise] or str(OURS) in str(error.value)
        assert not DISGUISES[disguise] or "belongs to another run, " in str(error.value)
    if DISGUISES[disguise]:
        # Whoever it is of may still need it.
        with pytest.raises(RecordError, match="belongs to another run"):
            store.put(document, category, part)
        assert cluster.objects == before


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_output_of_another_run_is_refused_in_every_part(
    cluster: FakeCluster,
    other: WorkflowRun,
    disguise: Disguise,
    place: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 100)
    elsewhere = FakeCluster()
    store = ConfigMapStore(cluster, OURS)
    store.put_log("a/one.log", noise(250, 1))
    ConfigMapStore(elsewhere, other).put_log("a/one.log", noise(250, 2))
    ours, foreign = (
        sorted(here.of("ConfigMap"), key=lambda item: item["metadata"]["name"])[place]
        for here in (cluster, elsewhere)
    )
    del cluster.objects["ConfigMap", ours["metadata"]["name"]]
    disguise(foreign, ours)
    cluster.put(foreign)
    with pytest.raises(RecordError, match=r"^logs/a/one\.log: "):
        store.get_log("a/one.log")


def test_document_under_the_name_of_another_is_refused(cluster: FakeCluster) -> None:
    store = ConfigMapStore(cluster, OURS)
    for name in ("full-scale-0", "full-scale-1"):
        store.put(record(group(["node-a"], name)), ALL_REDUCE, name)
    first, second = (
        cluster.objects[
            "ConfigMap", object_name(OURS, key_of(RunRecord, ALL_REDUCE, f"full-scale-{number}"))
        ]
        for number in (0, 1)
    )
    second["metadata"]["name"] = first["metadata"]["name"]
    cluster.put(second)
    with pytest.raises(
        RecordError, match=r"full-scale-0\.json: .*holds records/.*-1\.json instead"
    ):
        store.get(RunRecord, ALL_REDUCE, "full-scale-0")
    with pytest.raises(RecordError, match="full-scale-1"):
        list(store.list(RunRecord, ALL_REDUCE))


def test_document_under_the_labels_of_another_category_is_refused(cluster: FakeCluster) -> None:
    store = ConfigMapStore(cluster, OURS)
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    (item,) = cluster.of("ConfigMap")
    item["metadata"]["labels"]["readiness/category"] = "diagnostics-dcgm-level1"
    with pytest.raises(RecordError, match="bears the labels of another document"):
        list(store.list(RunRecord, "diagnostics/dcgm-level1"))


# Writing again


def test_the_same_written_twice_is_left_as_it_is(cluster: FakeCluster) -> None:
    store = ConfigMapStore(cluster, OURS)
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    before = copy.deepcopy(cluster.objects)
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    assert cluster.objects == before
    assert cluster.deleted == []


def test_every_document_is_immutable_and_says_whose_it_is(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 100)
    store = ConfigMapStore(cluster, OURS)
    for document, category, part in DOCUMENTS:
        store.put(document, category, part)
    store.put_log("a", noise(250, 1))
    for item in cluster.of("ConfigMap"):
        assert item["immutable"] is True
        assert item["metadata"]["labels"]["readiness/uid"] == OURS.uid
        assert item["metadata"]["annotations"]["readiness/uid"] == OURS.uid
        assert item["metadata"]["annotations"]["readiness/workflow"] == OURS.name
        assert all(len(value) <= 63 for value in item["metadata"]["labels"].values())
        lasting = item["metadata"]["annotations"]["readiness/key"] == "report.json"
        assert item["metadata"].get("ownerReferences") == (None if lasting else [OURS.owner])


@pytest.mark.parametrize(("old", "new"), [(90, 90), (90, 250), (250, 90), (250, 250), (500, 350)])
def test_reader_of_what_is_replaced_sees_the_old_the_new_or_nothing(
    old: int, new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two calls of the writer, and between any two of its own."""
    monkeypatch.setattr(module, "PART_BYTES", 100)
    before, after = noise(old, 1), noise(new, 2)
    seen: set[bytes | None] = set()
    for writes in range(40):
        for reads in range(8):
            cluster = FakeCluster()
            ConfigMapStore(cluster, OURS).put_log("a", before)
            writer = _steps_of(cluster, after)
            for _ in range(writes):
                next(writer, None)
            left, get = reads, cluster.get

            def moved(kind: str, name: str, *, get: Any = get, writer: Any = writer) -> Object:
                nonlocal left
                found: Object = get(kind, name)
                left -= 1
                if left == 0:
                    for _ in writer:
                        pass
                return found

            monkeypatch.setattr(cluster, "get", moved)
            seen.add(ConfigMapStore(cluster, OURS)._read("logs/a"))
            monkeypatch.setattr(cluster, "get", get)
            for _ in writer:
                pass
            assert ConfigMapStore(cluster, OURS).get_log("a") == after
            assert len(cluster.of("ConfigMap")) == -(-len(gzip.compress(after)) // 100)
    assert seen == {before, after, None}


def _steps_of(cluster: FakeCluster, data: bytes) -> Iterator[None]:
    """Write an output, one call of the API for each step."""
    calls: list[tuple[str, Any]] = []
    # What the writer does, is found out on a copy, and then done call by call.
    other = copy.deepcopy(cluster)
    create, delete = other.create, other.delete

    def made(body: Mapping[str, Any]) -> Object:
        calls.append(("create", body))
        return create(body)

    def gone(kind: str, name: str, *_: Any, **__: Any) -> bool:
        calls.append(("delete", name))
        return delete(kind, name)

    other.create, other.delete = made, gone  # type: ignore[method-assign]
    ConfigMapStore(other, OURS).put_log("a", data)
    for what, how in calls:
        if what == "delete":
            cluster.objects.pop(("ConfigMap", how), None)
        elif ("ConfigMap", how["metadata"]["name"]) not in cluster.objects:
            cluster.put(copy.deepcopy(how))
        yield
