"""One operation of an expression, and what is known where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog.language.cel.kinds import Kind

Env = dict[str, Any]
"""Values by name."""
Evaluation = Callable[[Env], Any]
Test = Callable[[Env], bool]

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
MACROS = ("all", "exists", "exists_one", "map", "filter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operation.

    Attributes:
        op: literal, name, select, index, call, has, list, dict, ``?:``, ``&&``, ``||``, ``!``,
            ``neg``, ``in``, one of `MACROS`, or the sign of an operator.
        args: what it operates on; of a macro the list, then the bodies.
        kind: type of the result.
        run: evaluates it on the values of the names.
        start: where it begins in the text.
        end: where it ends.
        value: the literal value; the name, field, function or variable of a macro.
        figure: the figure that a function reads besides its arguments.
    """

    op: str
    args: tuple[Node, ...] = ()
    kind: Kind
    run: Evaluation
    start: int
    end: int
    value: Any = None
    figure: str | None = None

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for node in self.args:
            yield from node.walk()

    def reads(self, bound: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield the names that it reads and that are no variables of macros."""
        if self.op == "name" and self.value not in bound:
            yield self.value
        if self.figure:
            yield self.figure
        inside = bound | {self.value} if self.op in MACROS else bound
        for index, part in enumerate(self.args):
            yield from part.reads(inside if index else bound)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known where a node stands.

    Attributes:
        names: types of the names.
        positive: True where a false of the node can never make the whole true, so that a vacuous
            false is harmless; not so under a negation, or where nobody can tell.
    """

    names: Mapping[str, Kind]
    positive: bool = True

    def inside(self, variable: str, kind: Kind) -> Scope:
        """Return the scope of the body of a macro."""
        return replace(self, names={**self.names, variable: kind})

    def turned(self) -> Scope:
        """Return the scope below a negation."""
        return replace(self, positive=not self.positive)

    def apart(self) -> Scope:
        """Return the scope of an operand whose truth may count either way."""
        return replace(self, positive=False)
