"""The examples do what their comments say."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from catalog.certification import load_certification
from pipelines.local import certify
from steps.documents import Group, RunOutcome
from steps.fleets.fleet import Fleet, load_fleet
from steps.store.store import DirectoryStore
from tests.fleets.jobs import ALL_REDUCE, make_job

EXAMPLES = Path(__file__).parents[2] / "examples"
EIGHT = tuple(f"gpu-node-{number:02d}" for number in range(5, 13))


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return load_fleet(EXAMPLES / "fleet.yaml")


@pytest.mark.parametrize(
    ("certification", "name"),
    [
        ("certification.yaml", "fleet.yaml"),
        ("p5-certification.yaml", "p5-fleet.yaml"),
        ("recorded/certification.yaml", "recorded/fleet.yaml"),
    ],
)
def test_every_example_loads(certification: str, name: str) -> None:
    load_certification(EXAMPLES / certification)
    assert load_fleet(EXAMPLES / name).nodes()


def test_the_group_ends_after_exactly_42m18s_in_a_late_cycle(fleet: Fleet) -> None:
    job = make_job(group=Group(id="full-scale-0", nodes=EIGHT))
    result = fleet.run(job)
    record = result.record
    assert (record.ended - record.started).total_seconds() == 42 * 60 + 18
    assert record.outcome is RunOutcome.HARDWARE
    assert {event.node for event in record.events} == {"gpu-node-12"}
    assert {event.code for event in record.events} == {"XID_79", "NODE_CORDONED"}
    text = result.logs["full-scale-0-output.txt"].decode()
    sizes = re.findall(r"^ +(\d+) +\d+ +float", text, re.M)
    cycle = sizes.count("8")
    assert cycle == 9
    assert "Out of bounds" not in text


def test_pairs_show_the_slow_node_and_clear_the_others(fleet: Fleet) -> None:
    def busbw(*nodes: str) -> float:
        pair = Group(id="pair-1-0", nodes=nodes, purpose="isolate")
        text = fleet.run(make_job(ALL_REDUCE, group=pair)).logs["pair-1-0-output.txt"].decode()
        return float(re.findall(r"^ +17179869184 .* -1 +\S+ +\S+ +(\S+) ", text, re.M)[-1])

    assert busbw("gpu-node-07", "gpu-node-05") == pytest.approx(46, rel=0.02)
    assert busbw("gpu-node-08", "gpu-node-06") == pytest.approx(467.5, rel=0.015)


@pytest.mark.parametrize("noted", [True, False], ids=["times noted", "no times noted"])
def test_two_reports_of_the_recorded_example_are_the_same(tmp_path: Path, *, noted: bool) -> None:
    shutil.copytree(EXAMPLES / "recorded", tmp_path / "in")
    fleet = tmp_path / "in" / "fleet.yaml"
    if not noted:
        fleet.write_text(re.sub(r" +(?:started|ended): .*\n", "", fleet.read_text()))
    kept = []
    for number in (1, 2):
        store = DirectoryStore(tmp_path / f"out-{number}")
        loaded, source = load_certification(tmp_path / "in" / "certification.yaml")
        certify(loaded, load_fleet(fleet), store, text=source)
        files = sorted(path for path in (tmp_path / f"out-{number}").rglob("*") if path.is_file())
        kept.append(
            {path.relative_to(tmp_path / f"out-{number}"): path.read_bytes() for path in files}
        )
        for path in (tmp_path / "in").rglob("*"):
            os.utime(path, (1e9, 1e9))  # when a file was written says nothing
    assert len(kept[0]) > 5
    assert kept[0] == kept[1]


def test_the_recorded_example_uses_every_output() -> None:
    fleet = load_fleet(EXAMPLES / "recorded" / "fleet.yaml")
    fleet.run(make_job(nodes=("hgx-21", "hgx-22")))
    for node in ("hgx-21", "hgx-22"):
        fleet.run(make_job("diagnostics/dcgm-level2", (node,)))
    assert fleet.unused() == []
