"""The torchrun gang: workers that wait for their place, and start together; pure.

Each worker waits for a file that the kubelet writes from an annotation of its pod. The run step
sets it when all workers run: rank of the node and address of the first worker. So the gang needs
no DNS and no Service, and ranks lie on the nodes in the order of the group.
"""

from __future__ import annotations

import shlex

from catalog.workload.workload import Workload
from steps.cluster.objects.mpi import rank_words
from steps.cluster.objects.pods import Object, listed, value_of

PLACE = "readiness/place"
"""Annotation with ``NODE_RANK MASTER_ADDRESS``."""

PORT = 29400

_FOLDER = "/etc/readiness/place"
_VOLUME = "readiness-place"

MEGATRON_FOLDERS = ("/workspace/Megatron-LM", "/opt/megatron-lm", "/opt/Megatron-LM")
MEGATRON_BRANCH = "core_v0.15.2"
"""Branch that NVCRE's catalog entries name; their arguments are of this version."""


def place_volume() -> tuple[Object, Object]:
    """Return the volume and mount through which a worker learns its place."""
    item = {"path": "place", "fieldRef": {"fieldPath": f"metadata.annotations['{PLACE}']"}}
    volume = {"name": _VOLUME, "downwardAPI": {"items": [item]}}
    return volume, {"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}


def place(rank: int, master: str) -> Object:
    """Return the patch that gives a worker its place."""
    return {"metadata": {"annotations": {PLACE: f"{rank} {master}"}}}


def worker_command(workload: Workload, nodes: int) -> list[str]:
    """Return the command of a worker."""
    removed = listed(workload.launch, "removePaths")
    processes = f"--nproc-per-node={int(workload.gpus_per_node.value)}"
    words = rank_words(workload)
    lines = ["set -e"]
    if removed:
        lines.append(f"rm -rf {shlex.join(removed)}")
    lines += _enter_source(workload)
    if nodes == 1:
        launch = ["torchrun", "--standalone", "--nnodes=1", processes, *words]
        lines.append(f"exec {shlex.join(launch)}")
    else:
        lines += [
            f"until [ -s {_FOLDER}/place ]; do sleep 0.2; done",
            f'read -r rank master < {_FOLDER}/place || [ -n "$rank" ]',
            f'exec torchrun --nnodes={nodes} --node-rank="$rank" --master-addr="$master" '
            f"--master-port={PORT} {shlex.join([processes, *words])}",
        ]
    return ["/bin/bash", "-c", "\n".join(lines)]


def _enter_source(workload: Workload) -> list[str]:
    """Go where the script is: as the image has it, else a clone of the source repository."""
    script = workload.command[0] if workload.command else ""
    repository = value_of(workload.options, "sourceRepo")
    if not script.endswith(".py") or script.startswith("/"):
        return []
    name = shlex.quote(script)
    lines = [
        f"for folder in . {shlex.join(MEGATRON_FOLDERS)}; do",
        f'  if [ -f "$folder/"{name} ]; then cd "$folder"; break; fi',
        "done",
    ]
    if repository:
        clone = ["git", "clone", "-q", "--depth=1", f"--branch={MEGATRON_BRANCH}", str(repository)]
        target = "/tmp/readiness_source"  # noqa: S108  (a container's own /tmp)
        lines.append(f"[ -f {name} ] || {{ {shlex.join([*clone, target])} && cd {target}; }}")
    return lines
