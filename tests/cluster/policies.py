"""Admission policies for the time of a `with` block: what companies and queues put before a launch.

They are expressions that the API server evaluates by itself, so that no webhook is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.shell import wait_for

REFUSAL = "ask the platform team first"
QUEUE = "kueue.x-k8s.io/queue-name"

_POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "one", "image": "none"}]}
_PROBES: dict[str, dict[str, Any]] = {
    "pods": {"apiVersion": "v1", "kind": "Pod", "spec": _POD_SPEC},
    "jobs": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": _POD_SPEC}}},
}
"""An object of each kind, to ask whether a policy is at work yet."""


@contextmanager
def refusing(cluster: Cluster, namespace: str, resource: str) -> Iterator[None]:
    """Refuse pods or jobs, as a company's policy engine would."""
    spec = {"validations": [{"expression": "false", "message": REFUSAL}]}
    with _policy(
        cluster,
        namespace,
        kind="ValidatingAdmissionPolicy",
        version="v1",
        resource=resource,
        spec=spec,
        binding={"validationActions": ["Deny"]},
        sign=REFUSAL,
    ):
        yield


@contextmanager
def queueing(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Hold back Jobs that name a queue, by the same field as Kueue."""
    suspend = "Object{spec: Object.spec{suspend: true}}"
    named = f"'{QUEUE}' in object.metadata.?labels.orValue({{}})"
    spec = {
        "reinvocationPolicy": "Never",
        "matchConditions": [{"name": "queued", "expression": named}],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": suspend}}
        ],
    }
    with _policy(
        cluster,
        namespace,
        kind="MutatingAdmissionPolicy",
        version="v1beta1",
        resource="jobs",
        spec=spec,
        binding={},
        sign='"suspend": true',
    ):
        yield


@contextmanager
def _policy(
    cluster: Cluster,
    namespace: str,
    *,
    kind: str,
    version: str,
    resource: str,
    spec: Mapping[str, Any],
    binding: Mapping[str, Any],
    sign: str,
) -> Iterator[None]:
    """Bind a policy to a namespace and wait until an answer shows by a sign that it is at work."""
    group = "" if resource == "pods" else "batch"
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"]}
    made = {"resourceRules": [{**rule, "resources": [resource]}]}
    whole = {"failurePolicy": "Fail", "matchConstraints": made, **spec}
    head = {
        "apiVersion": f"admissionregistration.k8s.io/{version}",
        "metadata": {"name": namespace},
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    bound = {"policyName": namespace, "matchResources": {"namespaceSelector": here}, **binding}
    cluster.apply(
        {**head, "kind": kind, "spec": whole}, {**head, "kind": f"{kind}Binding", "spec": bound}
    )
    probe = _PROBES[resource] | {"metadata": {"name": "probe", "labels": {QUEUE: "gpus"}}}
    words = ["create", "--dry-run=server", "-n", namespace, "-o", "json", "-f", "-"]

    def at_work() -> bool:
        done = cluster.try_kubectl(*words, stdin=json.dumps(probe))
        return sign in done.stdout + done.stderr

    try:
        wait_for(
            f"the {kind} to be at work",
            at_work,
            timeout=90,
            detail=lambda: cluster.try_kubectl(*words, stdin=json.dumps(probe)).stderr,
        )
        yield
    finally:
        cluster.kubectl("delete", f"{kind},{kind}Binding", namespace, "--ignore-not-found")
