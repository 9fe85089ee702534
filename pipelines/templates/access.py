"""Service accounts and what they may do: as little as the steps need.

``readiness-runner`` is for the steps that read nodes and start jobs, ``readiness-steps`` for those
that only read and write documents. Both may report outputs to Argo.
"""

from __future__ import annotations

from typing import Any

from pipelines.templates.names import LABELS, RUNNER_ACCOUNT, STEPS_ACCOUNT

Manifest = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"


def _rule(group: str, resources: str, verbs: str) -> Manifest:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


_REPORT_OUTPUTS = _rule("argoproj.io", "workflowtaskresults", "create patch")
_OWNER_OF_DOCUMENTS = _rule("argoproj.io", "workflows", "get")

STEPS_RULES = (
    _REPORT_OUTPUTS,
    _OWNER_OF_DOCUMENTS,
    # documents are immutable: one that is written anew is deleted and created
    _rule("", "configmaps", "get list create delete"),
)

# Pods, Jobs and what stands beside them are found by their labels and deleted: no get but of logs.
RUNNER_RULES = (
    _REPORT_OUTPUTS,
    _OWNER_OF_DOCUMENTS,
    _rule("", "configmaps", "get list create delete"),
    # Jobs make the pods; a patch tells a gang that it is complete, a watch what became of lost pods
    _rule("", "pods", "list watch patch delete"),
    _rule("", "pods/log", "get"),
    _rule("", "events", "list"),
    # ssh keys of MPI gangs
    _rule("", "secrets", "list create delete"),
    _rule("batch", "jobs", "list create delete"),
    # GPUs that are claimed (DRA), and NVLink across nodes
    _rule("resource.k8s.io", "resourceclaimtemplates", "list create delete"),
    _rule("resource.nvidia.com", "computedomains", "list create delete"),
    # one Lease for each node, so that no two jobs share a GPU
    _rule("coordination.k8s.io", "leases", "get list create update delete"),
)

RUNNER_CLUSTER_RULES = (
    _rule("", "nodes", "get list"),
    # events about nodes, which stand in the namespace default
    _rule("", "events", "list"),
    # heartbeats of kubelets, in kube-node-lease; a Role there would be lost in an overlay that sets
    # the namespace of everything
    _rule("coordination.k8s.io", "leases", "get list"),
    # pods of others tell which nodes are busy
    _rule("", "pods", "list"),
    _rule("resource.k8s.io", "resourceslices", "list"),
)


def service_accounts(namespace: str) -> list[Manifest]:
    """Return the two service accounts."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(name, namespace)}
        for name in (RUNNER_ACCOUNT, STEPS_ACCOUNT)
    ]


def roles(namespace: str) -> list[Manifest]:
    """Return roles and bindings of the service accounts."""
    return [
        _role("Role", RUNNER_ACCOUNT, namespace, RUNNER_RULES),
        _binding("Role", RUNNER_ACCOUNT, namespace),
        _role("ClusterRole", RUNNER_ACCOUNT, namespace, RUNNER_CLUSTER_RULES),
        _binding("ClusterRole", RUNNER_ACCOUNT, namespace),
        _role("Role", STEPS_ACCOUNT, namespace, STEPS_RULES),
        _binding("Role", STEPS_ACCOUNT, namespace),
    ]


def _role(kind: str, account: str, namespace: str, rules: tuple[Manifest, ...]) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": _metadata(*_place(kind, account, namespace)),
        "rules": list(rules),
    }


def _binding(kind: str, account: str, namespace: str) -> Manifest:
    name, place = _place(kind, account, namespace)
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": _metadata(name, place),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def _place(kind: str, account: str, namespace: str) -> tuple[str, str | None]:
    """Return name and namespace of a role.

    What is of the whole cluster is named after its installation, or a second one in another
    namespace would take the rights of the first.
    """
    return (account, namespace) if kind == "Role" else (f"{account}-{namespace}", None)


def _metadata(name: str, namespace: str | None) -> Manifest:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": dict(LABELS)}
