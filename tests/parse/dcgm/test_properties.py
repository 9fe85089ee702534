"""What must hold for any output, however strange or cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.facts.reasons import Effect
from catalog.hardware.hardware import Hardware
from steps.documents import Completeness
from steps.parse.api import ParseContext, Part
from tests.parse.dcgm.conftest import FIXTURES, read_json, read_text

KEYS = st.sampled_from(
    [
        "test_categories",
        "tests",
        "results",
        "status",
        "warnings",
        "warning",
        "info",
        "gpu_id",
        "gpu_ids",
        "entity_id",
        "entity_group",
        "entity_groups",
        "entities",
        "test_summary",
        "name",
        "category",
        "error_id",
        "error_severity",
        "error_category",
        "runtime_error",
        "metadata",
        "version",
        "hosts",
        "host_id",
        "hostname",
        "mpi_error",
        "global_errors",
        "iterations",
        "testcases",
        "bandwidth_matrix",
        "sum",
        "event",
        "module",
        "passed",
        "failed",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats()
    | st.sampled_from(["Pass", "Fail", "Warn", "Skip", "memory", "GPU", "0,1", "GPU 3 is bad", ""])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
ROOTS = st.sampled_from(
    ["DCGM GPU Diagnostic", "DCGM Diagnostic", "DCGM Multi-Node Diagnostic", "nvbandwidth"]
)
CONTEXTS = st.builds(
    ParseContext,
    hardware=st.builds(
        Hardware,
        gpus_per_node=st.none() | st.integers(1, 8),
        nvlink=st.none() | st.booleans(),
        mnnvl=st.none() | st.booleans(),
    ),
    diag_level=st.none() | st.integers(1, 4),
    exit_code=st.none() | st.sampled_from([0, 1, 205, 226]),
)


def blamed(part: Part) -> set[int]:
    return {
        entity.gpu
        for finding in part.findings
        if finding.effect is Effect.FAIL and finding.code != "DCGM_GPU_MISSING"
        for entity in finding.entities
        if entity.gpu is not None
    }


@settings(max_examples=300, deadline=None)
@given(root=ROOTS, value=VALUES, more=st.dictionaries(KEYS, VALUES, max_size=3), known=CONTEXTS)
def test_no_json_below_a_root_crashes_or_is_complete_without_rows(
    root: str, value: Any, more: dict[str, Any], known: ParseContext
) -> None:
    part = read_json({**more, root: value}, "", "x.json", known)
    assert part is not None
    assert part.completeness is not Completeness.COMPLETE or part.rows
    stopped = any(f.effect in {Effect.FAIL, Effect.INCONCLUSIVE} for f in part.findings)
    assert part.completeness is Completeness.COMPLETE or stopped


@settings(max_examples=200, deadline=None)
@given(value=st.lists(st.dictionaries(KEYS, VALUES, max_size=5) | VALUES, max_size=5))
def test_no_list_of_events_crashes(value: list[Any]) -> None:
    read_json(value, "", "x.jsonl", ParseContext())


STATUSES = st.sampled_from(["Pass", "Fail", "Skip", "Warn"])
NUMBERS = st.none() | st.integers(0, 140)


@settings(max_examples=200, deadline=None)
@given(
    statuses=st.lists(st.lists(STATUSES, min_size=8, max_size=8), min_size=1, max_size=4),
    number=NUMBERS,
    mentioned=st.integers(0, 7),
    known=CONTEXTS,
)
def test_only_gpus_with_a_fail_are_blamed(
    statuses: list[list[str]], number: int | None, mentioned: int, known: ParseContext
) -> None:
    """A message on one GPU's result that mentions another GPU does not blame that one."""
    warning = {"warning": f"something about GPU {mentioned}", "error_id": number}
    tests = [
        {
            "name": name,
            "results": [
                {
                    "entity_group": "GPU",
                    "entity_id": gpu,
                    "status": status,
                    **({"warnings": [warning]} if status != "Pass" else {}),
                }
                for gpu, status in enumerate(row)
            ],
        }
        for name, row in zip(["memory", "pcie", "diagnostic", "memtest"], statuses, strict=False)
    ]
    data = {"DCGM Diagnostic": {"test_categories": [{"category": "x", "tests": tests}]}}
    part = read_json(data, "", "x.json", known)
    assert part
    failing = {gpu for row in statuses for gpu, status in enumerate(row) if status == "Fail"}
    assert blamed(part) <= failing


@settings(max_examples=150, deadline=None)
@given(
    named=st.lists(st.integers(0, 7), max_size=4), lumped=st.lists(st.integers(0, 5), min_size=2)
)
def test_a_lumped_fail_blames_only_the_gpus_its_texts_name(
    named: list[int], lumped: list[int]
) -> None:
    warnings = [f"Max stress level of 10.5 did not exceed 99.0 for GPU {gpu}" for gpu in named]
    result = {"gpu_ids": ",".join(map(str, lumped)), "status": "FAIL", "warnings": warnings}
    tests = [{"name": "sm_stress", "results": [result]}]
    data = {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Stress", "tests": tests}]}}
    part = read_json(data, "", "x.json", ParseContext())
    assert part
    assert any(f.effect is Effect.FAIL for f in part.findings)
    if len(set(lumped)) > 1:
        assert blamed(part) == set(named) & set(lumped)


TEXTS = sorted(path.name for path in FIXTURES.glob("text-*.txt"))


@pytest.mark.parametrize("name", TEXTS)
def test_a_table_cut_anywhere_is_not_complete_and_blames_no_one_new(name: str) -> None:
    text = (FIXTURES / name).read_text(encoding="utf-8")
    context = ParseContext(hardware=Hardware(gpus_per_node=8))
    whole = read_text(text, context)
    # the closing border is the last line; what is cut from it alone changes nothing that was said
    for end in range(0, text.rstrip("\n").rfind("\n"), 7):
        part = read_text(text[:end], context)
        assert blamed(part) <= blamed(whole), end
        if part.claimed:
            assert part.completeness is not Completeness.COMPLETE or not part.rows, end


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text("|+-= GPUailsPW:,0123\n", max_size=60)
        | st.sampled_from(
            [
                "| Diagnostic                | Result                                         |",
                "+-----  Hardware  ----------+------------------------------------------------+",
                "| memory                    | Fail - GPUs: 0, 1                              |",
                "|                           | GPU0: Fail                                     |",
                "GPU 00000000:2A:00.0",
                "    Remapped Rows",
                "        Pending                           : Yes",
                "Running host_to_device_memcpy_ce.",
                " 0     55.31     38.64",
            ]
        ),
        max_size=12,
    )
)
def test_no_text_crashes(lines: list[str]) -> None:
    read_text("\n".join(lines), ParseContext(tool="dcgm", hardware=Hardware(gpus_per_node=4)))


def test_the_order_of_results_does_not_matter() -> None:
    data = json.loads((FIXTURES / "v4-hardware-fails.json").read_text())
    turned = json.loads((FIXTURES / "v4-hardware-fails.json").read_text())
    for category in turned["DCGM Diagnostic"]["test_categories"]:
        for test in category["tests"]:
            test["results"].reverse()
    one = read_json(data, "", "x", ParseContext())
    other = read_json(turned, "", "x", ParseContext())
    assert one
    assert other
    assert {(f.code, f.entities) for f in one.findings} == {
        (f.code, f.entities) for f in other.findings
    }
