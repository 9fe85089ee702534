"""Looking at a running group again and again, and telling the first cause why it cannot go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from catalog.errors import ClusterError
from catalog.hardware.health import health_rules
from catalog.hardware.health_rule import HealthRule
from catalog.reading.quantity import format_duration
from steps.cluster.api.client import Cluster, NotFoundError, RefusedError
from steps.cluster.objects.pods import of_role
from steps.cluster.objects.reading import is_deleted, name_of, node_of, place_of
from steps.cluster.watching.events import EventWatch, told_at
from steps.cluster.watching.health import NodeWatch
from steps.cluster.watching.life import SignsOfLife
from steps.cluster.watching.losses import cause_of_loss, failed_first
from steps.cluster.watching.patience import Deadline, Patience
from steps.cluster.watching.stop import Stop
from steps.cluster.watching.times import Times
from steps.cluster.watching.trouble import failed_before_loss, first_failure
from steps.documents import Entity, NodeEvent, RunFailure, RunOutcome
from steps.jobs.failures import hardware_failure
from steps.jobs.job import Job

Object = Mapping[str, Any]

_FEW_NODES = 8
"""Up to so many nodes are read one by one; of more, the whole list."""
_NODE_ROUNDS = 4
"""A whole list of nodes is read on every so-manieth look only."""
_EVENT_ROUNDS = 10
"""Events are read on every so-manieth look only: API servers search all of the cluster for them,
for each of hundreds of groups, and what matters most stands on the nodes too."""

_LONGEST_SILENCE = 5.0
"""Seconds within which whoever took a pod away has told so."""

_FLAPPED = "NODE_FLAPPED"


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
    """The eyes and ears of one attempt.

    Args:
        cluster: where it runs.
        job: what runs.
        selector: label selector of its objects.
        times: waits.
        stop: whether the step was told to stop.
        deadline: of the certification.
        since: when the attempt began.
        hear: returns what the outputs say against nodes so far.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        selector: str,
        *,
        times: Times,
        stop: Stop,
        deadline: Deadline,
        since: datetime,
        hear: Callable[[], Sequence[NodeEvent]],
    ) -> None:
        self._cluster = cluster
        self._nodes = job.group.nodes
        self._selector = selector
        self._times = times
        self._stop = stop
        self._deadline = deadline
        self._hear = hear
        self._since = since
        given = job.workload.options.get("nodeHealth")
        own = [HealthRule.model_validate(rule) for rule in (given.value if given else None) or ()]
        rules = health_rules(own)
        self.before = self._read_nodes()
        self._watch = NodeWatch(rules, self.before, since)
        self._events = EventWatch(cluster, rules, self._nodes, since)
        self._found: list[NodeEvent] = []
        self._away_since: float | None = None
        self._looks = 0
        self._seen: dict[str, Object] = {}
        self._lost: set[str] = set()
        self._version = ""
        self._failed_first: bool | None = None
        self.last = Look()

    @property
    def broken_rules(self) -> tuple[RunFailure, ...]:
        """Failures of the user's health rules themselves."""
        return (*self._watch.broken_rules.values(), *self._events.broken_rules.values())

    @property
    def notes(self) -> tuple[NodeEvent, ...]:
        """What was told of nodes and ends no run, such as Xids of the application."""
        failed = {event.node for event in self._found}
        notes = (*self._events.notes, *self._watch.notes)
        return tuple(
            note for note in _first_each(notes) if note.code != _FLAPPED or note.node not in failed
        )

    @property
    def in_doubt(self) -> bool:
        """True while something is wrong with a node that counts only if it lasts."""
        return bool(self._watch.doubts)

    @property
    def omens(self) -> tuple[RunFailure, ...]:
        """What explains the failure of a run that fails later."""
        return tuple(self._events.omens)

    def pause(self) -> None:
        """Wait until the next look is due."""
        self._stop.wait(min(self._times.poll, max(self._deadline.left, 0.0)))

    def look(self, *, last: bool = False) -> Look:
        """Look at pods, Jobs and nodes, and listen to the outputs.

        Args:
            last: nothing will be looked at after this, so everything is.

        Raises:
            Ended: told to stop, the deadline has passed, a node has failed or vanished, a pod is
                broken or lost, or the API was away for too long.
        """
        self.check_time()
        try:
            # Jobs first: the pods of one that has ended have then ended too, with their exit codes.
            jobs = self._cluster.find("Job", self._selector)
            pods, version = self._cluster.find_at("Pod", self._selector)
            self._look_at_nodes(pods, last=last)
        except ClusterError as error:
            self._bear(error)
            return self.last
        self._away_since = None
        self._find_out_about_losses(pods)
        self._see(pods, jobs)
        self._version = version
        gone = self._gone(pods)
        # Workers before launchers: what a launcher says of a dead worker is the echo.
        failure = first_failure([*self.last.workers, *of_role(gone, "worker")]) or first_failure(
            [*self.last.launchers, *of_role(gone, "launcher")]
        )
        if failure is None and gone:
            text = f"pod {name_of(gone[0])} vanished"
            failure = RunFailure(code="INFRA_POD_LOST", message=text, entity=place_of(gone[0]))
        if failure and failure.code == "INFRA_POD_LOST":
            failure = self._explained(failure)
        if failure:
            raise Ended(RunOutcome.INFRASTRUCTURE, failure)
        return self.last

    def glance(self) -> None:
        """Look at the pods alone, where they can be read, because the time is up."""
        with suppress(ClusterError):
            self._see(self._cluster.find("Pod", self._selector), self.last.jobs.values())

    def wait_for_life(self, signs: SignsOfLife) -> list[RunFailure]:
        """Wait until every node is known to have outlived the run, well.

        The deadline does not end it: it is short, and all that was measured depends on it.

        Returns:
            What is still not known after the time for it, node by node.

        Raises:
            Ended: a node has failed or vanished, the step was told to stop, or the API was away for
                too long.
        """
        patience = Patience(self._times.life)
        pods = list(self._seen.values())
        doubtful = set(self._nodes)
        while True:
            try:
                signs.listen()
                doubtful = {*signs.silent, *self._watch.doubts}
                self._look_at_nodes(pods, last=not doubtful)
            except ClusterError as error:
                self._bear(error)
            else:
                self._away_since = None
                if not doubtful and not self._watch.doubts:
                    return []
            patience.pass_time(counts=self._away_since is None)
            if patience.over:
                return [self._unknown(node, patience.seconds) for node in sorted(doubtful)]
            if self._stop.wait(self._times.poll):
                text = "the run step was told to stop before its nodes were known to be well"
                raise Ended(RunOutcome.STOPPED, RunFailure(code="INFRA_STOPPED", message=text))

    def _unknown(self, node: str, seconds: float) -> RunFailure:
        waited = format_duration(seconds)
        text = f"node {node} gave no sign of life within {waited} of the end of the run"
        if node in self._watch.doubts:
            text = f"node {node}: {self._watch.doubts[node]}; not known after {waited} if it lasts"
        return RunFailure(code="NODE_STATE_UNKNOWN", message=text, entity=Entity(node=node))

    def check_time(self) -> None:
        """Check that the run may go on.

        Raises:
            Ended: told to stop, or the deadline has passed.
        """
        if self._stop:
            text = f"the run step was told to stop ({self._stop.reason})"
            raise Ended(RunOutcome.STOPPED, RunFailure(code="INFRA_STOPPED", message=text))
        if self._deadline.over:
            raise Ended(RunOutcome.TIMED_OUT, self._deadline.failure("before the run had ended"))

    def events_about(self, name: str) -> list[Object]:
        """Return the events about an object, oldest first; none when they cannot be read."""
        try:
            found = self._cluster.find("Event", field_selector=f"involvedObject.name={name}")
        except ClusterError:
            return []
        return sorted(found, key=lambda event: told_at(event) or self._since)

    def nodes(self) -> list[Object]:
        """Return the nodes of the group as they are now; none when they cannot be read."""
        try:
            return list(self._read_nodes().values())
        except ClusterError:
            return []

    def _look_at_nodes(self, pods: Sequence[Object], *, last: bool) -> None:
        self._looks += 1
        nodes = None
        if last or len(self._nodes) <= _FEW_NODES or not self._looks % _NODE_ROUNDS:
            nodes = self._read_nodes()
        heard, now = list(self._hear()), datetime.now(UTC)
        news = self._watch.look(nodes.values(), now) if nodes is not None else []
        if last or heard or not self._looks % _EVENT_ROUNDS:
            placed = {name_of(pod): str(node_of(pod)) for pod in pods if node_of(pod)}
            news += self._events.look(placed)
        # Outputs arrive one by one: what one says can be the echo of another's next line.
        sure = last or bool(news) or bool(self._found)
        self._found = _first_each([*self._found, *(_by(now, event) for event in (*news, *heard))])
        if self._found and sure:
            failures = [hardware_failure(event) for event in self._found]
            raise Ended(RunOutcome.HARDWARE, *failures, events=self._found)
        gone = next((name for name in self._nodes if nodes is not None and name not in nodes), None)
        if gone is not None:
            text = f"node {gone} is no longer in the cluster"
            failure = RunFailure(code="INFRA_NODE_GONE", message=text, entity=Entity(node=gone))
            raise Ended(RunOutcome.INFRASTRUCTURE, failure)

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

    def _see(self, pods: Sequence[Object], jobs: Iterable[Object]) -> None:
        self._seen |= {_key(pod): pod for pod in pods}
        self.last = Look(
            of_role(pods, "worker"), of_role(pods, "launcher"), {name_of(j): j for j in jobs}
        )

    def _gone(self, pods: Sequence[Object]) -> list[Object]:
        """Return the pods that were there and are not any more, as they were last."""
        here = {_key(pod) for pod in pods}
        return [pod for key, pod in self._seen.items() if key not in here]

    def _find_out_about_losses(self, pods: Sequence[Object]) -> None:
        """Ask what happened since the look before, when a pod is gone or asked to go.

        Between two looks a pod can be evicted, end and be removed, and others fail because of it.
        """
        lost = {_key(pod) for pod in (*self._gone(pods), *filter(is_deleted, pods))}
        news = lost - self._lost
        self._lost |= lost
        if not news or not self._version:
            return
        try:
            changes = self._cluster.changes("Pod", self._selector, self._version)
        except ClusterError:
            return
        if self._failed_first is None:
            before = (*self.last.workers, *self.last.launchers)
            self._failed_first = failed_first(before, changes)
        self._seen |= {_key(change.item): change.item for change in changes}

    def _explained(self, loss: RunFailure) -> RunFailure | None:
        """Return why pods are lost; None when they only are because the tool failed."""
        pods = {name_of(pod): pod for pod in self._seen.values()}
        echo = self._is_echo()
        # The scheduler tells of a pod only after it has deleted it.
        end = time.monotonic() + min(self._times.settle, _LONGEST_SILENCE)
        while True:
            cause = cause_of_loss(self._cluster, self._selector, pods)
            if cause or echo:
                return cause
            if time.monotonic() >= end:
                return loss
            self._stop.wait(min(self._times.poll, 1.0))
            self.check_time()

    def _is_echo(self) -> bool:
        """True when pods are deleted because their Job failed with one that ended badly before."""
        if self.last.launchers:
            return False
        known = self._failed_first
        return failed_before_loss(self.last.workers) if known is None else known

    def _bear(self, error: ClusterError) -> None:
        """Bear an API that is away for a while: what runs does not need it.

        Also one that refuses what it allowed before, as servers do that have just been restarted.
        """
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since > self._times.outage:
            raise Ended(RunOutcome.INFRASTRUCTURE, api_failure(error)) from error


def api_failure(error: ClusterError) -> RunFailure:
    """Return the failure of a run that the API ended; a plain no stays a no."""
    return RunFailure(
        code="INFRA_API", message=str(error), permanent=isinstance(error, RefusedError)
    )


def _key(pod: Object) -> str:
    return str(pod["metadata"].get("uid") or name_of(pod))


def _by(now: datetime, event: NodeEvent) -> NodeEvent:
    """Return an event that has happened by now, also where its clock runs ahead of ours."""
    return event.model_copy(update={"at": min(event.at, now)})


def _first_each(events: Sequence[NodeEvent]) -> list[NodeEvent]:
    """Return events in order of time, each code of a node once."""
    found: dict[tuple[str, str], NodeEvent] = {}
    for event in sorted(events, key=lambda event: event.at):
        found.setdefault((event.node, event.code), event)
    return list(found.values())
