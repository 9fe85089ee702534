"""Lines that tools print when something fails, each with its code, wherever it stands."""

from __future__ import annotations

import re

import pytest

from catalog.facts.reasons import reason
from steps.parse.api import Scanner
from steps.parse.kernel import KernelScanner, lost, sxid, xid
from steps.parse.nccl import NcclScanner
from steps.parse.training import TrainingScanner, failures, hang
from tests.feeding import scan

_LOGGED = "node-a:4242:4301 [3] transport/net_ib.cc:1295 NCCL WARN "

LINES: tuple[tuple[type[Scanner], str, str], ...] = (
    (KernelScanner, "XID_79", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."),
    (KernelScanner, "SXID_12028", "nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 12028, Link 44"),
    (
        KernelScanner,
        "SXID_22003",
        "detected NVSwitch non-fatal error 22003 on fid 0 on NVSwitch pci bus id 00000000:C3:00.0",
    ),
    (KernelScanner, "GPU_FELL_OFF_BUS", "GPU 0000:5a:00.0: GPU has fallen off the bus."),
    (KernelScanner, "GPU_INIT_FAILED", "NVRM: GPU 0000:4c:00.0: RmInitAdapter failed! (0x62)"),
    (KernelScanner, "GPU_INIT_FAILED", "NVRM: rm_init_adapter failed for device bearing minor 5"),
    (TrainingScanner, "TRAIN_NAN", "[rank3]: found NaN in local grad norm in bucket 0"),
    (TrainingScanner, "TRAIN_NAN", "loss is nan at iteration 12"),
    (TrainingScanner, "TRAIN_OOM", "CUDA out of memory. Tried to allocate 2.00 GiB"),
    (TrainingScanner, "TRAIN_OOM", "torch.OutOfMemoryError: CUDA out of memory."),
    (TrainingScanner, "TRAIN_CUDA_ERROR", "CUDA error: an illegal memory access was encountered"),
    (TrainingScanner, "TRAIN_CUDA_ERROR", "cuBLAS: CUBLAS_STATUS_EXECUTION_FAILED when calling x"),
    (TrainingScanner, "ECC_UNCORRECTABLE", "CUDA error: uncorrectable ECC error encountered"),
    (TrainingScanner, "TRAIN_CRASHED", "CUDA error: device-side assert triggered"),
    (TrainingScanner, "TRAIN_CONFIG", "train.py: error: unrecognized arguments: --layers"),
    (TrainingScanner, "TRAIN_CONFIG", "ModuleNotFoundError: No module named 'megatron'"),
    (TrainingScanner, "TRAIN_CONFIG", "python3: can't open file '/workspace/train.py'"),
    (TrainingScanner, "TRAIN_HANG_WATCHDOG", "Watchdog caught collective operation timeout"),
    (TrainingScanner, "TRAIN_HANG_WATCHDOG", "Timeout at NCCL work: 41, last enqueued: 42"),
    (TrainingScanner, "TRAIN_HANG_WATCHDOG", "Ranks 1, 4 failed to pass monitoredBarrier"),
    (
        TrainingScanner,
        "TRAIN_HANG_WATCHDOG",
        "[0, 1] finished collective #41, but [2] didn't join collective #41",
    ),
    (TrainingScanner, "TRAIN_HANG_WATCHDOG", "ProcessGroupNCCL: Heartbeat monitor timed out!"),
    (NcclScanner, "NCCL_ABORTED", "node-a: Test NCCL failure common.cu:958 'internal error / '"),
    (NcclScanner, "NCCL_ABORTED", "NCCL failure all_reduce.cu:310 'invalid usage'"),
    (NcclScanner, "NCCL_ABORTED", "node-a: Test CUDA failure common.cu:892 'invalid argument'"),
    (NcclScanner, "NCCL_ABORTED", ".. node-a pid 4242: Test failure common.cu:1005"),
    (NcclScanner, "NCCL_ABORTED", "RuntimeError: ncclInternalError: Internal check failed."),
    (NcclScanner, "NCCL_REMOTE_ERROR", "node-a: Test NCCL failure x.cu:9 'remote process exited'"),
    (NcclScanner, "NCCL_TIMEOUT", "Test timeout (600s) while waiting for the ranks"),
    (NcclScanner, "GPU_MISSING", "Invalid number of GPUs: 8 requested but only 7 were found."),
    (
        NcclScanner,
        "INFRA_BAD_ARGS",
        "number of requested GPUs (16) is greater than the number of GPUs available (8)",
    ),
    (NcclScanner, "INFRA_BAD_ARGS", "invalid size specified for 'minbytes'"),
    (NcclScanner, "INFRA_SHM", _LOGGED + "Error while creating shared memory segment /dev/shm/n-1"),
    (NcclScanner, "ECC_UNCORRECTABLE", _LOGGED + "Cuda failure 'uncorrectable ECC error'"),
    (NcclScanner, "IB_LINK_FLAP", _LOGGED + "NET/IB : mlx5_3:1 Got async event : port error"),
    (
        NcclScanner,
        "NCCL_IB_COMPLETION_ERROR",
        _LOGGED + "NET/IB: Got completion from peer 10.0.0.7<4242> with status=12 opcode=0 len=0",
    ),
)
PREFIXES = ("", "2026-08-17T06:18:01.123456789Z stderr F ", "[pod/bench-worker-3/main] ")
FILLER = ("", "starting the run", "7 of 9 done", "a line ä ö ü")
PATTERNS = (*xid.WANTS, *sxid.WANTS, *lost.WANTS, *failures.WANTS, *hang.WANTS)
AROUND = {
    "_TRACEBACK",
    "_ROOT_CAUSE",
    "_SUMMARY",
    "_LOCAL_DUMP",
    "_CLEANUP",
}
"""Patterns of lines that only add to what another line says."""


@pytest.mark.parametrize(("scanner", "code", "text"), LINES)
def test_a_line_is_found_wherever_it_stands(scanner: type[Scanner], code: str, text: str) -> None:
    for line in (prefix + text for prefix in PREFIXES):
        for lines in ([line, *FILLER], [*FILLER, line, *FILLER], [*FILLER, line]):
            found = scan(scanner, "\n".join(lines) + "\n").findings
            codes = {each.code for each in found if not reason(each.code).about_output}
            assert codes == {code}, (lines, found)


def test_every_pattern_has_a_line() -> None:
    around = {vars(module).get(name) for module in (failures, hang) for name in AROUND}
    for pattern in PATTERNS:
        if pattern not in around:
            assert any(pattern.search(text) for _, _, text in LINES), pattern.pattern


@pytest.mark.parametrize(("scanner", "code", "text"), LINES)
def test_case_does_not_matter_where_the_pattern_says_so(
    scanner: type[Scanner], code: str, text: str
) -> None:
    patterns = [each for each in scanner.wants if each.flags & re.I and each.search(text)]
    if not patterns or any(not each.flags & re.I and each.search(text) for each in scanner.wants):
        return
    for line in (text.upper(), text.lower(), text.swapcase()):
        assert code in {each.code for each in scan(scanner, line + "\n").findings}, line
