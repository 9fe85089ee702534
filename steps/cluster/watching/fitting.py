"""Whether a pod that waits to be scheduled can ever be; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from catalog.reading.quantity import parse_quantity
from steps.cluster.objects.reading import condition, name_of

Object = Mapping[str, Any]

_MISSING = re.compile(r'persistentvolumeclaim "[^"]+" not found')


def never_fits(pod: Object, nodes: Iterable[Object]) -> str | None:
    """Return why a pod of a gang can never be scheduled; None where it may.

    That others hold what it asks for passes. That a node of the group has less of it in all does
    not, since the gang needs every node.

    Args:
        pod: the pod, which the scheduler could not place.
        nodes: the nodes of its group.
    """
    said = str(condition(pod, "PodScheduled").get("message") or "")
    if _MISSING.search(said):
        return said
    asked = _asked(pod)
    for node in nodes:
        has = (node.get("status") or {}).get("allocatable") or {}
        for name, amount in asked.items() if has else ():
            there = has.get(name, "0")
            if amount > parse_quantity(there):
                return f"node {name_of(node)} has {there} {name}, the pod asks {amount:f}"
    return None


def _asked(pod: Object) -> dict[str, Decimal]:
    """Return what all containers that run side by side ask for."""
    total: dict[str, Decimal] = {}
    for container in (pod.get("spec") or {}).get("containers") or []:
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, Decimal(0)) + parse_quantity(amount)
    return total
