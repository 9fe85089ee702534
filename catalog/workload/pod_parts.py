"""Fragments of worker pods: merging them by name, and writing those that follow from hardware."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catalog.hardware.profile_model import TOPOLOGY_PREFIX
from catalog.hardware.topology import topology_xml
from catalog.reading.setting import Origin


def merge_parts(current: Any, value: Any) -> Any:
    """Merge a fragment over another: mappings by key, lists by name; nothing is lost.

    Items of a list that have a name (containers, volumes, claims) or a mount path replace the item
    of the same name; others are added unless they are there already.
    """
    if isinstance(current, Mapping) and isinstance(value, Mapping):
        merged = dict(current)
        for key, item in value.items():
            merged[key] = merge_parts(current[key], item) if key in current else item
        return merged
    if isinstance(current, list | tuple) and isinstance(value, list | tuple):
        items = list(current)
        for item in value:
            place = next((i for i, old in enumerate(items) if _same_item(old, item)), None)
            if place is None:
                items.append(item)
            else:
                items[place] = merge_parts(items[place], item)
        return items
    return value


def _same_item(old: Any, new: Any) -> bool:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in ("mountPath", "name"):
            if key in old and key in new:
                return bool(old[key] == new[key])
    return bool(old == new)


def claim(
    name: str, device_class: str, count: Any, origin: Origin
) -> Iterator[tuple[str, Any, Origin]]:
    """Yield the parts of a DRA claim for ``count`` devices per pod."""
    exactly = {"deviceClassName": device_class, "count": count}
    spec = {"devices": {"requests": [{"name": name, "exactly": exactly}]}}
    yield "claimTemplates", [{"name": name, "spec": spec}], origin
    yield "resourceClaims", [{"name": name, "resourceClaimTemplateName": name}], origin


def interfaces(networks: Sequence[tuple[str, str]]) -> str:
    """Write GKE's annotation of pod interfaces."""
    pairs = [("eth0", "default"), *networks]
    return json.dumps(
        [{"interfaceName": interface, "network": network} for interface, network in pairs],
        separators=(",", ":"),
    )


def with_topologies(config_maps: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Put topology files in the place of their names."""
    return {
        name: {
            key: topology_xml(text.removeprefix(TOPOLOGY_PREFIX))
            if text.startswith(TOPOLOGY_PREFIX)
            else text
            for key, text in files.items()
        }
        for name, files in config_maps.items()
    }
