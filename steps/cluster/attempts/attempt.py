"""One attempt of one group, from its objects to its record; whatever happens, it cleans up."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NoReturn

from catalog.entries.entry import find_entry
from catalog.errors import ClusterError
from catalog.reading.quantity import format_duration
from steps.cluster.api.client import Cluster, ConflictError, NotFoundError, RefusedError
from steps.cluster.attempts.clean import Left, failures_of, remove
from steps.cluster.objects.facts import placements, versions
from steps.cluster.objects.names import GroupNames
from steps.cluster.objects.pods import Object, listed, of_role, value_of
from steps.cluster.objects.reading import condition, finished, is_ready, name_of, node_of
from steps.cluster.objects.shapes import shape_of
from steps.cluster.watching.life import SignsOfLife
from steps.cluster.watching.outputs import Outputs, has_ended
from steps.cluster.watching.patience import Deadline, Patience
from steps.cluster.watching.starting import check_nodes, check_start
from steps.cluster.watching.stop import Stop
from steps.cluster.watching.telling import Telling, gathering
from steps.cluster.watching.times import Times
from steps.cluster.watching.trouble import (
    DEFAULT_SCHEDULER,
    ended_early,
    exit_code,
    is_confused,
    is_queued,
    refusal_code,
)
from steps.cluster.watching.watcher import Ended, Look, Watcher, api_failure
from steps.documents import NodeEvent, RunFailure, RunOutcome
from steps.jobs.failures import timeout_failure
from steps.jobs.job import Job, JobResult
from steps.nodes.labels import CORDON_TAINT
from steps.parse.secrets import redact

Pod = Mapping[str, Any]

_TIMEOUT_EXIT = 124
"""Exit code of ``timeout``, in which commands may be wrapped."""
_LOG_PATIENCE = 20.0
"""Seconds for the rest of an output once its container has ended."""
_LAST_TRY = 5.0
"""Seconds for what clean-up left, once the nodes were waited for."""
_LONGEST_DOUBT = 60.0
"""Seconds more to see whether what is wrong with a node lasts."""
_LONGEST_QUEUE = 7 * 86400.0
"""Seconds in a queue where no deadline bounds them."""


class Attempt:
    """One attempt.

    Args:
        cluster: where to run.
        job: what to run.
        names: names and labels of what is created.
        owner: owner reference for all of it.
        times: waits.
        stop: whether the step was told to stop.
        deadline: of the certification.
        tell: tells people how far it has come.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        *,
        names: GroupNames,
        owner: Mapping[str, Any] | None,
        times: Times,
        stop: Stop,
        deadline: Deadline,
        tell: Telling,
    ) -> None:
        self._tell = tell
        self._cluster = cluster
        self._job = job
        self._names = names
        self._times = times
        self._stop = stop
        self._deadline = deadline
        self._tool = find_entry(job.category).tool
        self._started = datetime.now(UTC)
        self._shape = shape_of(
            job.workload, job.group.nodes, names, owner, scheduling_seconds=self._longest_wait()
        )
        count = 1 if self._shape.launcher else len(job.group.nodes)
        self._outputs = Outputs(cluster, job, count, self._started)
        self._watcher: Watcher | None = None
        self._workers: dict[str, Pod] = {}

    def _longest_wait(self) -> float:
        """Return the seconds until all pods run, by the clock of Jobs, which never pauses.

        Only suspended Jobs stand still; those of a scheduler with queues of its own do not.
        """
        if value_of(self._job.workload.pod, "schedulerName") in {None, "", DEFAULT_SCHEDULER}:
            return self._times.scheduling
        return self._times.scheduling + min(max(self._deadline.left, 0.0), _LONGEST_QUEUE)

    def run(self) -> JobResult:
        """Run it; every way to end gives a record, and nothing is left behind."""
        signs = SignsOfLife(self._cluster, self._job.group.nodes)
        try:
            end = self._run()
        finally:
            # Also when something raises that nobody expected.
            signs.begin()
            left = self._clean_up()
        end = self._outlived(end, signs)
        if left and not self._stop:
            # A kubelet that was away for a moment, or an API, has answered since.
            left = remove(self._cluster, self._names.selector, _LAST_TRY)
        files, logs = self._outputs.collect()
        failures = (*end.failures, *self._rules_that_broke(), *failures_of(left))
        # Messages carry the words of tools, agents and webhooks.
        told = (item.model_copy(update={"message": redact(item.message)}) for item in failures)
        record = self._job.record(
            end.outcome,
            started=self._started,
            ended=datetime.now(UTC),
            exit_code=end.exit_code,
            logs=files,
            events=self._events(end),
            failures=tuple(told),
            placements=placements(self._pods()),
            versions=self._versions(),
        )
        return JobResult(record, logs)

    def _run(self) -> Ended:
        """Return how the run ended; errors of the API become infrastructure failures."""
        try:
            self._make_room()
            watcher = self._watcher = Watcher(
                self._cluster,
                self._job,
                self._names.selector,
                times=self._times,
                stop=self._stop,
                deadline=self._deadline,
                since=self._started,
                hear=self._outputs.hardware_events,
            )
            nodes, tolerant = self._job.group.nodes, self._tolerates_cordon()
            check_nodes(nodes, watcher.before, tolerates_cordon=tolerant)
            watcher.check_time()
            for item in self._shape.objects:
                self._create(item)
            self._gather(watcher)
            self._start()
            self._follow(watcher)
        except Ended as end:
            return end
        except ClusterError as error:
            return Ended(RunOutcome.INFRASTRUCTURE, api_failure(error))
        except Exception as error:  # noqa: BLE001  (a bug of ours must not cost record and output)
            traceback.print_exc()
            text = f"the run step broke: {type(error).__name__}: {error}"
            failure = RunFailure(code="INFRA_STEP_DIED", message=text)
            return Ended(RunOutcome.INFRASTRUCTURE, failure)
        raise AssertionError("a run only ends by Ended")

    def _outlived(self, end: Ended, signs: SignsOfLife) -> Ended:
        """Return how the run ended now that its nodes are known to be alive, or not.

        A node that died leads; what else went wrong afterwards stands behind what was measured.
        """
        ran = self._watcher is not None and len(self._workers) == len(self._job.group.nodes)
        completed = end.outcome is RunOutcome.COMPLETED
        over = not completed and (bool(self._stop) or self._deadline.over)
        if self._watcher is None or not ran or over or end.outcome is RunOutcome.HARDWARE:
            return end
        outcome: RunOutcome = end.outcome
        events = end.events
        failures: tuple[RunFailure, ...]
        try:
            failures = (*end.failures, *self._watcher.wait_for_life(signs))
        except Ended as cause:
            known = {(item.code, item.entity) for item in end.failures}
            news = [item for item in cause.failures if (item.code, item.entity) not in known]
            gone = not completed and cause.failures[0].code == "INFRA_NODE_GONE"
            if gone or cause.outcome is RunOutcome.HARDWARE:
                outcome, events = cause.outcome, cause.events
                failures = (*news, *end.failures)
            else:
                outcome = RunOutcome.STOPPED if self._stop else outcome
                failures = (*end.failures, *news)
        return Ended(outcome, *failures, events=events, exit_code=end.exit_code)

    def _make_room(self) -> None:
        """Remove what an attempt left that was killed; its pods hold the same GPUs."""
        # An API that does not answer is no left-over.
        self._cluster.find("Pod", self._names.selector)
        left = remove(self._cluster, self._names.selector, self._times.cleanup, self._stop.wait)
        if left and not self._stop:
            text = f"an earlier attempt left: {'; '.join(map(str, left))}"
            raise Ended(RunOutcome.INFRASTRUCTURE, RunFailure(code="INFRA_CLEANUP", message=text))

    def _tolerates_cordon(self) -> bool:
        return any(
            item.get("key") in {CORDON_TAINT, None, ""}
            for item in listed(self._job.workload.pod, "tolerations")
        )

    def _create(self, item: Object) -> None:
        try:
            self._cluster.create(item)
        except ConflictError:
            # Names belong to this attempt alone: an answer was lost and the request repeated.
            return
        except RefusedError as error:
            text = f"{item['kind']} {name_of(item)}: {error}"
            # A server that was just restarted refuses everything until it has read its rules.
            permanent = not is_confused(str(error))
            failure = RunFailure(code=refusal_code(str(error)), message=text, permanent=permanent)
            raise Ended(RunOutcome.INFRASTRUCTURE, failure) from error

    def _gather(self, watcher: Watcher) -> None:
        """Wait for the whole gang."""
        patience = Patience(self._times.scheduling)
        nodes, name = self._job.group.nodes, self._shape.worker_job
        while True:
            seen = watcher.look()
            patience.pass_time(counts=not is_queued(seen.jobs.get(name, {}), seen.workers))
            ready = is_ready if self._shape.waits else _is_running
            self._workers |= {str(node_of(pod)): pod for pod in seen.workers if ready(pod)}
            self._tell.say(gathering(seen.workers, len(self._workers), len(nodes)))
            if len(self._workers) == len(nodes):
                return
            check_start(watcher, seen.workers, seen.jobs, name, count=len(nodes), patience=patience)
            if self._shape.waits:
                self._check_workers(seen)
            watcher.pause()

    def _start(self) -> None:
        """Let the gang go."""
        if self._shape.launcher:
            self._create(self._shape.launcher(self._workers))
        if self._shape.places:
            for pod, patch in self._shape.places(self._workers).items():
                # One that is gone already is found by the next look, with the reason.
                with suppress(NotFoundError):
                    self._cluster.patch("Pod", pod, patch)

    def _follow(self, watcher: Watcher) -> None:
        """Wait for the end of the tool."""
        waiting = Patience(self._times.scheduling)
        running = Patience(float(self._job.workload.timeout_seconds.value))
        name = self._shape.main_job
        while True:
            seen = self._look(watcher)
            main = of_role([*seen.workers, *seen.launchers], self._shape.main_role)
            self._outputs.follow(main, placements(self._pods()))
            done = finished(seen.jobs.get(name, {}))
            started = done is not None or any(_is_running(pod) for pod in main)
            waiting.pass_time(counts=not started and not is_queued(seen.jobs.get(name, {}), main))
            running.pass_time(counts=started)
            if not started:
                check_start(watcher, main, seen.jobs, name, count=1, patience=waiting)
            if done is not None or (main and all(has_ended(pod) for pod in main)):
                self._end(watcher, seen, exit_code(main), succeeded=done)
            self._tell.say(self._outputs.told())
            stall = self._outputs.stall()
            if stall:
                raise Ended(RunOutcome.STALLED, stall)
            if running.over:
                limit = format_duration(running.seconds)
                raise self._timed_out(f"the run was stopped at its timeout of {limit}")
            watcher.pause()

    def _timed_out(self, message: str, code: int | None = None) -> Ended:
        failure = timeout_failure(self._tool, self._job.group, message)
        return Ended(RunOutcome.TIMED_OUT, failure, exit_code=code)

    def _end(
        self, watcher: Watcher, seen: Look, code: int | None, *, succeeded: bool | None
    ) -> None:
        """The tool has ended: say how, after giving a later cause the time to show."""
        if code is None:
            self._end_without_code(seen, succeeded=succeeded)
        try:
            if code:
                self._wait_for_cause(watcher)
            watcher.look(last=True)
        except Ended as cause:
            # What becomes of pods when all is done does not matter any more.
            if code or cause.outcome is RunOutcome.HARDWARE:
                raise Ended(
                    cause.outcome, *cause.failures, events=cause.events, exit_code=code
                ) from cause
        if code == 0:
            raise Ended(RunOutcome.COMPLETED, exit_code=0)
        if code == _TIMEOUT_EXIT:
            raise self._timed_out("the run hit its timeout", code)
        text = f"the tool ended with exit code {code}"
        failure = RunFailure(code="WorkloadFailed", message=text)
        # What the cluster said before is the cause, and the tool's end its echo.
        outcome = RunOutcome.INFRASTRUCTURE if watcher.omens else RunOutcome.FAILED
        raise Ended(outcome, *watcher.omens, failure, exit_code=code)

    def _wait_for_cause(self, watcher: Watcher) -> None:
        """Give a cause time that shows after its echo; a single node has no echoes."""
        now = time.monotonic()
        end, last = now + self._times.settle, now + self._times.settle + _LONGEST_DOUBT
        while len(self._job.group.nodes) > 1 and (
            time.monotonic() < end or (watcher.in_doubt and time.monotonic() < last)
        ):
            watcher.pause()
            self._look(watcher)
        self._outputs.catch_up()

    def _end_without_code(self, seen: Look, *, succeeded: bool | None) -> NoReturn:
        """The Job is over and no pod tells an exit code."""
        if succeeded:
            raise Ended(RunOutcome.COMPLETED)
        job = seen.jobs.get(self._shape.main_job, {})
        reason, said = (condition(job, "Failed").get(key) for key in ("reason", "message"))
        if reason == "DeadlineExceeded":
            raise self._timed_out(str(said))
        failure = RunFailure(code="INFRA_POD_LOST", message=f"Job {name_of(job)}: {reason}: {said}")
        raise Ended(RunOutcome.INFRASTRUCTURE, failure)

    def _look(self, watcher: Watcher) -> Look:
        """Look; workers that serve a launcher must not end before it."""
        seen = watcher.look()
        if self._shape.launcher:
            self._check_workers(seen)
        return seen

    def _check_workers(self, seen: Look) -> None:
        for pod in seen.workers:
            failure = ended_early(pod)
            if failure:
                raise Ended(RunOutcome.INFRASTRUCTURE, failure)

    def _clean_up(self) -> list[Left]:
        stopped = bool(self._stop)
        if self._watcher and (stopped or self._deadline.over):
            # The tool may have begun to speak since the last look, which need not be recent.
            self._watcher.glance()
        seen = self._watcher.last if self._watcher else Look()
        main = of_role([*seen.workers, *seen.launchers], self._shape.main_role)
        self._outputs.finish(main, 3.0 if stopped else _LOG_PATIENCE)
        patience = self._times.stopped_cleanup if stopped else self._times.cleanup
        return remove(self._cluster, self._names.selector, patience)

    def _events(self, end: Ended) -> tuple[NodeEvent, ...]:
        notes = self._watcher.notes if self._watcher else ()
        told = (
            event.model_copy(update={"text": redact(event.text)}) for event in (*end.events, *notes)
        )
        return tuple(sorted(told, key=lambda event: event.at))

    def _rules_that_broke(self) -> tuple[RunFailure, ...]:
        return self._watcher.broken_rules if self._watcher else ()

    def _pods(self) -> list[Pod]:
        seen = self._watcher.last if self._watcher else Look()
        pods = {name_of(pod): pod for pod in (*self._workers.values(), *seen.workers)}
        return [*seen.launchers, *pods.values()]

    def _versions(self) -> dict[str, str]:
        nodes = (self._watcher.before if self._watcher else {}).values()
        return versions(self._pods(), nodes, str(self._job.workload.image.value))


def _is_running(pod: Pod) -> bool:
    return has_ended(pod) or pod.get("status", {}).get("phase") in {
        "Running",
        "Succeeded",
        "Failed",
    }
