"""Why a run stopped, in the words of a record; the same for every kind of fleet."""

from __future__ import annotations

from catalog.facts.tools import TOOLS
from steps.documents import Entity, Group, NodeEvent, RunFailure


def hardware_failure(event: NodeEvent) -> RunFailure:
    """Return the failure of a run that a health event of one of its nodes ended."""
    return RunFailure(
        code="HardwareFailureDetected",
        message=f"{event.source}: {event.text}",
        entity=Entity(node=event.node),
    )


def timeout_failure(tool: str, group: Group, message: str) -> RunFailure:
    """Return the failure of a run that did not end within its timeout.

    A diagnostic that hangs says something about its one node, if nothing certain; of a group that
    does not end, nobody knows whom it waits for.
    """
    of_node = TOOLS[tool].timeout_of_node
    if of_node and len(group.nodes) == 1:
        entity = Entity(node=group.nodes[0])
        return RunFailure(code=of_node, message=message, entity=entity)
    return RunFailure(code="JobTimedOut", message=message)
