"""The Go projects the lab is built from, and how each one's source is made buildable.

Every recipe only uses what the Go module proxy serves, because a machine that reaches one often
cannot reach the download pages of these projects.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.config import ARGO, COREDNS, ETCD, KUBERNETES, bin_dir, cache_dir
from tests.cluster.shell import run

KUBERNETES_MODULE = "k8s.io/kubernetes"
ETCD_MODULE = "go.etcd.io/etcd/server/v3"
ARGO_MODULE = "github.com/argoproj/argo-workflows/v4"
COREDNS_MODULE = "github.com/coredns/coredns"

KUBERNETES_BINARIES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
)
ARGO_BINARIES = ("workflow-controller", "argoexec", "argo")
DNS_PLUGINS = ("bind", "ready", "errors", "kubernetes")
"""In CoreDNS's own order. Its other plugins would triple the build."""

_PAUSE_SOURCE = """\
package main

import (
	"os"
	"os/signal"
	"syscall"
)

// main holds namespaces: it reaps what is orphaned to it and ends when told to.
func main() {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for got := range signals {
		if got != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
"""


@dataclass(frozen=True)
class Part:
    """One Go project: the packages that become binaries, and how its source comes about."""

    name: str
    version: str
    packages: dict[str, str]
    source: Callable[[], Path]
    ldflags: str = "-s -w"
    extra_directories: tuple[str, ...] = ()
    """Directories of the source that are needed beside the binaries."""

    @property
    def directory(self) -> Path:
        return bin_dir(self.name, self.version)

    def missing(self) -> list[str]:
        wanted = [*self.packages, *self.extra_directories]
        return [name for name in wanted if not (self.directory / name).exists()]


def parts() -> list[Part]:
    """Return everything that is built, the longest first."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    stamps = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor}
    stamp = " ".join(
        f"-X k8s.io/{package}.{key}={value}"
        for package in ("component-base/version", "client-go/pkg/version")
        for key, value in stamps.items()
    )
    kubernetes = {name: f"{KUBERNETES_MODULE}/cmd/{name}" for name in KUBERNETES_BINARIES}
    argo = {name: f"./cmd/{name}" for name in ARGO_BINARIES}
    argo_stamp = f"-s -w -X {ARGO_MODULE}.version={ARGO}"
    return [
        Part("kubernetes", KUBERNETES, kubernetes, _kubernetes_source, f"-s -w {stamp}"),
        Part("argo", ARGO, argo, _argo_source, argo_stamp, ("manifests",)),
        Part("etcd", ETCD, {"etcd": ETCD_MODULE}, _etcd_source),
        Part("coredns", COREDNS, {"coredns": "."}, _coredns_source),
        Part("pause", "v1", {"pause": "."}, _pause_source),
    ]


def go_env() -> dict[str, str]:
    """Return the environment of every Go command: static binaries, no workspace of the user's."""
    flags = f"{os.environ.get('GOFLAGS', '')} -mod=mod -trimpath -buildvcs=false"
    return os.environ | {"GOFLAGS": flags.strip(), "CGO_ENABLED": "0", "GOWORK": "off"}


def _download(module: str, version: str) -> dict[str, str]:
    done = run(
        ["go", "mod", "download", "-json", f"{module}@{version}"],
        timeout=600,
        cwd=cache_dir(),
        env=os.environ | {"GOWORK": "off", "GOFLAGS": ""},
    )
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def _fresh(name: str) -> Path:
    source = cache_dir() / "src" / name
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    return source


def _kubernetes_source() -> Path:
    """Make a module that depends on Kubernetes.

    Kubernetes names its staging modules with version v0.0.0 and replaces them by directories of
    its own repository. Replacements of a dependency do not count, so they are made again here, by
    the published modules of the same release.
    """
    wanted = Path(_download(KUBERNETES_MODULE, KUBERNETES)["GoMod"]).read_text()
    staging = re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0$", wanted, flags=re.MULTILINE)
    release = KUBERNETES.replace("v1.", "v0.", 1)
    lines = [_go_line(wanted), *re.findall(r"^godebug .*$", wanted, flags=re.MULTILINE)]
    lines += [f"replace {name} => {name} {release}" for name in staging]
    packages = [f"{KUBERNETES_MODULE}/cmd/{name}" for name in KUBERNETES_BINARIES]
    return _tool_module(
        "kubernetes", [*lines, f"require {KUBERNETES_MODULE} {KUBERNETES}"], packages
    )


def _etcd_source() -> Path:
    wanted = Path(_download(ETCD_MODULE, ETCD)["GoMod"]).read_text()
    return _tool_module("etcd", [_go_line(wanted), f"require {ETCD_MODULE} {ETCD}"], [ETCD_MODULE])


def _coredns_source() -> Path:
    """Write a CoreDNS with just the plugins that answer for a cluster."""
    wanted = Path(_download(COREDNS_MODULE, COREDNS)["GoMod"]).read_text()
    source = _fresh("coredns")
    imports = [f'\t_ "{COREDNS_MODULE}/plugin/{name}"' for name in DNS_PLUGINS]
    names = ", ".join(f'"{name}"' for name in DNS_PLUGINS)
    program = [
        "package main",
        "import (",
        f'\t"{COREDNS_MODULE}/core/dnsserver"',
        f'\t"{COREDNS_MODULE}/coremain"',
        *imports,
        ")",
        f"func init() {{ dnsserver.Directives = []string{{{names}}} }}",
        "func main() { coremain.Run() }",
    ]
    (source / "main.go").write_text("\n".join(program) + "\n")
    return _module(source, [_go_line(wanted), f"require {COREDNS_MODULE} {COREDNS}"])


def _go_line(gomod: str) -> str:
    found = re.search(r"^go \S+$", gomod, flags=re.MULTILINE)
    return found.group() if found else "go 1.25"


def _module(source: Path, lines: Sequence[str]) -> Path:
    (source / "go.mod").write_text("\n".join(["module readiness/lab", *lines]) + "\n")
    return source


def _tool_module(name: str, lines: Sequence[str], packages: Sequence[str]) -> Path:
    """Make a module whose only content is the tools it depends on."""
    source = _module(_fresh(name), lines)
    version = lines[-1].split()[-1]
    # Naming the version keeps `go get` from upgrading to one that does not fit the replacements.
    tools = [f"{package}@{version}" for package in packages]
    run(["go", "get", "-tool", *tools], timeout=1200, cwd=source, env=go_env())
    return source


def _argo_source() -> Path:
    """Copy Argo's module and fill two gaps that module archives have.

    Archives leave out generated files and symbolic links: the page that the server embeds, and
    the Linux signal code, which is a link to the one for macOS.
    """
    source = cache_dir() / "src" / f"argo-{ARGO}"
    if source.exists():
        return source
    partial = source.with_name(source.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(_download(ARGO_MODULE, ARGO)["Dir"], partial)
    for path in [partial, *partial.rglob("*")]:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    page = partial / "ui" / "dist" / "app" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<title>Argo without its user interface</title>\n")
    signals = partial / "workflow" / "executor" / "osspecific"
    shutil.copy(signals / "signal_darwin.go", signals / "signal_linux.go")
    partial.rename(source)
    return source


def _pause_source() -> Path:
    source = _module(_fresh("pause"), ["go 1.24"])
    (source / "main.go").write_text(_PAUSE_SOURCE)
    return source
