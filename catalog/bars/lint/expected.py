"""Whether hardware can reach what a file of bars expects of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from catalog.bars.bar_file import BarItem, entries_of
from catalog.bars.physics import Derived, derive, physics
from catalog.bars.references import find_reference, published_figure
from catalog.entries.entry import Entry
from catalog.facts.tools import TOOLS
from catalog.hardware.conditions import Names, meet
from catalog.hardware.hardware import Hardware
from catalog.hardware.profile import Profiles, hardware_of_profile
from catalog.language.cel.explain import format_value

MOST = 1.5
"""Healthy machines exceed what is published, or the rate of their links, by less than this."""


def beyond_reach(item: BarItem, profiles: Profiles) -> str | None:
    """Say why no machine that a bar is about can reach what it expects; None where one may.

    Args:
        item: a bar with ``expected``.
        profiles: the hardware profiles.
    """
    if item.expected is None:
        return None
    entries = [
        entry
        for entry in entries_of(item)
        if item.key in (figures := TOOLS[entry.tool].figures)
        and figures[item.key].unit in {"GB/s", "TFLOP/s"}
    ]
    known = [one for entry in entries for one in _known(item, entry, profiles)]
    says = f"expects {format_value(item.expected.value)} of {item.key}"
    if known:
        if item.expected.value > MOST * max(known):
            what = "the most that such hardware has shown, or its links and cores give"
            return f"{says}, more than {MOST:g} x {format_value(max(known))}, {what}"
    elif any(_over_links(entry) for entry in entries):
        rates = physics().nvlink.gbytes
        fastest = max((rate for gpu, rate in rates.items() if item.when.gpu.fits(gpu)), default=0.0)
        fastest = fastest or max(rates.values())
        if item.expected.value > MOST * fastest:
            return f"{says}, and no NVLink of such GPUs has more than {fastest:g} GB/s"
    return None


def _over_links(entry: Entry) -> bool:
    expected = TOOLS[entry.tool].expected
    return expected is not None and expected.by in {"links", "copies"}


def _known(item: BarItem, entry: Entry, profiles: Profiles) -> Iterator[float]:
    """Yield what is published of the machines that a bar is about, and the limits of physics."""
    when = item.when
    least, most = when.nodes.min or 1, when.nodes.max
    # More nodes are slower, but a single node has no network to show.
    sizes = {size for size in (least, max(least, 2)) if most is None or size <= most}
    figure = published_figure(entry, item.key)
    scales = [scale for scale in entry.scales if when.scale.fits(scale)]
    for hardware in _machines(item, profiles):
        for size in sizes:
            for scale in scales:
                for mnnvl in (False, True):
                    known = replace(hardware, mnnvl=mnnvl)
                    published = find_reference(entry, figure, known, nodes=size)
                    if published is not None:
                        yield published.value
                    found = derive(entry, figure, known, nodes=size, scale=scale)
                    if isinstance(found, Derived):
                        yield found.limit


def _machines(item: BarItem, profiles: Profiles) -> Iterator[Hardware]:
    when = item.when
    for loaded in profiles.all():
        profile = loaded.profile
        if not when.platform.fits(profile.platform):
            continue
        if not _may_be(when.instance_type, profile.instance_types):
            continue
        for gpu in profile.gpu:
            if when.gpu.fits(gpu):
                yield hardware_of_profile(loaded, gpu)


def _may_be(condition: Names, types: tuple[str, ...]) -> bool:
    """Say whether a machine of a profile may be of such an instance type; both are globs."""
    return not condition.within or any(
        meet(name, glob) for name in types for glob in condition.within
    )
