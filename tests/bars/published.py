"""Figures that somebody has published, and what our bars make of each.

From public READMEs, test fixtures, documentation and issues; busbw in GB/s as nccl-tests prints
it, TFLOP/s for training. A figure is one of a healthy cluster (``measured``), the pass bar of a
vendor's own check (``floor``), or one that is known to be bad.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

from catalog.hardware.hardware import Hardware
from catalog.hardware.profile import find_profile, hardware_of_profile

AR = "communication/nccl-all-reduce"
AG = "communication/nccl-all-gather"
A2A = "communication/nccl-alltoall"
LOOP = "communication/nccl-loopback"
SWITCH = "communication/nccl-loopback-nvswitch"
DCGM = "diagnostics/dcgm-level3"
T8B = "training/nemotron5-8b"


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure.

    Attributes:
        says: what it is and who published it.
        entry: category that measures the same.
        profile: hardware profile, or an instance type of one.
        gpu: GPU architecture.
        nodes: nodes of the run.
        value: the figure.
        kind: measured, floor or bad.
        best: strictest stage that it passes; None where it passes none.
        why: why a floor does not pass production.
        size: largest message of the run.
        mnnvl: NVLink across nodes.
        nics: network devices, where not those of the profile.
        instance_type: where the profile stands for several.
        key: bar that judges it.
    """

    says: str
    entry: str
    profile: str
    gpu: str
    nodes: int
    value: float
    _: KW_ONLY
    kind: Literal["measured", "floor", "bad"] = "measured"
    best: str | None = "production"
    why: str = ""
    size: str = "16G"
    mnnvl: bool | None = None
    nics: int | None = None
    key: str = "busBandwidthGBps"

    @property
    def hardware(self) -> Hardware:
        """The hardware that it was measured on."""
        found = hardware_of_profile(find_profile(self.profile), self.gpu)
        mnnvl = found.mnnvl if self.mnnvl is None else self.mnnvl
        return replace(found, nics=self.nics or found.nics, mnnvl=mnnvl)

    def __str__(self) -> str:
        return f"{self.says}, {self.nodes} nodes: {self.value:g}"


LOOSER = "the vendor's bar is far below what the same hardware is published to reach"

INSIDE_A_NODE = [
    Figure("A100, superbenchmark", AR, "onprem/a100", "a100", 1, 235.3, size="8G"),
    Figure("A100 nvswitch, superbenchmark", SWITCH, "onprem/a100", "a100", 1, 235.3, size="8G"),
    Figure("A100, superbenchmark", AG, "onprem/a100", "a100", 1, 223.4, size="8G"),
    Figure("A100, superbenchmark", A2A, "onprem/a100", "a100", 1, 224.3, size="8G"),
    Figure("ND A100 v4, AzNHC", AR, "azure/ND_A100_v4", "a100", 1, 228, kind="floor"),
    Figure("ND A100 v4 IB loopback, AzNHC", LOOP, "azure/ND_A100_v4", "a100", 1, 18, kind="floor"),
    Figure(
        "OCI A100, oci-hpc",
        AR,
        "oci/BM.GPU.A100",
        "a100",
        1,
        185,
        kind="floor",
        best="bring-up",
        why="one bar for one and for several nodes; NVLink reaches 235.3",
    ),
    Figure("DGX H100, dgxc-benchmarking", AR, "onprem/h100", "h100", 1, 480.2, size="8G"),
    Figure("ND H100 v5, cluster-health-monitor", AR, "azure/ND_H100_v5", "h100", 1, 480.3),
    Figure("ND H100 v5, AzNHC", AR, "azure/ND_H100_v5", "h100", 1, 460, kind="floor"),
    Figure("NC80adis, two H100, AzNHC", AR, "azure/NC80adis_H100_v5", "h100", 1, 208, kind="floor"),
    Figure("OCI H100, oci-hpc", AR, "oci/BM.GPU.H100.8", "h100", 1, 440, kind="floor"),
    Figure("ND H200 v5, AzNHC", AR, "azure/ND_H200_v5", "h200", 1, 431, kind="floor"),
    Figure("ND H200 v5, AzNHC README", AR, "azure/ND_H200_v5", "h200", 1, 480),
    Figure("H200, ml-engineering", AR, "onprem/h200", "h200", 1, 482.3),
    Figure("H200 NVL, operations notes", AR, "onprem/pcie", "h200", 1, 68.7),
    Figure("B200, ml-engineering", AR, "onprem/b200", "b200", 1, 845.7),
    Figure(
        "OCI B200, oci-hpc",
        AR,
        "oci/BM.GPU.B200.8",
        "b200",
        1,
        440,
        kind="floor",
        best=None,
        why="half of what NVLink 5 reaches; the bar is that of H100",
    ),
    Figure("OCI B300, oci-hpc", AR, "oci/BM.GPU.B300.8", "b300", 1, 800, kind="floor"),
]

ACROSS_NODES = [
    Figure("8 x 200G, gcm", AR, "onprem/a100", "a100", 2, 182.8, size="1G"),
    Figure("p4d, nccl 527", AR, "p4d.24xlarge", "a100", 2, 57.2, size="1G"),
    Figure(
        "p4d, nccl 527", AR, "p4d.24xlarge", "a100", 4, 29.6, size="1G", kind="bad", best="bring-up"
    ),
    Figure("p4de, awsome", AR, "p4de.24xlarge", "a100", 2, 78.3, size="2G"),
    Figure("OCI A100, oci-hpc", AR, "oci/BM.GPU.A100", "a100", 2, 185, kind="floor"),
    Figure("p5 16G, awsome", AR, "p5.48xlarge", "h100", 2, 487.1),
    Figure("p5 8G, awsome", AR, "p5.48xlarge", "h100", 2, 479.3, size="8G"),
    Figure("p5 1G, awsome", AR, "p5.48xlarge", "h100", 2, 437.0, size="1G"),
    Figure("p5, eks-blueprints", AR, "p5.48xlarge", "h100", 2, 480.9),
    Figure("p5 on EKS 2G, awsome", AR, "p5.48xlarge", "h100", 2, 437.8, size="2G"),
    Figure("p5 on EKS, aicr", AR, "p5.48xlarge", "h100", 2, 488.0),
    Figure(
        "p5 on EKS, aicr",
        AR,
        "p5.48xlarge",
        "h100",
        2,
        300,
        kind="floor",
        best="bring-up",
        why=LOOSER,
    ),
    Figure("p5, NVCRE", AR, "p5.48xlarge", "h100", 2, 487.87),
    Figure("p5, NVCRE", AG, "p5.48xlarge", "h100", 2, 338.57),
    Figure("p5, NVCRE", A2A, "p5.48xlarge", "h100", 2, 79.11),
    Figure("8 x 400G, coreweave", AR, "coreweave/8xh100", "h100", 8, 386.6, size="8G"),
    Figure("Nebius, dstack", AR, "onprem/h100", "h100", 2, 467.5, size="8G"),
    Figure("OCI H100, oci-hpc", AR, "oci/BM.GPU.H100.8", "h100", 2, 440, kind="floor"),
    Figure(
        "AKS, aicr", AR, "azure/ND_H100_v5", "h100", 2, 100, kind="floor", best=None, why=LOOSER
    ),
    Figure(
        "AKS with a lost GPU, aicr 1858",
        AR,
        "azure/ND_H100_v5",
        "h100",
        2,
        130.71,
        kind="bad",
        best=None,
    ),
    Figure("A3 High, dstack", AG, "a3-highgpu-8g", "h100", 2, 50.2, size="8G"),
    Figure("A3 High, CHS", AG, "a3-highgpu-8g", "h100", 2, 60, size="8G", kind="floor"),
    Figure("A3 Mega, dstack", AG, "a3-megagpu-8g", "h100", 2, 188.5, size="8G"),
    Figure("A3 Mega, NVCRE", AG, "a3-megagpu-8g", "h100", 2, 189.27),
    Figure(
        "A3 Mega, CHS",
        AG,
        "a3-megagpu-8g",
        "h100",
        2,
        150,
        size="8G",
        kind="floor",
        best="bring-up",
        why=LOOSER,
    ),
    Figure("A3 Mega 8G, aicr", AR, "a3-megagpu-8g", "h100", 2, 333.5, size="8G"),
    Figure("A3 Mega, aicr", AR, "a3-megagpu-8g", "h100", 2, 340),
    Figure("A3 Mega, NVCRE", AR, "a3-megagpu-8g", "h100", 2, 337.09),
    Figure("A3 Mega plug-in 1.0.16, NVCRE", AR, "a3-megagpu-8g", "h100", 2, 337.48),
    Figure("A3 Mega, NVCRE", A2A, "a3-megagpu-8g", "h100", 2, 40.16),
    Figure(
        "A3 Mega, aicr",
        AR,
        "a3-megagpu-8g",
        "h100",
        2,
        250,
        kind="floor",
        best="bring-up",
        why=LOOSER,
    ),
    Figure("A3 Mega over TCP, aicr", AR, "a3-megagpu-8g", "h100", 2, 4, kind="bad", best=None),
    Figure("A3 Ultra, CHS", AG, "a3-ultragpu-8g", "h200", 2, 250, size="8G", kind="floor"),
    Figure("OCI H200, oci-hpc", AR, "oci/BM.GPU.H200.8", "h200", 2, 440, kind="floor"),
    Figure("A4, dstack", AR, "a4-highgpu-8g", "b200", 2, 683.5, size="8G"),
    Figure("A4, CHS", AG, "a4-highgpu-8g", "b200", 2, 250, size="8G", kind="floor"),
    Figure("Lambda B200, dstack", AR, "onprem/b200", "b200", 2, 702.9, size="2G"),
    Figure("OCI B200, oci-hpc", AR, "oci/BM.GPU.B200.8", "b200", 2, 440, kind="floor"),
    Figure("Nscale B200, rings, NVCRE", AR, "nscale/b200", "b200", 4, 385),
    Figure("Nscale B200, SHARP, NVCRE", AR, "nscale/b200", "b200", 4, 580),
    Figure("OCI B300, oci-hpc", AR, "oci/BM.GPU.B300.8", "b300", 2, 700, kind="floor"),
]

NVL72 = [
    Figure("one rack, coreweave", AR, "coreweave/gb200-4x", "gb200", 18, 834.6, size="8G"),
    Figure("two racks, coreweave", AR, "coreweave/gb200-4x", "gb200", 36, 810.4),
    Figure("twenty racks, coreweave", AR, "coreweave/gb200-4x", "gb200", 360, 405.7),
    Figure("p6e-gb200, NVCRE", AR, "p6e-gb200.36xlarge", "gb200", 4, 882.51),
    Figure("p6e-gb200, NVCRE", AG, "p6e-gb200.36xlarge", "gb200", 4, 609.28),
    Figure("p6e-gb200, NVCRE", A2A, "p6e-gb200.36xlarge", "gb200", 4, 568.66),
    Figure("p6e-gb200 off, NVCRE", AR, "p6e-gb200.36xlarge", "gb200", 4, 191.4, mnnvl=False),
    Figure("p6e-gb200 off, NVCRE", AG, "p6e-gb200.36xlarge", "gb200", 4, 191.26, mnnvl=False),
    Figure("p6e-gb200 off, NVCRE", A2A, "p6e-gb200.36xlarge", "gb200", 4, 58.15, mnnvl=False),
    Figure(
        "p6e-gb200 off, aicr",
        AR,
        "p6e-gb200.36xlarge",
        "gb200",
        2,
        40,
        mnnvl=False,
        kind="floor",
        best=None,
        why="a bar for a single device; four reach 191",
    ),
    Figure("A4X, NVCRE", AR, "a4x-highgpu-4g", "gb200", 2, 838.07),
    Figure("A4X, NVCRE", AG, "a4x-highgpu-4g", "gb200", 2, 680.18),
    Figure("A4X, NVCRE", A2A, "a4x-highgpu-4g", "gb200", 2, 683.82),
    Figure(
        "A4X off, CHS", AG, "a4x-highgpu-4g", "gb200", 2, 160, size="8G", mnnvl=False, kind="floor"
    ),
    Figure(
        "OCI GB200-v3, oci-hpc",
        AR,
        "oci/BM.GPU.GB200.4",
        "gb200",
        2,
        300,
        kind="floor",
        best=None,
        why="one bar for RoCE and for NVLink across nodes; a rack reaches 834",
    ),
    Figure(
        "p6e-gb300 off, one EFA, aicr", AR, "aws/p6e-gb300", "gb300", 2, 44, mnnvl=False, nics=1
    ),
    Figure("p6e-gb300, aicr", AR, "aws/p6e-gb300", "gb300", 2, 841),
    Figure(
        "p6e-gb300, aicr",
        AR,
        "aws/p6e-gb300",
        "gb300",
        2,
        700,
        kind="floor",
        best="burn-in",
        why="the same source has measured 841",
    ),
    Figure("GB300, NVCRE", AR, "aws/p6e-gb300", "gb300", 8, 923.32),
    Figure("GB300, NVCRE README", AR, "aws/p6e-gb300", "gb300", 16, 932.09),
    Figure("GB300, NVCRE", AG, "aws/p6e-gb300", "gb300", 8, 698.74),
    Figure("GB300, NVCRE", A2A, "aws/p6e-gb300", "gb300", 8, 678.57),
    Figure("GB300 off, NVCRE", AR, "aws/p6e-gb300", "gb300", 8, 376.01, mnnvl=False),
    Figure("GB300 off, NVCRE", AG, "aws/p6e-gb300", "gb300", 8, 365.68, mnnvl=False),
    Figure("GB300 off, NVCRE", A2A, "aws/p6e-gb300", "gb300", 8, 85.62, mnnvl=False),
    Figure(
        "OCI GB300, oci-hpc",
        AR,
        "oci/BM.GPU.GB300.4",
        "gb300",
        2,
        440,
        kind="floor",
        best=None,
        why="one bar for RoCE and for NVLink across nodes; a rack reaches 841",
    ),
]

COPIES_AND_TRAINING = [
    Figure(
        "host to GPU, AzNHC",
        DCGM,
        "azure/ND_A100_v4",
        "a100",
        1,
        23,
        kind="floor",
        key="hostToDeviceMinGBps",
    ),
    Figure(
        "host to GPU, AzNHC",
        DCGM,
        "azure/ND_H100_v5",
        "h100",
        1,
        52,
        kind="floor",
        key="hostToDeviceMinGBps",
    ),
    Figure(
        "host to GPU, AzNHC",
        DCGM,
        "azure/ND_H200_v5",
        "h200",
        1,
        55,
        kind="floor",
        key="hostToDeviceMinGBps",
    ),
    Figure(
        "host to GPU, nvbandwidth",
        DCGM,
        "azure/ND_H100_v5",
        "h100",
        1,
        55.55,
        key="hostToDeviceMinGBps",
    ),
    Figure(
        "GPU to host, nvbandwidth",
        DCGM,
        "azure/ND_H100_v5",
        "h100",
        1,
        55.12,
        key="deviceToHostMinGBps",
    ),
    Figure(
        "PCIe, cluster-health-monitor",
        DCGM,
        "azure/ND_H100_v5",
        "h100",
        1,
        48,
        kind="floor",
        key="deviceToHostMinGBps",
    ),
    Figure(
        "GPU to GPU, nvbandwidth",
        DCGM,
        "azure/ND_H100_v5",
        "h100",
        1,
        394.97,
        key="deviceToDeviceMinGBps",
    ),
    Figure(
        "GPU to GPU, cluster-health-monitor",
        DCGM,
        "azure/ND_H100_v5",
        "h100",
        1,
        335,
        kind="floor",
        key="deviceToDeviceMinGBps",
    ),
    Figure("8B on A3 Mega, NVCRE", T8B, "a3-megagpu-8g", "h100", 2, 425.6, key="avgTFLOPsPerGPU"),
    Figure("8B on A3 Mega, NVCRE", T8B, "a3-megagpu-8g", "h100", 2, 422.9, key="avgTFLOPsPerGPU"),
]

FIGURES = [*INSIDE_A_NODE, *ACROSS_NODES, *NVL72, *COPIES_AND_TRAINING]

OTHER_OPERATION = "no category of the catalog runs this operation"
OTHER_MODEL = "no category trains this model in this precision"
OTHER_GPU = "no profile has this GPU"
NOT_OURS = {
    "A100 reduce-scatter 231.5 and reduce 228.4, superbenchmark": OTHER_OPERATION,
    "MI300X 312.9, floors 314 and 310; two nodes and sample expectations of ROCm/cvs": OTHER_GPU,
    "MI300X and MI355X of OCI, several nodes, 350": OTHER_GPU,
    "RTX PRO of OCI, 34 by trees, 21 by rings": "the figure is of a setting that we do not make",
    "A10 or T4 over EFA, 3.1": "one GPU in each node, and which one is not told",
    "A4X with NVLink across nodes off, NVCRE": "the switch had no effect there, so it was on",
    "Nscale B200 untuned, 336 and 549": "the profile sets what tunes it",
    "InfiniBand writes and NVMe, AzNHC and oci-hpc": OTHER_OPERATION,
    "Nemotron-H 56B FP8 on H100, 32 to 2048 GPUs": OTHER_MODEL,
    "Nemotron-H 56B FP8 on 128 H100, 877.2": OTHER_MODEL,
    "Nemotron4 15B BF16 and FP8 on H100, GB200, GB300": OTHER_MODEL,
    "Nemotron4 340B on H100 and GB200": OTHER_MODEL,
    "Llama3 8B FP8 on H100, B200, GB200, GB300": OTHER_MODEL,
    "Llama3 70B FP8 on H100, GB200, GB300": OTHER_MODEL,
    "Llama3.1 405B on H100 and GB200": OTHER_MODEL,
    "Nemotron 3 Nano and Super on GB200 and GB300": OTHER_MODEL,
    "Mixtral 8x7B on H100, 228 to 240": OTHER_MODEL,
    "LLaMA 13B on A100, 2357 tokens/s": OTHER_MODEL,
}
"""Published figures that no bar can use, with the reason."""
