"""Judging one set of bars against one set of figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from catalog.errors import ExpressionError
from catalog.expressions import compile_expression, format_value, sample_values
from catalog.figures import figures_of
from catalog.resolved import Bar
from steps.documents import ExpressionResult, Figure, Outcome


def judge_bars(
    bars: Iterable[Bar], figures: Mapping[str, Figure], tool: str
) -> tuple[ExpressionResult, ...]:
    """Evaluate every bar; a bar whose figure is absent is INCONCLUSIVE, or left out if optional."""
    results = []
    for bar in bars:
        result = _judge(bar, figures, tool)
        if result is not None:
            results.append(result)
    return tuple(results)


def _judge(bar: Bar, figures: Mapping[str, Figure], tool: str) -> ExpressionResult | None:
    known = sample_values(figures_of(tool)) | dict.fromkeys(bar.values, 1.5)
    values: dict[str, Any] = {name: figure.value for name, figure in figures.items()} | bar.values
    if bar.key in known:
        known["value"] = known[bar.key]
        if bar.key in values:
            values["value"] = values[bar.key]

    def result(outcome: Outcome, with_values: str, message: str | None = None) -> ExpressionResult:
        return ExpressionResult(
            key=bar.key,
            expression=bar.expression,
            outcome=outcome,
            with_values=with_values,
            values=_shown(names, values),
            message=message,
            source=bar.source or bar.origin.rule,
            code=bar.code,
        )

    names: frozenset[str] = frozenset()
    try:
        expression = compile_expression(bar.expression, known)
        names = expression.names
        missing = sorted(names - set(values))
        if missing:
            if bar.optional:
                return None
            text = f"{missing[0]} was not measured"
            return result(Outcome.INCONCLUSIVE, expression.with_values(values), text)
        _refuse_impossible(names, values)
        outcome = Outcome.PASS if expression.evaluate(values) else Outcome.FAIL
        return result(outcome, expression.with_values(values))
    except ExpressionError as error:
        return result(Outcome.INCONCLUSIVE, bar.expression, error.message)


def _refuse_impossible(names: Iterable[str], values: Mapping[str, Any]) -> None:
    """NaN compares false, so a negated comparison would pass on it."""
    for name in names:
        value = values[name]
        parts = value.values() if isinstance(value, Mapping) else [value]
        for part in parts:
            if isinstance(part, float) and not math.isfinite(part):
                raise ExpressionError(f"{name} is {part}")


def _shown(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, float | int | str]:
    shown: dict[str, float | int | str] = {}
    for name in sorted(names):
        value = values.get(name)
        if isinstance(value, Mapping):
            shown[name] = ", ".join(f"{k}: {format_value(v)}" for k, v in value.items())
        elif value is not None:
            shown[name] = value
    return shown


def explain(result: ExpressionResult) -> str:
    """Return one line: the expression with its numbers, why not, and where the bar comes from."""
    line = result.with_values
    if result.message:
        line += f" ({result.message})"
    return re.sub(r"\s+", " ", line)
