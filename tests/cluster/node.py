"""One node: namespaces of its own with a containerd and a kubelet in them.

A node has its own mount, process, host name and IPC namespaces, so that every program finds its
usual paths (/var/lib/kubelet, /run/containerd, ...) without seeing the other node's, and so that
the end of its first process is the end of everything on it, as when the power fails. The network
namespace is the machine's; nodes differ by address.
"""

from __future__ import annotations

import json
import secrets
from functools import partial
from pathlib import Path

from tests.cluster.cgroups import cgroup_name, make_cgroup
from tests.cluster.config import BRIDGE_IP, PAUSE_IMAGE, kube_bin, node_ip, pause_bin, state_dir
from tests.cluster.network import write_cni_config
from tests.cluster.packages import cni_directory, program
from tests.cluster.pki import kubeconfig, pki_dir
from tests.cluster.processes import alive, start, stop, wait_up
from tests.cluster.shell import LabError, answers, run
from tests.cluster.state import NodeRecord, State

_OWN_DIRECTORIES = (
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/pods",
    "/var/log/containers",
    "/run/containerd",
    "/run/netns",
)

_CONTAINERD_CONFIG = """\
version = 2
root = "{home}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
address = "{home}/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Without CAP_SYS_RESOURCE, as in many containers, nobody may lower an oom_score_adj.
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni_bin}"
conf_dir = "{cni_conf}"
"""


def _home(name: str) -> Path:
    return state_dir() / "nodes" / name


def socket(name: str) -> Path:
    """Return the socket of a node's containerd."""
    return _home(name) / "containerd.sock"


def start_node(state: State, name: str) -> None:
    """Make a node's namespaces and start its containerd, without waiting for it."""
    node = state.nodes[name]
    home = _home(name)
    home.mkdir(parents=True, exist_ok=True)
    make_cgroup(cgroup_name(name))
    overlay = "overlay" in Path("/proc/filesystems").read_text()
    config = _CONTAINERD_CONFIG.format(
        home=home,
        pause=PAUSE_IMAGE,
        snapshotter="overlayfs" if overlay else "native",
        cni_bin=cni_directory(),
        cni_conf=write_cni_config(),
    )
    (home / "containerd.toml").write_text(config)
    _write_kubelet_config(node)
    _start_namespaces(state, node)
    start_containerd(state, node.name)


def _start_namespaces(state: State, node: NodeRecord) -> None:
    home = _home(node.name)
    script = ["set -e", "mount --make-rshared /"]
    for target in _OWN_DIRECTORIES:
        if not Path(target).exists():
            Path(target).mkdir(parents=True)
            state.made_directories.append(target)
        own = home / target.strip("/").replace("/", "-")
        own.mkdir(exist_ok=True)
        script.append(f"mount --bind {own} {target}")
    if Path("/etc/machine-id").exists():
        identity = home / "machine-id"
        if not identity.exists():
            identity.write_text(f"{secrets.token_hex(16)}\n")
        script.append(f"mount --bind {identity} /etc/machine-id")
    script += [f"hostname {node.name}", f"touch {home}/made", f"exec {pause_bin()}"]
    (home / "made").unlink(missing_ok=True)
    kinds = ["--mount", "--pid", "--uts", "--ipc", "--mount-proc", "--propagation", "slave"]
    kinds += ["--fork", "--kill-child=SIGKILL"]
    argv: list[str | Path] = [program("unshare"), *kinds, "/bin/sh", "-c"]
    record = start(state, node.name, [*argv, "\n".join(script)], inside=True)
    wait_up(record, (home / "made").exists, timeout=10)


def _inside(state: State, name: str, *argv: str | Path) -> list[str | Path]:
    """Return the command that runs another one in a node's namespaces."""
    if name not in state.processes:
        raise LabError(f"node {name} does not run")
    proc = f"/proc/{state.processes[name].pid}/ns"
    doors = [f"--{kind}={proc}/{file}" for kind, file in (("mount", "mnt"), ("uts", "uts"))]
    doors += [f"--ipc={proc}/ipc", f"--pid={proc}/pid_for_children"]
    return [program("nsenter"), *doors, "--wd=/", "--", *argv]


def start_containerd(state: State, name: str) -> None:
    """Start a node's containerd."""
    argv: list[str | Path] = [program("containerd"), "--config", _home(name) / "containerd.toml"]
    start(state, f"containerd-{name}", _inside(state, name, *argv), inside=True)


def wait_containerd(state: State, name: str) -> None:
    """Wait until a node's containerd answers."""
    record = state.processes[f"containerd-{name}"]
    wait_up(record, lambda: bool(ctr(name, "version", timeout=5)), timeout=30)


def ctr(name: str, *words: str | Path, timeout: float = 60) -> str:
    """Run containerd's own client against a node and return its output."""
    client: list[str | Path] = [program("ctr"), "--address", socket(name), "--namespace", "k8s.io"]
    return run([*client, *words], timeout=timeout).stdout


def drop_unused(name: str) -> None:
    """Drop what imports leave behind: images that lost their tag to a newer one, packed layers.

    The lab's directory is memory. Kubernetes' plugin names every image by its id too, so an image
    of an earlier build would stay for ever; and layers are used unpacked only.
    """
    images = [line.split() for line in ctr(name, "images", "ls").splitlines()[1:]]
    tagged = {digest for ref, _, digest, *_ in images if not ref.startswith("sha256:")}
    if lost := [ref for ref, _, digest, *_ in images if digest not in tagged]:
        ctr(name, "images", "rm", "--sync", *lost)
    blobs = ctr(name, "content", "ls").splitlines()[1:]
    if layers := [line.split()[0] for line in blobs if "containerd.io/uncompressed=" in line]:
        ctr(name, "content", "rm", *layers)


def start_kubelet(state: State, name: str) -> None:
    """Start a node's kubelet, without waiting for the node to be Ready."""
    record = state.processes.get(f"kubelet-{name}")
    if record is not None and alive(record):
        return
    argv: list[str | Path] = [
        kube_bin("kubelet"),
        f"--config={_home(name) / 'kubelet.json'}",
        f"--kubeconfig={kubeconfig(name)}",
        f"--hostname-override={name}",
        f"--node-ip={node_ip(state.nodes[name].index)}",
        "--v=1",
    ]
    start(state, f"kubelet-{name}", _inside(state, name, *argv), inside=True)


def wait_kubelet(state: State, name: str) -> None:
    """Wait until a node's kubelet is at work; the node may be listed as Ready from before."""
    url = f"http://{node_ip(state.nodes[name].index)}:10248/healthz"
    wait_up(state.processes[f"kubelet-{name}"], partial(answers, url), timeout=60)


def stop_kubelet(state: State, name: str) -> None:
    """Stop a node's kubelet; its containers run on, as on a machine whose kubelet hangs."""
    stop(state, f"kubelet-{name}")


def stop_node(state: State, name: str) -> None:
    """End everything on a node at once, as when its power fails."""
    for each in (name, f"kubelet-{name}", f"containerd-{name}"):
        stop(state, each, grace=0)


def _write_kubelet_config(node: NodeRecord) -> None:
    home = _home(node.name)
    address = node_ip(node.index)
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "healthzBindAddress": address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki_dir() / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{socket(node.name)}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup_name(node.name)}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        # The nodes share one disk and one memory, so neither may evict for the other.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [BRIDGE_IP],
        "clusterDomain": "cluster.local",
        "serializeImagePulls": False,
        # Heartbeats that fit the controller manager's short grace period.
        "nodeStatusUpdateFrequency": "3s",
        "nodeLeaseDurationSeconds": 8,
    }
    (home / "kubelet.json").write_text(json.dumps(config, indent=1))
    # Any file here keeps a starting kubelet from setting the made-up GPUs to zero: it does so
    # when it finds no checkpoint of the device manager, which means a new machine.
    checkpoints = home / "var-lib-kubelet" / "device-plugins"
    checkpoints.mkdir(parents=True, exist_ok=True)
    (checkpoints / "lab").touch()
