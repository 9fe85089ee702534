"""PCI topology files for NCCL, written from a table of which GPU and NIC share a switch."""

from __future__ import annotations

from functools import cache
from xml.sax.saxutils import quoteattr

from catalog.reading.model import Model
from catalog.reading.source import shipped

BRIDGE, GPU, NIC = "0x060400", "0x030200", "0x020700"
"""PCI classes: a bridge, a 3D controller, an InfiniBand controller."""


class NumaNode(Model):
    """CPUs and switches of one NUMA node; see ``topologies.yaml``."""

    affinity: str
    switches: tuple[tuple[tuple[str, str], ...], ...]


class Topology(Model):
    """One machine; see ``topologies.yaml``."""

    source: str
    cpu: dict[str, str]
    link_speed: str
    numa: tuple[NumaNode, ...]


@cache
def topologies() -> dict[str, Topology]:
    """Return the topologies that ship, by name."""
    return {
        name: Topology.model_validate(item)
        for name, item in shipped("hardware/topologies.yaml").data.items()
    }


def topology_xml(name: str) -> str:
    """Write a topology in NCCL's XML format.

    Raises:
        KeyError: no such topology.
    """
    topology = topologies()[name]
    link = f'link_speed={quoteattr(topology.link_speed)} link_width="16"'
    cpu = " ".join(f"{key}={quoteattr(value)}" for key, value in topology.cpu.items())
    # The hypervisor shows no bridges, so the switches get addresses that no device has.
    number = 0
    lines = ['<system version="1">']
    for index, numa in enumerate(topology.numa):
        lines.append(f'  <cpu numaid="{index}" affinity={quoteattr(numa.affinity)} {cpu}>')
        for switch in numa.switches:
            number += 1
            lines.append(f'    <pci busid="ffff:ff:{number:02x}.0" class="{BRIDGE}" {link}>')
            for gpu, nic in switch:
                lines.append(f'      <pci busid="{gpu}:00:00.0" class="{GPU}" {link}/>')
                lines.append(f'      <pci busid="{nic}:00:00.0" class="{NIC}" {link}/>')
            lines.append("    </pci>")
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>", ""])
