"""`readiness judge` on single outputs: what it insists on, what it cites, and what it advises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catalog.errors import ExpressionError
from pipelines.cli.app import app
from tests.cli.test_commands import EXAMPLES, FOOTER, TABLE, on_every_gpu, row
from tests.parse.training.logs import megatron_run

OUTPUTS = EXAMPLES / "recorded" / "outputs"
RUNNER = CliRunner(env={"COLUMNS": "200"})


def judged(*arguments: str | Path) -> tuple[int, str]:
    result = RUNNER.invoke(app, ["judge", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def pcie(tmp_path: Path) -> Path:
    """A diagnostic of DCGM 3 that says two bandwidths in one text, in one line."""
    says = "GPU to Host bandwidth:\t\t41.75 GB/s, Host to GPU bandwidth:\t\t43.5 GB/s"
    results = [{"gpu_id": str(gpu), "status": "Pass", "info": says} for gpu in range(2)]
    tests = [{"category": "Integration", "tests": [{"name": "PCIe", "results": results}]}]
    data = {"DCGM GPU Diagnostic": {"test_categories": tests}, "version": "3.1.8"}
    path = tmp_path / "diag.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("hostToDeviceMinGBps", 43.5, "Host to GPU bandwidth 43.5 GB/s"),
        ("deviceToHostMinGBps", 41.75, "GPU to Host bandwidth 41.75 GB/s"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\n\n"], ids=["no end", "one line", "two lines"])
def test_evidence_of_a_document_in_one_line_is_the_judged_value(
    pcie: Path, key: str, value: float, words: str, end: str
) -> None:
    pcie.write_text(pcie.read_text(encoding="utf-8") + end, encoding="utf-8")
    code, said = judged(pcie, "--expr", f"{key}: value >= 50")
    assert code == 1
    assert f"not met: {value} >= 50 [value >= 50] --expr" in said
    assert f"pcie GPU 0: pass, {words}" in said


@pytest.mark.parametrize("count", [1, 8])
def test_a_diagnostic_that_sums_up_its_tests_loses_no_gpu(tmp_path: Path, count: int) -> None:
    tests = [{"name": name, "test_summary": {"status": "Pass"}} for name in ("software", "memory")]
    listed = [{"entity_id": gpu, "device_id": "2335"} for gpu in range(count)]
    data = {
        "DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]},
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": listed}],
    }
    path = tmp_path / "diag.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    code, said = judged(path, "--expr", f"gpusSeen + testsPassed == {count + 2}")
    assert (code, said.split()[0]) == (0, "PASS"), said


def test_several_sweeps_are_told_as_their_mean(tmp_path: Path) -> None:
    path = tmp_path / "sweeps.log"
    head = on_every_gpu(TABLE[: TABLE.index("  8589934592")])
    sweeps = [row(2**33, 196.0), row(2**34, 198.4), row(2**33, 197.0), row(2**34, 201.6)]
    path.write_text(head + "".join(sweeps) + FOOTER, encoding="utf-8")
    _, said = judged(path, "--expr", "largestSizeBusBandwidthGBps: value >= 150")
    assert "met: 200 >= 150 (at 16G, mean of 2 cycles)" in said
    _, said = judged(path, "--expr", "busBandwidthAtGBps['16G'] >= 250")
    assert "(mean of 2 cycles)" in said
    path.write_text(head + "".join(sweeps[:2]) + FOOTER, encoding="utf-8")
    _, said = judged(path, "--expr", "largestSizeBusBandwidthGBps: value >= 150")
    assert "met: 198.4 >= 150 [value >= 150]" in said


@pytest.mark.parametrize("stage", ["bring-up", "production"])
@pytest.mark.parametrize(
    "arguments", [[], ["--platform", "onprem"], ["--gpu", "h100"]], ids=["nothing", "place", "gpu"]
)
def test_what_was_measured_on_unknown_hardware_is_no_pass(stage: str, arguments: list[str]) -> None:
    code, said = judged(OUTPUTS / "hgx-21-dcgm.json", "--stage", stage, *arguments)
    assert code == 3, said
    assert "NO_THRESHOLD (inconclusive): hostToDeviceMinGBps: " in said
    assert "NO_THRESHOLD (inconclusive): gpusSeen: the GPUs per node are not known" in said
    # No bandwidth to the host was printed, so no bar of it is missed.
    assert "BAR_LEFT_OUT (note): deviceToHostMinGBps, deviceToDeviceMinGBps: " in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--platform", "onprem", "--gpu", "h100"],
        ["--platform", "ONPREM", "--gpu", "H100"],
        ["--platform", "p5.48xlarge"],
        ["--expr", "hostToDeviceMinGBps: value >= 50"],
    ],
)
def test_known_hardware_or_a_bar_of_ones_own_is_enough(arguments: list[str]) -> None:
    code, said = judged(OUTPUTS / "hgx-21-dcgm.json", *arguments)
    assert code == 0, said


@pytest.mark.parametrize("kind", ["nccl", "dcgm", "dcgm on a known platform", "training"])
def test_advice_names_options_that_there_are(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(megatron_run(40), encoding="utf-8")
    files = {"nccl": OUTPUTS / "pair-all-reduce.txt", "training": log}
    told = ["--platform", "onprem"] if kind == "dcgm on a known platform" else []
    code, said = judged(files.get(kind, OUTPUTS / "hgx-21-dcgm.json"), *told)
    assert code == 3
    assert (
        "next: tell --platform and --gpu (or --entry, --nodes) where the output does not, or state"
        in said
    )
    assert "thresholds" not in said


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("out_bus_gbps: value > 352", "in scope row, without a key, write row.out_bus_gbps > 352"),
        ("busBandwidthGPBs: value > 352", "did you mean 'busBandwidthGBps'?"),
    ],
)
@pytest.mark.parametrize("scope", ["row", "group"])
def test_key_that_is_no_figure_is_told_with_what_is_meant(
    expression: str, hint: str, scope: str
) -> None:
    with pytest.raises(ExpressionError, match=r"^--expr: '\w+' is no figure of nccl") as error:
        judged(OUTPUTS / "pair-all-reduce.txt", "--scope", scope, "--expr", expression)
    assert hint in (error.value.hint or "")
