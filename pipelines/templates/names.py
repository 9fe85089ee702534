"""Names of the Argo objects, and references to their parameters."""

from __future__ import annotations

CERTIFICATION = "certification"
"""WorkflowTemplate of a whole certification."""

FINISH = "finish"
"""Template of the exit handler."""

RUNNER_ACCOUNT = "readiness-runner"
"""Service account of the steps that read nodes and create pods."""

STEPS_ACCOUNT = "readiness-steps"
"""Service account of the steps that only read and write documents."""

NAMESPACE = "argo"
"""Namespace of the rendered objects, where Argo's quick start puts it too."""

LABELS = {"app.kubernetes.io/name": "readiness", "app.kubernetes.io/part-of": "readiness"}


def template_name(entry_id: str) -> str:
    """Return the WorkflowTemplate of a catalog entry: ``domain/name`` with a dash."""
    return entry_id.replace("/", "-")


def parameter(name: str) -> str:
    """Return the reference to a workflow parameter."""
    return f"{{{{workflow.parameters.{name}}}}}"


def input_parameter(name: str) -> str:
    """Return the reference to an input parameter of the template it stands in."""
    return f"{{{{inputs.parameters.{name}}}}}"


def output_of(task: str, name: str) -> str:
    """Return the reference to an output parameter.

    Only for consumers that depend on ``.Succeeded`` of the task: Argo waits for ever for the
    parameter of a task that died before it reported.
    """
    return f"{{{{tasks.{task}.outputs.parameters.{name}}}}}"
