"""Rules that say of a node or an event that a node must not be trusted: ours and the user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from catalog.errors import ExpressionError, Place
from catalog.hardware.health_rule import HealthRule
from catalog.language.expressions import Expression, compile_expression
from catalog.reading.source import shipped

_CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "kubelet is posting ready status",
    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
_TAINTS = [
    {"key": "example.com/a", "value": "b", "effect": "NoSchedule"},
    {"key": "example.com/c", "effect": "NoExecute"},
]
_PLAIN: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a"}, "annotations": {}},
    "spec": {},
    "status": {"conditions": [_CONDITION]},
}
"""A healthy node; every node has this much."""
_MARKED: dict[str, Any] = {
    **_PLAIN,
    "spec": {"unschedulable": True, "taints": _TAINTS},
}
"""A node with everything that rules ask for."""
_EVENT: dict[str, Any] = {
    "type": "Warning",
    "reason": "SystemOOM",
    "message": "System OOM encountered, victim process: python, pid: 4242",
    "count": 1,
    "involvedObject": {"kind": "Node", "name": "a", "namespace": ""},
    "source": {"component": "kubelet", "host": "a"},
    "reportingComponent": "kubelet",
}
"""An event as rules see it; all of it is always there, if only as an empty text."""
_SAMPLES: dict[str, tuple[dict[str, Any], ...]] = {"node": (_MARKED, _PLAIN), "event": (_EVENT,)}

BULKY = ("images", "volumesInUse", "volumesAttached")
"""Parts of the status that say nothing about health and are most of a Node object's size."""


class _Data(HealthRule):
    source: str


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule that can be asked.

    Attributes:
        name: shown in reports.
        over: ``node`` or ``event``.
        code: reason code of a node that it is true for; see `HealthRule`.
        expression: CEL.
        for_seconds: how long it must be true to count.
    """

    name: str
    over: Literal["node", "event"]
    code: str
    expression: Expression
    for_seconds: float = 0.0

    def holds(self, thing: Mapping[str, Any]) -> bool:
        """Say whether a node, or the node of an event, is unhealthy by this rule.

        Raises:
            ExpressionError: the rule reads something that this object does not have.
        """
        view = _slim(thing) if self.over == "node" else event_view(thing)
        return self.expression.evaluate({self.over: view})


def compile_rule(rule: HealthRule, place: Place | None = None) -> CompiledRule:
    """Compile a rule and try it on nodes with much and with little in them, or on an event.

    Raises:
        ExpressionError: it is no CEL, names something else than what it is over, gives no boolean,
            or reads a field that many nodes do not have without asking ``has()`` first.
    """
    for sample in _SAMPLES[rule.over]:
        try:
            expression = compile_expression(rule.expression, {rule.over: sample}, place)
        except ExpressionError as error:
            if "there is no value for" not in error.message:
                raise
            known = ", ".join(_EVENT)
            hint = f"an event has {known}"
            if rule.over == "node":
                hint = "nodes may lack it; ask has(node.spec.x) && … first"
            raise ExpressionError(error.message, place, hint) from error
    return CompiledRule(rule.name, rule.over, rule.code, expression, rule.for_seconds)


@cache
def default_rules() -> tuple[CompiledRule, ...]:
    """Return the rules of ``health.yaml``."""
    return tuple(
        compile_rule(_Data.model_validate(item)) for item in shipped("hardware/health.yaml").data
    )


def health_rules(extra: Iterable[HealthRule] = ()) -> tuple[CompiledRule, ...]:
    """Return the default rules and the user's after them; one of the same name replaces ours."""
    own = [compile_rule(rule) for rule in extra]
    replaced = {rule.name for rule in own}
    return (*(rule for rule in default_rules() if rule.name not in replaced), *own)


def event_view(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as rules see it: the fields of core/v1, none of them absent."""
    about, source = event.get("involvedObject") or {}, event.get("source") or {}
    component = str(source.get("component") or event.get("reportingComponent") or "")
    return {
        **{key: str(event.get(key) or "") for key in ("type", "reason", "message")},
        "count": int(event.get("count") or (event.get("series") or {}).get("count") or 1),
        "involvedObject": {key: str(about.get(key) or "") for key in ("kind", "name", "namespace")},
        "source": {"component": component, "host": str(source.get("host") or "")},
        "reportingComponent": str(event.get("reportingComponent") or component),
    }


def _slim(node: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(node.get("metadata") or {})
    metadata.pop("managedFields", None)
    status = {k: v for k, v in (node.get("status") or {}).items() if k not in BULKY}
    return {"metadata": metadata, "spec": node.get("spec") or {}, "status": status}
