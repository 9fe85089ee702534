"""The RunRecord: what one job did, as far as the launcher saw it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from catalog.reading.model import Model
from steps.documents.base import Document
from steps.documents.measurements import Entity
from steps.documents.plan import Group


class RunOutcome(StrEnum):
    """How the job ended, before anybody reads its output."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    STALLED = "stalled"
    INFRASTRUCTURE = "infrastructure"
    STOPPED = "stopped"
    HARDWARE = "hardware"


class LogFile(Model):
    """A raw output that belongs to the run.

    Attributes:
        name: name in the record store.
        role: ``output`` for the tool's own text, ``kernel`` for kernel lines of a node, …
        node: the node it was taken from, where it is one node's.
        bytes: size before compression.
        truncated: the launcher could not keep all of it.
    """

    name: str
    role: Literal["output", "kernel", "events", "launcher"] = "output"
    node: str | None = None
    bytes: int = 0
    truncated: bool = False


class NodeEvent(Model):
    """A health event on a node during the run.

    Attributes:
        node: node name.
        at: time of the event.
        code: reason code, for example NODE_CORDONED or XID_79.
        source: who reported it: ``node condition``, ``taint``, ``event``, ``kernel log`` …
        text: the reporter's own words.
    """

    node: str
    at: datetime
    code: str
    source: str
    text: str


class RunFailure(Model):
    """Why the run did not produce a measurement, first cause first.

    Attributes:
        code: INFRA_*, WorkloadFailed, JobTimedOut, …
        message: for people; carries the scheduler's or kubelet's own words where there are any.
        entity: the place it was seen at; a place, not a culprit.
        permanent: trying again cannot help, although failures of this code often heal.
    """

    code: str
    message: str
    entity: Entity | None = None
    permanent: bool = False


class RunRecord(Document):
    """Written by run, one per group.

    Attributes:
        category: category id.
        cohort: cohort id.
        group: the group, with its nodes.
        attempt: 1-based; only infrastructure failures are ever retried.
        started, ended: wall clock (virtual for simulated fleets).
        outcome: how it ended.
        exit_code: of the tool; None when it is not known.
        logs: raw outputs in the record store.
        events: node health events, earliest first.
        failures: infrastructure or workload failures, first cause first.
        placements: pod to node.
        versions: driver, NCCL, image digest … as far as known.
    """

    kind: Literal["RunRecord"] = "RunRecord"
    category: str
    cohort: str
    group: Group
    attempt: int = 1
    started: datetime
    ended: datetime
    outcome: RunOutcome
    exit_code: int | None = None
    logs: tuple[LogFile, ...] = ()
    events: tuple[NodeEvent, ...] = ()
    failures: tuple[RunFailure, ...] = ()
    placements: dict[str, str] = {}
    versions: dict[str, str] = {}
