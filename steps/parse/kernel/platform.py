"""PCIe error reports, machine checks, throttling, NIC health, and GPU lines that carry no Xid."""

from __future__ import annotations

import re

from catalog.facts.reasons import reason
from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.kernel.pci import ADDRESS
from steps.parse.kernel.prefix import Bare
from steps.parse.sightings import Tally, node_of
from steps.parse.wordings import Wording, find, who, wording

_GPU = (
    re.compile(rf"\b(?:GPU (?:at )?(?:PCI:)?|PCI:)(?P<pci>{ADDRESS})"),
    re.compile(r"\bGPU ?(?P<gpu>\d{1,3})\b(?! ?:)"),
)
# The port named first reports the error; the address after "received:" only says who sent it.
_PORT = rf"(?P<device>[\w-]+) (?P<pci>{ADDRESS}): "
_NIC = rf"(?P<device>mlx5_core|bnxt_en) (?P<pci>{ADDRESS})\b.*?: .*?"
# nvidia-smi prints fields of these names, which the reader of its sections judges.
_NO_FIELD = r"\b(?!(?:\s*Slowdown)?\s*:\s*(?:Not )?Active)(?!.*\bnot active\b)"
_NOT_CORRECTED = "the CPU or host memory had an error that could not be corrected"


def _pcie(
    code: str,
    severity: str,
    *,
    received: str,
    error: str,
    says: str,
    variant: str | None = None,
) -> tuple[Wording, Wording]:
    """Return the words of an event, which is announced in one line and detailed in another."""
    return (
        wording(
            code, rf"{_PORT}AER: (?:Multiple )?{severity}", received, says=says, variant=variant
        ),
        wording(
            code,
            rf"{_PORT}(?:AER: )?PCIe Bus Error: severity={severity}",
            error,
            says=says,
            variant=variant,
            detail=True,
        ),
    )


TABLE: tuple[Wording, ...] = (
    *_pcie(
        "PCIE_AER_CORRECTED",
        r"Correct(?:ed|able)",
        received="pcieport 0000:40:01.1: AER: Multiple Corrected error received: 0000:41:00.0",
        error="pcieport 0000:40:01.1: PCIe Bus Error: severity=Corrected, type=Physical Layer",
        says="PCIe corrected errors",
    ),
    *_pcie(
        "PCIE_AER_UNCORRECTED",
        r"Uncorrect(?:ed|able) \([Nn]on-[Ff]atal\)",
        received="pcieport 0000:40:01.1: AER: Uncorrected (Non-Fatal) error received: 0000:41:0",
        error="nvme 0000:42:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=T",
        says="PCIe uncorrected errors, not fatal",
        variant="non-fatal",
    ),
    *_pcie(
        "PCIE_AER_UNCORRECTED",
        r"Uncorrect(?:ed|able)",
        received="pcieport 0000:40:01.1: AER: Uncorrectable (Fatal) error received: 0000:41:00.0",
        error="nvidia 0000:41:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=T",
        says="PCIe uncorrected fatal errors",
    ),
    wording(
        "ROW_REMAP_FAILED",
        r"\bNVRM\b.*(?:Row ?Remapp?er: .*fail|row remapp?ing fail|unable to remap|failed to remap)",
        "NVRM: GPU at PCI:0000:3b:00: Row Remapper: remapping of row 5 failed",
        "NVRM: GPU 0000:3b:00.0: row remapping failed, unable to remap a row",
        says="a GPU memory row could not be remapped",
        who=_GPU[:1],
        any_case=True,
    ),
    wording(
        "ECC_UNCORRECTABLE",
        r"\bNVRM\b.*(?:uncorrect(?:able|ed) (?:double.bit )?ECC error|double.bit (?:ECC )?error)",
        "NVRM: GPU at PCI:0000:3b:00: an uncorrectable double bit ECC error was detected",
        "NVRM: GPU 0000:3b:00.0: uncorrectable ECC error in frame buffer",
        says="uncorrectable ECC error",
        who=_GPU[:1],
        any_case=True,
    ),
    wording(
        "ROW_REMAP_PENDING",
        r"\bNVRM\b.*(?:Row ?Remapp?er: New row marked|row remapp?ing (?:is )?pending)",
        "NVRM: GPU at PCI:0000:3b:00: Row Remapper: New row marked for remapping",
        "NVRM: GPU 0000:3b:00.0: row remapping is pending",
        says="a GPU memory row waits to be remapped; reset the GPU, then test again",
        who=_GPU[:1],
        any_case=True,
    ),
    # The driver's own number, which need not be that of nvidia-smi. What Xid 119 tells too, where
    # the driver gets as far as that.
    wording(
        "GPU_GSP_TIMEOUT",
        r"(?P<device>NVRM: GPU\d{1,3}) "
        r".*(?:_kgspIsHeartbeatTimedOut: Heartbeat timed out|\* GSP Timeout \*)",
        "NVRM: GPU3 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentHeartbeat 5",
        "NVRM: GPU0 _kgspLogXid119: ********** GSP Timeout **********",
        says="the GSP of a GPU does not answer the driver",
    ),
    wording(
        "NIC_FIRMWARE",
        rf"{_NIC}(?:device's health compromised - reached miss count"
        r"|[Ff]irmware fatal (?:error|reset event)|Fatal error \d+ detected)",
        "mlx5_core 0000:1a:00.0: poll_health:801:(pid 0): device's health compromised - reached "
        "miss count",
        "bnxt_en 0000:3b:00.0 ens1f0np0: Firmware fatal reset event, data1: 0x2",
        says="the firmware of a network device does not answer",
    ),
    wording(
        "NIC_THERMAL",
        rf"{_NIC}High temperature on sensors",
        "mlx5_core 0000:1a:00.0: temp_warn:265:(pid 0): High temperature on sensors with bit set 0",
    ),
    wording(
        "GPU_THERMAL",
        rf"\b(?:[SH]W )?Thermal Slowdown{_NO_FIELD}",
        "NVRM: GPU at PCI:0000:3b:00: HW Thermal Slowdown engaged",
        "GPU 3: SW Thermal Slowdown",
        says="GPU slowed down by heat",
        who=_GPU,
        any_case=True,
    ),
    wording(
        "GPU_POWER_BRAKE",
        rf"\b(?:[SH]W )?Power Brake(?: Slowdown)?{_NO_FIELD}",
        "GPU 0000:3b:00.0: HW Power Brake Slowdown asserted",
        says="GPU slowed down by power",
        who=_GPU,
        any_case=True,
    ),
    wording(
        "MACHINE_CHECK",
        r"Uncorrected hardware memory error|Machine check: Processor context corrupt|"
        r"EDAC \w+: \d+ UE\b|\[Hardware Error\]:.*\bUncorrected\b|event severity: fatal|"
        r"Kernel panic - not syncing: .*[Mm]achine check",
        "Memory failure: 0x7b: Uncorrected hardware memory error in user-access at 7b000",
        "mce: [Hardware Error]: Machine check: Processor context corrupt",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
        "{1}[Hardware Error]: Uncorrected, software containable error",
        "{1}[Hardware Error]: event severity: fatal",
        "Kernel panic - not syncing: Fatal local machine check",
        says=_NOT_CORRECTED,
        variant="uncorrected",
    ),
    wording(
        "MACHINE_CHECK",
        r"EDAC \w+: \d+ CE\b|\[Hardware Error\]:.*\bCorrected\b|event severity: corrected",
        "EDAC MC0: 1 CE memory scrubbing error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
        "[Hardware Error]: Corrected error, no action required.",
        "{1}[Hardware Error]: event severity: corrected",
        says="host memory errors, corrected",
        variant="corrected",
    ),
    wording(
        "MACHINE_CHECK",
        r"\bMachine [Cc]heck(?: Exception| events logged|: \d+ Bank)|\bmce: \[Hardware Error\]",
        "mce: [Hardware Error]: Machine check events logged",
        "mce: CPU 3: Machine Check Exception: 5 Bank 1: b200000000070f0f",
        "mce: [Hardware Error]: CPU 4: Machine Check: 0 Bank 7: 8c00004000010091",
        says="the CPU reported a machine check",
    ),
)


class PlatformReader:
    """Collects lines about PCIe, CPU, memory, NICs and throttling.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._tally: Tally[tuple[str, str | None, str | None, Entity]] = Tally(file)

    def feed(self, line: Line, bare: Bare) -> bool:
        """Take a line that is neither Xid nor SXid."""
        found = find(TABLE, bare.text)
        if not found:
            return False
        row, match = found
        entity = who(row, match, line._replace(host=bare.origin.host))
        self._tally.add((row.code, row.variant, row.says, entity), line, detail=row.detail)
        return True

    def findings(self, context: ParseContext) -> list[Finding]:
        """Return one finding per kind of event and device."""
        found = []
        for (code, variant, says, entity), seen in self._tally.items():
            node = node_of(entity.node, entity.rank, context)
            place = entity.model_copy(update={"node": node})
            found.append(
                finding(
                    code,
                    f"{says or reason(code).says}{seen.times}",
                    variant=variant,
                    entities=(place,) if str(place) else (),
                    proof=seen.evidence,
                    count=seen.count,
                )
            )
        return found
