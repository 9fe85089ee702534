"""`readiness bars lint`: one line for each finding, and an exit code that a pipeline can trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catalog.errors import InputError
from pipelines.cli.app import app

GOOD = """\
kind: Certification
metadata: {name: good}
spec:
  categories:
    - domain: communication
      variant: nccl-all-reduce
      options:
        thresholds: {busBandwidthGBps: value >= 350, bandwidthDip: value <= 0.3}
"""
DOUBTFUL = GOOD.replace("value <= 0.3", "value <= 30")
BAD = GOOD.replace("bandwidthDip: value <= 0.3", "goodputRatio: value > 0.9")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "notes.md").write_text("kind: [", encoding="utf-8")
    (tmp_path / "service.yaml").write_text("kind: Service\nmetadata: {name: a}\n", encoding="utf-8")
    return tmp_path


def _lint(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["bars", "lint", *map(str, arguments)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return int(done.return_value or 0), done.stdout


def test_bars_that_ship_are_clean_and_need_no_argument() -> None:
    code, said = _lint()
    assert code == 0
    assert said.strip().endswith("0 errors, 0 warnings")


def test_directory_is_searched_for_certifications_and_bars(site: Path) -> None:
    assert _lint(site) == (0, "2 bars: 0 errors, 0 warnings\n")


def test_bar_that_names_no_category_is_of_those_that_measure_its_figure(site: Path) -> None:
    text = (
        "kind: Bars\nsource: hall 1\nbars:\n  - {key: busBandwidthGBps, expression: value > 300}\n"
    )
    (site / "bars.yaml").write_text(text, encoding="utf-8")
    assert _lint(site / "bars.yaml") == (0, "1 bar: 0 errors, 0 warnings\n")
    (site / "bars.yaml").write_text(text.replace("> 300", "> -1"), encoding="utf-8")
    code, printed = _lint(site / "bars.yaml")
    assert (code, printed.count("can never fail: value > -1")) == (2, 1)


def test_bars_that_only_say_what_to_expect_are_counted(site: Path) -> None:
    text = "kind: Bars\nsource: hall 1\nbars:\n  - {key: busBandwidthGBps, expected: 390}\n"
    (site / "bars.yaml").write_text(text, encoding="utf-8")
    assert _lint(site) == (0, "3 bars: 0 errors, 0 warnings\n")


def test_warning_is_one_line_with_its_place_and_no_failure(site: Path) -> None:
    file = site / "doubtful.yaml"
    file.write_text(DOUBTFUL, encoding="utf-8")
    code, said = _lint(file)
    assert code == 0
    assert said.splitlines() == [
        f"{file}:8: warning: compares a ratio, which is 0 to 1, with 30: value <= 30 "
        "(write 0.3 for 30 %)",
        "2 bars: 0 errors, 1 warning",
    ]


def test_machine_that_no_profile_has_is_a_warning(site: Path) -> None:
    text = "kind: Bars\nsource: hall 1\nbars:\n"
    for name in ("p5.48xlage", "p5.*", "BM.GPU.H100.8"):
        text += "  - key: busBandwidthGBps\n    expression: value > 300\n"
        text += f"    when: {{instanceType: '{name}'}}\n"
    (site / "bars.yaml").write_text(text, encoding="utf-8")
    code, said = _lint(site / "bars.yaml")
    assert code == 0
    assert said.splitlines() == [
        f"{site / 'bars.yaml'}:6: warning: names instanceType 'p5.48xlage', which no profile has "
        "(did you mean 'p5.48xlarge'?)",
        "3 bars: 0 errors, 1 warning",
    ]


def test_error_fails_and_the_other_files_are_checked_all_the_same(site: Path) -> None:
    (site / "bad.yaml").write_text(BAD, encoding="utf-8")
    (site / "broken.yaml").write_text("kind: [", encoding="utf-8")
    code, said = _lint(site)
    assert code == 2
    lines = said.splitlines()
    assert lines[0].startswith(f"{site / 'bad.yaml'}:8: error: 'goodputRatio' is no figure of nccl")
    assert lines[1].startswith(f"{site / 'broken.yaml'}:2: error: is not valid YAML")
    assert lines[-1] == "4 bars: 2 errors, 0 warnings"


def test_json_has_place_and_hint_apart(site: Path) -> None:
    (site / "bad.yaml").write_text(BAD, encoding="utf-8")
    code, said = _lint(site, "--output", "json")
    assert code == 2
    (finding,) = json.loads(said)["findings"]
    assert finding == {
        "level": "error",
        "file": str(site / "bad.yaml"),
        "line": 8,
        "field": "spec.categories[0].options.thresholds.goodputRatio",
        "text": "'goodputRatio' is no figure of nccl",
        "hint": "it is one of training",
    }


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("service.yaml", "has no bars to check"),
        ("missing.yaml", "does not exist"),
    ],
)
def test_nothing_to_check_is_bad_input(site: Path, name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        _lint(site / name)
