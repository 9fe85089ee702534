"""Thresholds: expressions over the figures of a tool, refused before anything runs.

A threshold is refused when it names an unknown figure or function, mixes types that no arithmetic
mixes, gives no boolean, or gives the same whatever is measured. The dialect of CEL is described in
`catalog.language.cel`, the names in `catalog.language.vocabulary`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from catalog.errors import ExpressionError, Place
from catalog.facts.tools import TOOLS
from catalog.language.cel.explain import format_value
from catalog.language.cel.expression import Expression, compile_expression
from catalog.language.cel.operators import NotFiniteError
from catalog.language.vocabulary import MEASURED, Scope, expects, names_of, row_fields, samples_of
from catalog.reading.model import suggestion

__all__ = [
    "Expression",
    "NotFiniteError",
    "check_threshold",
    "code_of",
    "compile_bar",
    "compile_expression",
    "format_value",
    "split_keyed",
]

_KEYED = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*:(?!:)\s*(.+)", re.DOTALL)
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NUMBER = re.compile(r"\s*[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?\s*")


def split_keyed(text: str) -> tuple[str | None, str]:
    """Split NVCRE's form ``KEY: expression over value``; a bare expression has key None."""
    match = _KEYED.fullmatch(text)
    return (match[1], match[2].strip()) if match else (None, text.strip())


@lru_cache(maxsize=4096)
def compile_bar(key: str, text: str, tool: str, scope: Scope = "group") -> Expression:
    """Compile the expression of a bar over the vocabulary of its tool, scope and key.

    Raises:
        ExpressionError: see `compile_expression`.
    """
    return compile_expression(text, samples_of(tool, scope, key), hints=_hints(tool))


def _hints(tool: str) -> dict[str, str]:
    """Return what to say to the names of other tools, and of CEL's extensions."""
    others = {name: other.name for other in TOOLS if other.name != tool for name in other.figures}
    return {
        "math": "write max(…), min(…) or abs(…)",
        "row": "there is a row in bars of scope row only; rows.all(r, …) goes over all",
        "value": "the key names no figure, so there is no value",
        **{name: f"a figure of {other}, not of {tool}" for name, other in others.items()},
    }


def check_threshold(
    key: str, text: str, tool: str, place: Place | None = None, scope: Scope = "group"
) -> Expression:
    """Compile a threshold: CEL over ``value`` (the figure named by the key) or over the figures.

    Raises:
        ExpressionError: see `compile_expression`; also when the key is no identifier or is a
            figure of another tool, ``value`` is used and the key is no figure of this tool,
            ``expected`` is used where nothing is expected, ``has()`` is used, nothing that is
            measured decides, or the scope is ``gpu`` and the tool no diagnostic.
    """
    try:
        return _checked(key, text, tool, scope)
    except ExpressionError as error:
        raise ExpressionError(error.message, place, error.hint) from error


@lru_cache(maxsize=4096)
def _checked(key: str, text: str, tool: str, scope: Scope) -> Expression:
    if key in row_fields(tool):
        test = re.sub(r"\bvalue\b", f"row.{key}", text)
        hint = f"it is a field of result rows; in scope row, without a key, write {test}"
        raise ExpressionError(f"{key!r} is no figure of {tool}", hint=hint)
    if not _KEY.fullmatch(key):
        raise ExpressionError(
            f"{key!r} is no threshold key", hint="a key is a letter and then letters and digits"
        )
    if _NUMBER.fullmatch(text):
        raise ExpressionError(f"is a number, not a test: {text}", hint=f"write value >= {text}")
    if scope == "gpu" and not TOOLS[tool].tells_gpus_apart:
        raise ExpressionError("asks for every GPU, and only diagnostics tell GPUs apart")
    figures = TOOLS[tool].figures
    others = [other.name for other in TOOLS if other.name != tool and key in other.figures]
    if key not in figures and (others or re.search(r"\bvalue\b", text)):
        where = f"it is one of {others[0]}" if others else None
        hint = where or suggestion(key, figures) or f"known: {', '.join(figures)}"
        raise ExpressionError(f"{key!r} is no figure of {tool}", hint=hint)
    expression = compile_bar(key, text, tool, scope)
    if "has" in expression.called:
        # Absent is not slow: a false has() would read as a bar that is not met.
        maps = [
            name for name in expression.names if name in figures and figures[name].type == "map"
        ]
        read = f'{min(maps)}["16G"]' if maps else "row.out_bus_gbps"
        hint = f"read it, {read}; what is missing is INCONCLUSIVE by itself"
        raise ExpressionError(f"has() is no test of a figure: {text}", hint=hint)
    names = names_of(tool, scope, key)
    measured = {name for name in expression.names if names[name].origin in MEASURED}
    if expression.constant or not measured:
        raise ExpressionError(f"tests nothing, it is the same whatever is measured: {text}")
    if "expected" in expression.names and not expects(tool, key, measured):
        message = f"uses expected, but nothing says what to expect of {', '.join(sorted(measured))}"
        raise ExpressionError(f"{message}: {text}", hint="write the number")
    return expression


def code_of(key: str, expression: Expression, tool: str) -> str:
    """Name the reason code of a false expression by what it tests.

    Which message sizes there are is a matter of the run, not of its speed. The unit of the figures,
    or of the fields of rows, tells bandwidth from time.
    """
    figures = TOOLS[tool].figures
    names = {key if name == "value" else name for name in expression.names} & figures.keys()
    if names and not expression.indexes and all(figures[name].type == "map" for name in names):
        return "FIGURE_MISSING"
    rows = {} if expression.names.isdisjoint({"row", "rows"}) else row_fields(tool)
    fields = {node.value for node in expression.node.walk() if node.op == "select"} & rows.keys()
    units = {figures[name].unit for name in names} | {rows[field].unit for field in fields}
    beside = {figures[name].unit for name in names}
    for rule in TOOLS[tool].codes:
        if rule.only and not set() < names | fields <= set(rule.only):
            continue
        if (not rule.units or units & set(rule.units)) and not beside & set(rule.not_with):
            return rule.code
    return "ThresholdViolation"
