"""The MPI gang: workers that wait with sshd, and a launcher that knows them by address; pure.

No operator is needed. Keys are made for one run and live in one Secret. The launcher is created
only when every worker is Ready. It finds them in its own /etc/hosts under the names of their
nodes, so neither DNS nor the order of start can race, and messages of ssh and mpirun name nodes.
"""

from __future__ import annotations

import base64
import ipaddress
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from catalog.workload.workload import Workload
from steps.cluster.objects.pods import Object, environment, listed, metadata, value_of

SSH_PORT = 2222
"""Unprivileged, and apart from a sshd that the image may start by itself."""

NO_SSHD = 67
"""Exit code of a worker whose image has no sshd (EX_NOUSER is free here)."""

_KEYS = "/etc/readiness/ssh"
_VOLUME = "readiness-ssh"
_PRIVATE, _PUBLIC = "id_ed25519", "authorized_keys"
_CONFIG = "/tmp/readiness_ssh_config"  # noqa: S108  (a container's own /tmp)
_HOSTS = "/tmp/readiness_hosts"  # noqa: S108

_SSHD_OPTIONS = (
    f"Port={SSH_PORT}",
    "HostKey=/tmp/readiness_host_key",
    f"AuthorizedKeysFile={_KEYS}/{_PUBLIC}",
    "PermitRootLogin=prohibit-password",
    "PasswordAuthentication=no",
    "StrictModes=no",
    "UsePAM=no",
    "PidFile=none",
    "MaxStartups=1024",
)
_SSH_CONFIG = f"""\
Host *
  Port {SSH_PORT}
  IdentityFile /tmp/readiness_key
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 10
  ConnectionAttempts 5
  ServerAliveInterval 15
  ServerAliveCountMax 4
"""


def key_secret(name: str, labels: Mapping[str, str], owner: Mapping[str, Any] | None) -> Object:
    """Return a Secret with a key pair made just now."""
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    data = {_PRIVATE: secret, _PUBLIC: public + b"\n"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(name, labels, owner),
        "immutable": True,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def key_volume(secret: str, *, private: bool) -> tuple[Object, Object]:
    """Return the volume and mount of a key; only the launcher gets the private one."""
    key = _PRIVATE if private else _PUBLIC
    source = {"secretName": secret, "defaultMode": 0o400, "items": [{"key": key, "path": key}]}
    mount = {"name": _VOLUME, "mountPath": _KEYS, "readOnly": True}
    return {"name": _VOLUME, "secret": source}, mount


def worker_command(workload: Workload) -> list[str]:
    """Return the command of a worker: sshd in the foreground, after what the profile removes."""
    removed = listed(workload.launch, "removePaths")
    lines = [
        "set -e",
        f"rm -rf {shlex.join(removed)}" if removed else "",
        "if [ ! -x /usr/sbin/sshd ]; then",
        "  echo 'the image has no /usr/sbin/sshd: no such file' >&2",
        f"  exit {NO_SSHD}",
        "fi",
        "mkdir -p /run/sshd",
        "ssh-keygen -q -t ed25519 -N '' -f /tmp/readiness_host_key",
        "exec /usr/sbin/sshd -D -e "
        + " ".join(f"-o {shlex.quote(option)}" for option in _SSHD_OPTIONS),
    ]
    return ["/bin/sh", "-c", "\n".join(line for line in lines if line)]


def worker_readiness() -> Object:
    """Return the probe that makes a worker Ready when its sshd answers."""
    return {
        "tcpSocket": {"port": SSH_PORT},
        "initialDelaySeconds": 1,
        "periodSeconds": 2,
        "failureThreshold": 30,
    }


def launcher_command(workload: Workload, hosts: Sequence[str]) -> list[str]:
    """Return the command of the launcher.

    Args:
        workload: the resolved workload.
        hosts: names or addresses of the workers in rank order.
    """
    slots = int(workload.gpus_per_node.value)
    hostfile = "".join(f"{host} slots={slots}\n" for host in hosts)
    lines = [
        "set -e",
        f"cp {_KEYS}/{_PRIVATE} /tmp/readiness_key",
        "chmod 600 /tmp/readiness_key",
        f"printf %s {shlex.quote(_SSH_CONFIG)} > {_CONFIG}",
        f"printf %s {shlex.quote(hostfile)} > {_HOSTS}",
        "exec " + shlex.join(mpirun_words(workload, len(hosts))),
    ]
    return ["/bin/sh", "-c", "\n".join(lines)]


def local_command(workload: Workload) -> list[str]:
    """Return the command of a gang of one node, which needs neither ssh nor a launcher."""
    removed = listed(workload.launch, "removePaths")
    slots = int(workload.gpus_per_node.value)
    lines = [
        "set -e",
        *([f"rm -rf {shlex.join(removed)}"] if removed else []),
        f"echo localhost slots={slots} > {_HOSTS}",
        "exec " + shlex.join(mpirun_words(workload, 1)),
    ]
    return ["/bin/sh", "-c", "\n".join(lines)]


def host_names(addresses: Mapping[str, str]) -> tuple[dict[str, str], list[Object]]:
    """Return by which name the launcher calls each node, and the hostAliases that make it so.

    Args:
        addresses: pod address by node name.
    """
    names, aliases = {}, []
    for node, address in addresses.items():
        if _is_address(node):
            names[node] = address
            continue
        names[node] = node
        short = node.partition(".")[0]
        # Open MPI cuts names at the first dot.
        aliases.append({"ip": address, "hostnames": list(dict.fromkeys((node, short)))})
    return names, aliases


def mpirun_words(workload: Workload, nodes: int) -> list[str]:
    """Return the mpirun command line for a group."""
    slots = int(workload.gpus_per_node.value)
    words = [
        str(value_of(workload.launch, "mpirun") or "mpirun"),
        "--hostfile",
        _HOSTS,
        "-np",
        str(slots * nodes),
    ]
    for flag, value in (value_of(workload.launch, "flags") or {}).items():
        words += [flag] if value in {"", None} else [flag, str(value)]
    for name, value in _mca(workload, alone=nodes == 1).items():
        words += ["--mca", name, value]
    for entry in environment(workload.env):
        words += ["-x", f"{entry['name']}={entry['value']}"]
    for name in listed(workload.launch, "forwardEnv"):
        words += ["-x", name]
    return words + rank_words(workload)


def rank_words(workload: Workload) -> list[str]:
    """Return the command of one rank, with what the profile unsets or sources around it."""
    words = list(workload.command)
    scripts = listed(workload.launch, "sourceScripts")
    if scripts:
        sourced = "; ".join(f". {shlex.quote(script)}" for script in scripts)
        words = ["/bin/bash", "-c", f'{sourced}; exec "$@"', "--", *words]
    unset = [word for name in listed(workload.launch, "unsetEnv") for word in ("-u", name)]
    return ["/usr/bin/env", *unset, *words] if unset else words


def _mca(workload: Workload, *, alone: bool) -> dict[str, str]:
    found = {name: str(value) for name, value in (value_of(workload.launch, "mca") or {}).items()}
    if not alone:
        # -F because ssh takes ~ from passwd, which need not be where the container may write.
        found["plm_rsh_args"] = f"-F {_CONFIG} {found.get('plm_rsh_args', '')}".strip()
        # Else workers would start workers in big groups, and they have no key.
        found.setdefault("plm_rsh_no_tree_spawn", "1")
    return found


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
