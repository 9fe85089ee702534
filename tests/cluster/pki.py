"""Certificates, tokens and kubeconfigs, made anew for each run of the lab."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from tests.cluster.config import API_URL, BRIDGE_IP, KUBERNETES_SERVICE_IP, state_dir
from tests.cluster.shell import run

_DAYS = "30"


def pki_dir() -> Path:
    """Return the directory of keys and certificates."""
    return state_dir() / "pki"


def make_certificates() -> None:
    """Make the authority, the API server's two certificates and the service account key."""
    pki_dir().mkdir(mode=0o700)
    _openssl("req", "-x509", *_new_key("ca"), "-subj", "/CN=readiness-lab", "-days", _DAYS)
    names = ["DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default"]
    names += ["DNS:kubernetes.default.svc", "DNS:kubernetes.default.svc.cluster.local"]
    names += [f"IP:{ip}" for ip in ("127.0.0.1", BRIDGE_IP, KUBERNETES_SERVICE_IP)]
    _signed("apiserver", "/CN=kube-apiserver", f"subjectAltName={','.join(names)}")
    # The API server proves itself to kubelets with this one; they ask back what it may do.
    _signed("kubelet-client", "/O=system:masters/CN=kube-apiserver", "extendedKeyUsage=clientAuth")
    key = pki_dir() / "service-account.key"
    _openssl("genrsa", "-out", key, "2048")
    _openssl("rsa", "-in", key, "-pubout", "-out", pki_dir() / "service-account.pub")


def _new_key(name: str) -> list[str | Path]:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    return [*curve, "-keyout", pki_dir() / f"{name}.key", "-out", pki_dir() / f"{name}.crt"]


def _signed(name: str, subject: str, extension: str) -> None:
    authority: list[str | Path] = ["-CA", pki_dir() / "ca.crt", "-CAkey", pki_dir() / "ca.key"]
    extensions = ["-addext", extension, "-addext", "basicConstraints=critical,CA:FALSE"]
    identity = ["-subj", subject, "-days", _DAYS]
    _openssl("req", "-x509", *authority, *_new_key(name), *identity, *extensions)


def _openssl(*words: str | Path) -> None:
    run(["openssl", *words], timeout=30)


def make_tokens(users: dict[str, tuple[str, list[str]]]) -> Path:
    """Write the API server's token file and one kubeconfig per user.

    Args:
        users: by kubeconfig name, the user name and its groups.

    Returns:
        The token file.
    """
    lines = []
    for name, (user, groups) in users.items():
        token = secrets.token_hex(24)
        lines.append(f'{token},{user},{user},"{",".join(groups)}"')
        _write_kubeconfig(name, token)
    path = pki_dir() / "tokens.csv"
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n")
    return path


def kubeconfig(name: str) -> Path:
    """Return the path of a user's kubeconfig."""
    return state_dir() / "kubeconfigs" / f"{name}.yaml"


def _write_kubeconfig(name: str, token: str) -> None:
    path = kubeconfig(name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    cluster = {"server": API_URL, "certificate-authority": str(pki_dir() / "ca.crt")}
    context = {"cluster": "lab", "user": name, "namespace": "default"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": context}],
    }
    path.write_text(json.dumps(document, indent=1))
