"""One attempt of one group, from its objects to its record; whatever happens, it cleans up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from catalog.errors import ClusterError
from catalog.quantity import format_duration
from steps.cluster.api import Cluster, ConflictError, RefusedError
from steps.cluster.cleanup import remove
from steps.cluster.names import GroupNames
from steps.cluster.outputs import Outputs, has_ended
from steps.cluster.pods import Object, listed, of_role
from steps.cluster.shapes import shape_of
from steps.cluster.stop import Stop
from steps.cluster.times import Times
from steps.cluster.trouble import (
    condition,
    creation_failure,
    ended_early,
    exit_code,
    finished,
    image_of,
    is_queued,
    is_ready,
    name_of,
    node_of,
    refusal_code,
    unready_failure,
    waiting_failure,
)
from steps.cluster.watching import Ended, Look, Watcher
from steps.documents import Entity, RunFailure, RunOutcome, RunRecord
from steps.run.job import Job, JobResult

Pod = Mapping[str, Any]

_TIMEOUT_EXIT = 124
"""Exit code of ``timeout``, in which commands may be wrapped."""
_LOG_PATIENCE = 20.0
"""Seconds for the rest of an output once its container has ended."""
_CORDON = "node.kubernetes.io/unschedulable"
_LABELS_OF_VERSIONS = {"driver": "nvidia.com/cuda.driver-version.full"}
_INFO_OF_VERSIONS = {
    "kernel": "kernelVersion",
    "containerRuntime": "containerRuntimeVersion",
    "kubelet": "kubeletVersion",
}


class Attempt:
    """One attempt.

    Args:
        cluster: where to run.
        job: what to run.
        names: names and labels of what is created.
        owner: owner reference for all of it.
        times: waits.
        stop: whether the step was told to stop.
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
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._names = names
        self._times = times
        self._stop = stop
        self._started = datetime.now(UTC)
        self._shape = shape_of(
            job.workload, job.group.nodes, names, owner, scheduling_seconds=times.scheduling
        )
        count = 1 if self._shape.launcher else len(job.group.nodes)
        self._outputs = Outputs(cluster, job, count)
        self._watcher: Watcher | None = None
        self._workers: dict[str, Pod] = {}

    def run(self) -> JobResult:
        """Run it; every way to end gives a record, and nothing is left behind."""
        try:
            end = self._run()
        finally:
            # Also when something raises that nobody expected.
            left = self._clean_up()
        files, logs = self._outputs.collect()
        failures = (*end.failures, *self._rules_that_broke(), *self._left_behind(left))
        record = RunRecord(
            category=self._job.category,
            cohort=self._job.cohort,
            group=self._job.group,
            attempt=self._job.attempt,
            started=self._started,
            ended=datetime.now(UTC),
            outcome=end.outcome,
            exit_code=end.exit_code,
            logs=files,
            events=end.events,
            failures=failures,
            placements=self._placements(),
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
                since=self._started,
            )
            self._check_nodes(watcher)
            for item in self._shape.objects:
                self._create(item)
            self._gather(watcher)
            self._start()
            self._follow(watcher)
        except Ended as end:
            return end
        except ClusterError as error:
            return Ended(
                RunOutcome.INFRASTRUCTURE, RunFailure(code="INFRA_API", message=str(error))
            )
        raise AssertionError("a run only ends by Ended")

    def _make_room(self) -> None:
        """Remove what an attempt left that was killed; its pods hold the same GPUs."""
        # An API that does not answer is no left-over.
        self._cluster.find("Pod", self._names.selector)
        left = remove(self._cluster, self._names.selector, self._times.cleanup, self._stop.wait)
        if left and not self._stop:
            text = f"an earlier attempt left: {'; '.join(left)}"
            raise Ended(RunOutcome.INFRASTRUCTURE, RunFailure(code="INFRA_CLEANUP", message=text))

    def _check_nodes(self, watcher: Watcher) -> None:
        """Say at once what the scheduler could only say at the end of the deadline."""
        for name in self._job.group.nodes:
            node, place = watcher.before.get(name), Entity(node=name)
            if node is None:
                code, text = "INFRA_NODE_GONE", f"node {name} is not in the cluster"
            elif (node.get("spec") or {}).get("unschedulable") and not self._tolerates_cordon():
                code, text = "INFRA_UNSCHEDULABLE", f"node {name} is cordoned"
            elif condition(node, "Ready").get("status") in {"False", "Unknown"}:
                said = condition(node, "Ready").get("message") or "no reason given"
                code, text = "INFRA_UNSCHEDULABLE", f"node {name} is not Ready: {said}"
            else:
                continue
            failure = RunFailure(code=code, message=f"{text}; nothing was started", entity=place)
            raise Ended(RunOutcome.INFRASTRUCTURE, failure)

    def _tolerates_cordon(self) -> bool:
        return any(
            item.get("key") in {_CORDON, None, ""}
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
            failure = RunFailure(code=refusal_code(str(error)), message=text)
            raise Ended(RunOutcome.INFRASTRUCTURE, failure) from error

    def _gather(self, watcher: Watcher) -> None:
        """Wait for the whole gang."""
        patience = _Patience(self._times.scheduling)
        nodes = self._job.group.nodes
        while True:
            seen = watcher.look()
            patience.pass_time(counts=not is_queued(seen.jobs.get(self._shape.worker_job, {})))
            ready = is_ready if self._shape.waits else _is_running
            self._workers |= {str(node_of(pod)): pod for pod in seen.workers if ready(pod)}
            if len(self._workers) == len(nodes):
                return
            self._check_start(
                watcher,
                seen.workers,
                seen.jobs.get(self._shape.worker_job),
                self._shape.worker_job,
                count=len(nodes),
                patience_over=patience.over,
            )
            if self._shape.waits:
                self._check_workers(seen)
            watcher.pause()

    def _start(self) -> None:
        """Let the gang go."""
        if self._shape.launcher:
            self._create(self._shape.launcher(self._workers))
        if self._shape.places:
            for pod, patch in self._shape.places(self._workers).items():
                self._cluster.patch("Pod", pod, patch)

    def _follow(self, watcher: Watcher) -> None:
        """Wait for the end of the tool."""
        waiting = _Patience(self._times.scheduling)
        running = _Patience(float(self._job.workload.timeout_seconds.value))
        while True:
            seen = self._look(watcher)
            main = of_role([*seen.workers, *seen.launchers], self._shape.main_role)
            self._outputs.follow(main)
            job = seen.jobs.get(self._shape.main_job)
            done = finished(job or {})
            started = done is not None or any(_is_running(pod) for pod in main)
            waiting.pass_time(counts=not started)
            running.pass_time(counts=started)
            if not started:
                self._check_start(
                    watcher,
                    main,
                    job,
                    self._shape.main_job,
                    count=1,
                    patience_over=waiting.over,
                )
            if done is not None or (main and all(has_ended(pod) for pod in main)):
                self._end(watcher, seen, exit_code(main), succeeded=done)
            if running.over:
                limit = format_duration(running.seconds)
                text = f"the run was stopped at its timeout of {limit}"
                raise Ended(RunOutcome.TIMED_OUT, RunFailure(code="JobTimedOut", message=text))
            watcher.pause()

    def _end(
        self, watcher: Watcher, seen: Look, code: int | None, *, succeeded: bool | None
    ) -> None:
        """The tool has ended: say how, after giving a later cause the time to show."""
        if code == 0:
            raise Ended(RunOutcome.COMPLETED, exit_code=0)
        if code is None:
            self._end_without_code(seen, succeeded=succeeded)
            return
        if len(self._job.group.nodes) > 1:
            end = time.monotonic() + self._times.settle
            while time.monotonic() < end:
                watcher.pause()
                try:
                    self._look(watcher)
                except Ended as cause:
                    raise Ended(
                        cause.outcome, *cause.failures, events=cause.events, exit_code=code
                    ) from cause
        if code == _TIMEOUT_EXIT:
            failure = RunFailure(code="JobTimedOut", message="the run hit its timeout")
            raise Ended(RunOutcome.TIMED_OUT, failure, exit_code=code)
        text = f"the tool ended with exit code {code}"
        failure = RunFailure(code="WorkloadFailed", message=text)
        raise Ended(RunOutcome.FAILED, failure, exit_code=code)

    def _end_without_code(self, seen: Look, *, succeeded: bool | None) -> None:
        """The Job is over and no pod tells an exit code."""
        if succeeded:
            raise Ended(RunOutcome.COMPLETED)
        job = seen.jobs.get(self._shape.main_job, {})
        reason, said = (condition(job, "Failed").get(key) for key in ("reason", "message"))
        if reason == "DeadlineExceeded":
            failure = RunFailure(code="JobTimedOut", message=str(said))
            raise Ended(RunOutcome.TIMED_OUT, failure)
        failure = RunFailure(code="INFRA_POD_LOST", message=f"Job {name_of(job)}: {reason}: {said}")
        raise Ended(RunOutcome.INFRASTRUCTURE, failure)

    def _check_start(
        self,
        watcher: Watcher,
        pods: Sequence[Pod],
        job: Pod | None,
        name: str,
        *,
        count: int,
        patience_over: bool,
    ) -> None:
        """Look for reasons why the pods of a Job do not start."""
        waiting = (waiting_failure(pod, patience_over=patience_over) for pod in pods)
        failure = next((found for found in waiting if found), None)
        if failure is None and len(pods) < count:
            events = watcher.events_about(name)
            failure = creation_failure(events, patience_over=patience_over)
        if failure is None and patience_over:
            late = next((pod for pod in pods if not is_ready(pod)), None)
            if late is not None:
                failure = unready_failure(late, watcher.events_about(name_of(late)))
            else:
                queued = "; a queue holds it back" if is_queued(job or {}) else ""
                text = f"Job {name} has {len(pods)} of {count} pods{queued}"
                failure = RunFailure(code="INFRA_WORKERS_NOT_READY", message=text)
        if failure:
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

    def _clean_up(self) -> list[str]:
        stopped = bool(self._stop)
        seen = self._watcher.last if self._watcher else Look()
        main = of_role([*seen.workers, *seen.launchers], self._shape.main_role)
        self._outputs.finish(main, 3.0 if stopped else _LOG_PATIENCE)
        patience = self._times.stopped_cleanup if stopped else self._times.cleanup
        return remove(self._cluster, self._names.selector, patience)

    def _rules_that_broke(self) -> tuple[RunFailure, ...]:
        return self._watcher.broken_rules if self._watcher else ()

    def _left_behind(self, left: list[str]) -> tuple[RunFailure, ...]:
        if not left:
            return ()
        text = f"still there after clean-up: {'; '.join(left)}"
        return (RunFailure(code="INFRA_CLEANUP", message=text),)

    def _placements(self) -> dict[str, str]:
        seen = self._watcher.last if self._watcher else Look()
        pods = {name_of(pod): pod for pod in (*self._workers.values(), *seen.workers)}
        pods |= {name_of(pod): pod for pod in seen.launchers}
        return {name: str(node_of(pod)) for name, pod in pods.items() if node_of(pod)}

    def _versions(self) -> dict[str, str]:
        seen = self._watcher.last if self._watcher else Look()
        image = image_of([*seen.launchers, *seen.workers])
        found = {"image": image or str(self._job.workload.image.value)}
        nodes = (self._watcher.before if self._watcher else {}).values()
        for name, label in _LABELS_OF_VERSIONS.items():
            found |= _joined(name, (n["metadata"].get("labels", {}).get(label) for n in nodes))
        for name, key in _INFO_OF_VERSIONS.items():
            infos = ((n.get("status") or {}).get("nodeInfo") or {} for n in nodes)
            found |= _joined(name, (info.get(key) for info in infos))
        return found


class _Patience:
    """A deadline whose clock can pause."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left = seconds
        self._then = time.monotonic()

    def pass_time(self, *, counts: bool = True) -> None:
        """Take the time since the last call off, if it counts."""
        now = time.monotonic()
        if counts:
            self._left -= now - self._then
        self._then = now

    @property
    def over(self) -> bool:
        return self._left <= 0


def _is_running(pod: Pod) -> bool:
    return has_ended(pod) or pod.get("status", {}).get("phase") in {
        "Running",
        "Succeeded",
        "Failed",
    }


def _joined(name: str, values: Iterable[Any]) -> dict[str, str]:
    """Return a version; several of it stand side by side, since that is worth knowing."""
    found = sorted({str(value) for value in values if value})
    return {name: ", ".join(found)} if found else {}
