"""One expression on one set of values: true, false or not proven, with the numbers put in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.bars.bar import Bar
from catalog.errors import ExpressionError
from catalog.facts.tools import TOOLS
from catalog.language.expressions import Expression, format_value
from steps.documents import ExpressionResult, Outcome

_FIELD = re.compile(r"\brow\.(\w+)")

MAX_SHOWN = 200
"""Characters of a list or map among the values of a result."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of an expression.

    Attributes:
        outcome: PASS when true, FAIL when false, INCONCLUSIVE when it could not be evaluated.
        with_values: the expression with its values put in.
        values: the values it used.
        code: why it is not proven: FIGURE_MISSING, EXPRESSION_ERROR; None when it is true or false.
        message: the same in words.
    """

    outcome: Outcome
    with_values: str
    values: Mapping[str, float | int | str]
    code: str | None = None
    message: str | None = None


def figures_read(bar: Bar, expression: Expression, tool: str) -> tuple[str, ...]:
    """Return the names of the figures that an expression reads, ``value`` by its key."""
    figures = TOOLS[tool].figures
    names = {bar.key if name == "value" else name for name in expression.names}
    return tuple(name for name in figures if name in names)


def attempt(expression: Expression, values: Mapping[str, Any], key: str = "value") -> Trial:
    """Evaluate a compiled expression.

    A name without a value, NaN, infinity, an error and a result that is no boolean are
    INCONCLUSIVE.

    Args:
        expression: the expression.
        values: plain values by name.
        key: what ``value`` stands for.
    """
    names = expression.names
    missing = sorted(name for name in names if values.get(name) is None)
    shown = _shown(expression, values)
    if missing:
        message = f"{key if missing[0] == 'value' else missing[0]} was not measured"
        return Trial(
            Outcome.INCONCLUSIVE, expression.with_values(values), shown, "FIGURE_MISSING", message
        )
    try:
        _refuse_impossible(names, values)
        outcome = Outcome.PASS if expression.evaluate(values) else Outcome.FAIL
    except ExpressionError as error:
        return not_evaluated(expression.text, error.message, shown)
    return Trial(outcome, expression.with_values(values), shown)


def not_evaluated(
    text: str, message: str, shown: Mapping[str, float | int | str] | None = None
) -> Trial:
    """Return the trial of an expression that gives an error."""
    return Trial(Outcome.INCONCLUSIVE, text, shown or {}, "EXPRESSION_ERROR", message)


def not_proven(trial: Trial, code: str, why: str) -> Trial:
    """Return a trial that is neither true nor false, whatever it came out as."""
    return Trial(Outcome.INCONCLUSIVE, trial.with_values, trial.values, code, why)


def _refuse_impossible(names: Iterable[str], values: Mapping[str, Any]) -> None:
    """NaN compares false, so a negated comparison would pass on it."""
    for name in names:
        for part in _parts(values[name]):
            if isinstance(part, float) and not math.isfinite(part):
                raise ExpressionError(f"{name} is {part}")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return (part for item in value for part in _parts(item))
    return (value,)


def _shown(expression: Expression, values: Mapping[str, Any]) -> dict[str, float | int | str]:
    shown: dict[str, float | int | str] = {}
    for name in sorted(expression.names):
        value = values.get(name)
        if name == "row" and isinstance(value, Mapping):
            used = [field for field in _FIELD.findall(expression.text) if field in value]
            shown |= {f"row.{field}": value[field] for field in used}
        elif isinstance(value, Mapping):
            text = ", ".join(f"{k}: {format_value(v)}" for k, v in value.items())
            shown[name] = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 2]} …"
        elif isinstance(value, list | tuple):
            shown[name] = f"{len(value)} items"
        elif value is not None:
            # Documents hold no NaN and no infinity.
            finite = not isinstance(value, float) or math.isfinite(value)
            shown[name] = value if finite else str(value)
    return shown


def explain(result: ExpressionResult) -> str:
    """Return one line: what it was evaluated for, the expression with its numbers, why not."""
    line = result.statement
    if result.message:
        line += f" ({result.message})"
    return re.sub(r"\s+", " ", line)
