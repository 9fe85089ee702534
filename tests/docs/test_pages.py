"""Every command of every page works as written, on what the repository holds."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from catalog.certification import NOT_SUPPORTED, Options, parse_certification
from catalog.hardware.health import compile_rule
from catalog.reading.source import parse_documents
from tests.docs import picture
from tests.docs.pages import PAGES, ROOT, blocks, commands

README = ROOT / "README.md"
HAVE_COMMANDS = [page for page in PAGES if commands(page, "sh")]
EXITS = {"certify examples/certification.yaml": 1}
"""Commands that end with a verdict other than PASS; the example is a FAIL on purpose."""
READINESS = "uv run readiness "


def arguments_of(line: str) -> list[str] | None:
    """Return the arguments of a command of ours; None for one that ``.ci/run`` runs."""
    command = line.removeprefix("pip install uv && ")
    if command.startswith(READINESS):
        return shlex.split(command.removeprefix(READINESS))
    assert command in (ROOT / ".ci" / "run").read_text("utf-8"), f"nothing runs {line!r}"
    return None


@pytest.mark.parametrize("page", HAVE_COMMANDS, ids=lambda page: page.name)
def test_commands_of_a_page_work_one_after_the_other(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for line in commands(page, "sh"):
        arguments = arguments_of(line)
        if arguments is None:
            continue
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            check=False,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        )
        words = " ".join(arguments)
        expected = next((code for start, code in EXITS.items() if words.startswith(start)), 0)
        assert done.returncode == expected, f"{line}\n{done.stdout}{done.stderr}"


def test_two_commands_do_all_the_set_up() -> None:
    lines = commands(README, "sh")
    assert lines[0].startswith("pip install uv && uv run readiness certify")
    assert lines[1] == "pip install uv && uv run pytest"


def test_commands_that_need_a_cluster_stand_in_the_readme_alone() -> None:
    assert commands(README, "bash")
    assert not [page for page in PAGES if page != README and commands(page, "bash")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_of_a_page_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    files = re.findall(
        r"`((?:catalog|steps|pipelines|containers|tests|docs|examples)/[^`*{ ]+)`", text
    )
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_certification_of_the_readme_is_valid() -> None:
    text = next(block for block in blocks(README, "yaml") if "kind: Certification" in block)
    certification = parse_certification(parse_documents(text, "README.md")[0])
    assert certification.spec.stage == "production"


def test_options_of_the_pages_are_valid() -> None:
    found = [
        yaml.safe_load(block)["options"]
        for page in PAGES
        for block in blocks(page, "yaml")
        if block.lstrip().startswith("options:")
    ]
    assert {name for options in found for name in options} >= {"thresholds", "nodeHealth"}
    for options in found:
        category = {"domain": "communication", "variant": "nccl-all-reduce", "options": options}
        document = {
            "kind": "Certification",
            "metadata": {"name": "page"},
            "spec": {"categories": [category]},
        }
        parse_certification(parse_documents(yaml.safe_dump(document), "page")[0])
        for rule in Options.model_validate(options).node_health or ():
            assert compile_rule(rule).over == rule.over


def test_readme_names_every_option_of_nvcre_that_is_refused() -> None:
    row = next(line for line in README.read_text("utf-8").splitlines() if "| refused" in line)
    assert set(re.findall(r"`(\w+)`", row)) == set(NOT_SUPPORTED)


def test_picture_shows_the_report_of_today() -> None:
    assert picture.FILE.read_text("utf-8") == picture.draw(picture.shown(picture.report())), (
        "python -m tests.docs.picture draws it anew"
    )
