"""Bad YAML gets one line with file, line, field and what would be right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.certification import load_certification
from catalog.errors import InputError
from catalog.reading.source import parse_documents

GOOD = """\
apiVersion: readiness/v1
kind: Certification
metadata:
  name: demo
spec:
  stage: burn-in
  target:
    nodeSelector:
      pool: gpu
  categories:
    - domain: communication
      variant: nccl-all-reduce
      options:
        maxBytes: 8G
"""


def message(tmp_path: Path, text: str) -> str:
    path = tmp_path / "cert.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_certification(path)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(f"{tmp_path}/")


def test_good_certification_loads(tmp_path: Path) -> None:
    path = tmp_path / "cert.yaml"
    path.write_text(GOOD, encoding="utf-8")
    certification, source = load_certification(path)
    assert certification.spec.categories[0].id == "communication/nccl-all-reduce"
    assert source.place(("spec", "categories", 0, "options", "maxBytes")).line == 14


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "maxBytes: 8G",
            "maxByte: 8G",
            "cert.yaml:14: spec.categories[0].options.maxByte: is not a"
            " known field (did you mean 'maxBytes'?)",
        ),
        (
            "maxBytes: 8G",
            "maxBytes: 8GB",
            "cert.yaml:14: spec.categories[0].options.maxBytes: "
            "must be a message size such as 8, 512K or 16G, not '8GB'",
        ),
        (
            "  stage: burn-in",
            "  stage: burn-in\n  stage: production",
            "cert.yaml:7: spec.stage: is given twice",
        ),
        (
            "variant: nccl-all-reduce",
            "variation: x",
            "cert.yaml:12: spec.categories[0].variation: is not a known field",
        ),
        ("kind: Certification", "kind: Certificate", "cert.yaml:2: kind: "),
        ("pool: gpu", "pool: [gpu]", "cert.yaml:9: spec.target.nodeSelector.pool: "),
        ("  name: demo", "  name: Demo_1", "cert.yaml:4: metadata.name: "),
        (
            "maxBytes: 8G",
            "nodesPerJob: two",
            "cert.yaml:14: spec.categories[0].options.nodesPerJob",
        ),
        ("maxBytes: 8G", "maxBytes: 2T", "must be from 8 bytes, where sweeps begin, to 1T"),
        ("maxBytes: 8G", "maxBytes: 4", "must be from 8 bytes, where sweeps begin, to 1T"),
        ("maxBytes: 8G", f"nodesPerJob: {10**23}", "must be less than or equal to 100000"),
        ("maxBytes: 8G", f"numIterations: {10**12}", "must be less than or equal to 1000000"),
        ("maxBytes: 8G", "repeatCount: 101", "must be less than or equal to 100"),
        ("maxBytes: 8G", "image: a b", "must be an image reference without blanks, not 'a b'"),
        (
            "maxBytes: 8G",
            "thresholds: {busBandwidthGBps: 310}",
            "thresholds.busBandwidthGBps: must be an expression: write value >= 310",
        ),
        ("maxBytes: 8G", "enableCheckpoint: true", "enableCheckpoint is not supported: "),
        (
            "maxBytes: 8G",
            "maxBytes: 8G\n    - domain: communication\n      variant: nccl-all-reduce",
            "requests communication/nccl-all-reduce twice",
        ),
        (GOOD, "", "cert.yaml: is empty"),
        (GOOD, "- a", "cert.yaml:1: must be a mapping of fields"),
        (GOOD, "a: [1", "cert.yaml:2: is not valid YAML: "),
        (GOOD, "a: &x [*x]", "refers to itself"),
        (GOOD, "a: !!python/object:os.system x", "is not supported"),
        ("kind: Certification", "kind: x\n---\nkind: y", "holds 2 documents, expected one"),
    ],
)
def test_each_mistake_gets_one_line_that_says_where(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert says in message(tmp_path, GOOD.replace(old, new, 1))


def test_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read"):
        load_certification(tmp_path / "none.yaml")


def test_message_size_in_plain_bytes_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "cert.yaml"
    path.write_text(GOOD.replace("8G", "8589934592"), encoding="utf-8")
    certification, _ = load_certification(path)
    assert certification.spec.categories[0].options.max_bytes == "8589934592"


def test_aliases_of_aliases_are_bounded() -> None:
    rows = ["k0: &k0 [1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 8)}]" for i in range(1, 9)]
    with pytest.raises(InputError, match="repeats more than 100000 values by aliases"):
        parse_documents("\n".join(rows), "bomb.yaml")


def test_an_alias_is_built_at_every_place_with_its_lines() -> None:
    source = parse_documents("a: &a {x: 1}\nb: *a\n", "x.yaml")[0]
    assert source.data == {"a": {"x": 1}, "b": {"x": 1}}
    assert source.place(("b", "x")).line == 1


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_regular_file_is_refused_and_not_read(tmp_path: Path, kind: str) -> None:
    path = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "directory": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(InputError, match="is no regular file"):
        load_certification(path)


def test_bytes_that_are_no_text_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "cert.yaml"
    path.write_bytes(b"\xff\xfe\x00kind")
    with pytest.raises(InputError, match="not UTF-8"):
        load_certification(path)


@given(st.text(alphabet="abc:-[]{}&*!'\"#|>%@,? \n\t0159~", max_size=80))
def test_any_text_parses_or_gives_one_input_error(text: str) -> None:
    said = "x.yaml"
    try:
        parse_documents(text, "x.yaml")
    except InputError as error:
        said = str(error)
    assert said.startswith("x.yaml")
