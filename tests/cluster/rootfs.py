"""The base image that stands in for the official Python image of the same name.

It is Debian's minimal system with Debian's Python, dressed so that a Containerfile finds what it
would find in the official one: `python`, `pip` that installs into the system, certificates.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

from tests.cluster.config import PYTHON_IMAGE, cache_dir
from tests.cluster.gobuild import only_builder
from tests.cluster.images import buildah, image_id, import_rootfs
from tests.cluster.packages import program
from tests.cluster.shell import LabError, run, say

_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "netbase", "python3", "python3-pip", "python3-venv", "tzdata")
_UNNEEDED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


def ensure_python_image() -> str:
    """Make the base image if the store lacks it and return its tag."""
    # A second name tells which recipe the image was made by, so that a new one is not overlooked.
    recipe = sha256(repr((_SUITE, _PACKAGES, _UNNEEDED)).encode()).hexdigest()[:12]
    made = f"localhost/readiness-base:{recipe}"
    if image_id(made) is None:
        with only_builder():
            if image_id(made) is None:
                _make()
                buildah("tag", PYTHON_IMAGE, made)
    return PYTHON_IMAGE


def _make() -> None:
    say(f"making the base image {PYTHON_IMAGE} (about a minute)")
    directory = cache_dir() / "rootfs"
    _remove(directory)
    try:
        _bootstrap(directory)
        _dress(directory)
        settings = ["--env", f"PATH={_PATH}", "--env", "LANG=C.UTF-8", "--cmd", "python3"]
        import_rootfs(directory, PYTHON_IMAGE, settings)
    finally:
        _remove(directory)
    say("made the base image")


def _bootstrap(directory: Path) -> None:
    log = directory / "debootstrap" / "debootstrap.log"
    words: list[str | Path] = [
        "--variant=minbase",
        f"--include={','.join(_PACKAGES)}",
        _SUITE,
        directory,
    ]
    mirror = _mirror()
    argv = [program("debootstrap"), *words, *([mirror] if mirror else [])]
    try:
        run(argv, timeout=900, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})
    except LabError as error:
        end = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        raise LabError(f"{error}\n{end}") from None


def _mirror() -> str | None:
    """Return the mirror this machine's own packages come from, if it has the suite."""
    form = "$(CREATED_BY) $(CODENAME) $(COMPONENT) $(REPO_URI)"
    done = run(["apt-get", "indextargets", "--format", form], check=False)
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:3] == ["Packages", _SUITE, "main"] and len(words) > 3:
            return words[3]
    return None


def _dress(directory: Path) -> None:
    for path in directory.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        path.unlink()  # the official image lets pip install into the system
    for name in ("python", "python3", "python3.11"):
        (directory / "usr/local/bin" / name).symlink_to("/usr/bin/python3.11")
    for name in _UNNEEDED:
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in ("var/lib/apt/lists", "var/cache/apt/archives", "debootstrap"):
        shutil.rmtree(directory / name, ignore_errors=True)
    (directory / "var/lib/apt/lists/partial").mkdir(parents=True)
    (directory / "var/cache/apt/archives/partial").mkdir(parents=True)
    # The build gets the machine's own.
    (directory / "etc/resolv.conf").unlink(missing_ok=True)


def _remove(directory: Path) -> None:
    """Remove a root file system, with what an interrupted debootstrap left mounted in it."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for target in sorted((t for t in mounted if t.startswith(f"{directory}/")), reverse=True):
        run(["umount", "--lazy", target])
    shutil.rmtree(directory, ignore_errors=True)
