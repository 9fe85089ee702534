"""CEL expressions: compiled strictly, evaluated on numbers, explained with the numbers put in.

cel-python checks only syntax and mixes int and double in some operand orders but not in others.
Here an expression is refused before anything runs when it names an unknown figure, mixes types
in arithmetic, gives no boolean, or gives the same whatever is measured; comparisons between int
and double work in both orders, as the CEL specification (and NVCRE) has it. A division by zero and
a result that is no finite number are errors, since every comparison with them means nothing.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import celpy
import lark
from celpy import celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError, base_functions

from catalog.cel_operators import OPERATORS, kind_of
from catalog.errors import ExpressionError, Place
from catalog.figures import FigureType, figures_of
from catalog.model import suggestion

MAX_LENGTH = 2048
"""Longest expression, as in NVCRE's CRD."""

MAX_KEYS = 200
"""Characters of a list of the keys that a map has."""

_KEYED = re.compile(r"\s*([A-Za-z][A-Za-z0-9]*)\s*:(?!:)\s*(.+)", re.DOTALL)
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NUMBER = re.compile(r"\s*[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?\s*")
_MACROS = {"all", "exists", "exists_one", "map", "filter"}
_FUNCTIONS = {*base_functions, "has", "dyn", *_MACROS}

_KEYLESS = ("no such member in mapping", "no such key")

# re2 and celpy log every bad pattern and every evaluation to stderr.
logging.getLogger("celpy").setLevel(logging.CRITICAL)


class NotFiniteError(ExpressionError):
    """A division by zero, or a number outside the range of a double or a 64-bit integer."""


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
            NotFiniteError: a part of it is no finite number.
            ExpressionError: a name has no value, a key is missing, or the result is no boolean.
        """
        missing = sorted(self.names - set(values))
        if missing:
            raise ExpressionError(f"{missing[0]} was not measured")
        activation = {name: _to_cel(values[name]) for name in self.names}
        try:
            result = self._runner.evaluate(activation)
        except CELEvalError as error:
            kind = NotFiniteError if _is_arithmetic(error) else ExpressionError
            keys = [values[name] for name in sorted(self.names)]
            raise kind(_reason(error, [key for key in keys if isinstance(key, Mapping)])) from error
        except ArithmeticError as error:
            raise NotFiniteError(str(error) or type(error).__name__) from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ExpressionError(str(error) or type(error).__name__) from error
        if not isinstance(result, celtypes.BoolType):
            raise ExpressionError(f"the result is {kind_of(result)}, not a boolean")
        return bool(result)

    @property
    def constant(self) -> bool:
        """True when it gives the same whatever is measured: ``1 == 1``, ``true || value > 1.0``.

        It is evaluated with every name unknown. An unknown part is an error, which CEL only
        swallows where the other part of ``||`` or ``&&`` decides alone; and ``has()``, of which
        nothing can be said in this way.
        """
        if not self.names:
            return True
        if "has" in self.called:
            return False
        try:
            self._runner.evaluate({})
        except (CELEvalError, ArithmeticError, ValueError, TypeError, KeyError, RecursionError):
            return False
        return True

    @property
    def called(self) -> frozenset[str]:
        """Names of the functions and macros that it calls."""
        return frozenset(_called(self._tree))

    @property
    def indexes(self) -> bool:
        """True when it reads a value out of a map, as in ``busBandwidthAtGBps["16G"]``."""
        return any(any(self._tree.find_data(kind)) for kind in ("member_index", "member_dot"))

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
    for function in sorted(expression.called):
        if function not in _FUNCTIONS:
            near = suggestion(function, _FUNCTIONS)
            raise ExpressionError(f"calls unknown function {function!r}: {text}", place, near)
    for literal in expression._tree.scan_values(_is_endless):
        raise ExpressionError(f"holds {literal}, which is too great for a number: {text}", place)
    try:
        expression.evaluate(names)
    except NotFiniteError:
        pass  # With other values it may be finite: 1.0 / (value - 1.5).
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
            figure of the tool, the key is no identifier, ``has()`` is used, or the result is the
            same whatever is measured.
    """
    if not _KEY.fullmatch(key):
        hint = "a key is a letter and then letters and digits"
        raise ExpressionError(f"{key!r} is no threshold key", place, hint)
    if _NUMBER.fullmatch(text):
        raise ExpressionError(f"is a number, not a test: {text}", place, f"write value >= {text}")
    figures = figures_of(tool)
    samples = sample_values(figures)
    uses_value = re.search(r"\bvalue\b", text) is not None
    if key not in figures and uses_value:
        hint = suggestion(key, figures) or f"known: {', '.join(figures)}"
        raise ExpressionError(f"{key!r} is no figure of {tool}", place, hint)
    if uses_value:
        samples["value"] = samples[key]
    expression = compile_expression(text, samples, place)
    if "has" in expression.called:
        # Absent is not slow: a false has() would read as a bar that is not met.
        maps = [name for name in sorted(expression.names) if isinstance(samples[name], Mapping)]
        hint = f'read a size that the run has, {maps[0] if maps else "a map"}["16G"]; '
        hint += "a size that is missing is INCONCLUSIVE by itself"
        raise ExpressionError(f"has() is no test of a figure: {text}", place, hint)
    if expression.constant:
        raise ExpressionError(f"tests nothing, it is the same whatever is measured: {text}", place)
    return expression


def code_of(key: str, expression: Expression, tool: str) -> str:
    """Name the reason code of a false expression by what it tests.

    Which message sizes there are is a matter of the run, not of its speed. The unit of the figures
    tells bandwidth from time.
    """
    figures = figures_of(tool)
    names = {key if name == "value" else name for name in expression.names}
    read = [figures[name] for name in sorted(names) if name in figures]
    if read and all(figure.type == "map" for figure in read) and not expression.indexes:
        return "FIGURE_MISSING"
    units = {figure.unit for figure in read}
    if tool == "nccl":
        if names == {"wrongCount"}:
            return "NCCL_DATA_CORRUPTION"
        if units & {"GB/s", "ratio"}:
            return "NCCL_LOW_BANDWIDTH"
        return "NCCL_HIGH_LATENCY" if "us" in units else "ThresholdViolation"
    return "TRAIN_SLOW" if tool == "training" and "count" not in units else "ThresholdViolation"


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


def _is_endless(token: Any) -> bool:
    if not isinstance(token, lark.Token) or token.type != "FLOAT_LIT":
        return False
    return not math.isfinite(float(token))


def _is_arithmetic(error: CELEvalError) -> bool:
    kind = error.args[1] if len(error.args) > 1 else None
    return isinstance(kind, type) and issubclass(kind, ArithmeticError)


@cache
def _environment() -> celpy.Environment:
    return celpy.Environment()


@lru_cache(maxsize=4096)
def _compile(text: str) -> Expression:
    environment = _environment()
    tree = environment.compile(text)
    names = frozenset(str(token) for token in _free_names(tree))
    return Expression(text, names, tree, environment.program(tree, functions=OPERATORS))


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


def _reason(error: CELEvalError, maps: Iterable[Mapping[str, Any]] = ()) -> str:
    """Shorten celpy's text, which dumps the activation and its own type names."""
    text = str(error.args[0]) if error.args else str(error)
    if any(says in text for says in _KEYLESS):
        key = (error.args[2] if len(error.args) > 2 else None) or ()
        there = ", ".join(dict.fromkeys(str(name) for values in maps for name in values))
        says = f"there is no value for {' '.join(map(str, key)) or 'a key'}"
        return f"{says}; there is {there[:MAX_KEYS]}" if there else says
    if "no matching overload" in text or "no such overload" in text:
        return "compares or combines values of different types"
    return text.splitlines()[0][:200]
