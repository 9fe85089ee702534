"""CronWorkflows: burn-in that repeats by itself.

They come suspended, because installing readiness must not occupy GPUs;
``argo cron resume NAME`` or a patch in a GitOps overlay starts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hera.workflows import CronWorkflow
from hera.workflows import models as m

from pipelines.templates.limits import KEEP
from pipelines.templates.names import CERTIFICATION, LABELS
from pipelines.templates.shapes import arguments, metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A certification that repeats.

    Attributes:
        name: of the CronWorkflow.
        schedule: five cron fields.
        parameters: workflow parameters that differ from their defaults.
        timezone: IANA name; days without or with two 2 o'clocks skip or double a run there.
        suspended: whether somebody has to start it.
    """

    name: str
    title: str
    description: str
    schedule: str
    parameters: Mapping[str, str]
    timezone: str = "Etc/UTC"
    suspended: bool = True


NIGHTLY = Repeated(
    name="burn-in-nightly",
    title="Nightly burn-in",
    description=(
        "NCCL inside every node, NCCL over all nodes, and the medium DCGM diagnostics, every "
        "night. Suspended until `argo cron resume burn-in-nightly`."
    ),
    schedule="0 1 * * *",
    parameters={
        "stage": "burn-in",
        "categories": (
            "communication/nccl-loopback-nvswitch, communication/nccl-all-reduce, "
            "diagnostics/dcgm-level2"
        ),
        "name": "burn-in-nightly",
        "deadline": "6h",
    },
)

WEEKLY = Repeated(
    name="burn-in-weekly",
    title="Weekly burn-in",
    description=(
        "The long DCGM diagnostics with stress and memory tests, and a short training run, every "
        "Saturday. Suspended until `argo cron resume burn-in-weekly`."
    ),
    schedule="0 8 * * 6",
    parameters={
        "stage": "burn-in",
        "categories": "diagnostics/dcgm-level4, training/nemotron5-8b",
        "name": "burn-in-weekly",
        "deadline": "16h",
    },
)

BURN_IN = (NIGHTLY, WEEKLY)


def cron_workflow(
    repeated: Repeated, namespace: str, spec: Mapping[str, Any] | None = None
) -> CronWorkflow:
    """Return the CronWorkflow of a certification that repeats.

    Args:
        repeated: what, and when.
        namespace: of the object.
        spec: further fields of the workflow's spec.
    """
    about = metadata(repeated.title, repeated.description)
    return CronWorkflow(
        name=repeated.name,
        namespace=namespace,
        labels=dict(LABELS),
        annotations=about,
        schedules=[repeated.schedule],
        timezone=repeated.timezone,
        cron_suspend=repeated.suspended,
        concurrency_policy="Forbid",
        # A start that the controller missed by more than this is left out: the night is over.
        starting_deadline_seconds=3600,
        successful_jobs_history_limit=7,
        failed_jobs_history_limit=14,
        workflow_template_ref=m.WorkflowTemplateRef(name=CERTIFICATION),
        arguments=arguments(list(repeated.parameters.items())),
        workflow_metadata=m.WorkflowMetadata(labels=dict(LABELS), annotations=about),
        ttl_strategy=m.TTLStrategy(seconds_after_completion=2 * int(KEEP.total_seconds())),
        **(spec or {}),
    )
