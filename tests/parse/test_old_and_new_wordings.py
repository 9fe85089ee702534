"""Wordings that only some versions of a tool print, read from whole outputs."""

from __future__ import annotations

import json

import pytest

from catalog.facts.reasons import Effect
from catalog.hardware.hardware import Hardware
from steps.documents import Completeness, Measurements, NcclRow
from steps.parse import parse_bytes
from steps.parse.api import ParseContext
from tests.parse.nccl_logs import config, devices, log


def _parse(text: str, context: ParseContext | None = None) -> Measurements:
    return parse_bytes(text.encode(), "out.log", context or ParseContext(), strict=True)


def _codes(found: Measurements) -> set[str]:
    return {item.code for item in found.findings}


def _one(found: Measurements, code: str) -> str:
    item = next(item for item in found.findings if item.code == code)
    return f"{item.effect.value} [{', '.join(map(str, item.entities))}] {item.message}"


_HALF = "    time  algbw  busbw      res"
FIRST_VERSION = f"""nThread 1 nGpus 2 minBytes 2048 maxBytes 67108864 step: 32768(factor)
# NCCL Tests compiled with NCCL 2.1
# Using devices
#   Rank  0 on    quad-07 device  0 [0x04] Tesla P100-SXM2-16GB
#   Rank  1 on    quad-07 device  1 [0x05] Tesla P100-SXM2-16GB

#                                                 out-of-place                    in-place
#      bytes             N    type      op {_HALF} {_HALF}
"""


def test_tables_of_the_first_version_are_in_milliseconds() -> None:
    rows = (
        "2048      512 float sum 0.031  0.07  0.07 0e+00 0.030  0.07  0.07 0e+00",
        "67108864 16777216 float sum 4.194 16.00 16.00 0e+00 4.190 16.02 16.02 0e+00",
    )
    end = "Out of bounds values : 0 OK\nAvg bus bandwidth    : 8.04\n"
    found = _parse(FIRST_VERSION + "\n".join((*rows, end)))
    read = [row for row in found.rows if isinstance(row, NcclRow)]
    assert [row.out_time_us for row in read] == [31.0, 4194.0]
    assert [row.in_time_us for row in read] == [30.0, 4190.0]
    assert [(place.rank, place.node) for place in found.ranks] == [(0, "quad-07"), (1, "quad-07")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("NCCL failure reduce.cu:77 'unhandled system error'", "unhandled system error"),
        ("quad-07: NCCL failure common.cu:310 'internal error'", "internal error"),
        ("Cuda failure common.cu:612 'out of memory'", "CUDA error: out of memory"),
    ],
)
def test_failures_of_the_first_version_are_failures(line: str, says: str) -> None:
    found = _parse(f"{FIRST_VERSION}{line}\n")
    assert found.completeness is Completeness.ABORTED
    assert says in _one(found, "NCCL_ABORTED")


def _aborted(*lines: str, version: str = "2.5.6") -> str:
    head = [config(8, 1 << 26), "#", *devices(["gpu-d1", "gpu-d2"], 1), f"NCCL version {version}"]
    end = [
        "gpu-d2: Test NCCL failure common.cu:345 'unhandled system error'",
        " .. gpu-d2 pid 7101: Test failure common.cu:393",
    ]
    return "\n".join([*head, *lines, *end]) + "\n"


def test_a_completion_error_without_a_peer_is_one() -> None:
    found = _parse(
        _aborted(
            "gpu-d2:7101:7117 [0] transport/net_ib.cc:781 NCCL WARN NET/IB : Got completion with "
            "error 12, opcode 1, len 4096, vendor err 129"
        )
    )
    assert "gpu-d2 GPU 0: network request failed, status 12" in _one(
        found, "NCCL_IB_COMPLETION_ERROR"
    )


def test_shared_memory_is_only_suspected_where_nothing_else_was_said() -> None:
    warning = (
        "gpu-d2:7101:7117 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with "
        "error Network is unreachable"
    )
    assert "INFRA_SHM" in _codes(_parse(_aborted()))
    found = _parse(_aborted(warning))
    assert "INFRA_SHM" not in _codes(found)
    aborted = next(item for item in found.findings if item.code == "NCCL_ABORTED")
    assert any("ibv_modify_qp" in proof.text for proof in aborted.evidence)


def test_a_warning_of_a_newer_version_names_its_host() -> None:
    found = _parse(
        "[2026-03-02 01:02:03] gpu-d3:41:58 [6] net_ib/common.cc:144 (ncclIbAsyncThread) NCCL WARN "
        "NET/IB : mlx5_4:1 Got async event : port error\n"
    )
    assert _one(found, "IB_LINK_FLAP").startswith("warn [gpu-d3 mlx5_4]")


def test_warnings_are_shown_where_nothing_else_tells_why_there_are_no_rows() -> None:
    warning = "gpu-d1:9:31 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed"
    found = _parse("\n".join([config(8, 1 << 26), "#", *devices(["gpu-d1"], 1), warning]) + "\n")
    missing = next(item for item in found.findings if item.code == "NO_RESULT_ROWS")
    assert [proof.text for proof in missing.evidence] == [warning]


def test_the_newer_heading_of_rccl_tests_names_versions() -> None:
    text = log().replace(
        "# nThread",
        "# rccl-tests version 2.18.3-develop:0a1b2c3d rccl-headers=22901 rccl-library=22806\n"
        "# nThread",
        1,
    )
    assert _parse(text).versions == {"rccl-tests": "2.18.3-develop:0a1b2c3d", "rccl": "2.28.6"}


@pytest.mark.parametrize(
    ("provider", "effect"),
    [("tcp;ofi_rxm", Effect.FAIL), ("sockets", Effect.FAIL), ("efa", None), ("cxi", None)],
)
def test_libfabric_over_sockets_is_no_fabric(provider: str, effect: Effect | None) -> None:
    hosts = ("gpu-a1", "gpu-a2")
    before = [
        f"{host}:71:88 [0] NCCL INFO {words}"
        for host in hosts
        for words in (
            f"NET/OFI Selected provider is {provider}, fabric is net-0 (found 4 nics)",
            "Using network AWS Libfabric",
        )
    ]
    found = _parse(
        log(nodes=hosts, before=before),
        ParseContext(nodes=hosts, hardware=Hardware(transport=("AWS Libfabric",))),
    )
    fallback = [item for item in found.findings if item.code == "NCCL_TRANSPORT_FALLBACK"]
    assert [item.effect for item in fallback] == ([effect] if effect else [])
    hosts_on_fabric = found.figures["fabricHostCount"].value
    assert hosts_on_fabric == (0 if effect else 2)


@pytest.mark.parametrize("word", ["MODEL_TFLOP", "TFLOP"])
def test_megatron_bridge_throughput(word: str) -> None:
    found = _parse(
        "".join(
            f"Step Time : 3.50s GPU utilization: 512.5{word}/s/GPU\n"
            f" [2025-11-03 10:00:{step:02d}] iteration {step:8d}/      20 | consumed samples: "
            f"{step * 64:12d} | elapsed time per iteration (ms): 3501.0 | global batch size:    64 "
            "| lm loss: 5.5E+00 | loss scale: 1.0 | grad norm: 0.7 | number of skipped iterations: "
            "  0 | number of nan iterations:   0 |\n"
            for step in range(1, 21)
        )
    )
    assert found.figures["avgTFLOPsPerGPU"].value == 512.5
    assert found.tool == "megatron-bridge"


BARS = {
    "without a rate": (
        "Epoch 0: :  {p}%|###   | {n}/40 [0{n}:00<09:00, reduced_train_loss=6.2{n}, "
        "global_step={n}.0, consumed_samples=2048.0, train_step_timing in s=4.25]\n",
        4.25,
    ),
    "without a rate and a length": (
        "Epoch 0: :   0%|          | {n}/? [0{n}:00<00:00, v_num=, reduced_train_loss=6.2{n}, "
        "global_step={n}.0, train_step_timing in s=4.25, val_loss=]\n",
        4.25,
    ),
    "a counter": ("Epoch 3: : {n}it [0{n}:00,  4.00it/s, loss=6.2{n}, v_num=k2]\n", 0.25),
}


@pytest.mark.parametrize(("bar", "seconds"), BARS.values(), ids=BARS.keys())
def test_progress_bars_give_step_times(bar: str, seconds: float) -> None:
    found = _parse("".join(bar.format(n=n, p=2 * n) for n in range(1, 9)))
    assert found.figures["medianStepTimeSec"].value == pytest.approx(seconds)
    assert found.figures["firstLoss"].value == 6.21
    assert found.figures["lastLoss"].value == 6.28


def test_a_loss_that_is_nan_is_found_in_a_bar_without_a_rate() -> None:
    good, _ = BARS["without a rate"]
    bad = good.format(n=2, p=4).replace("6.22", "nan.0")
    found = _parse(good.format(n=1, p=2) + bad)
    assert "iteration 2" in _one(found, "TRAIN_NAN")


def test_a_failure_glued_to_the_last_progress_bar_ends_the_run() -> None:
    found = _parse(
        "  3%|2  | 30/900 [00:30<14:30,  1.00s/it]\n{'loss': 2.5, 'epoch': 0.03}\n"
        "  3%|2  | 31/900 [00:31<14:29,  1.00s/it][rank2]:[E101 01:02:03.4 PG.cpp:632] "
        "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=71, "
        "OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600010 milliseconds "
        "before timing out.\n"
    )
    assert found.completeness is Completeness.ABORTED
    assert "TRAIN_HANG_WATCHDOG" in _codes(found)


@pytest.mark.parametrize("outcome", ["reproducible", "not reproducible"])
def test_megatron_tells_the_place_of_a_nan_in_a_second_line(outcome: str) -> None:
    found = _parse(
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 11 at iteration #70 "
        "invocation #1 (message='found NaN in local forward loss calculation')\n"
        "ERROR:megatron.core.rerun_state_machine:Rank 11, node gpu-e2, device 3, iteration #70: "
        f"First rerun: unexpected result is {outcome} within the tolerance (nan, 1.5)\n"
    )
    assert "[gpu-e2 GPU 3 rank 11]" in _one(found, "TRAIN_NAN")
    assert "iteration 70" in _one(found, "TRAIN_NAN")


@pytest.mark.parametrize(("host", "node"), [("gpu-f4", "gpu-f4"), ("10-20-gpu-f4", "10-20-gpu-f4")])
def test_the_further_lines_of_a_journal_message_keep_host_and_address(host: str, node: str) -> None:
    margin = " " * 40
    found = _parse(
        f"Mar 04 05:06:07 {host} kernel: NVRM: The NVIDIA GPU 0000:5d:00.0\n"
        f"{margin}NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        f"{margin}NVRM: fallen off the bus and is not responding to commands.\n"
    )
    assert _one(found, "GPU_FELL_OFF_BUS").startswith(f"fail [{node} 0000:5d:00.0]")


def test_an_xid_without_its_address_is_still_an_xid() -> None:
    found = _parse(
        "kernel: NVRM: Xid (PCI:...): 145, RLW_RXPIPE Fatal XC0 i0 Link 05 (...)\n"
        "kernel: NVRM: Xid (PCI:<redacted>): 95, pid=71, name=python, Uncontained ECC error\n"
    )
    assert _one(found, "XID_145").startswith("fail [link 05]")
    assert _one(found, "XID_95").startswith("fail []")


def test_kernel_lines_in_json_of_any_structure_are_found() -> None:
    event = {
        "kind": "Event",
        "message": "NVRM: Xid (PCI:0000:1b:00): 79, pid=0, GPU has fallen off the bus.",
    }
    items = json.dumps({"items": [event]}, indent=2)
    for text in (json.dumps(event), json.dumps([event]), items, items[:-4]):
        found = _parse(text + "\n")
        assert "0000:1b:00" in _one(found, "XID_79")
        assert next(item.count for item in found.findings if item.code == "XID_79") == 1


@pytest.mark.parametrize(
    ("ending", "how"),
    [
        ("=   EXIT CODE: 139", "exit code 139"),
        ("=   KILLED BY SIGNAL: 11 (Segmentation fault)", "signal 11 (Segmentation fault)"),
    ],
)
@pytest.mark.parametrize("rank", ["", "RANK 5 "])
def test_hydra_tells_which_process_was_the_first_to_end(ending: str, how: str, rank: str) -> None:
    found = _parse(
        log(nodes=["gpu-g1"])
        + "=" * 60
        + "\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        + f"=   {rank}PID 4711 RUNNING AT gpu-g1\n{ending}\n=   CLEANING UP REMAINING PROCESSES\n"
    )
    place = "gpu-g1 rank 5" if rank else "gpu-g1"
    assert _one(found, "WorkloadFailed").startswith(f"inconclusive [{place}] {place} was the first")
    assert how in _one(found, "WorkloadFailed")


@pytest.mark.parametrize(
    "text",
    [
        "GPU 5's MIG configuration is incompatible with the diagnostic because it prevents access "
        "to the entire GPU.",
        'Error: requested test "sm_stress" was not found among possible test choices.',
    ],
)
def test_dcgm_says_why_it_did_not_run(text: str) -> None:
    found = _parse(f"{text}\n")
    assert found.completeness is Completeness.ABORTED
    assert text.removeprefix("Error: ") in _one(found, "DCGM_DID_NOT_RUN")


def test_counters_of_nvlink_errors_are_read_per_gpu() -> None:
    found = _parse(
        "GPU 2: NVIDIA GB300\n"
        "\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 0\n\t Link 0: CRC Errors: 0\n"
        "GPU 3: NVIDIA GB300\n"
        "\t Link 4: Replay Errors: 12\n\t Link 4: Recovery Errors: 1\n\t Link 4: CRC Errors: 0\n"
    )
    assert _one(found, "NVLINK_ERRORS").startswith("warn [GPU 3] GPU 3: NVLink 4: 12 Replay errors")


def test_a_list_of_gpus_alone_is_no_reading() -> None:
    assert _codes(_parse("GPU 0: NVIDIA H100 80GB HBM3\n")) == {"LOG_UNREADABLE"}


@pytest.mark.parametrize(
    ("severity", "effect"),
    [("0", Effect.WARN), ("1", Effect.FAIL), ("5", Effect.INCONCLUSIVE)],
)
def test_a_severity_of_an_sxid_that_nobody_knows_is_not_harmless(
    severity: str, effect: Effect
) -> None:
    found = _parse(
        "nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 10002, "
        f"Severity {severity} Engine instance 00 Sub-engine instance 00\n"
    )
    assert [item.effect for item in found.findings] == [effect]
