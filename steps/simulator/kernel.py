"""Kernel lines as ``dmesg -T`` prints them."""

from __future__ import annotations

from datetime import datetime, timedelta

from catalog.facts.xids import find_xid
from steps.simulator.faults import LostGpu, XidFault
from steps.simulator.machine import Machine

_TEXTS = {
    13: "pid='<unknown>', name=<unknown>, Graphics Exception: ESR 0x504730=0x1e000e 0x504734=0x20",
    31: "pid=41207, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
    43: "pid=41207, name=python3, Ch 00000008",
    45: "pid=41207, name=python3, Ch 00000008",
    48: "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been "
    "detected on GPU in the framebuffer.",
    63: "pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu "
    "to activate.",
    64: "pid='<unknown>', name=<unknown>, Row Remapper: Error could not remap bank.",
    74: "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 4",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    94: "pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No",
    95: "pid='<unknown>', name=<unknown>, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
}


def xid_text(number: int) -> str:
    """Return what the driver says after the number of an Xid."""
    if number in _TEXTS:
        return _TEXTS[number]
    known = find_xid(number)
    return f"pid='<unknown>', name=<unknown>, {known.name if known else 'unknown error'}"


def kernel_lines(machine: Machine, fault: LostGpu | XidFault, start: datetime) -> list[str]:
    """Return the lines of a fault that happens in a run which started at ``start``."""
    number, text = (79, None) if isinstance(fault, LostGpu) else (fault.number, fault.text)
    at = start + timedelta(seconds=fault.at or 0.0)
    stamp = at.strftime("[%a %b %e %H:%M:%S %Y]")
    pci = machine.pci(fault.gpu)
    lines = [f"{stamp} NVRM: Xid (PCI:{pci}): {number}, {text or xid_text(number)}"]
    if number == 79:
        lines.append(f"{stamp} NVRM: GPU {pci}.0: GPU has fallen off the bus.")
    return lines
