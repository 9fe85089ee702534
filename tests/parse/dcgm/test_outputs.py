"""Every kind of output against the right reading."""

from __future__ import annotations

from typing import Any

import pytest

from steps.documents import Completeness
from steps.parse.api import Part
from tests.parse.dcgm.conftest import FIXTURES, Read

COMPLETE, CUT_OFF, ABORTED = Completeness.COMPLETE, Completeness.CUT_OFF, Completeness.ABORTED
UNKNOWN = Completeness.UNKNOWN_SCHEMA

EIGHT: dict[str, Any] = {"gpus_per_node": 8, "diag_level": 4}

# Expected: 'effect CODE @ entity, entity' of every finding, in any order; entities without node.
CASES: list[tuple[str, dict[str, Any], Completeness | None, list[str]]] = [
    ("v4-level4-pass.json", EIGHT, COMPLETE, []),
    ("v4-level4-seven-gpus.json", EIGHT, COMPLETE, ["fail DCGM_GPU_MISSING @ GPU 3"]),
    (
        "v4-hardware-fails.json",
        {**EIGHT, "exit_code": 205},
        COMPLETE,
        [
            "fail DCGM_FAIL_PCIE/30 @ GPU 6",
            "fail DCGM_FAIL_MEMTEST/52 @ GPU 1",
            "warn DCGM_WARN_TARGETED_POWER/63 @ GPU 4",
        ],
    ),
    (
        "v4-persistence-all.json",
        {},
        COMPLETE,
        ["inconclusive DCGM_CONFIG @ GPU 0, GPU 1, GPU 2, GPU 3"],
    ),
    ("v4-thermal-zero.json", EIGHT, COMPLETE, ["note DCGM_WARN_TARGETED_STRESS/41 @ GPU 2"]),
    (
        "v4-thermal-real.json",
        EIGHT,
        COMPLETE,
        ["fail DCGM_FAIL_TARGETED_STRESS/41 @ GPU 2", "warn GPU_THERMAL @ GPU 2"],
    ),
    (
        "v4-xid31.json",
        EIGHT,
        COMPLETE,
        ["inconclusive DCGM_FAIL_DIAGNOSTIC/101 @ GPU 5", "warn XID_31 @ GPU 5"],
    ),
    (
        "v4-xid79.json",
        EIGHT,
        COMPLETE,
        ["fail DCGM_FAIL_DIAGNOSTIC/101 @ GPU 5", "warn XID_79 @ GPU 5"],
    ),
    ("v4-pass-with-error.json", EIGHT, COMPLETE, ["inconclusive DCGM_INCONSISTENT @ GPU 7"]),
    (
        "v4-nvlink-down.json",
        EIGHT,
        COMPLETE,
        ["fail DCGM_FAIL_PCIE/14 @ GPU 0", "fail NVLINK_DOWN @ GPU 0"],
    ),
    ("v4-nvlink-down.json", {**EIGHT, "nvlink": False}, COMPLETE, ["warn DCGM_CONFIG @ GPU 0"]),
    (
        "v4-nvswitch.json",
        EIGHT,
        COMPLETE,
        ["fail DCGM_FAIL_PCIE/100 @ NvSwitch 2", "fail NVLINK_DOWN @ NvSwitch 2"],
    ),
    ("v4-imex.json", EIGHT, COMPLETE, ["note DCGM_CONFIG @ GPU 3"]),
    (
        "v4-imex.json",
        {**EIGHT, "mnnvl": True},
        COMPLETE,
        ["fail DCGM_FAIL_SOFTWARE/122 @ GPU 3"],
    ),
    ("v4-graphics-process.json", EIGHT, COMPLETE, ["inconclusive DCGM_BUSY @ GPU 0"]),
    ("v4-runtime-in-use.json", EIGHT, ABORTED, ["inconclusive DCGM_BUSY @ "]),
    ("v4-runtime-nvvs.json", EIGHT, ABORTED, ["inconclusive DCGM_DID_NOT_RUN @ "]),
    (
        "v4-summary-only.json",
        {},
        COMPLETE,
        ["fail DCGM_FAIL_MEMORY/58 @ GPU 2", "note DCGM_RESULT_MISSING @ "],
    ),
    ("v4-unknown-status.json", EIGHT, UNKNOWN, ["inconclusive SCHEMA_UNKNOWN @ "]),
    ("v4-all-skipped.json", EIGHT, COMPLETE, ["inconclusive DCGM_ALL_SKIPPED @ "]),
    ("v4-info-truncated.json", {}, COMPLETE, ["note DCGM_INFO_TRUNCATED @ "]),
    (
        "v4-one-gpu-untested.json",
        EIGHT,
        COMPLETE,
        ["inconclusive DCGM_RESULT_MISSING @ GPU 7"],
    ),
    (
        "v3-per-gpu-fail.json",
        {"gpus_per_node": 4, "diag_level": 3, "exit_code": 205},
        COMPLETE,
        [
            "fail DCGM_FAIL_DIAGNOSTIC/57 @ GPU 2",
            "fail ECC_UNCORRECTABLE @ GPU 2",
            "note DCGM_TEST_SKIPPED @ GPU 0, GPU 1, GPU 2, GPU 3",
        ],
    ),
    (
        "v3-deployment-texts.json",
        {"gpus_per_node": 4},
        COMPLETE,
        [
            "fail DCGM_FAIL_PAGE_RETIREMENT_ROW_REMAP/85 @ GPU 1",
            "fail DCGM_FAIL_PAGE_RETIREMENT_ROW_REMAP/80 @ GPU 3",
            "fail ROW_REMAP_FAILED @ GPU 3",
            "warn ROW_REMAP_PENDING @ GPU 1",
            "note DCGM_TEST_SKIPPED @ GPU 0, GPU 1, GPU 2, GPU 3",
        ],
    ),
    (
        "v3-cuda-busy.json",
        {"gpus_per_node": 4},
        COMPLETE,
        [
            "inconclusive DCGM_FAIL_MEMORY/51 @ GPU 1",
            "inconclusive DCGM_BUSY @ GPU 1",
            "note DCGM_TEST_SKIPPED @ GPU 0, GPU 1, GPU 2, GPU 3",
        ],
    ),
    (
        "v3-partly-skipped.json",
        {"gpus_per_node": 4},
        COMPLETE,
        [
            "inconclusive DCGM_TEST_SKIPPED @ GPU 3",
            "note DCGM_TEST_SKIPPED @ GPU 0, GPU 1, GPU 2, GPU 3",
        ],
    ),
    ("v1-lumped.json", {"gpus_per_node": 4}, COMPLETE, ["fail DCGM_FAIL_SM_STRESS @ GPU 1"]),
    ("v1-lumped-nameless.json", {}, COMPLETE, ["fail DCGM_FAIL_TARGETED_POWER @ "]),
    (
        "v2-level1-persistence.json",
        {},
        COMPLETE,
        ["inconclusive DCGM_CONFIG @ ", "warn DCGM_CONFIG @ "],
    ),
    (
        "iterations-second-fails.json",
        {"gpus_per_node": 2, "diag_level": 4},
        COMPLETE,
        ["fail DCGM_FAIL_MEMTEST/52 @ GPU 1", "note MULTIPLE_RUNS @ "],
    ),
    (
        "mndiag-one-gpu-fails.json",
        {"gpus_per_node": 2},
        COMPLETE,
        ["fail DCGM_FAIL_MNUBERGEMM/129 @ rack7-n02 GPU 0"],
    ),
    (
        "mndiag-mpi-error.json",
        {},
        ABORTED,
        [
            "inconclusive DCGM_DID_NOT_RUN @ ",
            "inconclusive DCGM_DID_NOT_RUN @ ",
            "inconclusive INFRA_MPI @ ",
        ],
    ),
    (
        "nvbandwidth-pass.json",
        {"gpus_per_node": 4},
        COMPLETE,
        ["note DCGM_TEST_SKIPPED @ gpu-17"],
    ),
    (
        "nvbandwidth-pass.json",
        {"gpus_per_node": 8},
        COMPLETE,
        ["fail DCGM_GPU_MISSING @ gpu-17", "note DCGM_TEST_SKIPPED @ gpu-17"],
    ),
    (
        "nvbandwidth-error.json",
        {},
        ABORTED,
        ["inconclusive NVBANDWIDTH_ERROR @ gpu-17", "inconclusive NO_RESULT_ROWS @ gpu-17"],
    ),
    ("preflight-pass.jsonl", {"gpus_per_node": 4}, COMPLETE, []),
    (
        "preflight-pass.jsonl",
        {"gpus_per_node": 8, "diag_level": 3},
        COMPLETE,
        ["inconclusive DCGM_LEVEL_TOO_LOW @ ", "inconclusive DCGM_RESULT_MISSING @ "],
    ),
    ("preflight-pcie-fail.jsonl", {}, COMPLETE, ["fail DCGM_FAIL_PCIE/30 @ GPU 2"]),
    ("preflight-busy.jsonl", {}, ABORTED, ["inconclusive DCGM_BUSY @ "]),
    (
        "text-v3-two-statuses.txt",
        {"gpus_per_node": 4, "diag_level": 3},
        COMPLETE,
        [
            "fail DCGM_FAIL_MEMORY @ GPU 2",
            "warn DCGM_WARN_TARGETED_POWER @ GPU 0, GPU 3",
            "note DCGM_TEST_SKIPPED @ ",
        ],
    ),
    (
        "text-v3-cut-off.txt",
        EIGHT,
        CUT_OFF,
        ["fail DCGM_FAIL_MEMORY @ GPU 2", "inconclusive LOG_TRUNCATED @ "],
    ),
    (
        "text-v4-per-gpu.txt",
        {"gpus_per_node": 2},
        COMPLETE,
        [
            "fail DCGM_FAIL_MEMORY @ GPU 1",
            "warn DCGM_WARN_DIAGNOSTIC @ GPU 0",
            "note DCGM_RESULT_MISSING @ ",
        ],
    ),
    (
        "text-v3-nvlink-all.txt",
        {},
        COMPLETE,
        [
            "fail DCGM_FAIL_PCIE @ GPU 1",
            "fail NVLINK_DOWN @ GPU 1",
            "fail DCGM_FAIL_PCIE @ GPU 3",
            "fail NVLINK_DOWN @ GPU 3",
            "note DCGM_RESULT_MISSING @ ",
        ],
    ),
    (
        "text-v3-nvlink-all.txt",
        {"nvlink": False},
        COMPLETE,
        ["warn DCGM_CONFIG @ GPU 1, GPU 3", "note DCGM_RESULT_MISSING @ "],
    ),
    (
        "text-error-row.txt",
        {},
        COMPLETE,
        ["fail DCGM_FAIL_DEPLOYMENT @ GPU 6", "warn ROW_REMAP_PENDING @ GPU 6"],
    ),
    (
        "text-mostly-skipped.txt",
        {},
        COMPLETE,
        ["inconclusive DCGM_LEVEL_TOO_LOW @ ", "note DCGM_TEST_SKIPPED @ "],
    ),
    ("text-gave-up.txt", {}, ABORTED, ["inconclusive DCGM_BUSY @ "]),
    ("text-pass-links-down.txt", {}, COMPLETE, ["fail NVLINK_DOWN @ GPU 1"]),
    (
        "text-mndiag-fail.txt",
        {"gpus_per_node": 2},
        COMPLETE,
        ["fail DCGM_FAIL_MNUBERGEMM @ rack7-n02 GPU 1"],
    ),
    (
        "text-mndiag-mpi.txt",
        {},
        ABORTED,
        ["inconclusive INFRA_MPI @ ", "inconclusive DCGM_DID_NOT_RUN @ "],
    ),
    ("condition-imex.txt", {}, None, ["note DCGM_CONFIG @ GPU 2"]),
    (
        "condition-imex.txt",
        {"mnnvl": True},
        None,
        ["fail DCGM_FAIL_GPUNVLINKWATCH/122 @ GPU 2"],
    ),
    (
        "nvbandwidth.txt",
        {"gpus_per_node": 2},
        COMPLETE,
        ["note DCGM_TEST_SKIPPED @ "],
    ),
    ("nvbandwidth-cut-off.txt", {"gpus_per_node": 8}, CUT_OFF, ["inconclusive LOG_TRUNCATED @ "]),
    ("smi-lost.txt", {}, None, ["fail GPU_FELL_OFF_BUS @ GPU 3 0000:5D:00.0"]),
    (
        "smi-list-unreachable.txt",
        {"gpus_per_node": 8},
        None,
        ["fail GPU_FELL_OFF_BUS @ 0000:9B:00.0", "fail GPU_MISSING @ GPU 5"],
    ),
    (
        "smi-q-remap.txt",
        {"gpus_per_node": 2},
        None,
        [
            "fail ROW_REMAP_FAILED @ 00000000:2A:00.0",
            "fail ECC_UNCORRECTABLE @ 00000000:3F:00.0",
            "warn ROW_REMAP_PENDING @ 00000000:3F:00.0",
        ],
    ),
    (
        "smi-q-retired-pages.txt",
        {},
        None,
        ["warn ROW_REMAP_PENDING @ 00000000:8A:00.0"],
    ),
    (
        "smi-nvlink.txt",
        {"gpus_per_node": 8},
        None,
        ["fail NVLINK_DOWN @ GPU 1", "fail NVLINK_DOWN @ GPU 2"],
    ),
    (
        "smi-table.txt",
        {"gpus_per_node": 2},
        None,
        ["fail ECC_UNCORRECTABLE @ GPU 1 00000000:43:00.0"],
    ),
    ("smi-topology.txt", {}, None, []),
]


def said(part: Part) -> list[str]:
    return [
        f"{finding.effect} {finding.code} @ {', '.join(map(str, finding.entities))}"
        for finding in part.findings
    ]


@pytest.mark.parametrize(
    ("name", "known", "completeness", "expected"),
    CASES,
    ids=[f"{name}-{'-'.join(map(str, known)) or 'alone'}" for name, known, _, _ in CASES],
)
def test_the_output_is_read_rightly(
    read: Read,
    name: str,
    known: dict[str, Any],
    completeness: Completeness | None,
    expected: list[str],
) -> None:
    part = read(name, **known)
    comparison = (
        f"\n{name}"
        f"\n  expected {completeness} {sorted(expected)}"
        f"\n  got      {part.completeness} {sorted(said(part))}"
    )
    assert sorted(said(part)) == sorted(expected), comparison
    assert part.completeness == completeness, comparison


def test_every_fixture_has_a_case() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == {name for name, _, _, _ in CASES}


@pytest.mark.parametrize("name", sorted({name for name, *_ in CASES}))
def test_entities_carry_the_node_and_codes_are_in_the_catalog(read: Read, name: str) -> None:
    part = read(name, node="node-q", gpus_per_node=8, diag_level=4)
    for finding in part.findings:
        assert all(entity.node for entity in finding.entities), finding
        assert finding.entities, finding
