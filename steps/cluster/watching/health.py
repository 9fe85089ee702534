"""Watching the nodes of a group: what changes for the worse while the run lasts.

What was so before the run is no event of the run: detection has let it pass on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from catalog.hardware.health import CompiledRule
from steps.cluster.objects.reading import name_of
from steps.cluster.watching.rules import Rules
from steps.documents import NodeEvent, RunFailure
from steps.nodes.labels import CORDON_TAINT

Object = Mapping[str, Any]

_BOOT = "boot id"
"""Stands for a rule where it is noted what was told of a node."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is different on a node.

    Attributes:
        source: ``node condition``, ``taint`` or ``node spec``.
        text: the reporter's own words.
        at: when, as far as the object says so.
        node: the node as it was before, with this difference alone.
    """

    source: str
    text: str
    at: datetime | None
    node: Object


class NodeWatch:
    """The nodes of a group since the run began.

    Args:
        rules: what makes a node unhealthy; those over nodes are asked.
        before: the nodes as they were, by name.
        since: when the run began; clocks of reporters may be behind.
    """

    def __init__(
        self, rules: Sequence[CompiledRule], before: Mapping[str, Object], since: datetime
    ) -> None:
        self._rules = Rules(rules, "node")
        self._since = since
        self._before = dict(before)
        self._last: dict[str, str] = {}
        self._told: set[tuple[str, str]] = set()
        # By node and rule: what speaks against a node if it lasts, and what did not last.
        self._begun: dict[tuple[str, str], tuple[datetime, NodeEvent]] = {}
        self._passed: list[NodeEvent] = []

    @property
    def broken_rules(self) -> Mapping[str, RunFailure]:
        """Failures of rules that could not be asked, by the rule's name."""
        return self._rules.broken

    @property
    def doubts(self) -> dict[str, str]:
        """Return what is wrong now and counts only if it lasts, by node."""
        return {node: event.text for (node, _), (_, event) in self._begun.items()}

    @property
    def notes(self) -> list[NodeEvent]:
        """Return what was wrong for a moment, or since a moment."""
        found = [*self._passed, *(event for _, event in self._begun.values())]
        return [event.model_copy(update={"code": "NODE_FLAPPED"}) for event in found]

    def look(self, nodes: Iterable[Object], now: datetime) -> list[NodeEvent]:
        """Return what has newly happened, earliest first."""
        events = []
        for node in nodes:
            name = name_of(node)
            old = self._before.setdefault(name, node)
            content = _content(node)
            # Rules are slow and most of what changes on a node is its heartbeat.
            if content != self._last.get(name):
                self._last[name] = content
                events += self._events(name, old, node, now)
                events += self._reboot(name, old, node, now)
        return sorted([*events, *self._lasting(now)], key=lambda event: event.at)

    def _events(self, name: str, old: Object, node: Object, now: datetime) -> list[NodeEvent]:
        found = []
        for rule in self._rules.all:
            key = (name, rule.name)
            if key in self._told:
                continue
            if not self._rules.holds(rule, node) or self._rules.holds(rule, old):
                if key in self._begun:
                    self._passed.append(self._begun.pop(key)[1])
                continue
            event = self._event(rule, old, node, now)
            if rule.for_seconds:
                due = now + timedelta(seconds=rule.for_seconds)
                self._begun.setdefault(key, (due, event))
            else:
                self._told.add(key)
                found.append(event)
        return found

    def _reboot(self, name: str, old: Object, node: Object, now: datetime) -> list[NodeEvent]:
        """A node can be back before anybody calls it NotReady."""
        before, boot = _boot(old), _boot(node)
        if not before or not boot or before == boot or (name, _BOOT) in self._told:
            return []
        self._told.add((name, _BOOT))
        text = f"booted anew: boot id {boot}, before {before}"
        return [
            NodeEvent(node=name, at=now, code="NODE_NOT_READY", source="node status", text=text)
        ]

    def _lasting(self, now: datetime) -> list[NodeEvent]:
        """Return what has lasted long enough by now."""
        due = [key for key, (when, _) in self._begun.items() if when <= now]
        self._told.update(due)
        return [self._begun.pop(key)[1] for key in due]

    def _event(self, rule: CompiledRule, old: Object, node: Object, now: datetime) -> NodeEvent:
        proof = [c for c in differences(old, node) if self._rules.holds(rule, c.node)]
        proof = proof or differences(old, node)
        times = [difference.at for difference in proof if difference.at]
        return NodeEvent(
            node=name_of(node),
            at=max(min([*times, now]), self._since),
            code=rule.code,
            source=proof[0].source if proof else "node",
            text="; ".join(difference.text for difference in proof) or f"rule {rule.name}",
        )


def differences(old: Object, new: Object) -> list[Difference]:
    """Return what is different in cordon, taints and conditions."""
    found = []
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    if spec.get("unschedulable") and not old_spec.get("unschedulable"):
        at = next((_time(t.get("timeAdded")) for t in _taints(spec) if _is_cordon(t)), None)
        cordoned = _with_spec(old, unschedulable=True)
        found.append(Difference("node spec", f"cordoned{_beside(spec)}", at, cordoned))
    for taint in _taints(spec):
        if not any(_same_taint(taint, known) for known in _taints(old_spec)):
            text = f"{taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}"
            node = _with_spec(old, taints=[*_taints(old_spec), taint])
            found.append(Difference("taint", text, _time(taint.get("timeAdded")), node))
    known_conditions = {item.get("type"): item for item in _conditions(old)}
    for item in _conditions(new):
        kind = item.get("type")
        if item.get("status") == known_conditions.get(kind, {}).get("status"):
            continue
        words = [str(item[key]) for key in ("reason", "message") if item.get(key)]
        text = ": ".join((f"{kind} is {item.get('status')}", *words))
        others = [known for known in _conditions(old) if known.get("type") != kind]
        node = {**old, "status": {**(old.get("status") or {}), "conditions": [*others, item]}}
        at = _time(item.get("lastTransitionTime"))
        found.append(Difference("node condition", text, at, node))
    return found


def _beside(spec: Object) -> str:
    """Name the taints that stand beside the cordon; health agents explain themselves there."""
    taints = [
        f"{taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}"
        for taint in _taints(spec)
        if not _is_cordon(taint)
    ]
    return f", taints {', '.join(taints)}" if taints else ""


def _is_cordon(taint: Object) -> bool:
    return taint.get("key") == CORDON_TAINT


def _same_taint(one: Object, other: Object) -> bool:
    return all(one.get(key) == other.get(key) for key in ("key", "value", "effect"))


def _with_spec(node: Object, **changed: Any) -> Object:
    return {**node, "spec": {**(node.get("spec") or {}), **changed}}


def _taints(spec: Object) -> list[Object]:
    return list(spec.get("taints") or [])


def _conditions(node: Object) -> list[Object]:
    return list((node.get("status") or {}).get("conditions") or [])


def _time(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return time if time.tzinfo else None


def _boot(node: Object) -> str:
    """Return the id of the boot that a node runs in; empty where it does not tell."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or "")


def _content(node: Object) -> str:
    """Return what rules can depend on, without the times of heartbeats."""
    metadata = node.get("metadata") or {}
    status = node.get("status") or {}
    conditions = [
        {key: value for key, value in item.items() if key != "lastHeartbeatTime"}
        for item in _conditions(node)
    ]
    parts = (
        metadata.get("labels"),
        metadata.get("annotations"),
        node.get("spec"),
        status.get("allocatable"),
        status.get("addresses"),
        _boot(node),
        conditions,
    )
    return json.dumps(parts, sort_keys=True, default=str)
