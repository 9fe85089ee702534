"""The control plane, as plain processes: etcd, API server, controller manager, scheduler, DNS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.cluster.config import (
    API_PORT,
    API_URL,
    ARGO_METRICS_PORT,
    ARGO_SERVER_PORT,
    BRIDGE_IP,
    CONTROLLER_MANAGER_PORT,
    COREDNS_READY_PORT,
    ETCD_PEER_PORT,
    ETCD_PORT,
    NODE_MONITOR_GRACE_SECONDS,
    SCHEDULER_PORT,
    SERVICE_CIDR,
    coredns_bin,
    etcd_bin,
    kube_bin,
    state_dir,
)
from tests.cluster.pki import kubeconfig, pki_dir
from tests.cluster.processes import start, wait_up
from tests.cluster.shell import LabError, answers
from tests.cluster.state import State

_PORTS = (
    ETCD_PORT,
    ETCD_PEER_PORT,
    CONTROLLER_MANAGER_PORT,
    SCHEDULER_PORT,
    COREDNS_READY_PORT,
    ARGO_METRICS_PORT,
    ARGO_SERVER_PORT,
)

_COREFILE = """\
.:53 {
    bind ADDRESS
    ready 127.0.0.1:READY_PORT
    errors
    kubernetes cluster.local in-addr.arpa {
        kubeconfig KUBECONFIG
        pods insecure
        ttl 1
    }
}
"""


def check_ports() -> None:
    """Make sure that nobody has the lab's ports.

    Raises:
        LabError: somebody has one.
    """
    for port in _PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                raise LabError(f"port {port} of this machine is in use") from None


def start_api_server(state: State, tokens: Path) -> None:
    """Start etcd and the API server, without waiting for them."""
    etcd = f"http://127.0.0.1:{ETCD_PORT}"
    peer = f"http://127.0.0.1:{ETCD_PEER_PORT}"
    flags: dict[str, object] = {
        "data-dir": state_dir() / "etcd",
        "listen-client-urls": etcd,
        "advertise-client-urls": etcd,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "log-level": "warn",
        # Nothing has to survive a power failure, and syncing to disk is most of etcd's time.
        "unsafe-no-fsync": "true",
    }
    start(state, "etcd", _argv(etcd_bin(), flags))
    pki = pki_dir()
    flags = {
        "etcd-servers": etcd,
        "bind-address": BRIDGE_IP,
        "advertise-address": BRIDGE_IP,
        "secure-port": API_PORT,
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        # No proxy uses this; without it the controller manager complains every few seconds.
        "requestheader-client-ca-file": pki / "ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "token-auth-file": tokens,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        # So that tests can change objects on admission, as queues do, without a webhook.
        "feature-gates": "MutatingAdmissionPolicy=true",
        "runtime-config": "admissionregistration.k8s.io/v1beta1=true",
        "anonymous-auth": "true",
        "allow-privileged": "true",
        "service-cluster-ip-range": SERVICE_CIDR,
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": pki / "service-account.pub",
        "service-account-signing-key-file": pki / "service-account.key",
        "kubelet-client-certificate": pki / "kubelet-client.crt",
        "kubelet-client-key": pki / "kubelet-client.key",
        # Node names are no DNS names here; without this logs and exec would look them up.
        "kubelet-preferred-address-types": "InternalIP",
    }
    start(state, "kube-apiserver", _argv(kube_bin("kube-apiserver"), flags))


def wait_api_server(state: State) -> None:
    """Wait until the API server has made its own roles and answers."""
    context = ssl.create_default_context(cafile=pki_dir() / "ca.crt")
    record = state.processes["kube-apiserver"]
    wait_up(record, lambda: answers(f"{API_URL}/readyz", context), timeout=90)


def start_controllers(state: State) -> None:
    """Start controller manager and scheduler."""
    pki = pki_dir()
    config = kubeconfig("kube-controller-manager")
    flags = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        "secure-port": CONTROLLER_MANAGER_PORT,
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": pki / "service-account.key",
        "root-ca-file": pki / "ca.crt",
        "node-monitor-grace-period": f"{NODE_MONITOR_GRACE_SECONDS}s",
        "node-monitor-period": "2s",
    }
    argv = _argv(kube_bin("kube-controller-manager"), flags)
    start(state, "kube-controller-manager", argv)
    config = kubeconfig("kube-scheduler")
    flags = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        "secure-port": SCHEDULER_PORT,
        "leader-elect": "false",
    }
    start(state, "kube-scheduler", _argv(kube_bin("kube-scheduler"), flags))


def start_dns(state: State) -> None:
    """Start the DNS server of the cluster."""
    corefile = state_dir() / "Corefile"
    text = _COREFILE.replace("ADDRESS", BRIDGE_IP).replace("READY_PORT", str(COREDNS_READY_PORT))
    corefile.write_text(text.replace("KUBECONFIG", str(kubeconfig("coredns"))))
    start(state, "coredns", [coredns_bin(), "-conf", corefile])


def wait_controllers(state: State) -> None:
    """Wait until controller manager, scheduler and DNS are at work."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # both make a certificate of their own at every start
    urls = {
        "kube-controller-manager": f"https://127.0.0.1:{CONTROLLER_MANAGER_PORT}/healthz",
        "kube-scheduler": f"https://127.0.0.1:{SCHEDULER_PORT}/readyz",
        "coredns": f"http://127.0.0.1:{COREDNS_READY_PORT}/ready",
    }
    for name, url in urls.items():
        wait_up(state.processes[name], partial(answers, url, context), timeout=60)


def _argv(binary: Path, flags: Mapping[str, object]) -> list[str | Path]:
    return [binary, *(f"--{name}={value}" for name, value in flags.items())]
