"""Container images without a registry or a container engine.

Buildah keeps images in the cache directory. A node gets one as an archive, imported into its
containerd. Archives are kept by image id, so loading an unchanged image again costs nothing here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from tests.cluster.config import (
    ARGOEXEC_IMAGE,
    PAUSE_IMAGE,
    argo_bin,
    cache_dir,
    pause_bin,
)
from tests.cluster.hostaccess import build_access
from tests.cluster.packages import program
from tests.cluster.shell import LabError, run, say

MOST_UNNAMED_IMAGES = 20
"""Unnamed images are the build cache, and a few hundred megabytes each."""

_ARGOEXEC_FILE = """\
FROM scratch
COPY . /
ENTRYPOINT ["argoexec"]
"""
_PAUSE_FILE = """\
FROM scratch
COPY . /
ENTRYPOINT ["/pause"]
"""


def buildah(*words: str | Path, timeout: float = 120) -> str:
    """Run buildah on the lab's own store and return its output."""
    home = cache_dir() / "buildah"
    home.mkdir(exist_ok=True)
    policy = home / "policy.json"
    if not policy.exists():
        policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
    overlay = "overlay" in Path("/proc/filesystems").read_text()
    store: list[str | Path] = ["--root", home / "storage", "--runroot", home / "run"]
    store += ["--storage-driver", "overlay" if overlay else "vfs"]
    env = os.environ | {"TMPDIR": str(home), "BUILDAH_ISOLATION": "chroot"}
    # Options that only some subcommands know come after the subcommand.
    command, *rest = words
    own: list[str | Path] = ["--signature-policy", policy] if command in {"bud", "push"} else []
    return run([program("buildah"), *store, command, *own, *rest], timeout=timeout, env=env).stdout


def image_id(tag: str) -> str | None:
    """Return the id of an image in the store, or None."""
    try:
        found = buildah("inspect", "--type", "image", "--format", "{{.FromImageID}}", tag)
    except LabError:
        return None
    return found.strip() or None


def build_image(
    context: Path,
    containerfile: Path,
    tag: str,
    *,
    build_args: Mapping[str, str] | None = None,
    target: str | None = None,
    timeout: float = 900,
) -> str:
    """Build an image and return its id; unchanged steps come from the cache.

    Its `FROM` must name an image of the store, such as PYTHON_IMAGE: nothing is pulled. Package
    managers inside reach their index as the ones of this machine do.
    """
    words: list[str | Path] = ["bud", "--isolation", "chroot", "--pull-never", "--layers"]
    # Docker's format knows SHELL and HEALTHCHECK, which a Containerfile may use.
    words += ["--format", "docker", "--tag", tag, "--file", containerfile]
    for name, value in (build_args or {}).items():
        words += ["--build-arg", f"{name}={value}"]
    if target is not None:
        words += ["--target", target]
    with build_access() as options:
        buildah(*words, *options, context, timeout=timeout)
    found = image_id(tag)
    if found is None:
        raise LabError(f"built {tag}, but it is not in the store")
    return found


def prune() -> None:
    """Forget old steps of builds once they are many; each change of a source leaves some."""
    unnamed = buildah("images", "--quiet", "--filter", "dangling=true").split()
    if len(unnamed) > MOST_UNNAMED_IMAGES:
        say(f"removing {len(unnamed)} unnamed images from the cache")
        buildah("rmi", "--prune", timeout=300)


def archive(tag: str) -> tuple[str, Path]:
    """Return an image's id and an archive of it that a node can import.

    Raises:
        LabError: there is no such image.
    """
    found = image_id(tag)
    if found is None:
        raise LabError(f"no such image in the lab's store: {tag}")
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", tag)
    path = cache_dir() / "images" / f"{name}@{found[:16]}.tar"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        for old in path.parent.glob(f"{name}@*.tar"):
            old.unlink()
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        buildah(
            "push", "--disable-compression", tag, f"docker-archive:{partial}:{tag}", timeout=300
        )
        partial.rename(path)
    return found, path


def system_images() -> dict[str, Path]:
    """Return the archives of the images every node needs, built when missing."""
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    argoexec = {"bin/argoexec": argo_bin("argoexec"), "etc/ssl/certs/ca.crt": certificates}
    return {
        PAUSE_IMAGE: _binary_image(PAUSE_IMAGE, _PAUSE_FILE, {"pause": pause_bin()}),
        ARGOEXEC_IMAGE: _binary_image(ARGOEXEC_IMAGE, _ARGOEXEC_FILE, argoexec),
    }


def _binary_image(tag: str, containerfile: str, files: Mapping[str, Path]) -> Path:
    """Make an image of single files; its archive has a fixed name, so that `up` asks nobody."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", tag)
    sizes = [(target, path.stat().st_size) for target, path in files.items() if path.exists()]
    recipe = sha256(repr((containerfile, sizes)).encode()).hexdigest()[:12]
    path = cache_dir() / "images" / f"{name}-{recipe}.tar"
    if path.exists():
        return path
    say(f"making image {tag}")
    path.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        root = Path(scratch) / "root"
        for target, source in files.items():
            if source.exists():
                (root / target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, root / target)
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777 | stat.S_ISVTX)
        (Path(scratch) / "Containerfile").write_text(containerfile)
        build_image(root, Path(scratch) / "Containerfile", tag)
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        buildah(
            "push", "--disable-compression", tag, f"docker-archive:{partial}:{tag}", timeout=300
        )
        partial.rename(path)
    return path


def import_rootfs(directory: Path, tag: str, settings: Sequence[str]) -> None:
    """Make an image of a root file system, with settings as `buildah config` takes them."""
    container = buildah("from", "scratch").strip()
    try:
        buildah("add", "--quiet", container, directory, "/", timeout=300)
        buildah("config", *settings, container)
        buildah("commit", "--quiet", "--format", "docker", container, tag, timeout=300)
    finally:
        buildah("rm", container)
