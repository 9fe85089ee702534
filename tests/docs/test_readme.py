"""Every command of the README works as written, on what the repository holds."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from catalog.certification import Options, parse_certification
from catalog.hardware.health import compile_rule
from catalog.reading.source import parse_documents

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line
    for kind, block in BLOCKS
    if kind == "sh"
    for line in block.splitlines()
    if "readiness " in line
]
EXITS = {"certify examples/certification.yaml": 1}
"""Commands that end with a verdict other than PASS; the example is a FAIL on purpose."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A place where commands may write without touching the repository."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_the_readme_works(line: str, checkout: Path) -> None:
    command = line.rpartition("&& ")[2].removeprefix("uv run readiness ")
    assert command != line, "the README runs the command by uv"
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *shlex.split(command)],
        capture_output=True,
        text=True,
        cwd=checkout,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )
    expected = next((code for start, code in EXITS.items() if command.startswith(start)), 0)
    assert done.returncode == expected, done.stdout + done.stderr


def test_two_commands_do_all_the_set_up() -> None:
    assert any(line.startswith("pip install uv && uv run readiness certify") for line in COMMANDS)
    assert "pip install uv && uv run pytest" in README


def test_certification_of_the_readme_is_valid() -> None:
    text = next(
        block for kind, block in BLOCKS if kind == "yaml" and "kind: Certification" in block
    )
    certification = parse_certification(parse_documents(text, "README.md")[0])
    assert certification.spec.stage == "production"


def test_options_of_the_readme_are_valid() -> None:
    text = next(block for kind, block in BLOCKS if kind == "yaml" and "thresholds:" in block)
    options = yaml.safe_load(text)["options"]
    document = {
        "kind": "Certification",
        "metadata": {"name": "readme"},
        "spec": {
            "categories": [
                {"domain": "communication", "variant": "nccl-all-reduce", "options": options}
            ]
        },
    }
    source = parse_documents(yaml.safe_dump(document), "README.md")[0]
    assert parse_certification(source).spec.categories[0].options.thresholds


def test_health_rules_of_the_readme_work() -> None:
    text = next(block for kind, block in BLOCKS if kind == "yaml" and "nodeHealth:" in block)
    options = Options.model_validate(yaml.safe_load(text)["options"])
    assert {compile_rule(rule).over for rule in options.node_health or ()} == {"node", "event"}
