"""What to create for a group, by the way its workload is started; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.entries.entry import Launcher
from catalog.workload.workload import Workload
from steps.cluster.objects import mpi, torchrun
from steps.cluster.objects.companions import companions, point_to
from steps.cluster.objects.names import GroupNames, Role
from steps.cluster.objects.pods import Object, helper_pod, job, job_labels, worker_pod

SLACK_SECONDS = 300.0
"""Jobs end by themselves so long after our own bounds: the net under a step that was killed."""

Pods = Mapping[str, Mapping[str, Any]]
"""Worker pods by node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The objects of one attempt.

    Attributes:
        objects: to be created at once, in this order.
        worker_job: name of the Job whose pods hold the GPUs.
        main_job: name of the Job whose end is the end of the run.
        main_role: role of its pods; their output is that of the tool.
        launcher: makes the Job that is created when all workers are Ready.
        places: makes the patches, by pod name, that let waiting workers go.
    """

    objects: Sequence[Object]
    worker_job: str
    main_job: str
    main_role: Role
    launcher: Callable[[Pods], Object] | None = None
    places: Callable[[Pods], Mapping[str, Object]] | None = field(default=None)

    @property
    def waits(self) -> bool:
        """True for a gang, whose start waits until every worker is Ready."""
        return self.launcher is not None or self.places is not None


def shape_of(
    workload: Workload,
    nodes: Sequence[str],
    names: GroupNames,
    owner: Mapping[str, Any] | None,
    *,
    scheduling_seconds: float,
) -> Shape:
    """Return what to create for a group.

    Args:
        workload: the resolved workload.
        nodes: the group's nodes in rank order.
        names: names and labels.
        owner: owner reference for everything.
        scheduling_seconds: how long the gang may take to become Ready.
    """
    builder = _Builder(workload, tuple(nodes), names, owner, scheduling_seconds)
    if len(nodes) > 1 and workload.launcher is Launcher.MPI:
        return builder.mpi_gang()
    if len(nodes) > 1 and workload.launcher is Launcher.TORCHRUN:
        return builder.torchrun_gang()
    return builder.alone()


@dataclass(frozen=True, slots=True)
class _Builder:
    workload: Workload
    nodes: tuple[str, ...]
    names: GroupNames
    owner: Mapping[str, Any] | None
    scheduling_seconds: float

    def alone(self) -> Shape:
        """One pod on each node, which does all by itself."""
        match self.workload.launcher:
            case Launcher.MPI:
                command = mpi.local_command(self.workload)
            case Launcher.TORCHRUN:
                command = torchrun.worker_command(self.workload, 1)
            case Launcher.PER_NODE:
                command = mpi.rank_words(self.workload)
        return self._workers(command)

    def torchrun_gang(self) -> Shape:
        """Workers that wait for their place."""
        volume, mount = torchrun.place_volume()
        command = torchrun.worker_command(self.workload, len(self.nodes))

        def places(pods: Pods) -> Mapping[str, Object]:
            master = str(pods[self.nodes[0]]["status"]["podIP"])
            return {
                str(pods[node]["metadata"]["name"]): torchrun.place(rank, master)
                for rank, node in enumerate(self.nodes)
            }

        return self._workers(command, extra_volumes=[volume], extra_mounts=[mount], places=places)

    def mpi_gang(self) -> Shape:
        """Workers with sshd, and a launcher afterwards."""
        secret = mpi.key_secret(self.names.object("keys"), self.names.labels(), self.owner)
        volume, mount = mpi.key_volume(secret["metadata"]["name"], private=False)
        return self._workers(
            mpi.worker_command(self.workload),
            extra_volumes=[volume],
            extra_mounts=[mount],
            readiness=mpi.worker_readiness(),
            first=[secret],
            launcher=self._launcher,
        )

    def _launcher(self, pods: Pods) -> Object:
        addresses = {node: str(pods[node]["status"]["podIP"]) for node in self.nodes}
        called, aliases = mpi.host_names(addresses)
        volume, mount = mpi.key_volume(self.names.object("keys"), private=True)
        labels = self.names.labels("launcher")
        template = helper_pod(
            self.workload,
            self.nodes,
            labels,
            mpi.launcher_command(self.workload, [called[node] for node in self.nodes]),
            volumes=[volume],
            mounts=[mount],
            aliases=aliases,
        )
        name = self.names.object("launcher")
        return job(name, template, labels, self.owner, deadline_seconds=self._deadline())

    def _workers(
        self,
        command: Sequence[str],
        *,
        first: Sequence[Object] = (),
        launcher: Callable[[Pods], Object] | None = None,
        places: Callable[[Pods], Mapping[str, Object]] | None = None,
        **pod: Any,
    ) -> Shape:
        labels = self.names.labels("worker")
        beside, renamed = companions(self.workload, self.names, self.owner)
        template = worker_pod(self.workload, self.nodes, labels, command, **pod)
        workers = job(
            self.names.object("worker"),
            point_to(template, renamed),
            job_labels(self.workload, labels),
            self.owner,
            deadline_seconds=self._deadline(),
            completions=len(self.nodes),
        )
        name = str(workers["metadata"]["name"])
        return Shape(
            objects=(*first, *beside, workers),
            worker_job=name,
            main_job=self.names.object("launcher") if launcher else name,
            main_role="launcher" if launcher else "worker",
            launcher=launcher,
            places=places,
        )

    def _deadline(self) -> float:
        timeout = float(self.workload.timeout_seconds.value)
        return 2 * self.scheduling_seconds + timeout + SLACK_SECONDS
