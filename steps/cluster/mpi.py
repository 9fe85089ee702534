"""The MPI gang: workers that wait with sshd, and a launcher that knows them by address; pure.

No operator is needed. Keys are made for one run and live in one Secret. The launcher is created
only when every worker is Ready, with a host list of addresses, so that neither DNS nor the order
of start can race.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from catalog.resolved import Setting, Workload
from steps.cluster.pods import Object, environment

SSH_PORT = 2222
"""Unprivileged, and apart from a sshd that the image may start by itself."""

NO_SSHD = 67
"""Exit code of a worker whose image has no sshd (EX_NOUSER is free here)."""

_KEYS = "/etc/readiness/ssh"
_VOLUME = "readiness-ssh"

_SSHD_OPTIONS = (
    f"Port={SSH_PORT}",
    "HostKey=/tmp/readiness_host_key",
    f"AuthorizedKeysFile={_KEYS}/authorized_keys",
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
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 10
  ConnectionAttempts 5
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
    metadata: Object = {"name": name, "labels": dict(labels)}
    if owner:
        metadata["ownerReferences"] = [dict(owner)]
    data = {"id_ed25519": secret, "authorized_keys": public + b"\n"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "immutable": True,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def key_volumes(secret: str) -> tuple[list[Object], list[Object]]:
    """Return the volumes and mounts that bring the keys into a pod."""
    volume = {"name": _VOLUME, "secret": {"secretName": secret, "defaultMode": 0o400}}
    mount = {"name": _VOLUME, "mountPath": _KEYS, "readOnly": True}
    return [volume], [mount]


def worker_command(workload: Workload) -> list[str]:
    """Return the command of a worker: sshd in the foreground, after what the profile removes."""
    removed = _listed(workload, "removePaths")
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


def launcher_command(workload: Workload, addresses: Sequence[str]) -> list[str]:
    """Return the command of the launcher.

    Args:
        workload: the resolved workload.
        addresses: worker addresses in rank order.
    """
    slots = int(workload.gpus_per_node.value)
    hosts = "".join(f"{address} slots={slots}\n" for address in addresses)
    lines = [
        "set -e",
        f"cp {_KEYS}/id_ed25519 /tmp/readiness_key && chmod 600 /tmp/readiness_key",
        'mkdir -p "$HOME/.ssh" && chmod 700 "$HOME/.ssh"',
        f'printf %s {shlex.quote(_SSH_CONFIG)} > "$HOME/.ssh/config"',
        'chmod 600 "$HOME/.ssh/config"',
        f"printf %s {shlex.quote(hosts)} > /tmp/readiness_hosts",
        "exec " + shlex.join(mpirun_words(workload, len(addresses))),
    ]
    return ["/bin/sh", "-c", "\n".join(lines)]


def mpirun_words(workload: Workload, nodes: int) -> list[str]:
    """Return the mpirun command line for a group."""
    slots = int(workload.gpus_per_node.value)
    words = [
        str(_value(workload, "mpirun") or "mpirun"),
        "--hostfile",
        "/tmp/readiness_hosts",
        "-np",
        str(slots * nodes),
    ]
    for flag, value in (_value(workload, "flags") or {}).items():
        words += [flag] if value in {"", None} else [flag, str(value)]
    for name, value in (_value(workload, "mca") or {}).items():
        words += ["--mca", name, str(value)]
    for entry in environment(workload.env):
        words += ["-x", f"{entry['name']}={entry['value']}"]
    for name in _listed(workload, "forwardEnv"):
        words += ["-x", name]
    return words + rank_words(workload)


def rank_words(workload: Workload) -> list[str]:
    """Return the command of one rank, with what the profile unsets or sources around it."""
    words = list(workload.command)
    scripts = _listed(workload, "sourceScripts")
    if scripts:
        sourced = "; ".join(f". {shlex.quote(script)}" for script in scripts)
        words = ["/bin/bash", "-c", f'{sourced}; exec "$@"', "--", *words]
    unset = [word for name in _listed(workload, "unsetEnv") for word in ("-u", name)]
    return ["/usr/bin/env", *unset, *words] if unset else words


def _value(workload: Workload, name: str) -> Any:
    setting: Setting | None = workload.launch.get(name)
    return setting.value if setting else None


def _listed(workload: Workload, name: str) -> list[str]:
    return [str(item) for item in _value(workload, name) or ()]
