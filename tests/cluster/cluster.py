"""What a test may ask of a cluster with Argo, be it the lab's or one that is there already."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.config import argo_bin, kube_bin
from tests.cluster.shell import LabError, run, wait_for

EXECUTOR_ROLE = "workflow-executor"


class Cluster:
    """A Kubernetes cluster with Argo Workflows, reached as administrator.

    Attributes:
        kubeconfig: for programs that are started by a test.
        server_env: variables that lead Argo's client to an Argo server; empty if there is none.
    """

    def __init__(self, kubeconfig: Path, server_env: Mapping[str, str] | None = None) -> None:
        self.kubeconfig = kubeconfig
        self.server_env = dict(server_env or {})

    @property
    def argo_server(self) -> str | None:
        """Host and port of the Argo server, if there is one."""
        return self.server_env.get("ARGO_SERVER")

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, pointed at the cluster."""
        path = f"{kube_bin('kubectl').parent}:{argo_bin('argo').parent}:{os.environ['PATH']}"
        mine = {k: v for k, v in os.environ.items() if not k.startswith("ARGO_")}
        return mine | {"KUBECONFIG": str(self.kubeconfig), "PATH": path}

    @property
    def node_names(self) -> list[str]:
        """The names of all nodes, in order."""
        return sorted(node["metadata"]["name"] for node in self.get("nodes")["items"])

    def kubectl(self, *words: str | Path, stdin: str | None = None, timeout: float = 60) -> str:
        """Run kubectl and return what it prints.

        Raises:
            LabError: it failed; the message holds its output.
        """
        argv = [_client(kube_bin("kubectl")), *words]
        return run(argv, stdin=stdin, timeout=timeout, env=self.env).stdout

    def try_kubectl(
        self, *words: str | Path, stdin: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl and return its exit code and output, also when it failed."""
        argv = [_client(kube_bin("kubectl")), *words]
        return run(argv, stdin=stdin, timeout=timeout, env=self.env, check=False)

    def argo(
        self,
        *words: str | Path,
        server: bool = False,
        stdin: str | None = None,
        timeout: float = 120,
    ) -> str:
        """Run Argo's client and return what it prints.

        Args:
            words: its arguments.
            server: go through the Argo server, as the user interface does.
            stdin: given to it.
            timeout: seconds.

        Raises:
            LabError: it failed; the message holds its output.
        """
        done = self.try_argo(*words, server=server, stdin=stdin, timeout=timeout)
        if done.returncode != 0:
            shown = " ".join(str(word) for word in words)[:200]
            raise LabError(f"exit {done.returncode}: argo {shown}\n{done.stdout}{done.stderr}")
        return done.stdout

    def try_argo(
        self,
        *words: str | Path,
        server: bool = False,
        stdin: str | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run Argo's client and return its exit code and output, also when it failed."""
        env = self.env
        if server:
            if self.argo_server is None:
                raise LabError("this cluster has no Argo server that the tests know of")
            env |= self.server_env
            if "ARGO_TOKEN" in self.server_env:
                env["KUBECONFIG"] = os.devnull  # so that nothing can go past the server
        argv = [_client(argo_bin("argo")), *words]
        return run(argv, stdin=stdin, timeout=timeout, env=env, check=False)

    def get(self, *words: str) -> Any:
        """Return `kubectl get WORDS` as data."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, *documents: Mapping[str, Any], namespace: str = "default") -> None:
        """Create or change objects given as data, all in one call."""
        everything = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        words = ["apply", "--server-side", "--force-conflicts", "-n", namespace, "-f", "-"]
        self.kubectl(*words, stdin=json.dumps(everything))

    def create_namespace(self, prefix: str = "test", *, executor_role: bool = True) -> str:
        """Make a namespace with a name of its own and return the name.

        Args:
            prefix: how the name begins.
            executor_role: let the default service account report the results of Argo's pods;
                leave it out where the test brings its own accounts.
        """
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        if executor_role:
            self.grant_executor(name)
        wait_for(
            f"the default service account of {name}",
            lambda: bool(self.kubectl("get", "serviceaccount", "default", "-n", name)),
            timeout=90,
        )
        return name

    def grant_executor(self, namespace: str, account: str = "default") -> None:
        """Let a service account report the results of Argo's pods."""
        group = "rbac.authorization.k8s.io"
        rule = {
            "apiGroups": ["argoproj.io"],
            "resources": ["workflowtaskresults"],
            "verbs": ["create", "patch"],
        }
        role = {"kind": "Role", "metadata": {"name": EXECUTOR_ROLE}, "rules": [rule]}
        binding = {
            "kind": "RoleBinding",
            "metadata": {"name": f"{EXECUTOR_ROLE}-{account}"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": EXECUTOR_ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
        version = {"apiVersion": f"{group}/v1"}
        self.apply(version | role, version | binding, namespace=namespace)

    def delete_namespace(self, name: str, *, timeout: float = 180) -> None:
        """Delete a namespace and wait until its pods are gone; the rest follows by itself."""
        self.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")
        # The namespace's own controller takes five seconds until it looks again.
        self.kubectl("delete", "pods", "--all", "-n", name, "--wait=false")
        wait_for(
            f"the pods of {name} to go",
            lambda: not self.get("pods", "-n", name)["items"],
            timeout=timeout,
            detail=lambda: self.kubectl("describe", "pods", "-n", name)[-4000:],
        )

    @contextmanager
    def namespace(self, prefix: str = "test", *, executor_role: bool = True) -> Iterator[str]:
        """Make a namespace for the time of a `with` block and yield its name."""
        name = self.create_namespace(prefix, executor_role=executor_role)
        try:
            yield name
        finally:
            self.delete_namespace(name)

    def wait_ready(self, *names: str, ready: bool = True, timeout: float = 60) -> None:
        """Wait until these nodes (all, if none is named) are Ready, or none of them is."""
        wanted = set(names) or set(self.node_names)
        state = "Ready" if ready else "not Ready"

        def reached() -> bool:
            nodes = self.get("nodes")["items"]
            found = {n["metadata"]["name"]: _is_ready(n) for n in nodes}
            return all(found.get(name, False) is ready for name in wanted)

        wait_for(
            f"{', '.join(sorted(wanted))} to be {state}",
            reached,
            timeout=timeout,
            interval=0.5,
            detail=lambda: self.kubectl("describe", "nodes")[-3000:],
        )

    def wait_pods(self, namespace: str, phases: Mapping[str, int], *, timeout: float = 120) -> None:
        """Wait until just these numbers of pods of a namespace are in these phases."""

        def reached() -> bool:
            pods = self.get("pods", "-n", namespace)["items"]
            return Counter(pod["status"]["phase"] for pod in pods) == Counter(phases)

        wait_for(
            f"pods of {namespace} to be {dict(phases)}",
            reached,
            timeout=timeout,
            interval=0.5,
            detail=lambda: self.kubectl("describe", "pods", "-n", namespace)[-4000:],
        )

    def wait_job(self, name: str, namespace: str, *, timeout: float = 180) -> None:
        """Wait until a Job is complete.

        Raises:
            LabError: it failed or is not complete in time; the message describes its pods.
        """
        words = ["job", name, "-n", namespace]

        def done() -> bool:
            conditions = self.get(*words)["status"].get("conditions", [])
            return any(
                c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in conditions
            )

        def pods() -> str:
            return self.kubectl("describe", "pods", "-n", namespace)[-4000:]

        wait_for(f"job {name}", done, timeout=timeout, interval=0.5, detail=pods)
        status = self.get(*words)["status"]
        if any(c["type"] == "Failed" for c in status["conditions"]):
            raise LabError(f"job {name} failed: {status}\n{pods()}")


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _client(built: Path) -> Path:
    """Return the client the lab built, or else one that is installed."""
    if built.exists():
        return built
    installed = shutil.which(built.name)
    if installed is None:
        raise LabError(f"program not found: {built.name}")
    return Path(installed)
