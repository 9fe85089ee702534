from __future__ import annotations

from importlib import resources

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts.reasons import Effect, reason
from catalog.facts.tools import output_kind
from catalog.facts.xids import XidClass, all_xids, find_xid
from catalog.hardware.hardware import Hardware
from steps.parse.api import ParseContext
from steps.parse.kernel import KernelScanner
from tests.feeding import said, scan, show

CASES: dict[str, tuple[str, list[str]]] = {
    "gpu off the bus, sentence over three lines": (
        "[  212.110233] NVRM: The NVIDIA GPU 0000:5a:00.0\n"
        "               NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
        "[  212.110299] NVRM: The NVIDIA probe routine failed for 1 device(s).\n",
        ["GPU_FELL_OFF_BUS fail [0000:5a:00.0]"],
    ),
    "sentence cut inside the words": (
        "NVRM: The NVIDIA GPU 0000:5a:00.0\n"
        "NVRM: (PCI ID: 10de:2330) installed in this system has fallen\n"
        "NVRM: off the bus and is not responding to commands.\n",
        ["GPU_FELL_OFF_BUS fail [0000:5a:00.0]"],
    ),
    "two lost gpus at once": (
        "NVRM: GPU 0000:5a:00.0: GPU has fallen off the bus.\n"
        "NVRM: GPU 0000:5b:00.0: GPU has fallen off the bus.\n",
        ["GPU_FELL_OFF_BUS fail [0000:5a:00.0]", "GPU_FELL_OFF_BUS fail [0000:5b:00.0]"],
    ),
    "xid 79 with its companions counts once": (
        "Jan 12 03:04:05 dgx-11 kernel: [99.1] NVRM: GPU at PCI:0000:2a:00: GPU-aaaa\n"
        "Jan 12 03:04:05 dgx-11 kernel: [99.2] NVRM: Xid (PCI:0000:2a:00): 79, pid='<unknown>', "
        "name=<unknown>, GPU has fallen off the bus.\n"
        "Jan 12 03:04:05 dgx-11 kernel: NVRM: GPU 0000:2a:00.0: GPU has fallen off the bus.\n"
        "Jan 12 03:04:09 dgx-11 kernel: NVRM: GPU 0000:2a:00.0: GPU has fallen off the bus.\n",
        ["XID_79 fail [dgx-11 0000:2a:00]"],
    ),
    "eight digits of domain and a function": (
        "NVRM: Xid (PCI:00000000:2A:00.0): 48, pid=91, An uncorrectable double bit error (DBE)\n"
        "NVRM: Xid (PCI:0000:2a:00): 48, pid=92, An uncorrectable double bit error (DBE)\n",
        ["XID_48 fail [00000000:2A:00.0] x2"],
    ),
    "old driver without PCI and MIG instance": (
        "NVRM: Xid (0000:3b:00): 31, Ch 0000001b\n"
        "NVRM: Xid (PCI:0000:3c:00 GPU-I:02): 94, pid=7, Contained: LTC\n",
        ["XID_31 warn [0000:3b:00]", "XID_94 fail [0000:3c:00]"],
    ),
    "application errors do not fail": (
        "NVRM: Xid (PCI:0000:3b:00): 13, pid=1, Graphics SM Warp Exception\n" * 3
        + "NVRM: Xid (PCI:0000:3b:00): 43, pid=1, Ch 00000010\n",
        ["XID_13 warn [0000:3b:00] x3", "XID_43 warn [0000:3b:00]"],
    ),
    "gsp timeout names the gpu": (
        "NVRM: Xid (PCI:0000:4f:00): 119, pid=5, name=x, Timeout after 6s of waiting for RPC "
        "response from GPU6 GSP! Expected function 103\n" * 2,
        ["XID_119 fail [GPU 6 0000:4f:00] x2"],
    ),
    "nonfatal is not fatal": (
        "NVRM: Xid (PCI:0000:18:00): 145, RLW_REMAP Nonfatal XC1 i0 Link -1 (0x4 0x0)\n"
        "NVRM: Xid (PCI:0000:19:00): 149, NETIR_LINK_EVT Non-fatal XC0 i0 Link 11 (0x4 0x0)\n"
        "NVRM: Xid (PCI:0000:1a:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 07 (0x4 0x0)\n",
        [
            "XID_145 warn [0000:18:00]",
            "XID_149 warn [0000:19:00 link 11]",
            "XID_149 fail [0000:1a:00 link 07]",
        ],
    ),
    "one fatal line outweighs others": (
        "NVRM: Xid (PCI:0000:18:00): 150, MSE Fatal XC0 i0 Link 03 (0x4)\n"
        "NVRM: Xid (PCI:0000:18:00): 150, MSE Nonfatal XC0 i0 Link 04 (0x4)\n",
        ["XID_150 fail [0000:18:00 link 03] x2"],
    ),
    "45 names a cause that has no line": (
        "kernel: NVRM: Xid (PCI:0000:18:00): 45, pid=8, name=p, Ch 01 caused by previous Xid 144\n",
        ["XID_45 warn [0000:18:00] <XID_144", "XID_144 inconclusive [0000:18:00]"],
    ),
    "45 after an error of the same gpu, 154 names the remedy": (
        "NVRM: Xid (PCI:0000:18:00): 95, pid=8, Uncontained: LTC TAG\n"
        "NVRM: Xid (PCI:0000:18:00): 45, pid=8, Ch 00000009\n"
        "NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
        "(GPU Reset Required)\n",
        [
            "XID_95 fail [0000:18:00]",
            "XID_45 warn [0000:18:00] <XID_95",
            "XID_154 inconclusive [0000:18:00] <XID_95",
        ],
    ),
    "154 back to none": (
        "NVRM: Xid (PCI:0000:18:00): 154, GPU Recovery Action Changed from 0x1 (GPU Reset "
        "Required) to 0x0 (None)\n",
        ["XID_154 note [0000:18:00]"],
    ),
    "links of a lost gpu are echoes": (
        "NVRM: Xid (PCI:0000:18:00): 79, pid=0, GPU has fallen off the bus.\n"
        "NVRM: Xid (PCI:0000:2a:00): 74, pid=0, NVLink: fatal error detected on link 2\n",
        ["XID_79 fail [0000:18:00]", "XID_74 warn [0000:2a:00 link 2] <XID_79"],
    ),
    "links of another machine are no echoes": (
        "node-a: NVRM: Xid (PCI:0000:18:00): 79, pid=0, GPU has fallen off the bus.\n"
        "node-b: NVRM: Xid (PCI:0000:2a:00): 74, pid=0, NVLink: fatal error detected on link 2\n",
        ["XID_79 fail [node-a 0000:18:00]", "XID_74 fail [node-b 0000:2a:00 link 2]"],
    ),
    "row remap pending and failed": (
        "NVRM: Xid (PCI:0000:18:00): 63, pid=1, Row Remapper: New row marked for remapping, reset "
        "gpu to activate.\n"
        "NVRM: Xid (PCI:0000:19:00): 64, pid=1, Row Remapper: Fatal error, unable to remap row\n",
        ["ROW_REMAP_PENDING warn [0000:18:00]", "ROW_REMAP_FAILED fail [0000:19:00]"],
    ),
    "unknown number proves nothing": (
        "NVRM: Xid (PCI:0000:18:00): 997, something new\n",
        ["XID_997 inconclusive [0000:18:00]"],
    ),
    "sxid fatal, not fatal, and of the fabric manager": (
        "nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 44 egress packet error\n"
        "nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 12028, Severity 0 Engine instance 44 "
        "Sub-engine instance 00\n"
        "nvidia-nvswitch3: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
        "nvidia-nvswitch3: SXid (PCI:0000:c2:00.0): 20034, Data {0x10000000, 0x0}\n"
        "Jan 12 03:04:05 dgx-11 nv-fabricmanager[811]: detected NVSwitch non-fatal error 22003 on "
        "fid 0 on NVSwitch pci bus id 00000000:C3:00.0 physical id 1 port 9\n",
        [
            "SXID_12028 warn [0000:c1:00.0 nvidia-nvswitch2 link 44]",
            "SXID_20034 fail [0000:c2:00.0 nvidia-nvswitch3 link 30]",
            "SXID_22003 warn [dgx-11 00000000:C3:00.0 link 9]",
        ],
    ),
    "driver cannot initialise, two lines per failure": (
        "2026-01-12T03:04:05.1+00:00 dgx-11 kernel: NVRM: GPU 0000:4c:00.0: RmInitAdapter failed! "
        "(0x62:0x65:2014)\n"
        "2026-01-12T03:04:05.2+00:00 dgx-11 kernel: NVRM: GPU 0000:4c:00.0: rm_init_adapter "
        "failed, device minor number 5\n",
        ["GPU_INIT_FAILED fail [dgx-11 0000:4c:00.0 nvidia5]"],
    ),
    "init failure after a lost gpu": (
        "NVRM: Xid (PCI:0000:4c:00): 79, pid=0, GPU has fallen off the bus.\n"
        "NVRM: GPU 0000:4c:00.0: RmInitAdapter failed! (0x26:0xffff:1482)\n",
        ["XID_79 fail [0000:4c:00]", "GPU_INIT_FAILED fail [0000:4c:00.0] <XID_79"],
    ),
    "aer belongs to the port": (
        "[9.1] pcieport 0000:40:01.1: AER: Corrected error received: 0000:41:00.0\n"
        "[9.1] pcieport 0000:40:01.1: PCIe Bus Error: severity=Corrected, type=Physical Layer\n"
        "[9.2] pcieport 0000:40:01.1: AER: Multiple Corrected error received: 0000:41:00.0\n"
        "[9.2] pcieport 0000:40:01.1: PCIe Bus Error: severity=Corrected, type=Physical Layer\n",
        ["PCIE_AER_CORRECTED note [0000:40:01.1 pcieport] x2"],
    ),
    "aer fatal and not fatal": (
        "nvidia 0000:41:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction\n"
        "nvme 0000:42:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction "
        "Layer\n",
        [
            "PCIE_AER_UNCORRECTED fail [0000:41:00.0 nvidia]",
            "PCIE_AER_UNCORRECTED warn [0000:42:00.0 nvme]",
        ],
    ),
    "port flaps": (
        "Jan 12 03:04:05 dgx-11 systemd-networkd[88]: ib3: Lost carrier\n"
        "Jan 12 03:04:06 dgx-11 systemd-networkd[88]: ib3: Gained carrier\n"
        "Jan 12 03:04:09 dgx-11 systemd-networkd[88]: ib3: Lost carrier\n"
        "Jan 12 03:04:11 dgx-11 systemd-networkd[88]: ib3: Gained carrier\n",
        ["IB_LINK_FLAP warn [dgx-11 ib3] x2"],
    ),
    "two loggers tell of one loss": (
        "dgx-11 kernel: mlx5_core 0000:9a:00.0 rdma2: Link down\n"
        "dgx-11 systemd-networkd[88]: rdma2: Lost carrier\n"
        "dgx-11 kernel: mlx5_core 0000:9a:00.0 rdma2: Link up\n",
        ["IB_LINK_FLAP warn [dgx-11 rdma2]"],
    ),
    "fabric port that stays down": (
        "infiniband mlx5_4: Port: 1 Link DOWN\n",
        ["IB_LINK_DOWN fail [mlx5_4]"],
    ),
    "other port that stays down": (
        "igb 0000:03:00.0 eno2: igb: eno2 NIC Link is Down\n",
        ["IB_LINK_DOWN inconclusive [eno2]"],
    ),
    "pods, disks and slots are no ports": (
        "systemd-networkd[88]: veth90ab12: Lost carrier\n"
        "kernel: ata3: SATA link down (SStatus 0 SControl 300)\n"
        "kernel: pcieport 0000:00:1c.0: pciehp: Slot(3): Link Down\n"
        "kernel: cali12345678901: Link down\n",
        [],
    ),
    "throttling": (
        "NVRM: GPU 0000:18:00.0: HW Thermal Slowdown\nNVRM: GPU 0000:18:00.0: HW Power Brake\n",
        ["GPU_THERMAL warn [0000:18:00.0]", "GPU_POWER_BRAKE warn [0000:18:00.0]"],
    ),
    "nvidia-smi's table of slowdowns is not the kernel's": (
        "        HW Thermal Slowdown               : Not Active\n"
        "        HW Power Brake Slowdown           : Active\n",
        [],
    ),
    "machine checks": (
        "dgx-11 kernel: mce: [Hardware Error]: Machine check events logged\n"
        "dgx-11 kernel: EDAC MC2: 1 CE memory read error on CPU_SrcID#0\n"
        "dgx-11 kernel: EDAC MC2: 1 UE memory read error on CPU_SrcID#0\n",
        [
            "MACHINE_CHECK warn [dgx-11]",
            "MACHINE_CHECK note [dgx-11]",
            "MACHINE_CHECK fail [dgx-11]",
        ],
    ),
    "firmware that does not answer": (
        "[71.5] mlx5_core 0000:5e:00.0: poll_health:801:(pid 0): device's health compromised - "
        "reached miss count\n"
        "[72.1] bnxt_en 0000:19:00.1 ens2f1np1: Firmware fatal reset event received\n"
        "[72.4] bnxt_en 0000:19:00.0 ens2f0np0: Firmware non-fatal reset event received\n"
        "[73.0] mlx5_core 0000:9a:00.0: temp_warn:131:(pid 4): High temperature on sensors with "
        "bit set 0 1\n"
        "[80.2] NVRM: GPU3 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 91 "
        "heartbeat 12 diff 5403 timeout 5200\n"
        "[86.2] NVRM: GPU3 _kgspLogRpcTimeout: ******* GSP Timeout *******\n",
        [
            "NIC_FIRMWARE fail [0000:5e:00.0 mlx5_core]",
            "NIC_FIRMWARE fail [0000:19:00.1 bnxt_en]",
            "NIC_THERMAL warn [0000:9a:00.0 mlx5_core]",
            "GPU_GSP_TIMEOUT fail [NVRM: GPU3] x2",
        ],
    ),
    "inside a log of mpirun": (
        "[1,9]<stderr>:[77.1] NVRM: Xid (PCI:0000:18:00): 140, Unrecovered ECC error\n"
        "[1,2]<stdout>: iteration 3/ 10 | lm loss: 1.0 |\n",
        ["XID_140 fail [rank 9 0000:18:00]"],
    ),
    "nothing of ours": ("systemd[1]: Started Daily clean-up.\nXidation 79\n", []),
}


@pytest.mark.parametrize("name", CASES)
def test_reads_kernel_lines(name: str) -> None:
    text, expected = CASES[name]
    part = scan(KernelScanner, text)
    show(name, expected, said(part))
    assert said(part) == expected
    assert part.mode is output_kind("kernel-log")
    assert part.completeness is None


def test_proof_is_the_line_with_its_number() -> None:
    part = scan(KernelScanner, "\n\nNVRM: Xid (PCI:0000:18:00): 62, pid=3, halt\n")
    (proof,) = part.findings[0].evidence
    assert (proof.file, proof.line) == ("out.log", 3)
    assert "62" in proof.text


def test_output_that_ends_in_an_xid_number_is_not_whole() -> None:
    cut = scan(KernelScanner, "NVRM: Xid (PCI:0000:18:00): 13").findings
    assert [(item.code, item.effect) for item in cut] == [
        ("XID_13", Effect.WARN),
        ("LOG_TRUNCATED", Effect.INCONCLUSIVE),
    ]
    whole = scan(KernelScanner, "NVRM: Xid (PCI:0000:18:00): 13\n").findings
    assert [item.code for item in whole] == ["XID_13"]


def test_companions_of_a_lost_gpu_prove_it() -> None:
    text, _ = CASES["xid 79 with its companions counts once"]
    (finding,) = scan(KernelScanner, text).findings
    assert [proof.line for proof in finding.evidence] == [2, 3, 4]


def test_flap_tells_first_and_last_time() -> None:
    text, _ = CASES["port flaps"]
    message = scan(KernelScanner, text).findings[0].message
    assert "Jan 12 03:04:05 to Jan 12 03:04:09" in message


def test_node_comes_from_the_rank_where_no_host_is_told() -> None:
    text = "[1,9]<stderr>: NVRM: Xid (PCI:0000:18:00): 79, pid=0, GPU has fallen off the bus.\n"
    context = ParseContext(nodes=("n-1", "n-2"), hardware=Hardware(gpus_per_node=8))
    assert scan(KernelScanner, text, context).findings[0].entities[0].node == "n-2"


def test_node_of_a_per_node_output() -> None:
    text = "NVRM: Xid (PCI:0000:18:00): 79, pid=0, GPU has fallen off the bus.\n"
    part = scan(KernelScanner, text, ParseContext(node="gpu-7"))
    assert part.findings[0].entities[0].node == "gpu-7"


def test_catalog_numbers_are_unique_and_have_reasons() -> None:
    text = resources.files("catalog.facts").joinpath("xids.yaml").read_text(encoding="utf-8")
    numbers = [item["number"] for item in yaml.safe_load(text)]
    assert len(numbers) == len(set(numbers)) == len(all_xids())
    assert all(reason(f"XID_{number}") for number in numbers)
    assert find_xid(79) is not None
    assert find_xid(999) is None


_HARMLESS = [
    xid.number
    for xid in all_xids()
    if xid.origin in {XidClass.APPLICATION, XidClass.SECONDARY, XidClass.DRIVER}
]
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=80)


@given(
    st.lists(
        st.tuples(st.sampled_from(_HARMLESS), st.sampled_from(["18", "19"]), _TEXT), max_size=8
    )
)
def test_application_and_secondary_xids_never_fail(lines: list[tuple[int, str, str]]) -> None:
    text = "".join(
        f"NVRM: Xid (PCI:0000:{bus}:00): {number}, {words.replace('revious', '')}\n"
        for number, bus, words in lines
        if not any(word in words for word in ("fallen", "Slowdown", "Xid"))
    )
    assert all(f.effect is not Effect.FAIL for f in scan(KernelScanner, text).findings)


_WORDS = st.sampled_from(
    [
        "NVRM: ", "Xid (PCI:0000:18:00): ", "79, ", "154, ", "45, ", "Fatal ", "Nonfatal ", "SXid ",
        "(PCI:0000:c1:00.0): 20034, ", "fallen off the bus", "The NVIDIA GPU 0000:18:00.0", "\n",
        "RmInitAdapter failed", "pcieport 0000:40:01.1: ", "AER: Corrected error received: ",
        "ib3: ", "lost carrier", "Link down", "Jan 12 03:04:05 dgx-11 kernel: ", "[12.3] ",
        "caused by ",
        "previous Xid 149", "EDAC MC0: 1 UE ", "recovery action changed from 0x0 (None) to ", "\r",
    ]
)  # fmt: skip


@given(st.lists(st.one_of(_WORDS, st.text(max_size=12)), max_size=60).map("".join))
def test_any_text_is_read_without_raising(text: str) -> None:
    part = scan(KernelScanner, text)
    assert all(finding.evidence for finding in part.findings)
    assert all(reason(finding.code) for finding in part.findings)
    if part.findings:
        assert part.claimed > 0
