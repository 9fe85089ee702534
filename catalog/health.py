"""Rules that say on a Node object that a node must not be trusted: ours as data, and the user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from catalog.certification import HealthRule
from catalog.errors import ExpressionError, Place
from catalog.expressions import Expression, compile_expression

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

BULKY = ("images", "volumesInUse", "volumesAttached")
"""Parts of the status that say nothing about health and are most of a Node object's size."""


class _Data(HealthRule):
    source: str


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A compiled rule.

    Attributes:
        name: shown in reports.
        code: reason code of a node that it is true for.
        expression: CEL over ``node``.
    """

    name: str
    code: str
    expression: Expression

    def holds(self, node: Mapping[str, Any]) -> bool:
        """Say whether the node is unhealthy by this rule.

        Raises:
            ExpressionError: the rule reads something that this node does not have.
        """
        return self.expression.evaluate({"node": _slim(node)})


def compile_rule(rule: HealthRule, place: Place | None = None) -> NodeRule:
    """Compile a rule and try it on nodes with much and with little in them.

    Raises:
        ExpressionError: it is no CEL, names something else than ``node``, gives no boolean, or
            reads a field that many nodes do not have without asking ``has()`` first.
    """
    for sample in (_MARKED, _PLAIN):
        try:
            expression = compile_expression(rule.expression, {"node": sample}, place)
        except ExpressionError as error:
            if "there is no value for" not in error.message:
                raise
            hint = "nodes may lack it; ask has(node.spec.x) && … first"
            raise ExpressionError(error.message, place, hint) from error
    return NodeRule(rule.name, rule.code, expression)


@cache
def default_rules() -> tuple[NodeRule, ...]:
    """Return the rules of ``health.yaml``."""
    text = resources.files("catalog").joinpath("health.yaml").read_text(encoding="utf-8")
    return tuple(compile_rule(_Data.model_validate(item)) for item in yaml.safe_load(text))


def node_rules(extra: Iterable[HealthRule] = ()) -> tuple[NodeRule, ...]:
    """Return the default rules and the user's after them; one of the same name replaces ours."""
    own = [compile_rule(rule) for rule in extra]
    replaced = {rule.name for rule in own}
    return (*(rule for rule in default_rules() if rule.name not in replaced), *own)


def _slim(node: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(node.get("metadata") or {})
    metadata.pop("managedFields", None)
    status = {k: v for k, v in (node.get("status") or {}).items() if k not in BULKY}
    return {"metadata": metadata, "spec": node.get("spec") or {}, "status": status}
