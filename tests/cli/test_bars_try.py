"""`readiness bars try` and the scopes of `readiness judge`, as a person uses them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from catalog.errors import InputError
from pipelines.cli.app import app
from tests.cli.test_commands import EXAMPLES, FOOTER, TABLE, on_every_gpu, row

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Documents of the example: one slow node, one lost GPU, six runs of pairs."""
    path = tmp_path_factory.mktemp("runs") / "first"
    fleet, asked = EXAMPLES / "fleet.yaml", EXAMPLES / "certification.yaml"
    arguments = ["certify", str(asked), "--fleet", str(fleet), "--out", str(path), "--quiet"]
    assert RUNNER.invoke(app, arguments).exit_code == 1
    yield path
    shutil.rmtree(path)


def tried(*arguments: str | Path) -> dict[str, Any]:
    result = RUNNER.invoke(app, ["bars", "try", *map(str, arguments), "--output", "json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def test_stricter_bar_shows_which_runs_flip_and_with_what_numbers(out: Path) -> None:
    found = tried("--runs", out, "--expr", "busBandwidthGBps: value >= 0.9995 * expected")
    assert found["summary"] == {"runs": 7, "flips": 4, "byKind": {"PASS -> FAIL": 4}}
    flip = next(run for run in found["runs"] if run["flips"])
    assert (flip["before"], flip["after"], flip["purpose"]) == ("PASS", "FAIL", "isolate")
    [expression] = flip["expressions"]
    assert expression["withValues"].endswith(">= 0.9995 * 467.5")
    assert expression["evidence"][0]["file"].startswith("communication-nccl-all-reduce/pair-")


def test_looser_bar_shows_which_runs_would_have_passed(out: Path) -> None:
    found = tried(
        *("--runs", out, "--expr", "busBandwidthGBps: value > 10"),
        *("--expr", "largestSizeBusBandwidthGBps: value > 0.01 * peer_median"),
    )
    assert found["summary"]["byKind"] == {"FAIL -> PASS": 2}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--expr", "busBandwidthGBps: value > 10"), id="keyed"),
        pytest.param(("--expr", "rowCount > 10"), id="without a key"),
        pytest.param(("--stage", "bring-up"), id="another stage"),
    ],
)
def test_verdicts_of_the_time_are_those_that_are_stored(
    out: Path, arguments: tuple[str, ...]
) -> None:
    found = tried("--runs", out, *arguments)
    assert all(run["stored"] == run["before"] for run in found["runs"])


def test_bars_file_is_tried_in_place_of_ours(out: Path, tmp_path: Path) -> None:
    bars = tmp_path / "bars.yaml"
    bars.write_text(
        "kind: Bars\nsource: our first hall\nbars:\n"
        "- {key: busBandwidthGBps, expression: value >= 467.0}\n",
        encoding="utf-8",
    )
    found = tried("--runs", out, "--bars", bars)
    assert found["summary"]["byKind"] == {"PASS -> FAIL": 4}
    tight = tried("--runs", out, "--bars", bars, "--expr", "busBandwidthGBps: value >= 100")
    assert tight["summary"]["flips"] == 0


def test_several_certifications_below_one_directory_are_all_tried(
    out: Path, tmp_path: Path
) -> None:
    for name in ("monday", "tuesday"):
        shutil.copytree(out, tmp_path / name)
    found = tried("--runs", tmp_path, "--expr", "busBandwidthGBps: value >= 0.9995 * expected")
    assert found["summary"]["flips"] == 8
    assert {Path(run["store"]).name for run in found["runs"]} == {"monday", "tuesday"}


def test_table_marks_the_flips_and_puts_them_first(out: Path) -> None:
    result = RUNNER.invoke(
        app, ["bars", "try", "--runs", str(out), "--expr", "busBandwidthGBps: value >= 467.0"]
    )
    lines = result.output.splitlines()
    assert lines[0] == "4 of 7 runs would flip: 4 PASS -> FAIL"
    assert lines[1].startswith("* PASS -> FAIL  communication/nccl-all-reduce pair-")
    assert "not met: 466." in lines[2]
    assert result.exit_code == 0


def test_runs_that_a_bar_does_not_touch_are_only_counted(out: Path) -> None:
    result = RUNNER.invoke(app, ["bars", "try", "--runs", str(out), "--stage", "production"])
    assert result.output.splitlines() == [
        "0 of 7 runs would flip",
        "  7 runs where no bar came out otherwise",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "there is nothing to try"),
        (("--expr", "busBandwidthGBps: valu >= 3"), "valu"),
        (("--expr", "avgStepTimeSec: value < 3"), "no run"),
        (("--expr", "rowCount > 1", "--entry", "communication/nccl-alltoall"), "no run"),
        (("--stage", "prod"), "no stage"),
        (("--expr", "rowCount > 1", "--runs", "/nowhere/at/all"), "does not exist"),
    ],
)
def test_mistakes_are_named(out: Path, arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        RUNNER.invoke(app, ["bars", "try", "--runs", str(out), *arguments], catch_exceptions=False)


# scopes of judge


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "all-reduce.log"
    head = on_every_gpu(TABLE[: TABLE.index("  8589934592")])
    rows = row(2**33, 450.0) + row(2**34, 455.04)
    path.write_text(head + rows + FOOTER, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ("row.out_bus_gbps >= 400", "PASS"),
        ("row.out_bus_gbps >= 452", "FAIL"),
        ("rows.all(r, r.out_wrong == 0)", "PASS"),
        ("rows.filter(r, r.size_bytes < 8).all(r, r.out_wrong == 0)", "INCONCLUSIVE"),
        ("busBandwidthGBps: value >= fraction * expected", "PASS"),
        ("busBandwidthGBps: value >= 400 && nodes == 2 && gpu == 'h100'", "PASS"),
        ("busBandwidthGBps: value >= 400 && platform == 'onprem' && stage == 'burn-in'", "PASS"),
        ("busBandwidthGBps: value >= 400 && instance_type == 'p5.48xlarge'", "FAIL"),
        ("busbw_at('16G') >= 455", "PASS"),
        ("busBandwidthGBps: value >= 0.95 * peer_median", "INCONCLUSIVE"),
    ],
)
def test_judge_takes_all_of_the_vocabulary(log: Path, expression: str, outcome: str) -> None:
    result = RUNNER.invoke(
        app,
        [
            *("judge", str(log), "--stage", "burn-in", "--platform", "onprem"),
            *("--output", "json", "--expr", expression),
        ],
    )
    assert json.loads(result.output)["verdict"] == outcome, result.output


def test_judge_quotes_the_line_of_the_file(log: Path) -> None:
    result = RUNNER.invoke(
        app, ["judge", str(log), "--expr", "row.out_bus_gbps >= 452", "--output", "json"]
    )
    [expression] = json.loads(result.output)["expressions"]
    assert expression["subject"] == "8G, cycle 1"
    assert expression["message"] == "1 of 2 rows"
    [line] = expression["evidence"]
    assert line["line"] == 24
    assert line["text"].split()[:2] == ["8589934592", "2147483648"]


def test_judge_shows_the_setting_that_differs_between_two_runs_of_the_same_nodes(
    tmp_path: Path,
) -> None:
    said = "hgx-31:4711:4711 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /opt/topo.xml\n"
    slow = TABLE.replace("450.00  450.00", "250.00  250.00").replace(
        "455.04  455.04", "255.04  255.04"
    )
    slow = slow.replace("19089", "34359").replace("37755", "67361")
    files = []
    for name, text in (("slow", said + slow), ("fast", TABLE)):
        path = tmp_path / f"{name}.log"
        path.write_text(text + FOOTER, encoding="utf-8")
        files.append(str(path))
    result = RUNNER.invoke(app, ["judge", *files, "--expr", "busBandwidthGBps: value >= 400"])
    assert "SETTINGS_DIFFER" in result.output
    assert "NCCL_TOPO_FILE was /opt/topo.xml where it failed" in " ".join(result.output.split())
