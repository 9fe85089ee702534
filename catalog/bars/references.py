"""Published figures, and which of them fits a group."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Field

from catalog.entries.entry import Entry
from catalog.facts.tools import TOOLS
from catalog.hardware.hardware import Hardware
from catalog.reading.model import Model
from catalog.reading.source import shipped

Path = Literal["fabric", "nvlink", "nic"]


class Reference(Model):
    """A published figure; see ``references.yaml`` for the meaning of each field."""

    figure: str
    operation: str
    path: Path
    gpu: str
    platforms: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    nvlink: bool = True
    mnnvl: bool | None = None
    one_domain: bool = False
    nodes: tuple[int, int]
    measured_nodes: int | None = None
    gpus: int | None = None
    nics: int | None = None
    max_nics: int | None = None
    value: Annotated[float, Field(gt=0)]
    size: str | None = None
    kind: Literal["measured", "floor"]
    date: str | None = None
    source: str
    reasoning: str

    def holds(self, hardware: Hardware, nodes: int) -> bool:
        """Say whether the figure is of such hardware and of as many nodes.

        What nobody knows about the hardware is taken to be as usual, so a row that is limited to
        fewer network devices than usual needs to know.
        """
        return (
            self.gpu == hardware.gpu
            and self.nodes[0] <= nodes <= self.nodes[1]
            and (not self.platforms or hardware.platform in self.platforms)
            and (not self.instance_types or hardware.instance_type in self.instance_types)
            and self.nvlink is (hardware.nvlink is not False)
            and self.mnnvl in {None, hardware.mnnvl}
            and (hardware.one_domain or not self.one_domain)
            and (self.gpus is None or hardware.gpus_per_node in {None, self.gpus})
            and (self.nics is None or hardware.nics is None or hardware.nics >= self.nics)
            and (self.max_nics is None or 0 < (hardware.nics or 0) <= self.max_nics)
        )


@cache
def references() -> tuple[Reference, ...]:
    """Return the published figures, in the order in which they are tried."""
    return tuple(Reference.model_validate(item) for item in shipped("bars/references.yaml").data)


def path_of(entry: Entry, nodes: int) -> Path:
    """Return what carries the traffic: one node's is on NVLink unless the entry forces it off."""
    path: Path = entry.facts.get("path", "fabric")
    inside = nodes == 1 and TOOLS[entry.tool].measures_links
    return "nvlink" if path == "fabric" and inside else path


def published_figure(entry: Entry, key: str) -> str:
    """Return the figure that is published of what a bar of this key tests."""
    expected = TOOLS[entry.tool].expected
    return (expected.figure if expected else None) or key


def find_reference(
    entry: Entry, figure: str, hardware: Hardware, *, nodes: int
) -> Reference | None:
    """Return the first published figure that fits, or None."""
    wanted = (figure, entry.operation, path_of(entry, nodes))
    for row in references():
        same = (row.figure, row.operation, row.path) == wanted
        if same and row.holds(hardware, nodes):
            return row
    return None
