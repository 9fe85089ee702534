"""Why a run stopped, in the words of a record; the same for every kind of fleet."""

from __future__ import annotations

from steps.documents import Entity, NodeEvent, RunFailure


def hardware_failure(event: NodeEvent) -> RunFailure:
    """Return the failure of a run that a health event of one of its nodes ended."""
    return RunFailure(
        code="HardwareFailureDetected",
        message=f"{event.source}: {event.text}",
        entity=Entity(node=event.node),
    )
