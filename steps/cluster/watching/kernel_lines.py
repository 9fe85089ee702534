"""Kernel lines in the output of a pod while it streams: hardware errors end the run at once.

What a line means is settled where stored outputs are read (`steps.parse.kernel`); here only the
lines that fail a node count. Xids of the application and those that follow others are left to the
reading of the whole output.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from catalog.facts.reasons import Effect, Kind, reason
from steps.cluster.watching.logs import time_of
from steps.documents import Finding, NodeEvent
from steps.evaluate.reasons import effect_of
from steps.parse.api import ParseContext
from steps.parse.hosts import Hosts
from steps.parse.kernel import KernelScanner
from steps.parse.lines import clean_line
from steps.parse.prefilter import prefilter

_MOST_TIMES = 10_000
"""Kernel lines whose time is kept; after so many the time of reading must do."""


class KernelLines:
    """The kernel lines of one output.

    Args:
        pod: the pod whose output it is.
        context: the time of the run, and how its lines can name nodes: by ``node`` where they all
            come from one machine, by ``rank_nodes`` where a launcher tags them.
        since: when the run began.
        nodes: the group's nodes, the only ones that can fail here.
        pod_nodes: node by name of the run's pods, since hosts may print these.
    """

    def __init__(
        self,
        pod: str,
        context: ParseContext,
        *,
        since: datetime,
        nodes: tuple[str, ...],
        pod_nodes: Mapping[str, str],
    ) -> None:
        self._pod = pod
        self._since = since
        self._context = context
        self._nodes = nodes
        self._hosts = Hosts(ParseContext(nodes=nodes, pod_nodes=pod_nodes))
        self._scanner = KernelScanner(pod)
        self._scanner.begin(context)
        self._lock = threading.Lock()
        self._number = 0
        self._times: dict[int, datetime] = {}
        self._fed = self._read = 0
        self._found: list[NodeEvent] = []

    def take(self, raw: bytes, stamp: bytes) -> None:
        """Take a line of the output, with the kubelet's time of it."""
        self._number += 1
        # Cheaper than reading it: outputs have millions of lines, most of them NCCL's.
        if b" NCCL " in raw or not prefilter(KernelScanner).match(raw):
            return
        with self._lock:
            if len(self._times) < _MOST_TIMES:
                self._times[self._number] = time_of(stamp)
            self._fed += 1
            for line in clean_line(raw, self._number):
                self._scanner.feed(line)

    def events(self) -> list[NodeEvent]:
        """Return what fails a node of the group so far, earliest first."""
        with self._lock:
            if self._fed == self._read:
                return self._found
            self._read = self._fed
            # Asking a scanner for its findings ends it.
            scanner = copy.deepcopy(self._scanner)
        # In the order of the output, which is that of time.
        found = (self._event(each) for each in scanner.finish(self._context).findings)
        self._found = [each for each in found if each]
        return self._found

    def _event(self, found: Finding) -> NodeEvent | None:
        hard = found.effect is Effect.FAIL and reason(found.code).kind is Kind.HARDWARE
        if not hard or reason(found.code).taken_back or not found.evidence:
            return None
        places = {entity.node for entity in found.entities if entity.node}
        nodes = {place if place in self._nodes else self._hosts.node(place) for place in places}
        node = nodes.pop() if len(nodes) == 1 else None
        # Whose line it is, is not known: then it speaks against nobody.
        if node is None:
            return None
        proof = found.evidence[0]
        # The number alone does not always fail a node; the line that says Fatal does.
        fails = effect_of(found.code) is Effect.FAIL
        return NodeEvent(
            node=node,
            # The clock of the node may be behind ours.
            at=max(self._times.get(proof.line or 0, datetime.now(UTC)), self._since),
            code=found.code if fails else "HardwareFailureDetected",
            source=f"output of pod {self._pod}",
            text=proof.text.strip(),
        )
