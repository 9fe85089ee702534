"""PCIe error reports, machine checks, throttling, NIC health, and GPU lines that carry no Xid."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from catalog.facts.reasons import Effect
from steps.documents import Entity, Finding
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.kernel.pci import ADDRESS
from steps.parse.kernel.prefix import Bare, Origin
from steps.parse.sightings import Tally, node_of


class _Event(NamedTuple):
    code: str
    effect: Effect
    says: str
    driver: str | None = None
    pci: str | None = None
    gpu: int | None = None


# The port named first reports the error; the address after "received:" only says who sent it.
_AER = re.compile(
    rf"(?P<driver>[\w-]+) (?P<pci>{ADDRESS}): "
    r"(?:AER: )?(?:(?P<bus>PCIe Bus Error: severity=)|AER: (?:Multiple )?)"
    r"(?P<kind>Corrected|Correctable|Uncorrected|Uncorrectable)(?: \((?P<sub>[^)]+)\))?"
)
_MEMORY = re.compile(
    r"(?P<failed>Row ?Remapp?er: .*fail|row remapp?ing fail|unable to remap|failed to remap)"
    r"|(?P<pending>Row ?Remapp?er: New row marked|row remapp?ing (?:is )?pending)"
    r"|(?P<ecc>uncorrect(?:able|ed) (?:double.bit )?ECC error|double.bit (?:ECC )?error)",
    re.I,
)
_THROTTLE = re.compile(
    r"\b(?:[SH]W )?(?:(?P<heat>Thermal Slowdown)|(?P<power>Power Brake(?: Slowdown)?))\b"
    r"(?!(?:\s*Slowdown)?\s*:\s*(?:Not )?Active)(?!.*\bnot active\b)",
    re.I,
)
_HOST_ERROR = re.compile(
    r"(?P<bad>Uncorrected hardware memory error|Machine check: Processor context corrupt|"
    r"EDAC \w+: \d+ UE\b|\[Hardware Error\]:.*\bUncorrected\b|event severity: fatal|"
    r"Kernel panic - not syncing: .*[Mm]achine check)"
    r"|(?P<ok>EDAC \w+: \d+ CE\b|\[Hardware Error\]:.*\bCorrected\b|event severity: corrected)"
    r"|(?P<any>\bMachine [Cc]heck(?: Exception| events logged|: \d+ Bank)"
    r"|\bmce: \[Hardware Error\])"
)
_GSP = re.compile(
    r"NVRM: (?P<gpu>GPU\d{1,3}) "
    r".*(?:_kgspIsHeartbeatTimedOut: Heartbeat timed out|\* GSP Timeout \*)"
)
_NIC = re.compile(
    rf"(?P<driver>mlx5_core|bnxt_en) (?P<pci>{ADDRESS})\b.*?: .*?"
    r"(?:(?P<dead>device's health compromised - reached miss count"
    r"|[Ff]irmware fatal (?:error|reset event)|Fatal error \d+ detected)"
    r"|(?P<heat>High temperature on sensors))"
)
_GPU_ADDRESS = re.compile(rf"\bGPU (?:at )?(?:PCI:)?(?P<pci>{ADDRESS})|\bPCI:(?P<bare>{ADDRESS})")
_GPU_INDEX = re.compile(r"\bGPU ?(?P<gpu>\d{1,3})\b(?! ?:)")


class PlatformReader:
    """Collects lines about PCIe, CPU, memory, NICs and throttling.

    Args:
        file: name of the output, for the evidence.
    """

    def __init__(self, file: str) -> None:
        self._tally: Tally[tuple[Origin, _Event]] = Tally(file)
        self._details: dict[tuple[Origin, _Event], int] = {}

    def feed(self, line: Line, bare: Bare) -> bool:
        """Take a line that is neither Xid nor SXid."""
        for read in _READERS:
            event = read(bare.text)
            if event is None:
                continue
            key = (bare.origin, event)
            self._tally.add(key, line)
            if "PCIe Bus Error" in bare.text:
                self._details[key] = self._details.get(key, 0) + 1
            return True
        return False

    def findings(self, context: ParseContext) -> list[Finding]:
        """Return one finding per kind of event and device."""
        found = []
        for (origin, event), seen in self._tally.items():
            entity = Entity(
                node=node_of(origin.host, origin.rank, context),
                gpu=event.gpu,
                rank=origin.rank,
                pci=event.pci,
                device=event.driver,
            )
            # An event is announced in one line and detailed in another; either may be missing.
            details = self._details.get((origin, event), 0)
            count = max(details, seen.count - details)
            times = f", {count} times" if count > 1 else ""
            found.append(
                finding(
                    event.code,
                    f"{event.says}{times}",
                    effect=event.effect,
                    entities=(entity,) if str(entity) else (),
                    proof=seen.evidence,
                    count=count,
                )
            )
        return found


def _pcie(text: str) -> _Event | None:
    if "AER" not in text and "PCIe Bus Error" not in text:
        return None
    match = _AER.search(text)
    if not match:
        return None
    driver, pci = match["driver"], match["pci"]
    if match["kind"].startswith("Correct"):
        return _Event("PCIE_AER_CORRECTED", Effect.NOTE, "PCIe corrected errors", driver, pci)
    if (match["sub"] or "").lower() == "non-fatal":
        # The transfer failed, the link did not; unsupported requests at boot also read like this.
        says = "PCIe uncorrected errors, not fatal"
        return _Event("PCIE_AER_UNCORRECTED", Effect.WARN, says, driver, pci)
    says = "PCIe uncorrected fatal errors"
    return _Event("PCIE_AER_UNCORRECTED", Effect.FAIL, says, driver, pci)


def _gpu_memory(text: str) -> _Event | None:
    if "NVRM" not in text:
        return None
    match = _MEMORY.search(text)
    if not match:
        return None
    address = _GPU_ADDRESS.search(text)
    pci = (address["pci"] or address["bare"]) if address else None
    if match["failed"]:
        says = "a GPU memory row could not be remapped"
        return _Event("ROW_REMAP_FAILED", Effect.FAIL, says, pci=pci)
    if match["pending"]:
        says = "a GPU memory row waits to be remapped; reset the GPU, then test again"
        return _Event("ROW_REMAP_PENDING", Effect.WARN, says, pci=pci)
    return _Event("ECC_UNCORRECTABLE", Effect.FAIL, "uncorrectable ECC error", pci=pci)


def _gsp(text: str) -> _Event | None:
    """Read what Xid 119 tells too, where the driver gets as far as that."""
    match = _GSP.search(text) if "NVRM" in text else None
    if not match:
        return None
    # The driver's own number, which need not be that of nvidia-smi.
    says = "the GSP of a GPU does not answer the driver"
    return _Event("GPU_GSP_TIMEOUT", Effect.FAIL, says, driver=f"NVRM {match['gpu']}")


def _nic(text: str) -> _Event | None:
    match = _NIC.search(text) if "mlx5_core" in text or "bnxt_en" in text else None
    if not match:
        return None
    driver, pci = match["driver"], match["pci"]
    if match["heat"]:
        return _Event("NIC_THERMAL", Effect.WARN, "a network device is too hot", driver, pci)
    says = "the firmware of a network device does not answer"
    return _Event("NIC_FIRMWARE", Effect.FAIL, says, driver, pci)


def _throttle(text: str) -> _Event | None:
    match = _THROTTLE.search(text)
    if not match:
        return None
    address, index = _GPU_ADDRESS.search(text), _GPU_INDEX.search(text)
    pci = (address["pci"] or address["bare"]) if address else None
    gpu = int(index["gpu"]) if index else None
    if match["heat"]:
        return _Event("GPU_THERMAL", Effect.WARN, "GPU slowed down by heat", pci=pci, gpu=gpu)
    return _Event("GPU_POWER_BRAKE", Effect.WARN, "GPU slowed down by power", pci=pci, gpu=gpu)


def _host(text: str) -> _Event | None:
    match = _HOST_ERROR.search(text)
    if not match:
        return None
    if match["bad"]:
        says = "the CPU or host memory had an error that could not be corrected"
        return _Event("MACHINE_CHECK", Effect.FAIL, says)
    if match["ok"]:
        return _Event("MACHINE_CHECK", Effect.NOTE, "host memory errors, corrected")
    return _Event("MACHINE_CHECK", Effect.WARN, "the CPU reported a machine check")


_READERS: tuple[Callable[[str], _Event | None], ...] = (
    _pcie,
    _gpu_memory,
    _gsp,
    _nic,
    _throttle,
    _host,
)
