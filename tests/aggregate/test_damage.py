"""Whatever happens to one document, it costs its own group at most, and the report says which."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catalog.certification import parse_certification
from catalog.reading.source import parse_documents
from pipelines.local import certify
from steps.aggregate.step import aggregate_step
from steps.cluster.api.owner import WorkflowRun
from steps.cluster.api.store import ConfigMapStore
from steps.documents import (
    Document,
    IsolationRound,
    Measurements,
    NodeStatus,
    Outcome,
    Plan,
    Report,
    RunRecord,
    Verdict,
    dump,
)
from steps.fleets.fleet import load_fleet
from steps.store.store import DirectoryStore, RecordStore, key_of
from tests.cluster_units.fake import FakeCluster

NODES = [f"gpu-{number}" for number in range(1, 7)]
FLEET = """
apiVersion: readiness/v1
kind: Fleet
metadata: {name: six}
spec:
  source: simulated
  seed: 3
  start: 2026-03-02T09:00:00Z
  nodes:
    - {names: "gpu-[1-6]", platform: onprem, gpuProduct: NVIDIA-H100-80GB-HBM3, gpus: 8,
       nics: {nvidia.com/mlnxnics: 8}, domain: leaf-1}
  faults:
    - {kind: slow-link, node: gpu-2, factor: 0.3}
    - {kind: dcgm-failure, node: gpu-5, gpu: 3, test: memory, errorId: 39}
"""
CERTIFICATION = """
apiVersion: readiness/v1
kind: Certification
metadata: {name: damaged}
spec:
  stage: burn-in
  categories:
    - {domain: diagnostics, variant: dcgm-level2}
    - {domain: communication, variant: nccl-all-reduce}
"""
RUN = WorkflowRun("damaged-x7k2p", "u-1")
OTHER = WorkflowRun("damaged-x7k2p", "u-2")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certification that has run: two categories, one bad node in each, three rounds of pairs."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "fleet.yaml").write_text(FLEET)
    (source,) = parse_documents(CERTIFICATION, "certification.yaml")
    report = certify(
        parse_certification(source),
        load_fleet(folder / "fleet.yaml"),
        DirectoryStore(folder / "out"),
        text=source,
    )
    failed = {node.node for node in report.nodes if node.status is NodeStatus.FAILED}
    assert failed == {"gpu-2", "gpu-5"}
    return folder / "out"


def documents(root: Path) -> list[str]:
    """Return the keys of all documents and outputs but the plan and the report."""
    folders = ("records", "measurements", "isolation", "verdicts", "logs")
    found = [path for name in folders for path in (root / name).rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(root)) for path in found)


def outcomes(report: Report) -> dict[tuple[str, str], Outcome]:
    return {
        (category.category, node.node): node.outcome
        for category in report.categories
        for node in category.nodes
    }


def groups_of(report: Report) -> dict[tuple[str, str], Outcome]:
    return {
        (category.category, verdict.group.id): verdict.outcome
        for category in report.categories
        for verdict in category.groups
    }


def nothing_is_worse_than_lost(before: Report, after: Report, key: str) -> None:
    """Hold what must be true after damage to one document."""
    assert [node.node for node in after.nodes] == NODES
    then, now = outcomes(before), outcomes(after)
    assert now.keys() == then.keys()
    folder, _, name = key.partition("/")
    for where, outcome in now.items():
        # What was proven is as it was or open; nobody is cleared or accused by a loss.
        assert outcome in {then[where], Outcome.INCONCLUSIVE}, where
        if outcome is not then[where]:
            assert where[0].replace("/", "-") == name.partition("/")[0], (key, where)
    judged_then, judged_now = groups_of(before), groups_of(after)
    changed = {where for where in judged_then if judged_now.get(where) != judged_then[where]}
    # A group is named by its file, an output by the group before its own name.
    assert all(where[1] in name for where in changed), (key, changed)
    if changed:
        told = dump(after)
        assert "RECORD_DAMAGED" in told or "RESULT_MISSING" in told
    if folder in {"verdicts", "isolation"}:
        assert then == now


Damage = Callable[[Path, Path], None]


def gone(path: Path, _: Path) -> None:
    path.unlink()


def cut(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def flipped(path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)


def of_another(path: Path, root: Path) -> None:
    """Put the next document of its kind into its place."""
    alike = sorted(path.parent.rglob("*"))
    other = alike[(alike.index(path) + 1) % len(alike)]
    if other == path:
        rest = sorted((root / path.parent.parent.name).rglob("*.json"))
        other = next((item for item in rest if item != path), path)
    path.write_bytes(other.read_bytes())


DAMAGES: tuple[Damage, ...] = (gone, cut, flipped, of_another)


@pytest.mark.parametrize(
    ("damage", "judged"), [(damage, False) for damage in DAMAGES] + [(cut, True)]
)
def test_damage_to_any_file_costs_its_own_group_at_most(
    damage: Damage, whole: Path, tmp_path: Path, *, judged: bool
) -> None:
    before = DirectoryStore(whole).get(Report)
    assert before is not None
    for number, key in enumerate(documents(whole)):
        if key.startswith("logs/") and damage not in {gone, cut}:
            continue
        root = tmp_path / str(number)
        shutil.copytree(whole, root)
        damage(root / key, root)
        if not judged:
            shutil.rmtree(root / "verdicts")
        after, _ = aggregate_step(DirectoryStore(root))
        if not (judged and key.startswith("logs/")):
            nothing_is_worse_than_lost(before, after, key)
        shutil.rmtree(root)


def test_aggregate_alone_says_what_the_whole_pipeline_says(whole: Path, tmp_path: Path) -> None:
    """Parse, isolate and evaluate may all have died; what was measured is used."""
    before = DirectoryStore(whole).get(Report)
    for lost in (["verdicts"], ["measurements"], ["verdicts", "measurements", "isolation"]):
        root = tmp_path / "-".join(lost)
        shutil.copytree(whole, root)
        for folder in lost:
            shutil.rmtree(root / folder)
        after, _ = aggregate_step(DirectoryStore(root))
        assert before is not None
        assert outcomes(after) == outcomes(before)
        assert groups_of(after) == groups_of(before)
        assert after.result == before.result


# The same on ConfigMaps


def stored(whole: Path, run: WorkflowRun) -> tuple[FakeCluster, ConfigMapStore]:
    """Bring a directory into a cluster."""
    cluster = FakeCluster()
    store, source = ConfigMapStore(cluster, run), DirectoryStore(whole)
    for document, category, part in everything(source):
        store.put(document, category, part)
    for key in documents(whole):
        if key.startswith("logs/"):
            name = key.removeprefix("logs/")
            store.put_log(name, source.get_log(name))
    return cluster, store


def everything(source: RecordStore) -> Iterator[tuple[Document, str, str]]:
    plan = source.get(Plan)
    assert plan is not None
    yield plan, "", ""
    for planned in plan.categories:
        verdict = source.get(Verdict, planned.id)
        assert verdict is not None
        yield verdict, planned.id, ""
        for record in source.list(RunRecord, planned.id):
            yield record, planned.id, record.group.id
        for read in source.list(Measurements, planned.id):
            yield read, planned.id, str(read.group)
        for isolation in source.list(IsolationRound, planned.id):
            yield isolation, planned.id, f"round-{isolation.round}"


def maps_of(cluster: FakeCluster) -> list[str]:
    plan = key_of(Plan)
    found = cluster.of("ConfigMap")
    return sorted(
        str(item["metadata"]["name"])
        for item in found
        if item["metadata"]["annotations"]["readiness/key"] != plan
    )


@pytest.mark.parametrize("damage", ["gone", "cut", "of another run", "no annotations"])
def test_damage_to_any_configmap_costs_its_own_group_at_most(whole: Path, damage: str) -> None:
    before = DirectoryStore(whole).get(Report)
    assert before is not None
    clean, _ = stored(whole, RUN)
    foreign, _ = stored(whole, OTHER)
    theirs = {
        item["metadata"]["annotations"]["readiness/key"]: item for item in foreign.of("ConfigMap")
    }
    for name in maps_of(clean):
        cluster, store = stored(whole, RUN)
        item = cluster.objects["ConfigMap", name]
        key = item["metadata"]["annotations"]["readiness/key"]
        match damage:
            case "gone":
                del cluster.objects["ConfigMap", name]
            case "cut":
                item["binaryData"]["data"] = item["binaryData"]["data"][:40]
            case "of another run":
                item["metadata"]["annotations"] = theirs[key]["metadata"]["annotations"]
                item["binaryData"] = theirs[key]["binaryData"]
            case _:
                item["metadata"]["annotations"] = {}
        for verdict in [m for m in cluster.of("ConfigMap") if "verdicts/" in str(m["metadata"])]:
            if key.startswith("logs/") or verdict["metadata"]["name"] == name:
                continue
            cluster.objects.pop(("ConfigMap", verdict["metadata"]["name"]), None)
        after, _ = aggregate_step(store)
        if not key.startswith("logs/"):
            nothing_is_worse_than_lost(before, after, key)
