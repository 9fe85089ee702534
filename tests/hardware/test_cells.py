"""The matrix: nodes of every platform and instance type in, resolved workloads out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from catalog.entries.entry import find_entry
from catalog.reading.setting import Setting
from catalog.workload.resolve import for_group
from catalog.workload.workload import Workload
from steps.detect.core import make_plan
from steps.documents import Plan
from steps.parse.measure import context_of
from tests.builders import record
from tests.detect.build import certification
from tests.hardware.cells import CELLS, Cell
from tests.plain_yaml import to_yaml

GOLDEN = Path(__file__).parent / "golden"
ENTRIES = (
    "communication/nccl-all-reduce",
    "communication/nccl-loopback",
    "communication/nccl-loopback-nvswitch",
    "training/nemotron5-8b",
    "diagnostics/dcgm-level4",
)
NODES = 4

each_cell = pytest.mark.parametrize("cell", CELLS, ids=[cell.id for cell in CELLS])


def plan_of(
    cell: Cell, *entries: str, env: dict[str, str] | None = None, count: int = NODES
) -> Plan:
    spec = cell.options | ({"env": env} if env else {})
    loaded, source = certification(*(entries or ENTRIES), spec=spec)
    return make_plan(
        loaded,
        cell.nodes(count),
        source="recorded",
        text=source,
        resource_slices=cell.slices(count),
        pods=cell.pods(),
    )


def values(settings: dict[str, Setting]) -> dict[str, Any]:
    return {name: setting.value for name, setting in sorted(settings.items())}


def summary(workload: Workload, nodes: int) -> dict[str, Any]:
    filled = for_group(workload, nodes)
    return {
        "image": filled.image.value,
        "command": " ".join(filled.command),
        "gpus": filled.gpus_per_node.value,
        "nics": filled.nics_per_node.value,
        "nicResource": filled.nic_resource.value,
        "transport": filled.transport.value,
        "resources": values(filled.resources),
        "env": values(filled.env),
        "launch": values(filled.launch),
        "pod": values(filled.pod),
        "timeoutSeconds": filled.timeout_seconds.value,
    }


def text_of(plan: Plan) -> str:
    [cohort] = plan.cohorts
    data: dict[str, Any] = {
        "profile": cohort.hardware.profile,
        "platform": cohort.hardware.platform,
        "architecture": cohort.hardware.gpu,
        "excluded": sorted({f"{item.code} {item.message}" for item in plan.excluded}),
        "notes": plan.annotations.get("notes", []),
    }
    for category in plan.categories:
        for part in category.parts:
            data[category.id] = summary(part.workload, len(part.groups[0].nodes))
    return to_yaml(data, width=120)


@each_cell
def test_cell_resolves_to_what_was_reviewed(cell: Cell) -> None:
    """``UPDATE_GOLDEN=1 pytest tests/hardware`` writes the files anew; read the difference then."""
    text = text_of(plan_of(cell))
    path = GOLDEN / f"{cell.id}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == {cell.id for cell in CELLS}


@each_cell
def test_no_layer_loses_a_variable_of_a_weaker_one(cell: Cell) -> None:
    for category in plan_of(cell).categories:
        if not category.parts:
            assert all(item.code == "NODE_EXCLUDED_NIC_MISSING" for item in plan_of(cell).excluded)
            continue
        [part] = category.parts
        env = part.workload.env
        base = find_entry(category.id).env
        assert set(base) <= set(env)
        for name, setting in env.items():
            chain = [setting.origin, *(old.origin for old in setting.replaced)]
            assert all(origin.rule and origin.file for origin in chain)
            if name in base:
                assert chain[min(1, len(chain) - 1)].rule == f"entry {category.id}"


@each_cell
def test_a_variable_of_the_certification_wins_and_keeps_all_others(cell: Cell) -> None:
    entry = "communication/nccl-all-reduce"
    before = plan_of(cell, entry).categories[0].parts[0].workload.env
    name = sorted(before)[0]
    after = plan_of(cell, entry, env={name: "mine", "EXTRA": "1"}).categories[0].parts[0]
    env = after.workload.env
    assert set(env) == {*before, "EXTRA"}
    assert env[name].value == "mine"
    assert env[name].origin.file == "certification.yaml"
    assert env[name].origin.line is not None
    assert env[name].replaced[-1].value == before[name].value


@each_cell
def test_nothing_is_left_to_fill_in(cell: Cell) -> None:
    for category in plan_of(cell).categories:
        for part in category.parts:
            text = for_group(part.workload, NODES).model_dump_json(exclude={"options"})
            assert "${" not in text


@each_cell
def test_every_value_has_an_origin_and_profiles_have_a_public_source(cell: Cell) -> None:
    for category in plan_of(cell).categories:
        for part in category.parts:
            work = part.workload
            for settings in (work.env, work.resources, work.pod, work.launch):
                for setting in settings.values():
                    assert setting.origin.file
                    if setting.origin.file.startswith("catalog/hardware/profiles/"):
                        assert setting.origin.line
                        assert setting.origin.source


@pytest.mark.parametrize(("nodes", "sequence", "recomputed"), [(1, 2048, True), (2, 8192, False)])
def test_boards_without_nvlink_train_a_short_sequence_on_one_node(
    nodes: int, sequence: int, recomputed: bool
) -> None:
    cell = next(cell for cell in CELLS if cell.id == "onprem-l40")
    [category] = plan_of(cell, "training/nemotron5-8b", count=nodes).categories
    [part] = category.parts
    workload = for_group(part.workload, nodes)
    command = workload.command
    assert f"--seq-length={sequence}" in command
    assert f"--max-position-embeddings={sequence}" in command
    assert ("--recompute-granularity=full" in command) is recomputed
    assert not any("$" in word or "[" in word for word in command)
    context = context_of(find_entry(category.id), workload, record(part.groups[0]))
    assert context.tokens_per_step == sequence * 8 * nodes
