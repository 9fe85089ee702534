"""A verdict shows the rows behind its numbers, or says what they were computed from."""

from __future__ import annotations

import pytest

from catalog.facts.tools import OutputKind, output_kind
from steps.documents import DiagnosticRow, Evidence, Measurements
from steps.evaluate.decisive import Decisive, computed_from
from steps.tools import TOOL_STEPS
from tests.evaluate.outputs import dcgm, nccl, training

DIPPING = {1 << 30: 300.0, 2 << 30: 200.0}


@pytest.mark.parametrize(
    ("read", "figures", "says"),
    [
        (nccl(cycles=3), ["largestSizeBusBandwidthGBps"], "at 16G, mean of 3 cycles"),
        (nccl(cycles=3), ["timeAtUs"], "mean of 3 cycles"),
        (nccl(cycles=1), ["largestSizeBusBandwidthGBps", "timeAtUs"], None),
        (nccl(cycles=3), ["cycleSpread"], "over 3 cycles at 16G"),
        (nccl(cycles=3), ["peakBusBandwidthGBps", "wrongCount"], None),
        (nccl(cycles=3), ["smallMessageLatencyUs"], "median of 24 rows up to 1K"),
        (
            nccl(sizes=[*DIPPING], slow=DIPPING, cycles=1),
            ["bandwidthDip"],
            "from 300.00 GB/s at 1G to 200.00 GB/s at 2G",
        ),
        (
            nccl(cycles=2),
            ["busBandwidthGBps", "cycleSpread", "rowCount"],
            "busBandwidthGBps at 16G, mean of 2 cycles; cycleSpread over 2 cycles at 16G",
        ),
        (training(), ["avgStepTimeSec"], "mean of 40 lines after warm-up"),
        (training((2.0,) * 7), ["stepTimeSpread"], "over 7 lines after warm-up"),
        (training(tflops=None), ["avgTFLOPsPerGPU"], None),
        (training(), ["stepCount"], None),
        (dcgm(), ["hostToDeviceMinGBps"], None),
    ],
)
def test_numbers_of_several_rows_say_so(
    read: Measurements, figures: list[str], says: str | None
) -> None:
    assert computed_from(figures, read, TOOL_STEPS[read.mode.tool or ""]) == says


BOTH = "GPU to Host bandwidth: 41.5 GB/s{}Host to GPU bandwidth: 43.5 GB/s"


@pytest.mark.parametrize(
    ("mode", "text", "line"),
    [
        (output_kind("dcgm-json"), BOTH.format(", "), 7),
        (output_kind("dcgm-json"), BOTH.format("; "), None),
        (output_kind("dcgm-text"), BOTH.format(", "), None),
    ],
    ids=["one text", "two texts on lines of their own", "table with the text below the status"],
)
def test_line_of_a_bandwidth_is_cited_where_it_is_known(
    mode: OutputKind, text: str, line: int | None
) -> None:
    row = DiagnosticRow(
        test="pcie", status="pass", gpu=2, value=41.5, unit="GB/s", text=text, line=7
    )
    read = dcgm().model_copy(update={"mode": mode, "rows": (row,)})
    [found] = Decisive(read, TOOL_STEPS["dcgm"]).lines(["hostToDeviceMinGBps"], "value > 50")
    says = "pcie GPU 2: pass, Host to GPU bandwidth 43.5 GB/s"
    assert found == Evidence(file="diag.json", line=line, text=says)


def test_test_that_did_not_pass_as_a_whole_is_no_evidence_of_passed_tests() -> None:
    read = dcgm(gpus=2, statuses={("memory", 1): "fail", ("pcie", 0): "skip"})
    found = Decisive(read, TOOL_STEPS["dcgm"]).lines(["testsPassed"], "testsPassed > 0", most=9)
    assert {line.text for line in found} == {
        "targeted_power GPU 0: pass",
        "targeted_power GPU 1: pass",
        "pcie GPU 1: pass",
    }
