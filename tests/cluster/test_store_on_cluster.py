"""The record store against a real API server: sizes, owners, and what stays."""

from __future__ import annotations

import random

import pytest

from catalog.errors import RecordError
from steps.address import open_store
from steps.cluster.api.client import Cluster as Api
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore
from steps.cluster.attempts.clean import everything_of
from steps.cluster.objects.names import GroupNames
from steps.documents import Plan, Report, RunRecord
from tests.builders import ALL_REDUCE, group, plan, record
from tests.cluster.cluster import Cluster
from tests.cluster.gangs import waiting_workflow
from tests.cluster.shell import LabError, wait_for
from tests.report.samples import all_pass

pytestmark = pytest.mark.cluster

WHOLE = group(["node-0", "node-1"])
WORKFLOW = "certify-store"


@pytest.fixture
def store(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> ConfigMapStore:
    """A store whose Workflow exists and waits for ever."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    return store_of(waiting_workflow(cluster, namespace, WORKFLOW), namespace)


def store_of(run: WorkflowRun, namespace: str) -> ConfigMapStore:
    """Return the store of a run, as its steps open it."""
    found = open_store(f"configmap:{namespace}/{run.name}/{run.uid}")
    assert isinstance(found, ConfigMapStore)
    return found


def test_documents_and_big_outputs_come_back_as_they_were(store: ConfigMapStore) -> None:
    noise = random.Random(7).randbytes(3 * 1024 * 1024)
    store.put(plan([WHOLE]))
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    store.put_log("noise", noise)
    assert store.get(Plan) == plan([WHOLE])
    assert list(store.list(RunRecord, ALL_REDUCE)) == [record(WHOLE)]
    assert store.get_log("noise") == noise
    store.put_log("noise", b"short")
    assert store.get_log("noise") == b"short"


def test_output_that_is_too_big_is_refused_before_the_api_server_is_asked(
    store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    with pytest.raises(RecordError, match="the record store takes at most 16 MiB"):
        store.put_log("noise", random.Random(7).randbytes(17 * 1024 * 1024))
    assert cluster.get("configmaps", "-n", namespace, "-l", "readiness/kind")["items"] == []


def test_damaged_document_is_noticed(
    store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    store.put(plan([WHOLE]))
    words = ["configmaps", "-n", namespace, "-l", "readiness/kind=Plan"]
    (item,) = cluster.get(*words)["items"]
    name = item["metadata"]["name"]
    patch = '{"binaryData": {"data": "aGVsbG8="}}'
    with pytest.raises(LabError, match="immutable"):
        cluster.kubectl("patch", "configmap", name, "-n", namespace, "-p", patch)
    cluster.kubectl("delete", "configmap", name, "-n", namespace)
    damaged = {**item, "binaryData": {"data": "aGVsbG8="}}
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        damaged["metadata"].pop(field, None)
    cluster.apply(damaged, namespace=namespace)
    with pytest.raises(RecordError, match=r"plan\.json"):
        store.get(Plan)


def test_everything_goes_with_the_workflow_but_the_report(
    store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    store.put(plan([WHOLE]))
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    store.put_log("one", b"text")
    store.put(all_pass())
    store.put_text("report.html", "<html></html>")
    cluster.kubectl("delete", "workflow", WORKFLOW, "-n", namespace)
    wait_for("the documents to go", lambda: store.get(Plan) is None, timeout=60)
    wait_for("the records to go", lambda: not list(store.list(RunRecord, ALL_REDUCE)), timeout=60)
    # Found again without the Workflow, as somebody does who looks for the report next day.
    assert store_of(store.workflow, namespace).get(Report) == all_pass()


def test_workflows_whose_names_begin_alike_have_documents_of_their_own(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So has the next workflow of the same name."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    names = [f"acceptance-h100-frankfurt-dc2-room4-rack-{number}" for number in (21, 22)]
    stores = [store_of(waiting_workflow(cluster, namespace, name), namespace) for name in names]
    for number, store in enumerate(stores):
        store.put(plan([group([f"node-{number}"])]))
    assert [store.get(Plan) for store in stores] == [
        plan([group(["node-0"])]),
        plan([group(["node-1"])]),
    ]
    stores[0].put(all_pass())
    cluster.kubectl("delete", "workflow", names[0], "-n", namespace)
    again = store_of(waiting_workflow(cluster, namespace, names[0]), namespace)
    assert again.workflow.uid != stores[0].workflow.uid
    assert again.get(Plan) is None
    assert again.get(Report) is None
    assert stores[0].get(Report) == all_pass()


def test_deleting_the_workflow_takes_its_runs_along(
    store: ConfigMapStore, cluster: Cluster, namespace: str
) -> None:
    names = GroupNames(store.workflow, ALL_REDUCE, WHOLE.id)
    head = {
        "name": names.object("keys"),
        "labels": names.labels(),
        "ownerReferences": [store.owner],
    }
    api = Api.connect(namespace)
    api.create({"apiVersion": "v1", "kind": "Secret", "metadata": head})
    assert api.find("Secret", everything_of(store.workflow))
    cluster.kubectl("delete", "workflow", WORKFLOW, "-n", namespace)
    wait_for(
        "the Secret to go",
        lambda: not api.find("Secret", everything_of(store.workflow)),
        timeout=60,
    )
