"""Lets package managers inside an image build reach their index the way this machine does.

A build has the machine's network but not its settings: which index, which certificates, which
proxy. They are mounted for the time of the build and leave only empty mount points in the image.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.shell import LabError, run

_CERTIFICATES = Path("/etc/ssl/certs")
_PIP_KEYS = {"cert", "default-timeout", "extra-index-url", "index-url", "proxy", "trusted-host"}
"""Settings that say how to reach an index. Others, such as local directories, stay outside."""


@contextmanager
def build_access() -> Iterator[list[str]]:
    """Yield the options for `buildah bud` that carry the machine's access to package indexes."""
    with tempfile.TemporaryDirectory(prefix="readiness-build-") as scratch:
        directory = Path(scratch)
        directory.chmod(0o755)
        mounts = {}
        bundle = _certificate_bundle()
        if bundle is not None:
            copy = directory / "ca-certificates.crt"
            shutil.copy(bundle, copy)
            mounts[copy] = _CERTIFICATES / "ca-certificates.crt"
        pip = directory / "pip.conf"
        pip.write_text(_pip_settings(has_bundle=bundle is not None))
        mounts[pip] = Path("/etc/pip.conf")
        uv = directory / "uv.toml"
        uv.write_text("native-tls = true\n")  # use the certificates mounted above
        mounts[uv] = Path("/etc/uv/uv.toml")
        yield [word for k, v in mounts.items() for word in ("--volume", f"{k}:{v}:ro")]


def _certificate_bundle() -> Path | None:
    names = [os.environ.get(name) for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")]
    candidates = [Path(name) for name in names if name]
    candidates.append(_CERTIFICATES / "ca-certificates.crt")
    return next((path for path in candidates if path.is_file()), None)


def _pip_settings(*, has_bundle: bool) -> str:
    """Return this machine's pip settings, from files and environment, as one file."""
    try:
        listed = run(["python3", "-m", "pip", "config", "list"], timeout=60).stdout
    except LabError:
        listed = ""  # no pip on this machine, so no settings either
    settings = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        key = name.strip().rpartition(".")[2]
        if key in _PIP_KEYS:
            settings[key] = value.strip().strip("'")
    settings.pop("cert", None)
    if has_bundle:
        settings["cert"] = str(_CERTIFICATES / "ca-certificates.crt")
    # pip lists several values in one line; its files want one a line.
    lines = [f"{key} = {value}".replace("\\n", "\n  ") for key, value in settings.items()]
    return "\n".join(["[global]", *lines]) + "\n"
