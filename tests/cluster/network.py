"""The bridge that pods, nodes and control plane share, and the rules that stand in for kube-proxy.

All nodes are on one machine, so one bridge and one address pool make every pod reach every other
without routes, and one redirect makes the service `kubernetes` work. Other services need DNS names
of pods (headless services), which CoreDNS answers.
"""

from __future__ import annotations

import json
import shlex
import socket
from pathlib import Path

from tests.cluster.config import (
    API_PORT,
    BRIDGE,
    BRIDGE_IP,
    KUBERNETES_SERVICE_IP,
    OPEN_PORTS,
    POD_CIDR,
    node_ip,
    state_dir,
)
from tests.cluster.packages import installed, program
from tests.cluster.shell import LabError, run

_COMMENT = "readiness-lab"
_TABLES = ("nat", "filter")


def network_up(nodes: int) -> None:
    """Make the bridge with an address for the control plane and one for each node.

    Raises:
        LabError: the machine uses the lab's address range for something else.
    """
    taken = [
        line
        for line in run([program("ip"), "-4", "route"]).stdout.splitlines()
        if "10.244." in line
    ]
    if taken:
        raise LabError(f"the lab's pod range {POD_CIDR} is in use on this machine: {taken[0]}")
    run([program("ip"), "link", "add", BRIDGE, "type", "bridge"])
    width = POD_CIDR.partition("/")[2]
    for address in [BRIDGE_IP, *(node_ip(index) for index in range(nodes))]:
        run([program("ip"), "addr", "add", f"{address}/{width}", "dev", BRIDGE])
    run([program("ip"), "link", "set", BRIDGE, "up"])
    redirect = ["-d", f"{KUBERNETES_SERVICE_IP}/32", "-p", "tcp", "--dport", "443"]
    target = ["-j", "DNAT", "--to-destination", f"{BRIDGE_IP}:{API_PORT}"]
    for chain in ("PREROUTING", "OUTPUT"):
        _iptables("nat", "-A", chain, *redirect, "-m", "comment", "--comment", _COMMENT, *target)
    # Bridged packets pass the FORWARD chain, which some machines close by default.
    between = ["-i", BRIDGE, "-o", BRIDGE, "-m", "comment", "--comment", _COMMENT]
    _iptables("filter", "-I", "FORWARD", *between, "-j", "ACCEPT")
    # Some programs listen everywhere and ask nobody who they are: keep them on this machine.
    outside = ["!", "-i", "lo", "!", "-s", POD_CIDR, "-m", "comment", "--comment", _COMMENT]
    for port in OPEN_PORTS:
        _iptables(
            "filter", "-I", "INPUT", "-p", "tcp", "--dport", str(port), *outside, "-j", "DROP"
        )


def network_down() -> None:
    """Remove the rules and the bridge, as far as they are there."""
    for table, rule in rules():
        _iptables(table, *shlex.split(rule.replace("-A ", "-D ", 1)))
    if bridge_exists():
        run([program("ip"), "link", "delete", BRIDGE])


def rules() -> list[tuple[str, str]]:
    """Return the lab's rules, each with its table."""
    if not installed("iptables"):
        return []  # then no lab was ever started here
    lines = [(table, line) for table in _TABLES for line in _iptables(table, "-S").splitlines()]
    return [(table, line) for table, line in lines if _COMMENT in line]


def bridge_exists() -> bool:
    """Tell whether the bridge of a lab is there."""
    return BRIDGE in {name for _, name in socket.if_nameindex()}


def _iptables(table: str, *words: str) -> str:
    return run([program("iptables"), "-w", "10", "-t", table, *words]).stdout


def write_cni_config() -> Path:
    """Write the one network configuration of all nodes and return its directory."""
    pool = {
        "type": "host-local",
        # Shared by the nodes, or two pods would get one address.
        "dataDir": str(state_dir() / "ipam"),
        "ranges": [[{"subnet": POD_CIDR, "rangeStart": "10.244.1.0", "gateway": BRIDGE_IP}]],
        "routes": [{"dst": "0.0.0.0/0", "gw": BRIDGE_IP}],
    }
    bridge = {"type": "bridge", "bridge": BRIDGE, "hairpinMode": True, "ipam": pool}
    document = {"cniVersion": "0.4.0", "name": "lab", "plugins": [bridge]}
    directory = state_dir() / "cni"
    directory.mkdir(exist_ok=True)
    (directory / "10-lab.conflist").write_text(json.dumps(document, indent=1))
    return directory
