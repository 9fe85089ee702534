"""The Workflow of a certification: what it owns goes when it goes, and its start is the clock's."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from steps.cluster.api.client import Cluster, NotFoundError, Object
from steps.cluster.api.labels import LABEL_KIND, LABEL_UID, LABEL_WORKFLOW, label_value

API_VERSION = "argoproj.io/v1alpha1"


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """One Workflow object. A cron or a person may use a name again, a uid never comes back.

    Attributes:
        name: of the Workflow.
        uid: of the Workflow.
    """

    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.name} ({self.uid})"

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of everything that belongs to it."""
        return {LABEL_UID: self.uid, LABEL_WORKFLOW: label_value(self.name)}

    @property
    def selector(self) -> str:
        """Return the label selector of everything that belongs to it."""
        return f"{LABEL_UID}={self.uid}"

    @property
    def owner(self) -> Object:
        """Return the owner reference to it."""
        return {
            "apiVersion": API_VERSION,
            "kind": "Workflow",
            "name": self.name,
            "uid": self.uid,
            "blockOwnerDeletion": False,
        }


def workflow_start(cluster: Cluster, workflow: WorkflowRun) -> datetime | None:
    """Return when a Workflow began to run, or None when it does not exist (any more).

    As for Argo's own deadline, the time that it waited for its turn in a node pool does not count.

    Raises:
        ClusterError: the API refused or did not answer.
    """
    try:
        found = cluster.get("Workflow", workflow.name)
    except NotFoundError:
        return None
    if found["metadata"].get("uid") != workflow.uid:
        # Another one of the same name; its start says nothing of ours.
        return None
    text = (found.get("status") or {}).get("startedAt") or found["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(str(text))


def find_run(cluster: Cluster, name: str) -> WorkflowRun | None:
    """Return the Workflow of a name; of one that is gone, that which left the newest report.

    Raises:
        ClusterError: the API refused or did not answer.
    """
    with suppress(NotFoundError):
        return WorkflowRun(name, str(cluster.get("Workflow", name)["metadata"]["uid"]))
    chosen = f"{LABEL_WORKFLOW}={label_value(name)},{LABEL_KIND}=Report"
    found = [item["metadata"] for item in cluster.find("ConfigMap", chosen)]
    newest = max(found, key=lambda item: str(item.get("creationTimestamp")), default=None)
    return WorkflowRun(name, str(newest["labels"][LABEL_UID])) if newest else None
