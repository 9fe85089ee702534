"""Looking at a running group again and again, and telling the first cause why it cannot go on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from catalog.certification import HealthRule
from catalog.errors import ClusterError
from catalog.health import node_rules
from steps.cluster.api import Cluster, NotFoundError, RefusedError
from steps.cluster.health import NodeWatch
from steps.cluster.pods import of_role
from steps.cluster.stop import Stop
from steps.cluster.times import Times
from steps.cluster.trouble import failed_before_loss, first_failure, name_of, place_of
from steps.documents import Entity, NodeEvent, RunFailure, RunOutcome
from steps.run.failures import hardware_failure
from steps.run.job import Job

Object = Mapping[str, Any]

_FEW_NODES = 8
"""Up to so many nodes are read one by one; of more, the whole list."""
_NODE_ROUNDS = 4
"""A whole list of nodes is read on every so-manieth look only."""


class Ended(Exception):  # noqa: N818  (no error: how a run came to its end)
    """The run is over.

    Args:
        outcome: how.
        failures: first cause first.
        events: of nodes.
        exit_code: of the tool.
    """

    def __init__(
        self,
        outcome: RunOutcome,
        *failures: RunFailure,
        events: Sequence[NodeEvent] = (),
        exit_code: int | None = None,
    ) -> None:
        super().__init__(outcome, *failures)
        self.outcome = outcome
        self.failures = failures
        self.events = tuple(events)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw.

    Attributes:
        workers, launchers: pods by role.
        jobs: Jobs by name.
    """

    workers: Sequence[Object] = ()
    launchers: Sequence[Object] = ()
    jobs: Mapping[str, Object] = field(default_factory=dict)


class Watcher:
    """The eyes of one attempt.

    Args:
        cluster: where it runs.
        job: what runs.
        selector: label selector of its objects.
        times: waits.
        stop: whether the step was told to stop.
        since: when the attempt began.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        selector: str,
        *,
        times: Times,
        stop: Stop,
        since: datetime,
    ) -> None:
        self._cluster = cluster
        self._nodes = job.group.nodes
        self._selector = selector
        self._times = times
        self._stop = stop
        rules = job.workload.options.get("nodeHealth")
        own = [HealthRule.model_validate(rule) for rule in (rules.value if rules else None) or ()]
        self.before = self._read_nodes()
        self._watch = NodeWatch(node_rules(own), self.before, since)
        self._away_since: float | None = None
        self._looks = 0
        self._seen: dict[str, Object] = {}
        self.last = Look()

    @property
    def broken_rules(self) -> tuple[RunFailure, ...]:
        """Failures of the user's node health rules themselves."""
        return tuple(self._watch.broken_rules.values())

    def pause(self) -> None:
        """Wait until the next look is due."""
        self._stop.wait(self._times.poll)

    def look(self) -> Look:
        """Look at pods, Jobs and nodes.

        Raises:
            Ended: told to stop, a node has failed or vanished, a pod is broken or lost, or the API
                was away for too long.
        """
        if self._stop:
            text = f"the run step was told to stop ({self._stop.reason})"
            raise Ended(RunOutcome.STOPPED, RunFailure(code="INFRA_STOPPED", message=text))
        try:
            pods = self._cluster.find("Pod", self._selector)
            jobs = self._cluster.find("Job", self._selector)
            self._look_at_nodes()
        except ClusterError as error:
            self._bear(error)
            return self.last
        self._away_since = None
        self.last = Look(
            of_role(pods, "worker"), of_role(pods, "launcher"), {name_of(j): j for j in jobs}
        )
        # Workers before launchers: what a launcher says of a dead worker is the echo.
        failure = first_failure(self.last.workers) or first_failure(self.last.launchers)
        failure = failure or self._vanished(pods)
        if failure and not (failure.code == "INFRA_POD_LOST" and self._is_echo()):
            raise Ended(RunOutcome.INFRASTRUCTURE, failure)
        return self.last

    def events_about(self, name: str) -> list[Object]:
        """Return the events about an object, oldest first; none when they cannot be read."""
        try:
            found = self._cluster.find("Event", field_selector=f"involvedObject.name={name}")
        except ClusterError:
            return []
        return sorted(found, key=lambda event: str(event.get("lastTimestamp") or ""))

    def _look_at_nodes(self) -> None:
        self._looks += 1
        if len(self._nodes) > _FEW_NODES and self._looks % _NODE_ROUNDS:
            return
        nodes = self._read_nodes()
        events = self._watch.look(nodes.values(), datetime.now(UTC))
        if events:
            failures = [hardware_failure(event) for event in events]
            raise Ended(RunOutcome.HARDWARE, *failures, events=events)
        for name in self._nodes:
            if name not in nodes:
                text = f"node {name} is no longer in the cluster"
                gone = RunFailure(code="INFRA_NODE_GONE", message=text, entity=Entity(node=name))
                raise Ended(RunOutcome.INFRASTRUCTURE, gone)

    def _read_nodes(self) -> dict[str, Object]:
        if len(self._nodes) > _FEW_NODES:
            wanted = set(self._nodes)
            every = self._cluster.find_everywhere("Node")
            return {name_of(node): node for node in every if name_of(node) in wanted}
        found: dict[str, Object] = {}
        for name in self._nodes:
            try:
                found[name] = self._cluster.get("Node", name)
            except NotFoundError:
                continue
        return found

    def _vanished(self, pods: Sequence[Object]) -> RunFailure | None:
        """Return the failure of a pod that was there and is not any more."""
        for pod in pods:
            self._seen[str(pod["metadata"].get("uid") or name_of(pod))] = pod
        here = {str(pod["metadata"].get("uid") or name_of(pod)) for pod in pods}
        for key, pod in self._seen.items():
            if key not in here:
                text = f"pod {name_of(pod)} vanished"
                return RunFailure(code="INFRA_POD_LOST", message=text, entity=place_of(pod))
        return None

    def _is_echo(self) -> bool:
        """True when pods are deleted because their Job failed with one that ended badly before."""
        return not self.last.launchers and failed_before_loss(self.last.workers)

    def _bear(self, error: ClusterError) -> None:
        """Bear an API that is away for a while: what runs does not need it."""
        now = time.monotonic()
        self._away_since = self._away_since or now
        if isinstance(error, RefusedError) or now - self._away_since > self._times.outage:
            failure = RunFailure(code="INFRA_API", message=str(error))
            raise Ended(RunOutcome.INFRASTRUCTURE, failure) from error
