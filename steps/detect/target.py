"""Which nodes a certification targets, and which of them cannot be used at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from catalog.certification import MatchExpression, TaintSelector, Target
from steps.detect.facts import Observed, Taint
from steps.documents import Exclusion
from steps.nodes.labels import CORDON_TAINT


@dataclass(frozen=True, slots=True)
class Selection:
    """The target, sorted by name.

    Attributes:
        targeted: every name that is targeted, found or not.
        usable: nodes that nothing speaks against so far.
        excluded: the others, each with its reason.
    """

    targeted: tuple[str, ...]
    usable: tuple[Observed, ...]
    excluded: tuple[Exclusion, ...]


def select(target: Target, nodes: Iterable[Observed]) -> Selection:
    """Apply a target to the nodes of a cluster.

    With ``nodeNames`` exactly the named nodes are targeted, and those that the other conditions
    rule out are excluded by name. Without, GPU nodes that meet all conditions are targeted.
    Cordoned nodes are excluded unless a taint selector names the cordon taint.
    """
    by_name = {node.name: node for node in nodes}
    excluded: list[Exclusion] = []
    if target.node_names:
        names = sorted(target.node_names)
    else:
        names = sorted(name for name, node in by_name.items() if _mismatch(target, node) is None)
    usable: list[Observed] = []
    for name in names:
        node = by_name.get(name)
        if node is None:
            message = "no node of this name exists in the cluster"
            excluded.append(Exclusion(node=name, code="NODE_EXCLUDED_NOT_FOUND", message=message))
            continue
        reason = _mismatch(target, node)
        state = ("NODE_EXCLUDED_NOT_MATCHING", reason) if reason else _unusable(target, node)
        if state:
            excluded.append(Exclusion(node=name, code=state[0], message=state[1]))
        else:
            usable.append(node)
    return Selection(tuple(names), tuple(usable), tuple(excluded))


def describe(target: Target) -> str:
    """Write the conditions of a target as people write selectors on a command line."""
    parts = [f"{key}={value}" for key, value in target.node_selector.items()]
    for item in target.match_expressions:
        values = f" ({', '.join(item.values)})" if item.values else ""
        parts.append(f"{item.key} {item.operator}{values}")
    for taint in target.taint_selectors:
        value = f"={taint.value}" if taint.value is not None else ""
        effect = f":{taint.effect}" if taint.effect else ""
        parts.append(f"taint {taint.key}{value}{effect}")
    return ", ".join(parts) or "every node with GPUs"


def nearest_miss(target: Target, nodes: Sequence[Observed]) -> str:
    """Say why nothing matched, for the message of an empty target."""
    if not nodes:
        return "the cluster has no nodes"
    with_gpus = [node for node in nodes if node.has_gpus]
    if not with_gpus:
        return f"none of the {len(nodes)} nodes has GPUs of NVIDIA"
    counts: dict[str, int] = {}
    for node in with_gpus:
        reason = _mismatch(target, node) or "matches"
        counts[reason] = counts.get(reason, 0) + 1
    reason, count = max(counts.items(), key=lambda item: item[1])
    return f"of {len(with_gpus)} GPU nodes, {count} are out because: {reason}"


def tolerated(taint: Taint, tolerations: Iterable[Mapping[str, object]]) -> bool:
    """Say whether any toleration covers a taint, by the rules of the Kubernetes scheduler."""
    for item in tolerations:
        key, effect = item.get("key"), item.get("effect")
        if effect and effect != taint.effect:
            continue
        if item.get("operator", "Equal") == "Exists":
            if not key or key == taint.key:
                return True
        elif key == taint.key and (item.get("value") or "") == taint.value:
            return True
    return False


def _mismatch(target: Target, node: Observed) -> str | None:
    """Return the first condition of the target that the node does not meet."""
    for key, value in target.node_selector.items():
        if key not in node.labels:
            return f"label {key} is missing, needs {value}"
        if node.labels[key] != value:
            return f"label {key} is {node.labels[key]}, needs {value}"
    for item in target.match_expressions:
        if not _matches(item, node.labels):
            found = node.labels.get(item.key)
            is_what = "is missing" if found is None else f"is {found}"
            values = f" {', '.join(item.values)}" if item.values else ""
            return f"label {item.key} {is_what}, needs {item.operator}{values}"
    for taint in target.taint_selectors:
        if not any(_selects(taint, found) for found in node.taints):
            return f"has no taint {taint.key}"
    return None if node.has_gpus else "has no GPUs of NVIDIA"


def _matches(item: MatchExpression, labels: Mapping[str, str]) -> bool:
    found = labels.get(item.key)
    match item.operator:
        case "In":
            return found in item.values
        case "NotIn":
            return found not in item.values
        case "Exists":
            return found is not None
        case _:
            return found is None


def _selects(selector: TaintSelector, taint: Taint) -> bool:
    return (
        selector.key == taint.key
        and selector.value in {None, taint.value}
        and selector.effect in {None, taint.effect}
    )


def _unusable(target: Target, node: Observed) -> tuple[str, str] | None:
    """Return why nothing can run on a node, whatever the category."""
    wants_cordoned = any(taint.key == CORDON_TAINT for taint in target.taint_selectors)
    cordoned = node.cordoned or any(taint.key == CORDON_TAINT for taint in node.taints)
    if cordoned and not wants_cordoned:
        return "NODE_EXCLUDED_CORDONED", "unschedulable (cordoned)"
    if node.ready is False:
        return "NODE_EXCLUDED_NOT_READY", "the Ready condition is not True"
    if node.mig:
        return "NODE_EXCLUDED_MIG", node.mig
    if node.shared:
        return "NODE_EXCLUDED_SHARED", node.shared
    if node.busy:
        pods = ", ".join(f"{name} ({count})" for name, count in node.busy[:3])
        more = f" and {len(node.busy) - 3} more" if len(node.busy) > 3 else ""
        total = sum(count for _, count in node.busy)
        have = f" of {node.facts.gpus}" if node.facts.gpus else ""
        return "NODE_EXCLUDED_BUSY", f"{total}{have} GPUs are used by {pods}{more}"
    return None
