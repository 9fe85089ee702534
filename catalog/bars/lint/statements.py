"""What is wrong, or looks wrong, with bars before anything is measured.

Pure: the same statements always give the same findings. An error is a text that does not compile,
or one that is the same for all values that there can be, or a stage that passes what a milder stage
fails. A warning is what a person may mean but seldom does.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

from catalog.bars.lint.samples import Domain, Values, samples
from catalog.bars.lint.units import Units
from catalog.bars.stages import stage_values, stages
from catalog.errors import ExpressionError, Place
from catalog.facts.tools import TOOLS
from catalog.language.cel.explain import format_value
from catalog.language.cel.expression import Expression
from catalog.language.cel.kinds import INT
from catalog.language.cel.node import COMPARISONS, MACROS
from catalog.language.expressions import check_threshold
from catalog.language.vocabulary import Scope, names_of

_TEXTS_AND_SIZES = {"size", "contains", "startsWith", "endsWith", "matches"}
"""Functions whose border cannot be looked for as that of a comparison of numbers can."""
_MOST_COMPARISONS = 2
"""With more of them, values that settle all as is wanted may be missed."""
_DECIDES_NOTHING = {
    True: ("can never fail", "it is true of every value that there can be"),
    False: ("can never pass", "it is false of every value that there can be"),
}
_RATIO = "compares a ratio, which is 0 to 1, with"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A bar as somebody wrote it.

    Attributes:
        key: threshold key.
        text: the expression.
        tool: name of the tool.
        scope: what it is evaluated for.
        place: where it stands.
        stage: the stage that it belongs to; None for all of them.
        set_of: what other statements must share to be the same bar at another stage.
        complete: no other statement of this set is at work: where a stage has none, it has no bar.
    """

    key: str
    text: str
    tool: str
    scope: Scope = "group"
    place: Place | None = None
    stage: str | None = None
    set_of: str = ""
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a statement.

    Attributes:
        level: error or warning.
        text: what is wrong.
        place: where.
        hint: what would be right.
    """

    level: Literal["error", "warning"]
    text: str
    place: Place | None = None
    hint: str | None = None


def lint(statements: Sequence[Statement]) -> tuple[Finding, ...]:
    """Check statements one by one, and those of one bar at different stages against each other.

    Returns:
        The findings, in the order of the statements; each said once.
    """
    found: list[Finding] = []
    for statement in statements:
        found += check(statement)
    found += _loosened(statements)
    return tuple(dict.fromkeys(found))


def check_bar(
    key: str, text: str, tool: str, place: Place | None = None, scope: Scope = "group"
) -> Expression:
    """Compile a bar of the user's, see `check_threshold`, and refuse one that decides nothing.

    Raises:
        ExpressionError: see `check_threshold`; also when it can never fail, or never pass.
    """
    expression = check_threshold(key, text, tool, place, scope)
    always = _always(key, text, tool, scope)
    if always is not None:
        says, hint = _DECIDES_NOTHING[always]
        raise ExpressionError(f"{says}: {text}", place, hint)
    return expression


@lru_cache(maxsize=4096)
def _always(key: str, text: str, tool: str, scope: Scope) -> bool | None:
    """Return the only result that there can be, None where there are two or nobody can tell."""
    expression = check_threshold(key, text, tool, scope=scope)
    if not _searched(expression):
        return None
    statement = Statement(key=key, text=text, tool=tool, scope=scope)
    found = _outcomes(statement, expression, plausible=False)
    return found.pop() if len(found) == 1 else None


def check(statement: Statement) -> Iterator[Finding]:
    """Yield what is wrong with one statement by itself."""
    try:
        expression = check_threshold(
            statement.key, statement.text, statement.tool, scope=statement.scope
        )
    except ExpressionError as error:
        yield Finding("error", error.message, statement.place, error.hint)
        return
    looks = [
        *_of_the_key(statement),
        *_of_units(statement, expression),
        *_of_whole_numbers(statement, expression),
    ]
    for text, hint in looks:
        yield Finding("warning", f"{text}: {statement.text}", statement.place, hint)
    if not any(text.startswith(_RATIO) for text, _ in looks):
        for level, text, hint in _of_values(statement, expression):
            yield Finding(level, f"{text}: {statement.text}", statement.place, hint)


def _of_the_key(statement: Statement) -> Iterator[tuple[str, str | None]]:
    figures = TOOLS[statement.tool].figures
    if statement.key not in figures:
        for near in difflib.get_close_matches(statement.key, figures, n=1, cutoff=0.85):
            text = f"has the key {statement.key}, which is no figure, so it replaces no bar of ours"
            yield text, f"did you mean {near!r}?"


def _of_units(statement: Statement, expression: Expression) -> Iterator[tuple[str, str | None]]:
    units = Units(names_of(statement.tool, statement.scope, statement.key))
    for left, right in units.clashes(expression.node):
        yield f"compares or adds {left} and {right}", None
    for number in units.bare_ratios(expression.node):
        percent = f"write {format_value(number / 100)} for {format_value(number)} %"
        hint = percent if 1 < number <= 100 else None
        yield f"{_RATIO} {format_value(number)}", hint


def _of_whole_numbers(
    statement: Statement, expression: Expression
) -> Iterator[tuple[str, str | None]]:
    for node in expression.node.walk():
        if node.op == "/" and all(part.kind == INT for part in node.args):
            part = statement.text[node.start : node.end]
            yield (
                f"divides whole numbers, and {part} is cut to a whole number",
                f"write double({statement.text[node.args[0].start : node.args[0].end]})",
            )


def _of_values(
    statement: Statement, expression: Expression
) -> Iterator[tuple[Literal["error", "warning"], str, str | None]]:
    """Say what never fails, or never passes, at any stage."""
    possible = _outcomes(statement, expression, plausible=False)
    plausible = _outcomes(statement, expression, plausible=True)
    if len(possible) == 1 and not _searched(expression):
        yield (
            "warning",
            f"was {'true' if True in possible else 'false'} of all that was tried",
            None,
        )
    elif len(possible) == 1:
        yield "error", *_DECIDES_NOTHING[True in possible]
    elif not possible:
        yield "warning", "gives an error on all values that were tried", None
    elif plausible == {True}:
        yield "warning", "passes whatever a machine is likely to measure", None
    elif plausible == {False}:
        yield "warning", "fails whatever a machine is likely to measure", None
    if not _needs_its_sizes(statement, expression):
        hint = "read the size; one that is missing is INCONCLUSIVE by itself"
        yield "warning", "passes when a message size is missing", hint


def _searched(expression: Expression) -> bool:
    """Say whether values that make it true, and such that make it false, are found if there are."""
    nodes = list(expression.node.walk())
    if expression.called & _TEXTS_AND_SIZES or any(
        # The maps that are tried have every message size.
        node.op == "in" or (node.op in MACROS and node.args[0].kind.name == "map")
        for node in nodes
    ):
        return False
    return sum(node.op in COMPARISONS for node in nodes) <= _MOST_COMPARISONS


def _outcomes(statement: Statement, expression: Expression, *, plausible: bool) -> set[bool]:
    found: set[bool] = set()
    for stage in [statement.stage] if statement.stage else stages():
        domain = _domain(statement, stage, plausible=plausible)
        for values in samples([expression], domain):
            result = _evaluate(expression, values)
            if result is not None:
                found.add(result)
            if len(found) == 2:
                return found
    return found


def _domain(statement: Statement, stage: str, *, plausible: bool) -> Domain:
    names = names_of(statement.tool, statement.scope, statement.key)
    return Domain(names, _numbers(stage), plausible=plausible)


def _numbers(stage: str) -> dict[str, Any]:
    """Return the values that a stage gives."""
    return {**stage_values(stages()[stage]), "stage": stage}


def _evaluate(expression: Expression, values: Mapping[str, Any]) -> bool | None:
    try:
        return expression.evaluate(values)
    except ExpressionError:
        return None


def _needs_its_sizes(statement: Statement, expression: Expression) -> bool:
    """False when a map without the sizes that it asks for passes where one with them fails."""
    names = names_of(statement.tool, statement.scope, statement.key)
    maps = [name for name in expression.names if names[name].type == "map"]
    if not maps:
        return True
    for stage in [statement.stage] if statement.stage else stages():
        for values in samples([expression], _domain(statement, stage, plausible=True)):
            if _evaluate(expression, values) is False:
                without = {**values, **{name: {"4": values[name]["4"]} for name in maps}}
                if _evaluate(expression, without) is True:
                    return False
    return True


def _loosened(statements: Sequence[Statement]) -> Iterator[Finding]:
    """Yield the bars that a stricter stage has in a looser form, or has not."""
    order = list(stages())
    sets: dict[tuple[str, str, str, str], dict[str, list[Statement]]] = {}
    for item in statements:
        bar = (item.set_of, item.tool, item.scope, item.key)
        for stage in [item.stage] if item.stage else order:
            sets.setdefault(bar, {}).setdefault(stage, []).append(item)
    for by_stage in sets.values():
        have = [stage for stage in order if stage in by_stage]
        for mild, strict in pairwise(have):
            for item in by_stage[mild]:
                yield from _compare(item, mild, by_stage[strict], strict)
        for item in by_stage[have[-1]] if have[-1] != order[-1] else ():
            if item.complete:
                text = f"{item.key} is a bar of {have[-1]}, but not of the stricter {order[-1]}"
                yield Finding("error", f"{text}: {item.text}", item.place)


def _compare(
    item: Statement, mild: str, others: Sequence[Statement], strict: str
) -> Iterator[Finding]:
    """Yield a finding when values that fail a bar pass all of its key at the stricter stage."""
    texts = tuple(other.text for other in others)
    try:
        values = _passed((item.key, item.tool, item.scope), item.text, mild, texts, strict)
    except ExpressionError:
        return  # Said where the statement stands.
    if values is not None:
        text = f"{strict} passes what {mild} fails, {values}: {others[0].text}"
        hint = None if item.text in texts else f"at {mild}: {item.text}"
        yield Finding("error", text, others[0].place, hint)


@lru_cache(maxsize=1024)
def _passed(
    bar: tuple[str, str, Scope], mild: str, mild_stage: str, texts: tuple[str, ...], strict: str
) -> str | None:
    """Return, in words, values that fail the milder stage and pass the stricter; None if none."""
    key, tool, scope = bar
    names = names_of(tool, scope, key)
    first, *others = (check_threshold(key, text, tool, scope=scope) for text in (mild, *texts))
    numbers = _numbers(mild_stage), _numbers(strict)
    if mild in texts and not {*numbers[0]} & first.names:
        return None
    for fixed in numbers:
        for values in samples([first, *others], Domain(names, fixed, plausible=True)):
            if _evaluate(first, {**values, **numbers[0]}) is False and all(
                _evaluate(other, {**values, **numbers[1]}) for other in others
            ):
                return _shown(values, {*values} - {*fixed})
    return None


def _shown(values: Values, names: Iterable[str]) -> str:
    shown = [
        f"{name} {format_value(values[name])}"
        for name in sorted(names)
        if isinstance(values[name], int | float | str)
    ]
    return f"for instance {', '.join(shown)}" if shown else "on the same rows"
