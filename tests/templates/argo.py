"""Reads rendered manifests the way Argo does: templates, tasks, references."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.render import Manifests

REFERENCE = re.compile(r"\{\{=?\s*([^{}]*?)\s*\}\}")
ENDS = {"Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned"}


@dataclass(frozen=True)
class Template:
    """A template of a WorkflowTemplate."""

    workflow: dict[str, Any]
    data: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.workflow['metadata']['name']}/{self.data['name']}"

    @property
    def tasks(self) -> list[dict[str, Any]]:
        return list(self.data.get("dag", {}).get("tasks", []))

    def task(self, name: str) -> dict[str, Any]:
        return next(task for task in self.tasks if task["name"] == name)

    @property
    def leaves(self) -> list[str]:
        needed = {name for task in self.tasks for name, _ in conditions(task)}
        return [task["name"] for task in self.tasks if task["name"] not in needed]


def is_template(document: dict[str, Any]) -> bool:
    return document.get("kind") == "WorkflowTemplate"


def workflow_templates(manifests: Manifests) -> list[dict[str, Any]]:
    return [doc for docs in manifests.values() for doc in docs if is_template(doc)]


def templates(manifests: Manifests) -> list[Template]:
    return [
        Template(workflow, data)
        for workflow in workflow_templates(manifests)
        for data in workflow["spec"]["templates"]
    ]


def conditions(task: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the (task, end) pairs of ``depends``."""
    words = re.findall(r"([a-z0-9-]+)(?:\.([A-Za-z]+))?", task.get("depends", ""))
    return [(name, end) for name, end in words]


def references(data: Any) -> Iterator[str]:
    """Yield what stands between the braces anywhere in the data."""
    if isinstance(data, dict):
        for value in data.values():
            yield from references(value)
    elif isinstance(data, list):
        for value in data:
            yield from references(value)
    elif isinstance(data, str):
        yield from REFERENCE.findall(data)


def arguments(workflow: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in workflow["spec"]["arguments"]["parameters"]}


def called(template: Template, everything: list[Template]) -> list[Template]:
    """Return the templates that the tasks and steps of a template call."""
    names: list[str] = []
    for call in [*template.tasks, *(s for g in template.data.get("steps", []) for s in g)]:
        reference = call.get("templateRef")
        workflow = template.workflow["metadata"]["name"]
        if reference and reference["name"] == "{{item}}":
            names += [item.id for item in everything if item.data["name"] == reference["template"]]
            continue
        names.append(
            f"{reference['name']}/{reference['template']}"
            if reference
            else f"{workflow}/{call['template']}"
        )
    by_id = {item.id: item for item in everything}
    return [by_id[name] for name in names]
