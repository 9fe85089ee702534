"""The steps as programs: documents in, documents out, the same report as the local runner."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from catalog.certification import load_certification
from catalog.errors import ClusterError
from pipelines.local import certify
from steps.aggregate.step import aggregate_step, last_report
from steps.detect.step import detect_step
from steps.documents import NodeStatus, Plan, Report, Result
from steps.fleets.fleet import load_fleet
from steps.isolate.core import MAX_ROUNDS
from steps.store.store import DirectoryStore

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def step(
    name: str,
    *arguments: str,
    store: Path | str,
    certification: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "steps", name, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            **(env or {}),
            "READINESS_STORE": str(store),
            "READINESS_CERTIFICATION": certification,
        },
    )


def groups(outputs: Path) -> list[str]:
    return [item["group"] for item in json.loads((outputs / "groups").read_text("utf-8"))]


def run_dag(
    store: Path | str,
    outputs: Path,
    certification: Path,
    fleet: Path,
    categories: list[str],
    *,
    env: Mapping[str, str] | None = None,
) -> int:
    """Do what the workflow does, step by step, and return the exit code of aggregate."""
    text = certification.read_text("utf-8")

    def take(name: str, *arguments: str, handing_on: bool = True) -> int:
        words = [*arguments, "--outputs", str(outputs)] if handing_on else list(arguments)
        done = step(name, *words, store=store, certification=text, env=env)
        assert name == "aggregate" or done.returncode == 0, done.stderr
        return done.returncode

    for category in categories:
        common = ("--category", category)
        take("detect", *common, "--fleet", str(fleet))
        for number in range(1, MAX_ROUNDS + 1):
            for name in groups(outputs):
                take("run", *common, "--group", name, "--fleet", str(fleet))
            take("parse", *common, handing_on=False)
            take("isolate", *common, "--round", str(number))
            if not groups(outputs):
                break
        take("evaluate", *common)
    return take("aggregate")


def without_times(path: Path) -> dict[str, object]:
    data: dict[str, object] = json.loads(path.read_text("utf-8"))
    for name in ("started", "ended"):
        data.pop(name, None)
    return data


def test_programs_give_the_report_of_the_local_runner(tmp_path: Path) -> None:
    certification = EXAMPLES / "recorded" / "certification.yaml"
    fleet = EXAMPLES / "recorded" / "fleet.yaml"
    loaded, source = load_certification(certification)
    local = certify(loaded, load_fleet(fleet), DirectoryStore(tmp_path / "local"), text=source)
    names = [category.id for category in loaded.spec.categories]
    code = run_dag(tmp_path / "dag", tmp_path / "outputs", certification, fleet, names)
    assert code == {Result.PASS: 0, Result.FAIL: 1}[local.result]
    line = (tmp_path / "outputs" / "verdict").read_text("utf-8")
    assert line.startswith(f"{local.result}: ")
    assert (tmp_path / "outputs" / "result").read_text("utf-8") == local.result
    numbers = [int((tmp_path / "outputs" / n).read_text("utf-8")) for n in ("ready", "failed")]
    assert numbers == [
        [n.status for n in local.nodes].count(s) for s in (NodeStatus.READY, NodeStatus.FAILED)
    ]
    mine = without_times(tmp_path / "local" / "report.json")
    theirs = without_times(tmp_path / "dag" / "report.json")
    assert theirs == mine


def test_verdict_outlives_a_run_record_that_is_damaged(tmp_path: Path) -> None:
    certification = EXAMPLES / "recorded" / "certification.yaml"
    loaded, source = load_certification(certification)
    fleet, store = load_fleet(EXAMPLES / "recorded" / "fleet.yaml"), DirectoryStore(tmp_path)
    before = certify(loaded, fleet, store, text=source)
    for record in (tmp_path / "records").rglob("*.json"):
        record.write_text("{", "utf-8")
    after, _ = aggregate_step(store)
    assert (after.result, after.nodes) == (before.result, before.nodes)
    assert after.started is None, "times and versions are what the records tell"


def never() -> Plan:
    raise ClusterError("no nodes can be read")


def test_report_stands_unless_the_store_says_something_else(tmp_path: Path) -> None:
    """The exit handler reports once, and anew after a retry that died before aggregate."""
    certification = EXAMPLES / "recorded" / "certification.yaml"
    loaded, source = load_certification(certification)
    fleet, store = load_fleet(EXAMPLES / "recorded" / "fleet.yaml"), DirectoryStore(tmp_path)
    certify(loaded, fleet, store, text=source)
    assert last_report(store, "x", never)[1] is False
    (tmp_path / "report.json").unlink()
    assert last_report(store, "x", never)[1] is True
    assert last_report(store, "x", never)[1] is False
    # What was measured is judged again, and says the same.
    (tmp_path / "verdicts" / f"{loaded.spec.categories[0].id.replace('/', '-')}.json").unlink()
    assert last_report(store, "x", never)[1] is False
    shutil.rmtree(tmp_path / "records")
    shutil.rmtree(tmp_path / "verdicts")
    report, new = last_report(store, "x", never)
    assert new
    assert report == store.get(Report)
    (tmp_path / "report.json").write_text("{", "utf-8")
    assert last_report(store, "x", never)[1] is True, "one that cannot be read is none"


@pytest.mark.parametrize("damage", [None, b"{"])
def test_lost_plan_is_made_again_from_the_same_parameters(
    tmp_path: Path, damage: bytes | None
) -> None:
    loaded, source = load_certification(EXAMPLES / "recorded" / "certification.yaml")
    fleet, store = load_fleet(EXAMPLES / "recorded" / "fleet.yaml"), DirectoryStore(tmp_path)
    before = certify(loaded, fleet, store, text=source)
    (tmp_path / "report.json").unlink()
    (tmp_path / "plan.json").unlink()
    if damage:
        (tmp_path / "plan.json").write_bytes(damage)

    def plan_again() -> Plan:
        text = (EXAMPLES / "recorded" / "certification.yaml").read_text()
        return detect_step(store, text, fleet=EXAMPLES / "recorded" / "fleet.yaml")[0]

    report, new = last_report(store, "x", plan_again)
    assert new
    assert report.nodes == before.nodes
    assert report.result == before.result


def test_without_any_plan_every_node_of_which_something_tells_is_named(tmp_path: Path) -> None:
    loaded, source = load_certification(EXAMPLES / "recorded" / "certification.yaml")
    fleet, store = load_fleet(EXAMPLES / "recorded" / "fleet.yaml"), DirectoryStore(tmp_path)
    before = certify(loaded, fleet, store, text=source)
    (tmp_path / "report.json").unlink()
    (tmp_path / "plan.json").write_text("{")
    report, _ = last_report(store, "nightly", never, ["gpu-that-is-named"])
    assert report.result is Result.INCONCLUSIVE
    tested = {node for c in before.categories for g in c.groups for node in g.group.nodes}
    assert {node.node for node in report.nodes} == tested | {"gpu-that-is-named"}
    assert {node.status for node in report.nodes} == {NodeStatus.NOT_PROVEN}
    [(code, message)] = report.problems
    assert code == "PLAN_MISSING"
    assert "the plan is damaged: plan.json" in message
    assert "no nodes can be read" in message


def test_no_plan_is_reported_once_too(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    report, new = last_report(store, "nightly", never)
    assert (report.certification, report.result, new) == ("nightly", "INCONCLUSIVE", True)
    [(code, message)] = report.problems
    assert code == "PLAN_MISSING"
    assert message.startswith("there is no plan")
    assert last_report(store, "nightly", never) == (report, False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("spec: {stage: nonsense, categories: [{domain: training}]}", "certification:1: spec."),
        ("metadata: {name: a}\nspec:\n  categories:\n    - {domain: x, variant: y}\n", ":4: "),
        ("a: [", "certification:"),
    ],
)
def test_wrong_input_leaves_a_report_that_says_where(tmp_path: Path, text: str, says: str) -> None:
    done = step("detect", store=tmp_path, certification=text)
    assert done.returncode == 2
    report = DirectoryStore(tmp_path).get(Report)
    assert report is not None
    [(code, message)] = report.problems
    assert code == "INVALID_INPUT"
    assert says in message
    assert message == done.stderr.strip().removeprefix("steps: ")
    assert last_report(DirectoryStore(tmp_path), "x", never) == (report, False)


def test_aggregate_reports_what_never_ran(tmp_path: Path) -> None:
    text = (EXAMPLES / "certification.yaml").read_text("utf-8")
    done = step(
        "detect", "--fleet", str(EXAMPLES / "fleet.yaml"), "--outputs", str(tmp_path / "o"),
        store=tmp_path, certification=text,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = step("aggregate", "--outputs", str(tmp_path / "o"), store=tmp_path)
    assert done.returncode == 3
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert len(report["nodes"]) == 8
    assert {node["status"] for node in report["nodes"]} == {"not-proven"}
    assert report["coverage"] == {"targeted": 8, "tested": 0, "excluded": 0}
    assert "tested 0 of 8 nodes, 8 planned but not tested" in done.stdout
    assert {reason["code"] for node in report["nodes"] for reason in node["reasons"]} == {
        "RESULT_MISSING"
    }


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("detect",), 2, "steps: certification: spec.categories: is required"),
        (("parse", "--category", "diagnostics/dcgm-level1"), 3, "there is no plan"),
        (("aggregate",), 3, "there is no plan"),
    ],
)
def test_step_that_cannot_work_says_so_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = step(
        *arguments,
        store=tmp_path,
    )
    assert done.returncode == code
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
