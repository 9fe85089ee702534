"""A certification as a Workflow: what `readiness submit` creates and `readiness render` writes.

Plain dicts, so that neither hera nor the Argo CLI is needed.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catalog.bars.bar_file import bar_documents
from catalog.certification import Certification, load_certification
from catalog.errors import InputError, Place
from catalog.hardware.profile import profile_documents
from catalog.hardware.profile_model import KIND as PROFILES
from catalog.reading.quantity import parse_duration
from catalog.reading.source import read_text, yaml_files
from pipelines.templates.limits import MARGIN
from pipelines.templates.names import CERTIFICATION, LABELS
from steps.detect.checks import check_certification

MAX_TEXT_BYTES = 100 * 1024
"""Longest certification that fits into one environment variable (128 KiB) with room to spare."""

LABEL_CERTIFICATION = "readiness/certification"

DONE = frozenset({"Succeeded", "Failed", "Error"})
"""Phases in which a Workflow is over."""


def read_submission(
    file: Path, profiles: Sequence[Path] = (), bars: Sequence[Path] = (), node_pool: str = ""
) -> tuple[Certification, dict[str, str]]:
    """Read a certification that is to run on a cluster.

    Args:
        file: the certification.
        profiles: profile files of the user's own, or directories of them.
        bars: bar files of the user's own, or directories of them.
        node_pool: see `parameters`.

    Returns:
        The certification and its workflow parameters.

    Raises:
        InputError: a file is wrong, Argo cannot carry it, or the certification asks for something
            that the detect step would refuse whatever the nodes are.
    """
    loaded, source = load_certification(file)
    documents = profile_documents(profiles)
    check_certification(loaded, source, documents, bar_documents(bars))
    for document in documents:
        if "kind" not in document.data:
            # Among other documents the kind must say what the option says here.
            message, hint = "has no kind to be known by on the cluster", f"add `kind: {PROFILES}`"
            raise InputError(message, Place(document.file, 1), hint)
    text = _with_files(file.read_text(encoding="utf-8"), [*profiles, *bars])
    return loaded, parameters(loaded, text, source.file, node_pool)


def parameters(
    certification: Certification, text: str, file: str, node_pool: str = ""
) -> dict[str, str]:
    """Return the workflow parameters of a certification.

    Args:
        certification: as read.
        text: its YAML.
        file: where it was read, for errors.
        node_pool: workflows of one pool wait for each other; empty takes the template's default.

    Raises:
        InputError: Argo cannot carry the text.
    """
    size = len(text.encode())
    if size > MAX_TEXT_BYTES:
        raise InputError(
            f"is {size // 1024} KiB long; a workflow parameter takes {MAX_TEXT_BYTES // 1024} KiB",
            Place(file),
            "select nodes by label instead of by name",
        )
    _refuse_braces(text, file)
    found = {"certification": text, "deadline": certification.spec.limits.deadline}
    if node_pool:
        found["node-pool"] = node_pool
    return found


def _with_files(text: str, files: Sequence[Path]) -> str:
    """Return a certification's text followed by the user's own files, as further documents."""
    parts = [text]
    for file in yaml_files(files):
        part = read_text(file, MAX_TEXT_BYTES)
        _refuse_braces(part, str(file))
        parts.append(part.removeprefix("---\n"))
    if len(parts) == 1:
        return text
    return "\n---\n".join(part.strip("\n") for part in parts) + "\n"


def _refuse_braces(text: str, file: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if "{{" in line:
            raise InputError("contains '{{', which Argo would replace", Place(file, number))


def deadline_seconds(certification: Certification) -> int:
    """Return after how many seconds Argo ends a workflow that has not ended itself."""
    bound = parse_duration(certification.spec.limits.deadline) + MARGIN
    return int(bound.total_seconds())


def workflow(
    certification: Certification, values: Mapping[str, str], namespace: str
) -> dict[str, Any]:
    """Return the Workflow of a certification.

    Args:
        certification: as read.
        values: workflow parameters, see `parameters`.
        namespace: where the WorkflowTemplates are installed.
    """
    name = certification.metadata.name
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            # Argo keeps the name as a label value: 63 characters with the random part.
            "generateName": f"{name[:50].rstrip('-')}-",
            "namespace": namespace,
            "labels": {**LABELS, LABEL_CERTIFICATION: name},
            "annotations": {"workflows.argoproj.io/title": f"Certification {name}"},
        },
        "spec": {
            "workflowTemplateRef": {"name": CERTIFICATION},
            "activeDeadlineSeconds": deadline_seconds(certification),
            "arguments": {
                "parameters": [{"name": key, "value": value} for key, value in values.items()]
            },
        },
    }


def phase_of(found: Mapping[str, Any]) -> str:
    """Return the phase of a Workflow; ``Pending`` while the controller has not seen it."""
    return str((found.get("status") or {}).get("phase") or "Pending")


def steps_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the phase of every pod step of a Workflow by its path, oldest first.

    Steps of workflows whose status Argo moved to a database are not known here.
    """
    status = found.get("status") or {}
    nodes = status.get("nodes") or _unpacked(status.get("compressedNodes")) or {}
    pods = (node for node in nodes.values() if node.get("type") == "Pod")
    ordered = sorted(pods, key=lambda node: (node.get("startedAt") or "", node.get("name") or ""))
    return {
        str(node.get("name", "")).partition(".")[2] or str(node.get("displayName", "")): str(
            node.get("phase", "")
        )
        for node in ordered
    }


def _unpacked(packed: str | None) -> dict[str, Any]:
    """Unpack the nodes of a workflow that would be too big for the API server as they are."""
    if not packed:
        return {}
    try:
        data = json.loads(gzip.decompress(base64.b64decode(packed)))
    except (binascii.Error, OSError, EOFError, zlib.error, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
