"""Pod manifests from a resolved workload; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.quantity import parse_quantity
from catalog.resolved import Setting, Workload

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
TOOL = "tool"
"""Name of the container that runs the tool."""

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
        "resources": resources(workload.resources),
        "securityContext": _container_security(workload),
        "volumeMounts": [*_listed(workload, "volumeMounts"), *extra_mounts],
        # The last lines of the log, when the tool leaves no message of its own.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if readiness:
        container["readinessProbe"] = readiness
    spec = _pod_spec(workload, [container])
    spec["volumes"] = [*_listed(workload, "volumes"), *extra_volumes]
    spec["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": HOSTNAME, "operator": "In", "values": sorted(nodes)}
                        ]
                    }
                ]
            }
        },
        # One worker on each node also where the tool asks for no GPU.
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": HOSTNAME}
            ]
        },
    }
    metadata = {
        "labels": {**_mapped(workload, "labels"), **labels},
        "annotations": _mapped(workload, "annotations"),
    }
    return {"metadata": metadata, "spec": spec}


def helper_pod(
    workload: Workload,
    labels: Mapping[str, str],
    command: Sequence[str],
    volumes: Sequence[Object],
    mounts: Sequence[Object],
) -> Object:
    """Return the pod template of a launcher: the same image, but no GPU and no network device."""
    container: Object = {
        "name": TOOL,
        "image": workload.image.value,
        "command": list(command),
        "resources": _CPU_ONLY,
        "volumeMounts": list(mounts),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec = _pod_spec(workload, [container])
    spec["volumes"] = list(volumes)
    return {"metadata": {"labels": dict(labels)}, "spec": spec}


def job(
    name: str,
    template: Object,
    labels: Mapping[str, str],
    owner: Mapping[str, Any] | None,
    *,
    deadline_seconds: int,
    completions: int = 1,
) -> Object:
    """Return a Job that never retries: a second try would mix its numbers with the first."""
    metadata: Object = {"name": name, "labels": dict(labels)}
    if owner:
        metadata["ownerReferences"] = [dict(owner)]
    spec: Object = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": deadline_seconds,
        "ttlSecondsAfterFinished": 3600,
        "completions": completions,
        "parallelism": completions,
        "template": template,
    }
    if completions > 1:
        spec["completionMode"] = "Indexed"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


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


def _pod_spec(workload: Workload, containers: list[Object]) -> Object:
    spec: Object = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        # The tools need no API, so a test binary never holds a token.
        "automountServiceAccountToken": False,
        "containers": [*containers, *_listed(workload, "sidecars")],
        "tolerations": _listed(workload, "tolerations"),
    }
    for name in ("initContainers", "resourceClaims"):
        if _listed(workload, name):
            spec[name] = _listed(workload, name)
    for name in ("hostNetwork", "dnsPolicy", "schedulerName"):
        if name in workload.pod and workload.pod[name].value is not None:
            spec[name] = workload.pod[name].value
    secrets = workload.options.get("imagePullSecrets")
    if secrets and secrets.value:
        spec["imagePullSecrets"] = list(secrets.value)
    if "seccompProfile" in workload.pod:
        profile = workload.pod["seccompProfile"].value
        spec["securityContext"] = {"seccompProfile": {"type": profile}}
    return spec


def _container_security(workload: Workload) -> Object:
    context: Object = {}
    capabilities = _listed(workload, "capabilities")
    if capabilities:
        context["capabilities"] = {"add": capabilities}
    if "privileged" in workload.pod and workload.pod["privileged"].value is not None:
        context["privileged"] = bool(workload.pod["privileged"].value)
    return context


def _listed(workload: Workload, name: str) -> list[Any]:
    setting = workload.pod.get(name)
    return list(setting.value) if setting and setting.value else []


def _mapped(workload: Workload, name: str) -> dict[str, str]:
    setting = workload.pod.get(name)
    return dict(setting.value) if setting and setting.value else {}


def gpus_of(pod: Mapping[str, Any]) -> int:
    """Return how many GPUs a pod holds by its limits."""
    total = 0
    for container in pod.get("spec", {}).get("containers", []):
        limits = container.get("resources", {}).get("limits") or {}
        total += int(parse_quantity(limits.get("nvidia.com/gpu", 0)))
    return total
