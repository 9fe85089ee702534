"""One certification that a fault is done to."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.chaos.ledger import KIND, WORKFLOW, Ledger
from tests.cluster.chaos.oracle import Fall
from tests.cluster.gangs import STANDIN
from tests.cluster.lab import Lab
from tests.cluster.live import Live
from tests.cluster.product import Product, certification

Object = dict[str, Any]

DEADLINE_SECONDS = 240
STEP_SECONDS = 75
END_SECONDS = 660
"""From the submission: deadline, grace of the run step, clean-up and report, on a busy machine."""

_SIGN_SECONDS = 400
UNREACHABLE = "value > 100000.0"
ENDED = {"Succeeded", "Failed", "Error"}


@dataclass(frozen=True, slots=True)
class Cast:
    """A kind of certification.

    Attributes:
        nodes: how many it takes.
        fails: its bar is one that no node reaches.
        gang: one run over all nodes rather than one on each.
    """

    nodes: int
    fails: bool = False
    gang: bool = False


CASTS = {
    "healthy": Cast(1),
    "failing": Cast(1, fails=True),
    "healthy pair": Cast(2),
    "failing pair": Cast(2, fails=True),
    "gang": Cast(2, gang=True),
}


@dataclass(slots=True)
class Scene:
    """A certification, its nodes, and what a fault needs to know of it.

    Attributes:
        name: of the workflow; empty until it is submitted.
        lost: ids of groups whose record the fault damaged or deleted.
        touched, fallen: see `oracle.Facts`.
    """

    lab: Lab
    live: Live
    ledger: Ledger
    product: Product
    cast: str
    nodes: tuple[str, ...]
    random: random.Random
    pause_ms: int = 0
    image: str = STANDIN
    env: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    submitted: float = 0.0
    lost: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    fallen: dict[str, Fall] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        return CASTS[self.cast].fails

    @property
    def namespace(self) -> str:
        return self.product.namespace

    def text(self) -> str:
        """Return the certification."""
        options: dict[str, object] = {"env": {"STANDIN_PAUSE_MS": str(self.pause_ms), **self.env}}
        if not CASTS[self.cast].gang:
            options["testScale"] = "intra-node"
        return certification(
            "chaos",
            bar=UNREACHABLE if self.fails else "value > 0.0",
            nodes=self.nodes,
            options=options,
            image=self.image,
        )

    def submit(self, name: str = "", pool: str = "") -> None:
        """Submit it; its pool is its own unless told otherwise."""
        self.submitted = time.time()
        words = ["-p", f"node-pool={pool or '-'.join(self.nodes)}"]
        words += ["-p", f"deadline={DEADLINE_SECONDS}s"]
        words += ["--name", name] if name else ["--generate-name", "chaos-"]
        self.name = self.product.submit(self.text(), *words, wait=False)

    def pause(self, longest: float) -> None:
        """Wait for a moment that the seed chooses."""
        time.sleep(self.random.uniform(0, longest))

    def workflow(self) -> Object | None:
        """Return the workflow as it is now."""
        found = self.live.all("Workflow", self.namespace)
        return next((item for item in found if item["metadata"]["name"] == self.name), None)

    @property
    def phase(self) -> str:
        """Phase of the workflow; empty before it has one."""
        return str(((self.workflow() or {}).get("status") or {}).get("phase") or "")

    @property
    def over(self) -> bool:
        return self.phase in ENDED

    def wait_end(self) -> bool:
        """Wait until the workflow is over; false when it is not within its time."""
        left = self.submitted + END_SECONDS - time.time()
        return bool(self.live.wait(lambda: self.over, timeout=max(left, 1)))

    def step(self, template: str) -> Object | None:
        """Wait for a pod of a step that has its node, and return it."""
        form = re.compile(rf"{re.escape(self.name)}-{template}-\d+$")

        def found(pod: Object) -> bool:
            return form.match(pod["metadata"]["name"]) is not None and _placed(pod)

        return self._wait_pod(found)

    def member(self, role: str, node: str | None = None) -> Object | None:
        """Wait for a running worker or launcher and return it."""

        def found(pod: Object) -> bool:
            labels = pod["metadata"].get("labels") or {}
            return (
                labels.get(WORKFLOW) == self.name
                and labels.get("readiness/role") == role
                and pod["status"].get("phase") == "Running"
                and node in {None, pod["spec"].get("nodeName")}
            )

        return self._wait_pod(found)

    def document(self, kind: str) -> Object | None:
        """Wait for a ConfigMap with a document of a kind and return it."""

        def found(item: Object) -> bool:
            labels = item["metadata"].get("labels") or {}
            return labels.get(WORKFLOW) == self.name and labels.get(KIND) == kind

        return self._wait("ConfigMap", found)

    def group_map(self) -> Object | None:
        """Wait for a ConfigMap that a run uses and return it."""

        def found(item: Object) -> bool:
            labels = item["metadata"].get("labels") or {}
            return labels.get(WORKFLOW) == self.name and "readiness/group" in labels

        return self._wait("ConfigMap", found)

    def named(self, kind: str) -> str | None:
        """Wait for an object of a run, of a kind that is not watched, and return its name."""
        end = time.monotonic() + _SIGN_SECONDS
        words = ["get", kind, "-n", self.namespace, "-l", f"{WORKFLOW}={self.name}", "-o", "name"]
        while time.monotonic() < end and not self.over:
            # While none of its pods runs there is nothing of a run either.
            self.live.wait(lambda: self.over or self._has_run(), timeout=_SIGN_SECONDS)
            lines = self.lab.try_kubectl(*words).stdout.split()
            if lines:
                return str(lines[0])
            time.sleep(0.5)
        return None

    def kubectl(self, *words: str, stdin: str | None = None) -> None:
        """Run kubectl in the namespace; an object that is gone already is no error."""
        self.lab.try_kubectl(*words, "-n", self.namespace, stdin=stdin)

    def argo(self, verb: str, *words: str) -> str:
        """Run Argo's client on the workflow."""
        return self.lab.argo(verb, self.name, "-n", self.namespace, *words)

    def _has_run(self) -> bool:
        form = re.compile(rf"{re.escape(self.name)}-run-\d+$")
        pods = self.live.all("Pod", self.namespace)
        return any(form.match(pod["metadata"]["name"]) for pod in pods)

    def _wait_pod(self, found: Callable[[Object], bool]) -> Object | None:
        return self._wait("Pod", found)

    def _wait(self, kind: str, found: Callable[[Object], bool]) -> Object | None:
        def probe() -> Object | bool | None:
            here = self.live.all(kind, self.namespace)
            return next((item for item in here if found(item)), None) or self.over

        what = self.live.wait(probe, timeout=_SIGN_SECONDS)
        return what if isinstance(what, dict) else None


def _placed(pod: Object) -> bool:
    phase = pod["status"].get("phase")
    return bool(pod["spec"].get("nodeName")) and phase in {"Pending", "Running"}
