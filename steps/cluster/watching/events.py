"""Watching Kubernetes events about the nodes and pods of a group for what speaks against a node.

Events show what comes and goes between two looks at a Node object. What was told before the run
began is no event of the run; an event that is told once more is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from catalog.errors import ClusterError
from catalog.facts.reasons import Effect
from catalog.hardware.health import CompiledRule, event_view
from steps.cluster.api.client import Cluster, RefusedError
from steps.cluster.watching.rules import Rules
from steps.documents import Entity, NodeEvent, RunFailure
from steps.evaluate.reasons import effect_of
from steps.parse.kernel.window import MARGIN
from steps.parse.secrets import redact

Object = Mapping[str, Any]

_FEW = 8
"""Events about up to so many nodes or pods are asked for by name; of more, all are read."""
# "NvidiaXID79Error"; the driver's "Xid (PCI:0000:b3:00): 79, …"; "Xid 79", "XID error: 79".
_XID_IN_REASON = re.compile(r"(?<!S)XID_?(\d{1,3})(?!\d)", re.IGNORECASE)
_XID_IN_MESSAGE = re.compile(
    r"\bXid (?:\([^)]*\): |(?:error|code)?s?[ :=#]*)(\d{1,4})\b(?!:)", re.IGNORECASE
)
_LONGEST_TEXT = 500


class EventWatch:
    """The events about a group since the run began.

    Args:
        cluster: where.
        rules: what speaks against a node; those over events are asked.
        nodes: names of the group's nodes.
        since: when the run began; clocks of reporters may be behind.
    """

    def __init__(
        self,
        cluster: Cluster,
        rules: Sequence[CompiledRule],
        nodes: Sequence[str],
        since: datetime,
    ) -> None:
        self._cluster = cluster
        self._nodes = tuple(nodes)
        self._since = since
        self._rules = Rules(rules, "event")
        self._refused = False
        self._known: dict[str, Any] = {}
        self._told: set[tuple[str, str]] = set()
        self.notes: list[NodeEvent] = []
        self.omens: list[RunFailure] = []
        self._began = False
        self._new_about_nodes()

    @property
    def broken_rules(self) -> Mapping[str, RunFailure]:
        """Failures of rules that could not be asked, by the rule's name."""
        return self._rules.broken

    def look(self, pods: Mapping[str, str]) -> list[NodeEvent]:
        """Return what has newly happened and fails a node, earliest first.

        What ends no run is kept apart: ``notes`` (Xids of the application and the like) and
        ``omens``, infrastructure failures that explain a run which fails later.

        Args:
            pods: node by name of the run's pods.
        """
        found = []
        for event in (*self._new_about_nodes(), *self._new_about_pods(pods)):
            about = event.get("involvedObject") or {}
            name = str(about.get("name"))
            node = name if about.get("kind") == "Node" else pods.get(name)
            # An event about a pod that has no node yet says nothing about any.
            if node not in self._nodes:
                continue
            for rule in self._rules.that_hold(event):
                found += self._told_by(rule, event, str(node))
        return sorted(found, key=lambda item: item.at)

    def _told_by(self, rule: CompiledRule, event: Object, node: str) -> list[NodeEvent]:
        codes = _xids_of(event) if rule.code == "XID" else [rule.code]
        fatal = []
        for code in codes:
            if (node, code) in self._told:
                continue
            self._told.add((node, code))
            if code.startswith("INFRA_"):
                text = f"node {node}: {_words(event)}"
                self.omens.append(RunFailure(code=code, message=text, entity=Entity(node=node)))
                continue
            found = NodeEvent(
                node=node,
                at=max(told_at(event) or self._since, self._since),
                code=code,
                source="event",
                text=_words(event),
            )
            if effect_of(code) is Effect.FAIL:
                fatal.append(found)
            else:
                self.notes.append(found)
        return fatal

    def _is_new(self, event: Object) -> bool:
        """True for an event of the run that was not there before, or that is told once more."""
        at = told_at(event)
        if at is not None and at < self._since - MARGIN:
            return False
        metadata = event.get("metadata") or {}
        key = str(metadata.get("uid") or metadata.get("name"))
        series = event.get("series") or {}
        told = (event.get("count"), series.get("count"), str(at))
        known = self._known.get(key)
        self._known[key] = told
        return known != told

    def _new_about_nodes(self) -> list[Object]:
        if self._refused:
            return []
        try:
            found = _about(
                "Node", self._nodes, lambda where: self._cluster.find_everywhere("Event", where)
            )
        except RefusedError:
            # Events are further evidence; the Node objects are read all the same.
            self._refused = True
            return []
        except ClusterError:
            return []
        new = [event for event in found if self._is_new(event)]
        # The first that can be read tell what was there before.
        began, self._began = self._began, True
        return new if began else []

    def _new_about_pods(self, pods: Mapping[str, str]) -> list[Object]:
        try:
            found = _about(
                "Pod", tuple(pods), lambda where: self._cluster.find("Event", field_selector=where)
            )
        except ClusterError:
            return []
        return [event for event in found if self._is_new(event)]


def _about(
    kind: str, names: Sequence[str], read: Callable[[str], Sequence[Object]]
) -> list[Object]:
    """Return the events about some things, by as little reading as can be.

    Of pods only the warnings are read: every pod that starts tells half a dozen of good news.
    """
    of_kind = f"involvedObject.kind={kind}" + (",type=Warning" if kind == "Pod" else "")
    if len(names) <= _FEW:
        selectors = [f"{of_kind},involvedObject.name={name}" for name in names]
        return [event for selector in selectors for event in read(selector)]
    wanted = set(names)
    return [event for event in read(of_kind) if event["involvedObject"].get("name") in wanted]


def _xids_of(event: Object) -> list[str]:
    numbers = [*map(int, _XID_IN_REASON.findall(str(event.get("reason"))))]
    numbers += map(int, _XID_IN_MESSAGE.findall(str(event.get("message") or "")))
    return [f"XID_{number}" for number in dict.fromkeys(numbers)]


def _words(event: Object) -> str:
    view = event_view(event)
    reporter = f" ({view['reportingComponent']})" if view["reportingComponent"] else ""
    text = f"{view['reason']}: {view['message']}" if view["message"] else view["reason"]
    return redact(" ".join(text.split()))[:_LONGEST_TEXT] + reporter


def told_at(event: Object) -> datetime | None:
    """Return when an event was last seen, in whichever field its reporter writes that."""
    series = event.get("series") or {}
    texts = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    for text in texts:
        try:
            time = datetime.fromisoformat(str(text))
        except ValueError:
            continue
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return None
