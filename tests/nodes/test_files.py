"""Reading node lists, with file and line in errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from catalog.errors import InputError
from steps.nodes.files import read_objects
from tests.detect.build import fleet


@pytest.mark.parametrize(
    "write",
    [
        lambda nodes: json.dumps({"kind": "List", "items": nodes}),
        lambda nodes: json.dumps({"kind": "NodeList", "items": nodes}),
        lambda nodes: yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": nodes}),
        yaml.safe_dump_all,
        lambda nodes: "---\n" + yaml.safe_dump_all([{"kind": "List", "items": nodes}, None]),
        lambda nodes: "﻿" + json.dumps({"kind": "List", "items": nodes}),
        lambda nodes: "\n".join(json.dumps(node, indent=2) for node in nodes) + "\n",
        lambda nodes: "".join(json.dumps(node) + "\n" for node in nodes),
        json.dumps,
        yaml.safe_dump,
    ],
    ids=[
        "JSON list", "JSON NodeList", "YAML list", "YAML documents", "empty document", "BOM",
        "JSON documents", "JSON lines", "bare JSON list", "bare YAML list",
    ],
)  # fmt: skip
def test_every_form_that_kubectl_writes_is_read(tmp_path: Path, write: object) -> None:
    path = tmp_path / "nodes.txt"
    path.write_text(write(fleet(3)), encoding="utf-8")  # type: ignore[operator]
    assert [node["metadata"]["name"] for node in read_objects(path, "Node")] == [
        "gpu-1",
        "gpu-2",
        "gpu-3",
    ]


def test_one_node_alone_and_an_empty_list_are_read(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(fleet(1)[0]), encoding="utf-8")
    assert len(read_objects(path, "Node")) == 1
    path.write_text("kind: List\nitems: []\n", encoding="utf-8")
    assert read_objects(path, "Node") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\nmetadata: {name: a}\n", "nodes.yaml:1: kind: is Pod, expected Node"),
        ("kind: List\nitems: 3\n", "nodes.yaml:2: items: must be a list"),
        (
            "kind: List\nitems:\n- kind: Node\n  metadata: {name: a}\n- kind: Node\n",
            r"nodes.yaml:5: items\[1\].metadata: is required",
        ),
        (
            "kind: List\nitems:\n- metadata:\n    labels: {}\n",
            r"nodes.yaml:3: items\[0\].metadata.name: is required",
        ),
        ("kind: List\nitems:\n- just text\n", r"nodes.yaml:3: items\[0\]: must be a Node object"),
        (
            "kind: List\nitems:\n- metadata: {name: a}\n  status: ready\n",
            r"nodes.yaml:4: items\[0\].status: must be a mapping",
        ),
        ("kind: List\nitems: [\n", "nodes.yaml:.*is not valid YAML"),
        ("metadata: {name: a}\n---\nmetadata: {name: a}\n", "holds Node a twice"),
        ("- 1\n", r"nodes.yaml:1: \[0\]: must be a Node object"),
        ("kind: PodList\nitems:\n- metadata: {name: a}\n", "is PodList, expected Node"),
        ("Name:   a\nRoles:  <none>\nLabels: x=y\n", r"metadata: .* \(kubectl get nodes -o json"),
        ("NAME  STATUS\na     Ready\n", r"must be a Node object \(kubectl get nodes -o json"),
        ("", "nodes.yaml: is empty, expected Node objects"),
        ("---\n# nothing\n", "nodes.yaml: is empty, expected Node objects"),
    ],
    ids=[
        "another kind", "no list", "no metadata", "no name", "text", "bad status", "bad YAML",
        "twice", "a list of numbers", "another list", "kubectl describe", "kubectl get", "empty",
        "no document",
    ],
)  # fmt: skip
def test_a_damaged_list_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_objects(path, "Node")


def test_a_missing_file_and_binary_data_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_objects(tmp_path / "none.yaml", "Node")
    path = tmp_path / "nodes.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_objects(path, "Node")
    path.write_text('{"kind": "List",\n "items": [}', encoding="utf-8")
    with pytest.raises(InputError, match=r"nodes.json:2: is not valid JSON"):
        read_objects(path, "Node")


@pytest.mark.parametrize("name", ["nodes.json", "nodes.yaml"])
def test_a_list_that_is_nested_without_end_is_one_clear_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("[" * 20_000, encoding="utf-8")
    with pytest.raises(InputError, match=f"{name}.*is nested too deeply"):
        read_objects(path, "Node")


def test_a_device_is_one_clear_error() -> None:
    with pytest.raises(InputError, match="/dev/null: is no regular file"):
        read_objects(Path("/dev/null"), "Node")
