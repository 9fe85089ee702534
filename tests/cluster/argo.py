"""Argo Workflows: its definitions and roles in the cluster, its programs as plain processes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.config import (
    ARGO_METRICS_PORT,
    ARGO_SERVER_PORT,
    ARGOEXEC_IMAGE,
    argo_bin,
)
from tests.cluster.pki import kubeconfig
from tests.cluster.processes import start, wait_up
from tests.cluster.shell import answers
from tests.cluster.state import State

NAMESPACE = "argo"
_CONTROLLER_ENV = {
    "LEADER_ELECTION_DISABLE": "true",
    # By default a workflow is looked at every ten seconds; tests wait for every step of it.
    "DEFAULT_REQUEUE_TIME": "500ms",
    "CRON_SYNC_PERIOD": "1s",
    # A pod that somebody deletes is missed for two minutes, lest its informer only lags behind.
    "RECENTLY_DELETED_POD_DURATION": "5s",
}
_CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "PriorityClass"}
_NOT_HERE = {"Deployment", "Service", "Kustomization"}


def install_definitions(cluster: Cluster) -> None:
    """Make the full custom resource definitions, without waiting until they are served.

    The lab wants them full because they hold the checks that a production API server makes. They
    are created, not applied: a client-side apply cannot hold them, and a server-side one costs the
    API server almost twice the time.
    """
    words: list[str | Path] = [word for file in _definitions() for word in ("-f", file)]
    cluster.kubectl("create", "--validate=false", *words, timeout=180)


def wait_definitions(cluster: Cluster) -> None:
    """Wait until the custom resources can be used; the API server takes some seconds for that."""
    names = [f"crd/{file.stem.removeprefix('argoproj.io_')}.argoproj.io" for file in _definitions()]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names, timeout=70)


def _definitions() -> list[Path]:
    return sorted((argo_bin("manifests") / "base" / "crds" / "full").glob("argoproj.io_*.yaml"))


def install_roles(cluster: Cluster, *, namespaced: bool) -> None:
    """Make Argo's namespace, settings, accounts and roles as its own manifests have them."""
    manifests = argo_bin("manifests")
    install = manifests / ("namespace-install" if namespaced else "cluster-install-no-crds")
    directories = [manifests / "base" / "workflow-controller", manifests / "base" / "argo-server"]
    directories += [install / "workflow-controller-rbac", install / "argo-server-rbac"]
    files = [file for directory in directories for file in sorted(directory.glob("*.yaml"))]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    cluster.apply(namespace, *_documents(files), namespace=NAMESPACE)
    cluster.grant_executor(NAMESPACE)


def _documents(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        for document in yaml.safe_load_all(file.read_text()):
            if document["kind"] in _NOT_HERE:
                continue
            if document["kind"] not in _CLUSTER_WIDE:
                document["metadata"]["namespace"] = NAMESPACE
            for subject in document.get("subjects", []):
                subject["namespace"] = NAMESPACE
            if document["kind"] == "ConfigMap":
                metrics = {"enabled": True, "port": ARGO_METRICS_PORT, "secure": False}
                document["data"] = {"metricsConfig": json.dumps(metrics)}
            yield document


def start_argo(state: State, *, namespaced: bool, server: bool) -> None:
    """Start the controller and, if wanted, the server, without waiting for them."""
    mode = ["--namespaced"] if namespaced else []
    flags = [f"--kubeconfig={kubeconfig('argo')}", f"--namespace={NAMESPACE}", *mode]
    image = [f"--executor-image={ARGOEXEC_IMAGE}", "--executor-image-pull-policy=IfNotPresent"]
    argv: list[str | Path] = [argo_bin("workflow-controller"), *flags, *image]
    start(state, "workflow-controller", argv, env=_CONTROLLER_ENV)
    if server:
        flags = [f"--kubeconfig={kubeconfig('argo-server')}", f"--namespace={NAMESPACE}", *mode]
        how = ["--auth-mode=server", "--secure=false", f"--port={ARGO_SERVER_PORT}"]
        start(state, "argo-server", [argo_bin("argo"), "server", *flags, *how])


def wait_argo(state: State) -> None:
    """Wait until Argo's programs answer."""
    controller = f"http://127.0.0.1:{ARGO_METRICS_PORT}/metrics"
    wait_up(state.processes["workflow-controller"], lambda: answers(controller), timeout=60)
    if "argo-server" in state.processes:
        server = f"http://127.0.0.1:{ARGO_SERVER_PORT}/api/v1/version"
        wait_up(state.processes["argo-server"], lambda: answers(server), timeout=60)
