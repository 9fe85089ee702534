"""Starting and stopping the lab as a whole."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cluster import argo, controlplane, dress, images, network, node, pki
from tests.cluster.cgroups import cgroups_of_lab, remove_cgroup
from tests.cluster.config import state_dir
from tests.cluster.gobuild import build_all
from tests.cluster.lab import Lab, import_archives
from tests.cluster.packages import ensure_packages
from tests.cluster.processes import alive, kill_marked, marked, stop_all
from tests.cluster.shell import LabError, say
from tests.cluster.state import (
    NodeRecord,
    State,
    changing_lab,
    load_state,
    make_state_dir,
    remove_state_dir,
)

_DNS_RULES = [
    {
        "apiGroups": [""],
        "resources": ["endpoints", "services", "pods", "namespaces"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["list", "watch"],
    },
]


def prepare() -> None:
    """Install and build everything a start needs; quick when it was done before."""
    if os.geteuid() != 0:
        raise LabError("the lab needs root: it makes namespaces, bridges and mounts")
    ensure_packages()
    build_all()
    images.system_images()
    images.prune()


def up(
    *,
    nodes: int = 2,
    look: dress.Dress = dress.AWS_P5,
    argo_namespaced: bool = False,
    argo_server: bool = True,
    owner_pid: int = 0,
) -> Lab:
    """Start a lab, after clearing away what a crashed one left.

    Args:
        nodes: how many.
        look: of all nodes; single ones can be dressed otherwise afterwards.
        argo_namespaced: let Argo serve its own namespace only.
        argo_server: start Argo's server too.
        owner_pid: process whose end makes the lab a leftover; 0 to let it stay.

    Raises:
        LabError: it cannot be started; whatever was started is stopped again.
    """
    prepare()
    with changing_lab():
        _refuse_if_used()
        _clear()
        started = time.monotonic()
        make_state_dir()
        state = State(owner_pid=owner_pid, argo_namespaced=argo_namespaced)
        state.nodes = {f"node-{i}": NodeRecord(f"node-{i}", i) for i in range(nodes)}
        state.save()
        try:
            lab = _start(state, look, argo_server=argo_server)
        except BaseException:
            kept = keep_logs()
            say(f"the start failed, clearing away; the logs are kept in {kept}")
            _clear()
            raise
        say(f"lab is up after {time.monotonic() - started:.1f} s")
        return lab


def _start(state: State, look: dress.Dress, *, argo_server: bool) -> Lab:
    network.network_up(len(state.nodes))
    controlplane.check_ports()
    pki.make_certificates()
    controlplane.start_api_server(state, pki.make_tokens(_users(state)))
    for name in state.nodes:
        node.start_node(state, name)
    say("API server and nodes started")
    archives = list(images.system_images().values())
    lab = Lab()
    with ThreadPoolExecutor() as pool:
        imports = [pool.submit(_import_system, state, name, archives) for name in state.nodes]
        controlplane.wait_api_server(state)
        say("API server answers")
        controlplane.start_controllers(state)
        for name in state.nodes:
            node.start_kubelet(state, name)
        _install_dns_role(lab)
        controlplane.start_dns(state)
        argo.install_definitions(lab)
        argo.install_roles(lab, namespaced=state.argo_namespaced)
        argo.wait_definitions(lab)
        argo.start_argo(state, namespaced=state.argo_namespaced, server=argo_server)
        say("Argo installed and started")
        for done in imports:
            done.result()
    controlplane.wait_controllers(state)
    for name in state.nodes:
        lab.wait_node(name)
        lab.dress(name, look)
    say("nodes Ready and dressed")
    argo.wait_argo(state)
    state.ready = True
    state.save()
    return Lab()


def _users(state: State) -> dict[str, tuple[str, list[str]]]:
    """Return who may speak to the API server; what each may do is up to RBAC."""
    users: dict[str, tuple[str, list[str]]] = {"admin": ("admin", ["system:masters"])}
    for name in ("kube-controller-manager", "kube-scheduler"):
        users[name] = (f"system:{name}", [])
    for name in state.nodes:
        users[name] = (f"system:node:{name}", ["system:nodes"])
    accounts = (
        ("argo", argo.NAMESPACE),
        ("argo-server", argo.NAMESPACE),
        ("coredns", "kube-system"),
    )
    for name, space in accounts:
        # They run outside the cluster, but with the rights their service accounts would have.
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{space}"]
        users[name] = (f"system:serviceaccount:{space}:{name}", groups)
    return users


def _install_dns_role(lab: Lab) -> None:
    group = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:coredns"},
        "rules": _DNS_RULES,
    }
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:coredns"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}],
    }
    lab.apply(role, binding)


def _import_system(state: State, name: str, archives: Iterable[Path]) -> None:
    node.wait_containerd(state, name)
    import_archives(name, archives)


def attach() -> Lab | None:
    """Return the lab that runs on this machine, or None."""
    state = load_state()
    if state is None or not state.ready:
        return None
    return Lab() if all(alive(record) for record in state.processes.values()) else None


def _refuse_if_used() -> None:
    try:
        state = load_state()
    except LabError:
        return
    if state is None:
        return
    if not state.owner_pid and attach() is not None:
        raise LabError("a lab is up already; `python -m tests.cluster down` stops it")
    if state.owner_pid not in {0, os.getpid()} and Path(f"/proc/{state.owner_pid}").exists():
        raise LabError(f"process {state.owner_pid} is using the lab; there can be only one")


def down() -> None:
    """Stop the lab and remove its every trace, as far as there is any."""
    with changing_lab():
        _clear()


def leftovers() -> list[str]:
    """Name what a lab has left on this machine; a stopped one must have left nothing."""
    found = [f"process {pid}" for pid in marked()]
    found += [f"control group {path}" for path in cgroups_of_lab()]
    found += [f"rule {rule}" for rule in network.rules()]
    if network.bridge_exists():
        found.append("bridge")
    if state_dir().exists():
        found.append(str(state_dir()))
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if f" {state_dir()}/" in line]
    return found


def _clear() -> None:
    try:
        state = load_state()
    except LabError as error:
        say(f"{error}; what carries the lab's mark is stopped all the same")
        state = None
    if state is not None:
        say("stopping the lab")
        stop_all(state)
    if killed := kill_marked():
        say(f"ended {len(killed)} left processes of a lab")
    for path in cgroups_of_lab():
        remove_cgroup(path)
    network.network_down()
    if state is not None:
        for directory in reversed(state.made_directories):
            _remove_empty(Path(directory))
    remove_state_dir()
    if left := leftovers():
        raise LabError("the lab is stopped but left these:\n" + "\n".join(left))
    if state is not None:
        say("the lab is gone")


def _remove_empty(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        return  # somebody else uses it meanwhile


def keep_logs() -> Path:
    """Copy the logs to a place that outlives the lab and return it."""
    target = state_dir().with_name(f"{state_dir().name}-failed-logs")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(mode=0o700)
    for log in state_dir().glob("logs/*.log"):
        shutil.copy(log, target)
    return target
