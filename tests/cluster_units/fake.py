"""A cluster in memory: an API server, and as much of Kubernetes' controllers as runs need."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from catalog.errors import ClusterError
from steps.cluster.api.client import Change, Cluster, ConflictError, NotFoundError, Object

FINISHED = "2026-03-04T05:06:07Z"


def node(name: str, **spec: Any) -> Object:
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"nvidia.com/cuda.driver-version.full": "570.133.20"},
        },
        "spec": dict(spec),
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"}
            ],
            "nodeInfo": {"kernelVersion": "6.8.0-1021"},
        },
    }


class FakeCluster(Cluster):
    """Holds objects; every look at pods is one tick, in which Jobs get pods and pods start.

    Args:
        nodes: names of the nodes.
    """

    def __init__(self, *nodes: str, namespace: str = "readiness") -> None:
        self.namespace = namespace
        self.objects: dict[tuple[str, str], Object] = {}
        self.created: list[Object] = []
        self.deleted: list[tuple[str, str]] = []
        self.outputs: dict[str, bytes] = {}
        self.refusals: dict[str, Exception] = {}
        self.away: Exception | None = None
        self.history: list[Change] | None = None
        self.before_look: Callable[[FakeCluster], None] = lambda _: None
        self.deaf: set[str] = set()
        self.silent: set[str] = set()
        self.starts = True
        self.looks = 0
        self._uids = itertools.count(1)
        for name in nodes:
            self.put(node(name))

    def put(self, item: Object) -> Object:
        """Store an object as it is."""
        item["metadata"].setdefault("uid", f"uid-{next(self._uids)}")
        item["metadata"]["resourceVersion"] = str(next(self._uids))
        self.objects[item["kind"], item["metadata"]["name"]] = item
        return item

    def of(self, kind: str) -> list[Object]:
        """Return all objects of a kind."""
        return [item for (found, _), item in self.objects.items() if found == kind]

    def job_of(self, role: str) -> Object:
        """Return the Job of a role."""
        return next(
            job for job in self.of("Job") if job["metadata"]["labels"]["readiness/role"] == role
        )

    def pods_of(self, role: str) -> list[Object]:
        """Return the pods of a role, in the order of their nodes."""
        found = [
            pod for pod in self.of("Pod") if pod["metadata"]["labels"]["readiness/role"] == role
        ]
        return sorted(found, key=lambda pod: str(pod["spec"].get("nodeName")))

    def end(self, role: str, code: int, **ended: Any) -> None:
        """Let the containers of a role end."""
        for pod in self.pods_of(role):
            end_pod(pod, code, **ended)
        kind = "Complete" if code == 0 else "Failed"
        self.job_of(role)["status"] = {"conditions": [{"type": kind, "status": "True"}]}

    # the API

    def in_namespace(self, namespace: str) -> Cluster:
        return self if namespace != "kube-node-lease" else _NodeLeases(self)

    def get(self, kind: str, name: str) -> Object:
        self._maybe_away()
        try:
            return copy.deepcopy(self.objects[kind, name])
        except KeyError:
            raise NotFoundError(f"{kind} {name} not found") from None

    def find(self, kind: str, selector: str = "", field_selector: str = "") -> list[Object]:
        self._maybe_away()
        if kind == "Pod" and "readiness/workflow" in selector:
            self.looks += 1
            self.before_look(self)
            self._maybe_away()
            self._tick()
        found = [item for item in self.of(kind) if _selected(item, selector)]
        return copy.deepcopy(_of_fields(found, field_selector))

    def find_at(
        self, kind: str, selector: str = "", field_selector: str = ""
    ) -> tuple[list[Object], str]:
        return self.find(kind, selector, field_selector), str(next(self._uids))

    def changes(self, kind: str, selector: str, since: str) -> list[Change]:
        self._maybe_away()
        if self.history is None:
            raise ClusterError("too old resource version")
        return copy.deepcopy(self.history)

    def find_everywhere(self, kind: str, field_selector: str = "") -> list[Object]:
        self._maybe_away()
        if kind in self.refusals:
            raise self.refusals[kind]
        return copy.deepcopy(_of_fields(self.of(kind), field_selector))

    def create(self, body: Mapping[str, Any]) -> Object:
        item = copy.deepcopy(dict(body))
        kind, name = str(item["kind"]), str(item["metadata"]["name"])
        if kind in self.refusals:
            raise self.refusals[kind]
        if (kind, name) in self.objects:
            raise ConflictError(f"{kind} {name} exists")
        if kind != "Lease":
            self.created.append(item)
        return self.put(copy.deepcopy(item))

    def replace(self, body: Mapping[str, Any]) -> Object:
        key = (str(body["kind"]), str(body["metadata"]["name"]))
        if key not in self.objects:
            raise NotFoundError(f"{key} not found")
        wanted = body["metadata"].get("resourceVersion")
        if wanted and wanted != self.objects[key]["metadata"].get("resourceVersion"):
            raise ConflictError("the object has been modified")
        return self.put(copy.deepcopy(dict(body)))

    def apply(self, body: Mapping[str, Any]) -> Object:
        self.objects.pop((str(body["kind"]), str(body["metadata"]["name"])), None)
        return self.create(body)

    def patch(self, kind: str, name: str, body: Mapping[str, Any]) -> Object:
        if (kind, name) not in self.objects:
            raise NotFoundError(f"{kind} {name} not found")
        item = self.objects[kind, name]
        item["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
        return item

    def delete(
        self, kind: str, name: str, grace_seconds: int | None = None, *, version: str = ""
    ) -> bool:
        found = self.objects.get((kind, name), {"metadata": {}})
        if version and version != found["metadata"].get("resourceVersion"):
            raise ConflictError(f"{kind} {name} has been modified")
        if kind != "Lease":
            self.deleted.append((kind, name))
        if name in self.deaf:
            self.objects[kind, name]["metadata"]["deletionTimestamp"] = FINISHED
            return True
        item = self.objects.pop((kind, name), None)
        if kind == "Job" and item:
            for key, pod in list(self.objects.items()):
                owned = pod["metadata"].get("labels", {}).get("job-name") == name
                if key[0] == "Pod" and owned and key[1] not in self.deaf:
                    del self.objects[key]
        return item is not None

    def logs(
        self,
        pod: str,
        container: str = "",
        *,
        follow: bool = False,
        timestamps: bool = False,
        since: str = "",
    ) -> Iterator[bytes]:
        data = self.outputs.get(pod) or self.outputs.get("*", b"")
        for number, line in enumerate(data.splitlines(keepends=True)):
            yield b"2026-03-04T05:06:07.%09dZ " % number + line

    # the controllers

    def _tick(self) -> None:
        for job in self.of("Job"):
            self._make_pods(job)
        for pod in self.of("Pod"):
            if self.starts and pod["status"].get("phase") == "Pending":
                run_pod(pod, f"10.0.0.{next(self._uids)}")

    def _make_pods(self, job: Object) -> None:
        name, spec = job["metadata"]["name"], job["spec"]
        if spec.get("suspend") or job.get("madePods") or "Job pods" in self.refusals:
            return
        job["madePods"] = True
        template = spec["template"]
        terms = template["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        nodes = [term["matchFields"][0]["values"][0] for term in terms]
        # Backwards, since the order in which a scheduler places pods means nothing.
        for index, place in zip(range(spec["completions"]), reversed(nodes), strict=False):
            pod = copy.deepcopy(template)
            pod["kind"] = "Pod"
            pod["metadata"]["name"] = f"{name}-{index}-x{index}y"
            pod["metadata"]["labels"]["job-name"] = name
            pod["spec"]["nodeName"] = place
            pod["status"] = {"phase": "Pending"}
            self.put(pod)

    def _maybe_away(self) -> None:
        if self.away:
            raise self.away


class _NodeLeases(FakeCluster):
    """The Leases of nodes: every kubelet that is not silent has renewed its one since."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._uids = cluster._uids

    def get(self, kind: str, name: str) -> Object:
        for item in self.find(kind):
            if item["metadata"]["name"] == name:
                return item
        raise NotFoundError(f"{kind} {name} not found")

    def find(self, kind: str, selector: str = "", field_selector: str = "") -> list[Object]:
        names = [node["metadata"]["name"] for node in self._cluster.find("Node")]
        silent = self._cluster.silent
        return [
            {
                "kind": kind,
                "metadata": {"name": name},
                "spec": {"renewTime": "long ago" if name in silent else str(next(self._uids))},
            }
            for name in names
        ]


def run_pod(pod: Object, address: str) -> None:
    """Let a pod run and become Ready."""
    image = pod["spec"]["containers"][0]["image"]
    pod["status"] = {
        "phase": "Running",
        "podIP": address,
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "tool",
                "image": image,
                "imageID": f"{image}@sha256:abc",
                "state": {"running": {}},
            }
        ],
    }


def end_pod(pod: Object, code: int, **ended: Any) -> None:
    """Let the tool of a pod end."""
    pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    state = {"terminated": {"exitCode": code, "finishedAt": FINISHED} | ended}
    pod["status"]["containerStatuses"][0]["state"] = state


def event(about: str, reason: str, message: str, kind: str = "Job", **fields: Any) -> Object:
    """Return a warning about an object; the same name, so that repeats replace each other."""
    when = datetime.now(UTC).isoformat()
    return {
        "kind": "Event",
        "metadata": {"name": f"{about}.{reason}"},
        "type": "Warning",
        "involvedObject": {"kind": kind, "name": about},
        "source": {"component": "test-agent"},
        "reason": reason,
        "message": message,
        "lastTimestamp": when,
    } | fields


def _of_fields(items: list[Object], selector: str) -> list[Object]:
    wanted = dict(part.split("=") for part in selector.split(",") if part)
    return [
        item
        for item in items
        if all(
            (item["involvedObject"] if "." in name else item).get(name.rpartition(".")[2]) == value
            for name, value in wanted.items()
        )
    ]


def _selected(item: Object, selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        name, equals, value = part.partition("=")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True
