"""Programs that come from the Linux distribution."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from tests.cluster.shell import LabError, run, say

_PACKAGE_BY_PROGRAM = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "openssl": "openssl",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
_CNI_PACKAGE = "containernetworking-plugins"
_CNI_DIRECTORIES = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_SYSTEM_PATH = "/usr/sbin:/sbin"  # not in every user's PATH, and not in every root's


def program(name: str) -> Path:
    """Return the path of a program.

    Raises:
        LabError: it is not installed.
    """
    found = _find(name)
    if found is None:
        raise LabError(f"program not found: {name}")
    return Path(found)


def installed(name: str) -> bool:
    """Tell whether a program is there."""
    return _find(name) is not None


def _find(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)


def cni_directory() -> Path | None:
    """Return the directory of the network plugins, or None where there are none."""
    return next((path for path in _CNI_DIRECTORIES if (path / "bridge").exists()), None)


def _missing() -> list[str]:
    missing = {package for name, package in _PACKAGE_BY_PROGRAM.items() if _find(name) is None}
    if cni_directory() is None:
        missing.add(_CNI_PACKAGE)
    return sorted(missing)


def ensure_packages() -> None:
    """Install what is missing.

    Raises:
        LabError: this user or this distribution cannot install it; the message names it.
    """
    missing = _missing()
    if not missing:
        return
    wanted = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise LabError(f"the lab needs these Debian packages (or their like): {wanted}")
    say(f"installing {wanted}")
    started = time.monotonic()
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    # Errors of single sources are common and do not matter if the packages are found.
    run(["apt-get", "update"], timeout=300, check=False, env=env)
    options = ["-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"]
    run(["apt-get", "install", *options, *missing], timeout=900, env=env)
    if left := _missing():
        raise LabError(f"still missing after installation: {' '.join(left)}")
    say(f"installed in {time.monotonic() - started:.0f} s")
