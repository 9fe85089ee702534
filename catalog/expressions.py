"""CEL expressions: compiled strictly, evaluated on numbers, explained with the numbers put in.

cel-python checks only syntax and mixes int and double in some operand orders but not in others.
Here an expression is refused before anything runs when it names an unknown figure, mixes types
in arithmetic, or gives no boolean; comparisons between int and double work in both orders, as
the CEL specification (and NVCRE) has it.
"""

from __future__ import annotations

import logging
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import celpy
import lark
from celpy import celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError, base_functions

from catalog.errors import ExpressionError, Place
from catalog.figures import FigureType, figures_of
from catalog.model import suggestion

MAX_LENGTH = 2048
"""Longest expression, as in NVCRE's CRD."""

_KEYED = re.compile(r"\s*([A-Za-z][A-Za-z0-9]*)\s*:(?!:)\s*(.+)", re.DOTALL)
_MACROS = {"all", "exists", "exists_one", "map", "filter"}
_FUNCTIONS = {*base_functions, "has", "dyn", *_MACROS}
_NUMBERS = (celtypes.IntType, celtypes.UintType, celtypes.DoubleType)

# re2 and celpy log every bad pattern and every evaluation to stderr.
logging.getLogger("celpy").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Expression:
    """A compiled expression.

    Attributes:
        text: as the person wrote it.
        names: identifiers that it reads.
    """

    text: str
    names: frozenset[str]
    _tree: lark.Tree[lark.Token]
    _runner: celpy.Runner

    def evaluate(self, values: Mapping[str, Any]) -> bool:
        """Evaluate on plain numbers, strings, lists and maps.

        Raises:
            ExpressionError: a name has no value, a key is missing, or the result is no boolean.
        """
        missing = sorted(self.names - set(values))
        if missing:
            raise ExpressionError(f"{missing[0]} was not measured")
        activation = {name: _to_cel(values[name]) for name in self.names}
        try:
            result = self._runner.evaluate(activation)
        except CELEvalError as error:
            raise ExpressionError(_reason(error)) from error
        except (ArithmeticError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ExpressionError(str(error) or type(error).__name__) from error
        if not isinstance(result, celtypes.BoolType):
            raise ExpressionError(f"the result is {_kind(result)}, not a boolean")
        return bool(result)

    def with_values(self, values: Mapping[str, Any]) -> str:
        """Return the text with every value put in: ``373.2 >= 0.92 * 386.6``."""
        found = sorted(_free_names(self._tree), key=lambda token: token.start_pos or 0)
        text, at = "", 0
        for token in found:
            start, end = token.start_pos or 0, token.end_pos or 0
            shown: Any = values.get(str(token))
            if start < at or shown is None:
                continue
            if isinstance(shown, Mapping):
                index = re.match(r"\s*\[\s*(['\"])(.*?)\1\s*\]", self.text[end:])
                if not index or index[2] not in shown:
                    continue
                shown, end = shown[index[2]], end + index.end()
            text += self.text[at:start] + format_value(shown)
            at = end
        return text + self.text[at:]


def format_value(value: object) -> str:
    """Write a number for people: six significant digits, no trailing zeros."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def compile_expression(
    text: str, names: Mapping[str, object], place: Place | None = None
) -> Expression:
    """Compile an expression and try it on sample values.

    Args:
        text: CEL.
        names: sample values of all names that may be used, by name.
        place: where the text stands, for errors.

    Raises:
        ExpressionError: it does not compile, uses an unknown name or function, mixes types, or
            gives no boolean.
    """
    if not text.strip():
        raise ExpressionError("is empty", place, "write for instance busBandwidthGBps >= 300.0")
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"is longer than {MAX_LENGTH} characters", place)
    try:
        expression = _compile(text)
    except CELParseError as error:
        column = f" at column {error.column}" if error.column else ""
        raise ExpressionError(f"is not valid CEL{column}: {text}", place) from error
    except (lark.exceptions.LarkError, RecursionError) as error:
        raise ExpressionError(f"is not valid CEL: {text}", place) from error
    for name in sorted(expression.names):
        if name not in names:
            hint = suggestion(name, names) or f"known: {', '.join(sorted(names))}"
            raise ExpressionError(f"names unknown {name!r}: {text}", place, hint)
    for function in sorted(_called(expression._tree)):
        if function not in _FUNCTIONS:
            near = suggestion(function, _FUNCTIONS)
            raise ExpressionError(f"calls unknown function {function!r}: {text}", place, near)
    try:
        expression.evaluate(names)
    except ExpressionError as error:
        raise ExpressionError(f"{error.message}: {text}", place) from error
    return expression


def split_keyed(text: str) -> tuple[str | None, str]:
    """Split NVCRE's form ``KEY: expression over value``; a bare expression has key None."""
    match = _KEYED.fullmatch(text)
    return (match[1], match[2].strip()) if match else (None, text.strip())


def check_threshold(key: str, text: str, tool: str, place: Place | None = None) -> Expression:
    """Compile a threshold: CEL over ``value`` (the figure named by the key) or over the figures.

    Raises:
        ExpressionError: see `compile_expression`; also when ``value`` is used and the key is no
            figure of the tool.
    """
    figures = figures_of(tool)
    samples = sample_values(figures)
    uses_value = re.search(r"\bvalue\b", text) is not None
    if key not in figures and uses_value:
        hint = suggestion(key, figures) or f"known: {', '.join(figures)}"
        raise ExpressionError(f"{key!r} is no figure of {tool}", place, hint)
    if uses_value:
        samples["value"] = samples[key]
    return compile_expression(text, samples, place)


def sample_values(figures: Mapping[str, FigureType]) -> dict[str, Any]:
    """Return a value of the right type for every figure."""
    samples: dict[str, Any] = {"double": 1.5, "int": 1, "map": _AnyKey()}
    return {name: samples[figure.type] for name, figure in figures.items()}


class _AnyKey(dict[str, float]):
    """A map that has every key, for trying expressions before anything is measured."""

    def __init__(self) -> None:
        super().__init__({"1G": 1.5})


class _AnyKeyCel(celtypes.MapType):
    def __getitem__(self, key: Any) -> Any:
        return celtypes.DoubleType(1.5)

    def __contains__(self, key: object) -> bool:
        return True


def _to_cel(value: Any) -> Any:  # noqa: PLR0911  (one return for each type of the data model)
    if isinstance(value, _AnyKey):
        return _AnyKeyCel()
    if isinstance(value, bool):
        return celtypes.BoolType(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExpressionError(f"a value is {value}")
        return celtypes.DoubleType(value)
    if isinstance(value, int):
        return celtypes.IntType(value)
    if isinstance(value, str):
        return celtypes.StringType(value)
    if isinstance(value, Mapping):
        return celtypes.MapType({celtypes.StringType(k): _to_cel(v) for k, v in value.items()})
    return None if value is None else celtypes.ListType([_to_cel(item) for item in value])


def _compare(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """Compare numbers of any numeric type, and other values only with their own type."""

    def compare(left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, CELEvalError):
                return side
        if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
            plain = [
                float(x) if isinstance(x, celtypes.DoubleType) else int(x) for x in (left, right)
            ]
            return celtypes.BoolType(function(*plain))
        if isinstance(left, celtypes.BoolType) != isinstance(right, celtypes.BoolType):
            raise TypeError(f"cannot compare {_kind(left)} with {_kind(right)}")
        result = function(left, right)
        return NotImplemented if result is NotImplemented else celtypes.BoolType(bool(result))

    return compare


def _plain(number: Any) -> int | float:
    return float(number) if isinstance(number, celtypes.DoubleType) else int(number)


def _arithmetic(name: str) -> Callable[[Any, Any], Any]:
    """Refuse to mix int and double, as every other CEL engine does; cel-python mixes one way."""
    original: Callable[[Any, Any], Any] = base_functions[name]

    def compute(left: Any, right: Any) -> Any:
        if (
            isinstance(left, _NUMBERS)
            and isinstance(right, _NUMBERS)
            and isinstance(left, celtypes.DoubleType) != isinstance(right, celtypes.DoubleType)
        ):
            whole = right if isinstance(left, celtypes.DoubleType) else left
            return CELEvalError(
                f"mixes a whole number and a decimal; write {int(whole)}.0", TypeError
            )
        return original(left, right)

    return compute


_OVERRIDES: dict[str, Callable[..., Any]] = {
    "_<_": _compare(operator.lt),
    "_<=_": _compare(operator.le),
    "_>_": _compare(operator.gt),
    "_>=_": _compare(operator.ge),
    "_==_": _compare(operator.eq),
    "_!=_": _compare(operator.ne),
    **{name: _arithmetic(name) for name in ("_+_", "_-_", "_*_", "_/_")},
}


@cache
def _environment() -> celpy.Environment:
    return celpy.Environment()


@lru_cache(maxsize=4096)
def _compile(text: str) -> Expression:
    environment = _environment()
    tree = environment.compile(text)
    names = frozenset(str(token) for token in _free_names(tree))
    return Expression(text, names, tree, environment.program(tree, functions=_OVERRIDES))


def _free_names(
    node: lark.Tree[lark.Token] | lark.Token, bound: frozenset[str] = frozenset()
) -> Iterator[lark.Token]:
    """Yield identifiers that are not bound by a macro such as ``all(x, …)``."""
    if not isinstance(node, lark.Tree):
        return
    if node.data == "ident":
        token = node.children[0]
        if isinstance(token, lark.Token) and str(token) not in bound:
            yield token
        return
    if node.data == "member_dot_arg" and str(node.children[1]) in _MACROS:
        target, _, arguments = node.children[0], node.children[1], node.children[-1]
        yield from _free_names(target, bound)
        if isinstance(arguments, lark.Tree) and arguments.children:
            variable = next(_free_names(arguments.children[0]), None)
            inner = bound | {str(variable)} if variable is not None else bound
            for argument in arguments.children[1:]:
                yield from _free_names(argument, inner)
        return
    for child in node.children:
        yield from _free_names(child, bound)


def _called(tree: lark.Tree[lark.Token]) -> set[str]:
    called = {str(node.children[0]) for node in tree.find_data("ident_arg")}
    return called | {str(node.children[1]) for node in tree.find_data("member_dot_arg")}


def _reason(error: CELEvalError) -> str:
    """Shorten celpy's text, which dumps the activation and its own type names."""
    text = str(error.args[0]) if error.args else str(error)
    if "no such member in mapping" in text or "no such key" in text:
        key = (error.args[2] if len(error.args) > 2 else None) or ()
        return f"there is no value for {' '.join(map(str, key)) or 'a key'}"
    if "no matching overload" in text or "no such overload" in text:
        return "compares or combines values of different types"
    return text.splitlines()[0][:200]


def _kind(value: object) -> str:
    kinds = {
        celtypes.BoolType: "a boolean",
        celtypes.DoubleType: "a number",
        celtypes.IntType: "a number",
        celtypes.StringType: "a text",
        celtypes.MapType: "a map",
        celtypes.ListType: "a list",
    }
    return next((says for kind, says in kinds.items() if isinstance(value, kind)), "no value")
