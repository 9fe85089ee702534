"""The text of an expression with the numbers put in, so that a verdict can be checked by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from catalog.errors import ExpressionError
from catalog.language.cel.node import MACROS, Env, Node

_AGGREGATES = {"min", "max", "sum", "mean", "median", "stddev", "percentile", "size"}


def format_value(value: object) -> str:
    """Write a number for people: six significant digits, no trailing zeros."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def with_values(text: str, node: Node, env: Env) -> str:
    """Return the text of a node with every value put in: ``373.2 >= 0.92 * 386.6``.

    What is no number but a whole map or list stays as it is written. Behind ``all()`` and
    ``exists()`` stands the item that decided: ``sizes.all(s, s > 3) [s = 2: 2 > 3]``.
    """
    return _filled(text, node, env, frozenset())


def _filled(text: str, node: Node, env: Env, bound: frozenset[str]) -> str:
    filled, at = "", node.start
    for start, end, shown in _replacements(text, node, env, bound):
        filled += text[at:start] + shown
        at = end
    return filled + text[at : node.end]


def _replacements(
    text: str, node: Node, env: Env, bound: frozenset[str]
) -> list[tuple[int, int, str]]:
    """Return what replaces which part of the text, in its order."""
    if _measured(node) and not _reads(node, bound):
        shown = _value(node, env)
        if shown is not None:
            return [(node.start, node.end, shown)]
    inside = bound | {node.value} if node.op in MACROS else bound
    found = [
        item
        for index, part in enumerate(node.args)
        for item in _replacements(text, part, env, inside if index else bound)
    ]
    if node.op in {"all", "exists"} and not _reads(node.args[0], bound):
        witness = _witness(text, node, env, bound)
        if witness:
            found.append((node.end, node.end, f" [{witness}]"))
    return sorted(found)


def _measured(node: Node) -> bool:
    """Say whether a node is one thing to a reader, rather than a calculation."""
    if node.op == "call":
        lists = [part for part in node.args if part.kind.name in {"list", "map"}]
        return node.figure is not None or (node.value in _AGGREGATES and bool(lists))
    while node.op in {"select", "index"}:
        node = node.args[0]
    return node.op == "name"


def _reads(node: Node, bound: frozenset[str]) -> bool:
    return any(part.op == "name" and part.value in bound for part in node.walk())


def _value(node: Node, env: Env) -> str | None:
    try:
        value: Any = node.run(env)
    except (ExpressionError, KeyError):
        return None
    if isinstance(value, Mapping | list):
        return None
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else format_value(value)


def _witness(text: str, node: Node, env: Env, bound: frozenset[str]) -> str | None:
    """Name the first item that made ``all()`` false or ``exists()`` true, and why."""
    decides = node.op == "exists"
    body = node.args[1]
    try:
        items = node.args[0].run(env)
        for number, item in enumerate(items, 1):
            inner = {**env, node.value: item}
            if body.run(inner) is decides:
                said = _filled(text, body, inner, bound)
                if isinstance(item, str | int | float):
                    return f"{node.value} = {format_value(item)}: {said}"
                return f"item {number} of {len(items)}: {said}"
    except (ExpressionError, KeyError, TypeError):
        pass
    return None
