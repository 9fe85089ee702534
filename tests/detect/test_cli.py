"""`readiness detect` and `readiness explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from catalog.errors import InputError
from pipelines.cli import detect, explain
from tests.detect.build import certification, fleet, node

ENTRY = "communication/nccl-all-reduce"


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.callback()(lambda: None)
    detect.register(app)
    explain.register(app)
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    nodes = [*fleet(2, allocatable={"rdma/ib": "1"}), node("odd", gpus=2, cordoned=True)]
    node_file = tmp_path / "nodes.json"
    node_file.write_text(json.dumps({"kind": "List", "items": nodes}), encoding="utf-8")
    data: dict[str, Any] = certification(spec={"env": {"NCCL_DEBUG": "TRACE"}})[1].data
    document = tmp_path / "certification.yaml"
    document.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return str(document), str(node_file)


def test_detect_shows_cohorts_nodes_and_what_is_excluded(files: tuple[str, str]) -> None:
    output = run("detect", "--nodes", files[1])
    assert "onprem-h100: 2 nodes, profile onprem/h100" in output
    assert "NODE_EXCLUDED_CORDONED" in output
    assert "rdma/ib 1" in output


def test_detect_prints_json(files: tuple[str, str]) -> None:
    data = json.loads(run("detect", "--nodes", files[1], "--output", "json"))
    assert [cohort["hardware"]["profile"] for cohort in data["cohorts"]] == ["onprem/h100"]
    assert {item["name"] for item in data["nodes"]} == {"gpu-1", "gpu-2", "odd"}
    assert [item["node"] for item in data["excluded"]] == ["odd"]


@pytest.mark.parametrize("arguments", [(), ("--nodes", "a.json", "--fleet", "b.yaml")])
def test_detect_needs_one_source_of_nodes(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="one of --nodes and --fleet"):
        run("detect", *arguments)


def test_explain_shows_each_value_with_its_chain(files: tuple[str, str]) -> None:
    document, nodes = files
    output = run("explain", document, "--entry", ENTRY, "--nodes", nodes)
    lines = output.splitlines()
    at = lines.index("env NCCL_DEBUG = TRACE")
    assert f"certification ({document}:6)" in lines[at + 1]
    assert "over INFO: entry communication/nccl-all-reduce" in lines[at + 2]
    assert "NIC resource = rdma/ib" in lines
    assert any(line.startswith("bar busBandwidthGBps, 2 nodes") for line in lines)


def test_explain_prints_json_with_the_same_chain(files: tuple[str, str]) -> None:
    document, nodes = files
    data = json.loads(
        run("explain", document, "--entry", ENTRY, "--nodes", nodes, "--output", "json")
    )
    [part] = data["categories"][0]["parts"]
    setting = part["settings"]["env NCCL_DEBUG"]
    assert setting["value"] == "TRACE"
    assert setting["origin"]["line"] == 6
    assert setting["replaced"][0]["value"] == "INFO"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("communication/nccl-alltoall", "does not ask for communication/nccl-alltoall"),
        ("communication/nccl-all-reduc", "there is no catalog entry"),
    ],
)
def test_explain_names_a_category_that_is_not_asked_for(
    files: tuple[str, str], entry: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run("explain", files[0], "--entry", entry, "--nodes", files[1])
