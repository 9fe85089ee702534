"""Outputs that lost lines or results on the way: whatever is gone, the rest is no PASS."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from catalog.bars.stages import stages
from catalog.entries.entry import builtin_entries
from catalog.hardware.hardware import Hardware
from steps.documents import BarSet, Outcome
from steps.evaluate.group import judge_group
from steps.parse.api import ParseContext
from steps.parse.reader import parse_bytes
from tests.builders import group, record
from tests.evaluate.outputs import bar as make
from tests.evaluate.outputs import by_stage
from tests.fleets.jobs import make_job, simulated
from tests.parse.nccl_logs import Table, config, devices, footer
from tests.parse.training.logs import megatron

NODE = Hardware(platform="onprem", gpu="h100", gpus_per_node=8, nvlink=True)


def _sweep(*, dip: bool = False, wrong: int = 0) -> list[str]:
    """Two cycles over 14 sizes; ``dip`` makes one size slow, ``wrong`` spoils one row."""
    sizes = tuple(1 << power for power in range(20, 34))
    cycles = []
    for cycle in (1, 2):
        speeds = [round(275.0 * (number + 12) / 25 + cycle / 10, 2) for number in range(14)]
        if dip:
            speeds[9] = 60.0 + cycle
        cycles.append(Table(sizes=sizes, speeds=speeds, factor=1.75))
    rows = [row for table in cycles for row in table.rows()]
    if wrong:
        rows[20] = rows[20].rsplit(None, 1)[0] + f"      {wrong}"
    average = sum(table.average() for table in cycles) / 2
    head = [config(sizes[0], sizes[-1]), *devices(["gpu-a1"]), "#", *cycles[0].heading()]
    return [*head, *rows, *footer(average, wrong)]


def _judge_text(text: str, category: str, stage: str = "production") -> Outcome:
    entry = builtin_entries()[category]
    context = ParseContext(
        category=category,
        tool=entry.tool,
        node="gpu-a1",
        diag_level=entry.diag_level,
        hardware=Hardware(gpus_per_node=8),
    )
    read = parse_bytes(text.encode(), "output.log", context)
    return by_stage(entry, stage, NODE, 1, read)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(_sweep(dip=True), id="a dip at one size"),
        pytest.param(_sweep(wrong=3), id="wrong values in one row"),
    ],
)
def test_nccl_output_that_lost_any_line_is_no_pass(lines: Sequence[str]) -> None:
    category = "communication/nccl-loopback-nvswitch"
    assert _judge_text("\n".join(_sweep()) + "\n", category) is Outcome.PASS
    assert _judge_text("\n".join(lines) + "\n", category) is Outcome.FAIL
    for number in range(len(lines)):
        less = [*lines[:number], *lines[number + 1 :]]
        assert _judge_text("\n".join(less) + "\n", category) is not Outcome.PASS, lines[number]
    for number in range(len(lines)):
        assert _judge_text("\n".join(lines[:number]) + "\n", category) is not Outcome.PASS


@pytest.mark.parametrize("stage", stages())
def test_healthy_output_passes_every_stage(stage: str) -> None:
    category = "communication/nccl-loopback-nvswitch"
    assert _judge_text("\n".join(_sweep()) + "\n", category, stage) is Outcome.PASS


def test_training_log_that_lost_any_line_is_no_pass() -> None:
    lines = [megatron(step, 40, ms=9000.0 if step == 31 else 2000.0) for step in range(1, 41)]
    steady = make("maxStepTimeSec", "value < 3.0")
    each = make("expr", "row.step_time_s < 3.0", scope="row")
    context = ParseContext(tool="training", warmup_steps=10, exit_code=0)
    ran = group(["node-a"])

    def outcomes(text: str) -> set[Outcome]:
        read = parse_bytes(text.encode(), "train.log", context)
        return {
            judge_group(
                ran,
                "training",
                BarSet(nodes=1, bars=(one,)),
                record=record(ran),
                measurements=read,
            ).outcome
            for one in (steady, each)
        }

    assert outcomes("".join(lines)) == {Outcome.FAIL}
    for number in range(len(lines)):
        assert Outcome.PASS not in outcomes("".join([*lines[:number], *lines[number + 1 :]]))
        assert Outcome.PASS not in outcomes("".join(lines[:number]))


def test_diagnostic_that_lost_any_result_is_no_pass(tmp_path: Path) -> None:
    fault = "  - {kind: dcgm-failure, node: n-2, test: pcie, gpu: 3, errorId: 30}\n"
    job = make_job("diagnostics/dcgm-level3", ("n-2",))
    result = simulated(tmp_path, fault).run(job)
    whole = json.loads(next(iter(result.logs.values())))
    context = ParseContext(
        tool="dcgm", node="n-2", diag_level=3, hardware=Hardware(gpus_per_node=8)
    )

    def judge_document(document: object) -> Outcome:
        read = parse_bytes(json.dumps(document, indent=1).encode(), "diag.json", context)
        entry = builtin_entries()["diagnostics/dcgm-level3"]
        return by_stage(entry, "production", NODE, 1, read)

    assert judge_document(whole) is Outcome.FAIL
    categories = whole["DCGM Diagnostic"]["test_categories"]
    places = [
        (test, index)
        for category in categories
        for test in category["tests"]
        for index in range(len(test["results"]))
    ]
    assert len(places) > 60
    for test, index in places:
        lost = test["results"].pop(index)
        assert judge_document(whole) is not Outcome.PASS, (test["name"], index)
        test["results"].insert(index, lost)
