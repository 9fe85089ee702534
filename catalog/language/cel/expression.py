"""An expression: compiled strictly, evaluated on plain values, explained with the values put in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from catalog.errors import ExpressionError, Place
from catalog.language.cel import explain
from catalog.language.cel.compiler import UnknownNameError, build
from catalog.language.cel.data import Reader, reader
from catalog.language.cel.functions import FUNCTIONS
from catalog.language.cel.kinds import ANY, BOOL, Kind, kind_of
from catalog.language.cel.node import MACROS, Env, Node
from catalog.language.cel.operators import DataError, describe
from catalog.language.cel.tree import parse

MAX_LENGTH = 2048
"""Longest expression, as in NVCRE's CRD."""

_DASHED = re.compile(r"(\w+)\.(\w+(?:-\w+)+)")


@dataclass(frozen=True)
class Expression:
    """A compiled expression.

    Attributes:
        text: as the person wrote it.
        names: names that it reads, those included that its functions read.
        node: its outermost operation.
        kinds: types of the names.
    """

    text: str
    names: frozenset[str]
    node: Node
    kinds: Mapping[str, Kind]

    def evaluate(self, values: Mapping[str, Any]) -> bool:
        """Evaluate on plain numbers, strings, lists and maps.

        Raises:
            NotFiniteError: a part of it is no finite number.
            ExpressionError: a name has no value, a key is missing, or the result is no boolean.
        """
        env = self._environment(values)
        try:
            result = self.node.run(env)
        except (ArithmeticError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise ExpressionError(str(error) or type(error).__name__) from error
        if not isinstance(result, bool):
            raise ExpressionError(f"the result is {describe(result)}, not a boolean")
        return result

    def _environment(self, values: Mapping[str, Any]) -> Env:
        env: Env = {}
        for name, read in self._readers:
            value = values.get(name)
            if value is None:
                raise ExpressionError(f"{name} was not measured")
            env[name] = read(value, name)
        return env

    @cached_property
    def _readers(self) -> tuple[tuple[str, Reader], ...]:
        return tuple((name, reader(self.kinds[name])) for name in sorted(self.names))

    @property
    def constant(self) -> bool:
        """True when it gives the same whatever is measured: ``1 == 1``, ``true || value > 1.0``.

        It is evaluated with every name unknown. An unknown part is an error, which CEL only
        swallows where the other part of ``||`` or ``&&`` decides alone.
        """
        try:
            self.node.run(_Unknown())
        except DataError:
            return not self.names
        except (ExpressionError, RecursionError):
            return False
        return True

    @property
    def called(self) -> frozenset[str]:
        """Names of the functions and macros that it calls."""
        names = {node.value if node.op == "call" else node.op for node in self.node.walk()}
        return frozenset(names & {*FUNCTIONS, *MACROS, "has"})

    @property
    def indexes(self) -> bool:
        """True when it reads a value out of a map, as in ``busBandwidthAtGBps["16G"]``."""
        return any(
            node.op in {"index", "select"} or node.figure is not None for node in self.node.walk()
        )

    def with_values(self, values: Mapping[str, Any]) -> str:
        """Return the text with every value put in: ``373.2 >= 0.92 * 386.6``."""
        env: Env = {}
        for name, read in self._readers:
            value = values.get(name)
            try:
                if value is not None:
                    env[name] = read(value, name)
            except ExpressionError:
                env[name] = value
        inside = explain.with_values(self.text, self.node, env)
        return self.text[: self.node.start] + inside + self.text[self.node.end :]


class _Unknown(Env):
    """Values of which nothing is known."""

    def __missing__(self, name: str) -> Any:
        raise ExpressionError(f"{name} is not known")

    def copy(self) -> _Unknown:
        return _Unknown(self)


def compile_expression(
    text: str,
    names: Mapping[str, object],
    place: Place | None = None,
    hints: Mapping[str, str] = {},
) -> Expression:
    """Compile an expression and try it on sample values.

    Args:
        text: CEL.
        names: sample values of all names that may be used, by name; they tell the types, see
            `catalog.language.cel.kinds.kind_of`.
        place: where the text stands, for errors.
        hints: what to say to one who uses a name that is not among them.

    Raises:
        ExpressionError: it does not compile, uses an unknown name or function, mixes types, or
            gives no boolean.
    """
    if not text.strip():
        raise ExpressionError("is empty", place, "write for instance busBandwidthGBps >= 300.0")
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"is longer than {MAX_LENGTH} characters", place)
    kinds = {name: kind_of(sample) for name, sample in names.items()}
    try:
        expression = _compile(text, tuple(kinds.items()))
    except RecursionError as error:
        raise ExpressionError(f"is nested too deeply: {text}", place) from error
    except UnknownNameError as error:
        hint = _quoted_field(text, error.name) or hints.get(error.name) or error.hint
        raise ExpressionError(f"{error.message}: {text}", place, hint) from error
    except ExpressionError as error:
        raise ExpressionError(f"{error.message}: {text}", place, error.hint) from error
    try:
        expression.evaluate(names)
    except DataError:
        pass  # With other values it may be sound: 1.0 / (value - 1.5).
    except ExpressionError as error:
        raise ExpressionError(f"{error.message}: {text}", place) from error
    return expression


@lru_cache(maxsize=4096)
def _compile(text: str, kinds: tuple[tuple[str, Kind], ...]) -> Expression:
    known = dict(kinds)
    node = build(parse(text), known)
    if node.kind not in {BOOL, ANY}:
        raise ExpressionError(f"gives {node.kind}, not a boolean")
    names = frozenset(node.reads())
    return Expression(text, names, node, {name: known[name] for name in names})


def _quoted_field(text: str, name: str) -> str | None:
    """CEL reads ``m.some-name`` as a subtraction."""
    for base, dashed in _DASHED.findall(text):
        if name in dashed.split("-")[1:]:
            return f'write {base}["{dashed}"]'
    return None
