"""The lab by hand: `python -m tests.cluster up|down|status|env|build|load`."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path

from tests.cluster.config import argo_bin, kube_bin
from tests.cluster.dress import DRESSES
from tests.cluster.lab import Lab
from tests.cluster.lifecycle import attach, down, prepare, up
from tests.cluster.processes import alive
from tests.cluster.rootfs import ensure_python_image
from tests.cluster.shell import LabError
from tests.cluster.state import load_state


def main() -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a start is undone
    try:
        return int(arguments.run(arguments))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("up", help="start the lab; it stays until `down`")
    command.add_argument("--nodes", type=int, default=2)
    command.add_argument("--dress", choices=sorted(DRESSES), default="aws")
    command.add_argument("--namespaced", action="store_true", help="Argo serves only its namespace")
    command.add_argument("--no-server", action="store_true", help="without Argo's server")
    command.set_defaults(run=_up)
    command = commands.add_parser("down", help="stop the lab and clear away its leftovers")
    command.set_defaults(run=_down)
    command = commands.add_parser("status", help="tell what runs; exit code 3 when no lab is up")
    command.set_defaults(run=_status)
    command = commands.add_parser(
        "env", help='print exports: eval "$(python -m tests.cluster env)"'
    )
    command.set_defaults(run=_env)
    command = commands.add_parser("build", help="install and build what `up` needs, start nothing")
    command.set_defaults(run=_build)
    command = commands.add_parser("load", help="build an image and bring it to the nodes")
    command.add_argument("tag")
    command.add_argument("--file", type=Path, required=True, help="the Containerfile")
    command.add_argument("--context", type=Path, default=Path())
    command.set_defaults(run=_load)
    return parser


def _up(arguments: argparse.Namespace) -> int:
    up(
        nodes=arguments.nodes,
        look=DRESSES[arguments.dress],
        argo_namespaced=arguments.namespaced,
        argo_server=not arguments.no_server,
    )
    print('eval "$(python -m tests.cluster env)"')
    return 0


def _down(_: argparse.Namespace) -> int:
    down()
    return 0


def _status(_: argparse.Namespace) -> int:
    state = load_state()
    if state is None:
        print("no lab")
        return 3
    for record in state.processes.values():
        running = "runs" if alive(record) else "ENDED"
        print(f"{record.name:26} {record.pid:8} {running:6} {record.log}")
    lab = attach()
    if lab is None:
        print("the lab is not whole; `down` clears it away")
        return 3
    print(lab.kubectl("get", "nodes", "-o", "wide"), end="")
    return 0


def _env(_: argparse.Namespace) -> int:
    lab = _running()
    print(f"export KUBECONFIG={shlex.quote(str(lab.kubeconfig))}")
    path = f"{kube_bin('kubectl').parent}:{argo_bin('argo').parent}"
    print(f'export PATH={shlex.quote(path)}:"$PATH"')
    if lab.argo_server is not None:
        settings = " ".join(f"{key}={value}" for key, value in lab.server_env.items())
        print(f"# to let Argo's client go through the server: export {settings}")
    return 0


def _build(_: argparse.Namespace) -> int:
    prepare()
    ensure_python_image()
    return 0


def _load(arguments: argparse.Namespace) -> int:
    _running().build_image(arguments.context, arguments.file, arguments.tag)
    return 0


def _running() -> Lab:
    lab = attach()
    if lab is None:
        raise LabError("no lab is up")
    return lab


if __name__ == "__main__":
    sys.exit(main())
