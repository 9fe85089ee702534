"""Renders everything that a cluster with Argo needs: plain YAML, the same for the same input.

The set is a kustomize base:

    kustomization.yaml  service-accounts.yaml  roles.yaml
    kustomizeconfig     lets an overlay replace the image of the steps by `images:`
    workflowtemplates/  one for each catalog entry, and `certification`
    cronworkflows/      burn-in
    workflow-NAME.yaml  a certification ready for `kubectl create`; not part of the base
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hera.workflows import CronWorkflow, WorkflowTemplate
from hera.workflows import models as m

from catalog.certification import Certification
from catalog.entries.entry import builtin_entries
from catalog.errors import InputError, Place
from catalog.reading.source import MAX_BYTES, read_text
from pipelines import submission
from pipelines.schedule import check_schedule
from pipelines.settings import annotations_of
from pipelines.templates.access import Manifest, roles, service_accounts
from pipelines.templates.category import category_template
from pipelines.templates.certification import certification_template
from pipelines.templates.cron import BURN_IN, Repeated, cron_workflow
from pipelines.templates.images import STEPS_IMAGE
from pipelines.templates.names import CERTIFICATION, NAMESPACE
from pipelines.templates.shapes import DISPLAY_NAME
from pipelines.templates.steps import Options
from steps.documents import Plan

Manifests = dict[str, list[Manifest]]
"""Manifests by path below the output directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What the rendered set depends on.

    Attributes:
        namespace: of all objects.
        image: the steps image.
        artifact_repository: ``default``, or ConfigMap/KEY of an artifact repository; empty renders
            no artifacts, so that no repository is needed.
    """

    namespace: str = NAMESPACE
    image: str = STEPS_IMAGE
    artifact_repository: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A certification that is rendered beside the set.

    Attributes:
        certification: as read.
        values: its workflow parameters.
        schedule: five cron fields; empty makes no CronWorkflow.
        timezone: of the schedule.
        plan: what it resolves to on known nodes; goes into annotations of the Workflow.
    """

    certification: Certification
    values: Mapping[str, str] = field(default_factory=dict)
    schedule: str = ""
    timezone: str = "Etc/UTC"
    plan: Plan | None = None


def render(rendering: Rendering, request: Request | None = None) -> Manifests:
    """Return every manifest by its path.

    Raises:
        InputError: the artifact repository or the schedule is malformed.
    """
    options = Options(image=rendering.image, artifacts=bool(rendering.artifact_repository))
    namespace = rendering.namespace
    templates = [
        certification_template(namespace, options),
        *(category_template(entry, namespace, options) for entry in builtin_entries().values()),
    ]
    repository = _repository(rendering.artifact_repository)
    for template in templates:
        template.artifact_repository_ref = repository
    crons = [cron_workflow(repeated, namespace) for repeated in BURN_IN]
    if request is not None and request.schedule:
        crons.append(_scheduled(request, namespace))
    found: Manifests = {
        "service-accounts.yaml": list(service_accounts(namespace)),
        "roles.yaml": roles(namespace),
    }
    found |= {f"workflowtemplates/{item.name}.yaml": [_manifest(item)] for item in templates}
    found |= {f"cronworkflows/{item.name}.yaml": [_manifest(item)] for item in crons}
    found["kustomization.yaml"] = [_kustomization(found)]
    found["kustomizeconfig"] = [_IMAGES]
    if request is not None:
        name = request.certification.metadata.name
        workflow = submission.workflow(request.certification, request.values, namespace)
        if request.plan is not None:
            workflow["metadata"]["annotations"] |= annotations_of(request.plan)
        found[f"workflow-{name}.yaml"] = [workflow]
    return dict(sorted(found.items()))


def write(manifests: Manifests, out: Path) -> list[Path]:
    """Write manifests below a directory; files of the same name are replaced.

    Raises:
        InputError: the directory cannot be written.
    """
    written = []
    try:
        for name, documents in manifests.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(to_yaml(documents), encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", Place(str(out))) from error
    return written


def images_in(out: Path) -> set[str]:
    """Return the images of the steps in a set that was written before; none where there is none.

    Raises:
        InputError: a file of the set cannot be read.
    """
    file = out / "workflowtemplates" / f"{CERTIFICATION}.yaml"
    text = read_text(file, MAX_BYTES) if file.is_file() else ""
    return set(re.findall(r"^ +image: (\S+)$", text, re.MULTILINE))


def to_yaml(documents: Iterable[Manifest]) -> str:
    """Write manifests as YAML documents, texts of several lines as blocks."""
    return "---\n".join(
        yaml.dump(
            document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, indent=2
        )
        for document in documents
    )


def _manifest(built: WorkflowTemplate | CronWorkflow) -> Manifest:
    data: Manifest = _ordered(built.to_dict())
    for template in data["spec"].get("templates", ()):
        # Hera writes annotations of a template to its pod; Argo reads the display name elsewhere.
        annotations = template.get("metadata", {}).get("annotations", {})
        if DISPLAY_NAME in annotations:
            template["annotations"] = {DISPLAY_NAME: annotations.pop(DISPLAY_NAME)}
            if not annotations:
                del template["metadata"]["annotations"]
            if not template["metadata"]:
                del template["metadata"]
    return data


def _ordered(data: Any) -> Any:
    """Put the keys that people look for first, and the others in the order of the alphabet."""
    if isinstance(data, dict):
        return {
            key: _ordered(data[key])
            for key in sorted(data, key=lambda key: (_FIRST.get(key, len(_FIRST)), key))
        }
    return [_ordered(item) for item in data] if isinstance(data, list) else data


_FIRST = {
    name: at for at, name in enumerate(("apiVersion", "kind", "name", "template", "metadata"))
}

# No manifest, hence no .yaml in its name: `argo lint DIR` reads all of those.
_IMAGES: Manifest = {
    "images": [{"kind": "WorkflowTemplate", "path": "spec/templates/container/image"}]
}


def _scheduled(request: Request, namespace: str) -> CronWorkflow:
    check_schedule(request.schedule, request.timezone)
    certification = request.certification
    name = certification.metadata.name
    if len(name) > 52:
        message = f"CronWorkflow names have at most 52 characters, {name!r} has {len(name)}"
        raise InputError(message, Place("metadata.name"))
    repeated = Repeated(
        name=name,
        title=f"Certification {name}",
        description=f"Certifies `{name}` by the schedule `{request.schedule}`.",
        schedule=request.schedule,
        timezone=request.timezone,
        parameters=request.values,
        suspended=False,
    )
    seconds = submission.deadline_seconds(certification)
    return cron_workflow(repeated, namespace, {"active_deadline_seconds": seconds})


def _repository(text: str) -> m.ArtifactRepositoryRef | None:
    if not text or text == "default":
        return None
    config_map, slash, key = text.partition("/")
    if not config_map or (slash and not key):
        hint = "write default, CONFIGMAP or CONFIGMAP/KEY"
        raise InputError(f"{text!r} names no repository", Place("--artifact-repository"), hint)
    return m.ArtifactRepositoryRef(config_map=config_map, key=key or None)


def _kustomization(found: Manifests) -> Manifest:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(found),
    }


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, and never writes a text that YAML 1.1 reads otherwise."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if text.lower() in {"y", "n"}:  # a truth value for Argo's reader, a text for PyYAML
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
