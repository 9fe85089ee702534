"""What the lab is made of: versions, addresses and places.

Everything that two modules must agree on is here, so that a change of version or of an address
range is a change of one line.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

KUBERNETES = "v1.34.4"
ETCD = "v3.6.16"
ARGO = "v4.0.5"
COREDNS = "v1.14.7"

BRIDGE = "rdlab0"
"""The one bridge every pod of every node hangs on, so no routes between nodes are needed."""
BRIDGE_IP = "10.244.0.1"
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/12"
KUBERNETES_SERVICE_IP = "10.96.0.1"

API_PORT = 16443
ETCD_PORT = 12379
ETCD_PEER_PORT = 12380
CONTROLLER_MANAGER_PORT = 11257
SCHEDULER_PORT = 11259
COREDNS_READY_PORT = 11281
ARGO_SERVER_PORT = 12746
ARGO_METRICS_PORT = 12790
ARGO_HEALTH_PORT = 6060
"""Fixed in the controller's code, which goes on without it when somebody else has it."""
OPEN_PORTS = (ARGO_SERVER_PORT, ARGO_METRICS_PORT, ARGO_HEALTH_PORT)
"""Ports whose programs listen on every address and ask for no login."""

API_URL = f"https://{BRIDGE_IP}:{API_PORT}"

PAUSE_IMAGE = "docker.io/library/pause:lab"
ARGOEXEC_IMAGE = f"docker.io/library/argoexec:{ARGO}"
PYTHON_IMAGE = "docker.io/library/python:3.11-slim-bookworm"

NODE_MONITOR_GRACE_SECONDS = 15
"""Time without a heartbeat before a node is NotReady: short, because tests wait for it."""


def node_ip(index: int) -> str:
    """Return the address of a node: one each, so that all kubelets can have the usual port."""
    return f"10.244.0.{11 + index}"


def cache_dir() -> Path:
    """Return the directory of what is kept between runs: binaries, root file system, images."""
    chosen = os.environ.get("READINESS_CACHE")
    path = Path(chosen) if chosen else Path.home() / ".cache" / "readiness"
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()


def state_dir() -> Path:
    """Return the directory of the one running lab.

    It is a fixed name because bridge, service address and ports are the machine's, so a second
    lab beside the first cannot work; and because `down` must find it from another process.
    """
    return Path(os.environ.get("READINESS_LAB_DIR", "/tmp/readiness-lab"))


def bin_dir(part: str, version: str) -> Path:
    """Return where the binaries of one part and version are kept."""
    return cache_dir() / "bin" / f"{part}-{version}-{platform.machine()}"


def kube_bin(name: str) -> Path:
    """Return the path of a Kubernetes binary."""
    return bin_dir("kubernetes", KUBERNETES) / name


def etcd_bin() -> Path:
    """Return the path of etcd."""
    return bin_dir("etcd", ETCD) / "etcd"


def coredns_bin() -> Path:
    """Return the path of CoreDNS."""
    return bin_dir("coredns", COREDNS) / "coredns"


def pause_bin() -> Path:
    """Return the path of the program that does nothing but hold namespaces."""
    return bin_dir("pause", "v1") / "pause"


def argo_bin(name: str) -> Path:
    """Return the path of an Argo binary."""
    return bin_dir("argo", ARGO) / name
