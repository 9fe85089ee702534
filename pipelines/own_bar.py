"""Expressions that a person gives on the command line, made into bars."""

from __future__ import annotations

import re
from collections.abc import Mapping

from catalog.bars.bar import Bar, Missing
from catalog.bars.bar_file import BarItem, OwnBar, OwnBars
from catalog.bars.lint.statements import check_bar
from catalog.bars.required import bars_for
from catalog.entries.entry import Entry
from catalog.errors import ExpressionError, Place
from catalog.hardware.hardware import Hardware
from catalog.language.expressions import code_of, split_keyed
from catalog.language.vocabulary import Scope
from catalog.reading.setting import Origin, Setting

ORIGIN = Origin(rule="--expr", file="--expr")
"""The rule that sets such a bar."""


def own_bar(text: str, tool: str, scope: Scope | None = None) -> Bar:
    """Compile one expression that a person gave.

    Args:
        text: CEL, or ``KEY: CEL over value``.
        tool: whose figures it is over.
        scope: what it is evaluated for; None takes ``row`` where it names ``row``.

    Raises:
        ExpressionError: it is no valid expression over the figures of the tool.
    """
    key, expression = split_keyed(text)
    place = Place("--expr")
    if key is None and re.search(r"\bvalue\b", expression):
        hint = "write KEY: expression over value"
        raise ExpressionError(f"uses value without a key: {text}", place, hint)
    name = key or "expr"
    if scope is None:
        scope = "row" if re.search(r"\brow\b", expression) else "group"
    checked = check_bar(name, expression, tool, place, scope)
    return Bar(
        key=name,
        expression=expression,
        scope=scope,
        code=code_of(name, checked, tool),
        kind="yours",
        origin=ORIGIN,
    )


def with_numbers(
    bar: Bar,
    entry: Entry,
    stage: str,
    hardware: Hardware,
    *,
    nodes: int,
    options: Mapping[str, Setting],
    scale: str = "",
) -> Bar | Missing:
    """Put the numbers of stage and hardware into a bar, as those of a bar file get theirs.

    Args:
        bar: see `own_bar`.
        entry: the catalog entry.
        stage: whose numbers go in.
        hardware: of the nodes.
        nodes: size of the group.
        options: maxBytes is read.
        scale: of the category; empty where nobody tells.

    Returns:
        The bar, or why there is none.
    """
    item = BarItem(key=bar.key, expression=bar.expression, scope=bar.scope, code=bar.code)
    asked = {name: options[name] for name in ("maxBytes",) if name in options}
    own = OwnBars((OwnBar(item, source=ORIGIN.rule, origin=ORIGIN),))
    bars, missing = bars_for(entry, stage, hardware, nodes, asked, scale=scale, own=own)
    made = next((one for one in bars if one.origin.rule == ORIGIN.rule), None)
    if made is not None:
        return made
    none = Missing(code="NO_THRESHOLD", keys=(bar.key,), why=f"is no bar of {entry.id}")
    return next((item for item in missing if bar.key in item.keys), none)
