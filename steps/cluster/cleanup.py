"""Deleting what runs created, by label, and checking that it is gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from catalog.errors import ClusterError
from steps.cluster.api import Cluster, NotFoundError, Object, RefusedError
from steps.cluster.companions import COMPANION_KINDS
from steps.cluster.names import LABEL_GROUP
from steps.cluster.pods import GRACE_SECONDS, gpus_of
from steps.cluster.store import LABEL_WORKFLOW
from steps.cluster.trouble import name_of, node_of

_KINDS = ("Job", "Pod", *COMPANION_KINDS)
_FIRST_POLL, _LONGEST_POLL = 0.1, 2.0


def everything_of(workflow: str) -> str:
    """Return the selector of all that the runs of a workflow created, and no document of it."""
    return f"{LABEL_WORKFLOW}={workflow},{LABEL_GROUP}"


def remove(
    cluster: Cluster,
    selector: str,
    patience: float,
    sleep: Callable[[float], object] = time.sleep,
) -> list[str]:
    """Delete what a selector selects and wait until it is gone.

    Nothing is deleted by force: a pod that its kubelet does not confirm may still hold its GPUs.

    Args:
        cluster: where.
        selector: label selector.
        patience: seconds to wait.
        sleep: waits between looks; what it returns is true when there is no time for more.

    Returns:
        What is still there, one line each; empty when all is gone.
    """
    end = time.monotonic() + patience
    wait = _FIRST_POLL
    asked: set[tuple[str, str]] = set()
    while True:
        left, problems = _delete(cluster, selector, asked)
        if not left and not problems:
            return []
        if time.monotonic() >= end or sleep(min(wait, max(end - time.monotonic(), 0.0))):
            return [*left, *problems]
        wait = min(2 * wait, _LONGEST_POLL)


def _delete(
    cluster: Cluster, selector: str, asked: set[tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """Ask once for the deletion of everything, and return what is there and what went wrong."""
    left, problems = [], []
    for kind in _KINDS:
        try:
            for item in _find(cluster, kind, selector):
                left.append(_describe(kind, item))
                key = (kind, str(item["metadata"].get("uid") or name_of(item)))
                if key not in asked and not item["metadata"].get("deletionTimestamp"):
                    grace = GRACE_SECONDS if kind == "Pod" else None
                    cluster.delete(kind, name_of(item), grace)
                    asked.add(key)
        except ClusterError as error:
            problems.append(f"{kind}: {error}")
    return left, problems


def _find(cluster: Cluster, kind: str, selector: str) -> list[Object]:
    try:
        return cluster.find(kind, selector)
    except NotFoundError:
        # The API server does not have this kind (ComputeDomain, claims of older clusters).
        return []
    except RefusedError:
        # Kinds that an account may not even read it has not made.
        if kind in COMPANION_KINDS:
            return []
        raise


def _describe(kind: str, item: Object) -> str:
    text = f"{kind} {name_of(item)}"
    if kind == "Pod":
        gpus = gpus_of(item)
        held = f", holds {gpus} GPUs" if gpus else ""
        text += f" on {node_of(item) or 'no node'}{held}"
    return text
