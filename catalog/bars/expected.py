"""What a figure should reach on given hardware: published, else derived, else unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catalog.bars.physics import Unknown, derive, physics, size_factor
from catalog.bars.references import Reference, find_reference
from catalog.entries.entry import Entry
from catalog.facts.tools import TOOLS
from catalog.hardware.hardware import Hardware
from catalog.reading.quantity import format_size, parse_size
from catalog.reading.setting import Origin

REFERENCE_SIZE = parse_size("16G")
"""Message size of figures that do not name theirs: where the sweeps of the catalog end."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a figure should reach.

    Attributes:
        value: in the unit of the figure.
        kind: published, derived, or yours (of a bar file).
        source: where it is from, with its date.
        reasoning: why it is the one to compare with.
        origin: where it stands, if in a bar file.
    """

    value: float
    kind: Literal["published", "derived", "yours"]
    source: str
    reasoning: str
    origin: Origin | None = None


def expected_figure(
    entry: Entry,
    figure: str,
    hardware: Hardware,
    *,
    nodes: int,
    scale: str = "",
    largest: int | None = None,
) -> Expected | Unknown:
    """Return what a figure of an entry should reach.

    Args:
        entry: whose figure it is.
        figure: name of the figure.
        hardware: the nodes.
        nodes: how many of them a group has.
        scale: of the category; intra-rack groups are in one NVLink domain.
        largest: bytes of the largest message; None takes it to be large enough.
    """
    factor = (
        1.0 if largest is None or not TOOLS[entry.tool].measures_links else size_factor(largest)
    )
    if factor is None:
        least = min(physics().sizes, key=parse_size)
        return Unknown(f"messages up to {format_size(largest or 0)} say too little; {least} do")
    published = find_reference(entry, figure, hardware, nodes=nodes)
    if published is not None:
        return _published(published, nodes, largest, factor)
    found = derive(entry, figure, hardware, nodes=nodes, scale=scale)
    if isinstance(found, Unknown):
        return found
    how = found.how + _smaller(largest, factor)
    count = f"{nodes} node{'s' if nodes != 1 else ''}"
    return Expected(
        value=found.value * factor,
        kind="derived",
        source=f"derived: {how} (catalog/bars/physics.yaml)",
        reasoning=f"nobody has published {figure} of {entry.id} for "
        f"{hardware.gpu} on {hardware.place} with {count}",
    )


def _published(row: Reference, nodes: int, largest: int | None, factor: float) -> Expected:
    """Take a figure as it is, or lower it to the message size and the nodes of the run."""
    own = size_factor(parse_size(row.size) if row.size else REFERENCE_SIZE) or 1.0
    lowered = min(1.0, factor / own)
    many = physics().many
    measured = row.measured_nodes or row.nodes[0]
    crowded = row.path == "fabric" and measured <= many.nodes < nodes
    words = ", ".join(word for word in (row.kind, row.size, row.date) if word)
    source = f"{row.source} ({words})" + _smaller(largest, lowered)
    if crowded and row.figure == "busBandwidthGBps":
        lowered *= many.factor
        source += f" x {many.factor:g} (more than {many.nodes} nodes)"
    return Expected(row.value * lowered, "published", source, row.reasoning)


def _smaller(largest: int | None, factor: float) -> str:
    return f" x {factor:.3g} (messages up to {format_size(largest or 0)})" if factor < 1 else ""
