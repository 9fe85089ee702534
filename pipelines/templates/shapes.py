"""What all our workflows have in common: bounds, cleaning up, locks, the exit handler.

The shapes of the DAGs follow from how Argo treats steps that die. An output parameter is read only
where the reader depends on ``.Succeeded`` of its task, because Argo waits for ever for one that was
never reported. Everything else goes through the record store, and the last task of every DAG
depends on any end of the task before it, so that it always runs and alone decides the phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hera.workflows import Parameter
from hera.workflows import models as m

from pipelines.templates.limits import KEEP, LONGEST, MARGIN
from pipelines.templates.names import FINISH, LABELS, STEPS_ACCOUNT, parameter
from pipelines.templates.parameters import NODE_POOL

DISPLAY_NAME = "workflows.argoproj.io/display-name"

_ENDS = ("Succeeded", "Failed", "Errored", "Skipped", "Omitted")


def any_end(task: str) -> str:
    """Return the condition that a task is over, however it ended."""
    return "(" + " || ".join(f"{task}.{end}" for end in _ENDS) + ")"


def was_tried(task: str) -> str:
    """Return the condition that a task ran, well or badly."""
    return " || ".join(f"{task}.{end}" for end in _ENDS[:3])


def display_name(name: str) -> dict[str, str]:
    """Return the annotation that names a node in the Argo UI; at most 63 of ``A-Za-z0-9.-``."""
    return {DISPLAY_NAME: name}


def metadata(title: str, description: str) -> dict[str, str]:
    """Return the annotations that the Argo UI shows as title and text."""
    return {
        "workflows.argoproj.io/title": title,
        "workflows.argoproj.io/description": description,
    }


def bounds(title: str, description: str) -> dict[str, Any]:
    """Return the fields of a workflow spec that all our WorkflowTemplates share."""
    return {
        "active_deadline_seconds": int((LONGEST + MARGIN).total_seconds()),
        "ttl_strategy": m.TTLStrategy(seconds_after_completion=int(KEEP.total_seconds())),
        "pod_gc": m.PodGC(strategy="OnWorkflowCompletion", delete_delay_duration="1h"),
        "service_account_name": STEPS_ACCOUNT,
        "on_exit": FINISH,
        "synchronization": m.Synchronization(
            mutexes=[m.Mutex(name=f"readiness-{parameter(NODE_POOL.name)}")]
        ),
        "workflow_metadata": m.WorkflowMetadata(
            labels=dict(LABELS), annotations=metadata(title, description)
        ),
    }


def arguments(pairs: Sequence[tuple[str, str]]) -> list[Parameter]:
    """Return arguments of a task or workflow."""
    return [Parameter(name=name, value=value) for name, value in pairs]
