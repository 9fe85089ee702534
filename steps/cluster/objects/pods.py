"""Pod and Job manifests from a resolved workload; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from catalog.reading.quantity import parse_quantity
from catalog.reading.setting import Setting
from catalog.workload.needs import GPU
from catalog.workload.workload import Workload
from steps.cluster.api.labels import LABEL_ROLE

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
TOOL = "tool"
"""Name of the container that runs the tool."""

GRACE_SECONDS = 10
"""From SIGTERM to SIGKILL of a worker: nothing in it is worth waiting for."""

_CPU_ONLY: Object = {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}


def worker_pod(
    workload: Workload,
    nodes: Sequence[str],
    labels: Mapping[str, str],
    command: Sequence[str],
    *,
    extra_volumes: Sequence[Object] = (),
    extra_mounts: Sequence[Object] = (),
    readiness: Object | None = None,
) -> Object:
    """Return the pod template of a worker, pinned to the nodes of its group by name.

    A shared label would not do: a node that got the label meanwhile is in no plan.
    """
    container: Object = {
        "name": TOOL,
        "image": workload.image.value,
        "command": list(command),
        "env": environment(workload.env),
        "resources": _worker_resources(workload),
        "securityContext": _container_security(workload),
        "volumeMounts": [*listed(workload.pod, "volumeMounts"), *extra_mounts],
        # The last lines of the log, when the tool leaves no message of its own.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if readiness:
        container["readinessProbe"] = readiness
    spec = _pod_spec(workload, container, nodes)
    spec["volumes"] = [*listed(workload.pod, "volumes"), *extra_volumes]
    started_before = [
        *listed(workload.pod, "initContainers"),
        *({**sidecar, "restartPolicy": "Always"} for sidecar in listed(workload.pod, "sidecars")),
    ]
    if started_before:
        spec["initContainers"] = started_before
    if listed(workload.pod, "resourceClaims"):
        spec["resourceClaims"] = listed(workload.pod, "resourceClaims")
    for name in ("hostNetwork", "dnsPolicy", "schedulerName"):
        if name in workload.pod and workload.pod[name].value is not None:
            spec[name] = workload.pod[name].value
    # One worker on each node also where the tool asks for no GPU.
    spec["affinity"]["podAntiAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": HOSTNAME}
        ]
    }
    metadata = {
        "labels": {**_mapped(workload, "labels"), **labels},
        "annotations": _mapped(workload, "annotations"),
    }
    return {"metadata": metadata, "spec": spec}


def helper_pod(
    workload: Workload,
    nodes: Sequence[str],
    labels: Mapping[str, str],
    command: Sequence[str],
    *,
    volumes: Sequence[Object] = (),
    mounts: Sequence[Object] = (),
    aliases: Sequence[Object] = (),
) -> Object:
    """Return the pod template of a launcher: the same image, but no GPU and no network device.

    It runs on a node of its group too: there the image is already, and of the right architecture.
    """
    container: Object = {
        "name": TOOL,
        "image": workload.image.value,
        "command": list(command),
        "resources": _CPU_ONLY,
        "volumeMounts": list(mounts),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec = _pod_spec(workload, container, nodes)
    spec["volumes"] = list(volumes)
    if aliases:
        spec["hostAliases"] = list(aliases)
    return {"metadata": {"labels": dict(labels)}, "spec": spec}


def job(
    name: str,
    template: Object,
    labels: Mapping[str, str],
    owner: Mapping[str, Any] | None,
    *,
    deadline_seconds: float,
    completions: int = 1,
) -> Object:
    """Return a Job that never retries: a second try would mix its numbers with the first."""
    spec: Object = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": int(deadline_seconds),
        "ttlSecondsAfterFinished": 3600,
        "completions": completions,
        "parallelism": completions,
        "template": template,
    }
    if completions > 1:
        spec["completionMode"] = "Indexed"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(name, labels, owner),
        "spec": spec,
    }


def metadata(name: str, labels: Mapping[str, str], owner: Mapping[str, Any] | None) -> Object:
    """Return the metadata of an object of ours."""
    found: Object = {"name": name, "labels": dict(labels)}
    return found | ({"ownerReferences": [dict(owner)]} if owner else {})


def job_labels(workload: Workload, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a worker Job: the user's, such as a queue name, and ours over them."""
    return {**_mapped(workload, "jobLabels"), **labels}


def environment(env: Mapping[str, Setting]) -> list[Object]:
    """Return env entries; a variable without a value is one that the image sets itself."""
    return [
        {"name": name, "value": str(setting.value)}
        for name, setting in env.items()
        if setting.value is not None
    ]


def resources(settings: Mapping[str, Setting]) -> Object:
    """Return limits and requests: ``limits.cpu`` sets one side, a bare name sets both."""
    found: dict[str, Object] = {"limits": {}, "requests": {}}
    for name, setting in settings.items():
        side, dot, bare = name.partition(".")
        if dot and side in found:
            found[side][bare] = str(setting.value)
            continue
        for both in found.values():
            both[name] = str(setting.value)
    return {side: amounts for side, amounts in found.items() if amounts}


def gpus_of(pod: Mapping[str, Any]) -> int:
    """Return how many GPUs a pod holds by its limits."""
    total = 0
    for container in pod.get("spec", {}).get("containers", []):
        limits = container.get("resources", {}).get("limits") or {}
        total += int(parse_quantity(limits.get(GPU, 0)))
    return total


def value_of(settings: Mapping[str, Setting], name: str) -> Any:
    """Return the value of a setting; None when it is not set."""
    setting = settings.get(name)
    return setting.value if setting else None


def listed(settings: Mapping[str, Setting], name: str) -> list[Any]:
    """Return the value of a setting that is a list; empty when it is not set."""
    return list(value_of(settings, name) or ())


def of_role(pods: Iterable[Mapping[str, Any]], role: str) -> list[Mapping[str, Any]]:
    """Return the pods that play a role."""
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(LABEL_ROLE) == role]


def _worker_resources(workload: Workload) -> Object:
    found = resources(workload.resources)
    claims = [{"name": claim["name"]} for claim in listed(workload.pod, "resourceClaims")]
    return found | ({"claims": claims} if claims else {})


def _pod_spec(workload: Workload, container: Object, nodes: Sequence[str]) -> Object:
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        # The tools need no API, so a test binary never holds a token.
        "automountServiceAccountToken": False,
        "containers": [container],
        "tolerations": listed(workload.pod, "tolerations"),
        "affinity": {"nodeAffinity": _only_on(nodes)},
    }
    if listed(workload.pod, "imagePullSecrets"):
        spec["imagePullSecrets"] = listed(workload.pod, "imagePullSecrets")
    seccomp = value_of(workload.pod, "seccompProfile")
    if seccomp:
        spec["securityContext"] = {"seccompProfile": {"type": seccomp}}
    return spec


def _only_on(nodes: Sequence[str]) -> Object:
    """Pin to nodes by their name; the hostname label can differ from it."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        for node in sorted(nodes)
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _container_security(workload: Workload) -> Object:
    context: Object = {}
    capabilities = listed(workload.pod, "capabilities")
    if capabilities:
        context["capabilities"] = {"add": capabilities}
    if value_of(workload.pod, "privileged") is not None:
        context["privileged"] = bool(value_of(workload.pod, "privileged"))
    return context


def _mapped(workload: Workload, name: str) -> dict[str, str]:
    return dict(value_of(workload.pod, name) or {})
