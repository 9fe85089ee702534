"""Asking health rules, and keeping in mind which of them could not be asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from catalog.errors import ExpressionError
from catalog.hardware.health import CompiledRule
from steps.documents import RunFailure


class Rules:
    """The health rules over one kind of thing.

    Args:
        rules: all rules.
        over: those of this kind are asked.
    """

    def __init__(self, rules: Iterable[CompiledRule], over: Literal["node", "event"]) -> None:
        self.all = tuple(rule for rule in rules if rule.over == over)
        self.broken: dict[str, RunFailure] = {}

    def that_hold(self, thing: Mapping[str, Any]) -> list[CompiledRule]:
        """Return the rules that are true for a thing."""
        return [rule for rule in self.all if self.holds(rule, thing)]

    def holds(self, rule: CompiledRule, thing: Mapping[str, Any]) -> bool:
        """Ask one rule; one that breaks is false, and is told in ``broken``."""
        try:
            return rule.holds(thing)
        except ExpressionError as error:
            # A rule that cannot be asked must not pass for a healthy node.
            text = f"{rule.over} health rule {rule.name}: {error.message}"
            self.broken.setdefault(rule.name, RunFailure(code="EXPRESSION_ERROR", message=text))
            return False
