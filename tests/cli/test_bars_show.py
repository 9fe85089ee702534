"""`readiness bars show`, and bar files on their way through the commands and onto a cluster."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from catalog.bars.stages import stages
from catalog.entries.entry import builtin_entries
from catalog.errors import InputError
from pipelines.cli.app import app
from pipelines.submission import read_submission, workflow
from steps.detect.parameters import documents_in
from steps.detect.step import detect_step
from steps.documents import Plan
from steps.store.store import DirectoryStore

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "examples"
P5 = ["--gpu", "h100", "--platform", "aws", "--instance-type", "p5.48xlarge"]


def run(*arguments: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in arguments], env={"COLUMNS": "100"})
    if code == 0 and done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "kind: Bars\nsource: acceptance of hall 1\nbars:\n"
        "  - key: busBandwidthGBps\n    when: {category: communication/nccl-all-reduce}\n"
        "    expected: {value: 392.0, date: '2026-03-14', reasoning: measured on its first day}\n"
        "  - key: smallMessageLatencyUs\n    expression: value <= 60\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("published", ["communication/nccl-all-reduce", *P5, "--nodes", "2"]),
        ("derived", ["communication/nccl-alltoall", *P5, "--nodes", "8", "--stage", "burn-in"]),
        ("unknown", ["communication/nccl-loopback", *P5]),
        ("copies", ["diagnostics/dcgm-level3", "--gpu", "h200", "--platform", "onprem"]),
        (
            "training",
            ["training/nemotron5-8b", "--gpu", "b200", "--platform", "gcp", "--nodes", "4"],
        ),
    ],
)
def test_bars_are_shown_with_numbers_threshold_and_source(name: str, words: list[str]) -> None:
    text = run("bars", "show", *words)
    path = GOLDEN / f"bars-show-{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("entry", "stage"), list(itertools.product(builtin_entries(), stages())), ids="@".join
)
def test_every_entry_shows_its_bars_at_every_stage_or_says_why_not(entry: str, stage: str) -> None:
    for hardware in (P5, ["--gpu", "l40s", "--platform", "onprem"]):
        data = json.loads(
            run(
                "bars",
                "show",
                entry,
                *hardware,
                "--stage",
                stage,
                "--nodes",
                "2",
                "--output",
                "json",
            )
        )
        assert data["bars"]
        ours = next(item for item in builtin_entries().values() if item.id == entry)
        expecting = {bar.key for bar in ours.bars if "expected" in bar.names(ours.tool)}
        told = {bar["key"] for bar in data["bars"]}
        told |= {key for item in data["missing"] for key in item["keys"]}
        assert expecting <= told
        for bar in data["bars"]:
            assert bar["threshold"]
            assert bar["kind"] in {"rule", "published", "derived"}
            if "expected" in bar["values"]:
                assert bar["source"]
                assert bar["reasoning"]


def test_json_gives_expected_fraction_and_threshold() -> None:
    words = ["communication/nccl-all-reduce", *P5, "--nodes", "2", "--output", "json"]
    data = json.loads(run("bars", "show", *words))
    bar = next(bar for bar in data["bars"] if bar["key"] == "busBandwidthGBps")
    assert bar["values"] == {"expected": 487.1, "fraction": 0.92}
    assert bar["threshold"] == "largestSizeBusBandwidthGBps >= 448.132"
    assert (data["hardware"]["nics"], data["hardware"]["nic_gbps"]) == (32, 100)


def test_bars_of_ones_own_are_shown_as_such(mine: Path) -> None:
    text = run("bars", "show", "communication/nccl-all-reduce", *P5, "--bars", mine)
    assert "with fraction 0.92, expected 392" in text
    assert "yours: acceptance of hall 1 (yours, 2026-03-14)" in " ".join(text.split())
    assert "mine.yaml:4" in "".join(text.split())
    assert "smallMessageLatencyUs: value <= 60" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["communication/nccl-all-reduse", *P5], "did you mean"),
        (["communication/nccl-all-reduce", "--gpu", "h101", "--platform", "aws"], "gpu 'h101'"),
        (["communication/nccl-all-reduce", "--gpu", "h100", "--platform", "awz"], "platform 'awz'"),
        (["communication/nccl-all-reduce", *P5, "--stage", "prod"], "no stage 'prod'"),
        (["diagnostics/dcgm-level1", *P5, "--scale", "diagnose"], "no scale 'diagnose'"),
    ],
)
def test_wrong_use_is_told(words: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        run("bars", "show", *words)


def bars_of(plan: Plan) -> dict[str, tuple[str, str, int | None]]:
    return {
        bar.key: (bar.kind, bar.origin.file, bar.origin.line)
        for category in plan.categories
        for part in category.parts
        for bar in part.bars[0].bars
    }


def test_bar_file_goes_into_the_plan(mine: Path) -> None:
    words: list[str | Path] = [EXAMPLES / "certification.yaml", "--fleet"]
    words += [EXAMPLES / "fleet.yaml", "--bars", mine]
    plan = Plan.model_validate(json.loads(run("plan", *words, "--output", "json")))
    found = bars_of(plan)
    assert found["busBandwidthGBps"] == ("yours", str(mine), 4)
    assert found["smallMessageLatencyUs"] == ("yours", str(mine), 7)
    explained = " ".join(run("explain", *words).split())
    assert f"bar busBandwidthGBps ({mine}:4); acceptance of hall 1" in explained
    assert "since measured on its first day" in explained


def test_bar_file_travels_with_the_certification_onto_the_cluster(
    mine: Path, tmp_path: Path
) -> None:
    file = EXAMPLES / "certification.yaml"
    loaded, values = read_submission(file, bars=[mine])
    made = workflow(loaded, values, "argo")
    text = next(
        item["value"]
        for item in made["spec"]["arguments"]["parameters"]
        if item["name"] == "certification"
    )
    assert [document.data["kind"] for document in documents_in(text)["Bars"]] == ["Bars"]
    plan, _ = detect_step(DirectoryStore(tmp_path / "s"), text, fleet=EXAMPLES / "fleet.yaml")
    kind, where, line = bars_of(plan)["busBandwidthGBps"]
    assert (kind, where) == ("yours", "certification")
    assert text.splitlines()[(line or 0) - 1].strip() == "- key: busBandwidthGBps"


def test_render_writes_it_into_the_workflow(mine: Path, tmp_path: Path) -> None:
    run("render", EXAMPLES / "certification.yaml", "--bars", mine, "--out", tmp_path / "d")
    text = (tmp_path / "d" / "workflow-h100-acceptance.yaml").read_text("utf-8")
    (value,) = (
        item["value"]
        for item in yaml.safe_load(text)["spec"]["arguments"]["parameters"]
        if item["name"] == "certification"
    )
    assert "acceptance of hall 1" in value


@pytest.mark.parametrize("hardware", [("gcp", "h100"), ("aws", "a100")])
def test_instance_type_of_another_platform_or_gpu_is_refused(hardware: tuple[str, str]) -> None:
    platform, gpu = hardware
    words = ["--platform", platform, "--gpu", gpu, "--instance-type", "p5.48xlarge"]
    with pytest.raises(InputError, match=r"'p5\.48xlarge' is of aws, with h100"):
        run("bars", "show", "communication/nccl-all-reduce", *words)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "kind: Bars\nsource: '{{x}}'\nbars: [{key: wrongCount, expression: value < 1}]\n",
            ":2: contains",
        ),
        ("kind: Bars\nsource: x\nbars: [{key: wrongCount, expression: value <}]\n", ":3: .*CEL"),
    ],
)
def test_bar_file_that_cannot_travel_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bars.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_submission(EXAMPLES / "certification.yaml", bars=[path])


def test_judge_takes_a_bar_file(mine: Path) -> None:
    log = EXAMPLES / "recorded" / "outputs" / "pair-all-reduce.txt"
    data = json.loads(
        run("judge", log, "--platform", "onprem", "--bars", mine, "--output", "json", code=3)
    )
    bar = next(item for item in data["expressions"] if item["key"] == "busBandwidthGBps")
    assert bar["values"]["expected"] == 392.0
