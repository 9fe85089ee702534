"""cel-python's parser, and its tree without the rules of the grammar that say nothing."""

from __future__ import annotations

import logging
import threading
from functools import cache

import lark
from celpy.celparser import CELParseError, CELParser

from catalog.errors import ExpressionError

Tree = lark.Tree[lark.Token]

# cel-python logs what it parses to stderr.
logging.getLogger("celpy").setLevel(logging.CRITICAL)


class _Parser(CELParser):
    """cel-python's parser, whose own forgets where ``true`` and ``false`` stand."""

    @staticmethod
    def ambiguous_literals(t: lark.Token) -> lark.Token:
        """Tell the two literals from names; cel-python fixes the name of the argument."""
        if t.value in {"true", "false"}:
            return lark.Token.new_borrow_pos("BOOL_LIT", t.value, t)
        return t


@cache
def _parser() -> CELParser:
    """Return the only parser; cel-python keeps the first that is made for all, so it is ours."""
    CELParser.CEL_PARSER = None
    return _Parser()


_LOCK = threading.Lock()
"""cel-python's parser keeps the text that it parses in itself."""


def parse(text: str) -> Tree:
    """Parse CEL.

    Raises:
        ExpressionError: it is no CEL, or nested too deeply.
    """
    try:
        with _LOCK:
            tree: Tree = _parser().parse(text)
    except CELParseError as error:
        column = f" at column {error.column}" if error.column else ""
        raise ExpressionError(f"is not valid CEL{column}") from error
    except (lark.exceptions.LarkError, RecursionError) as error:
        raise ExpressionError("is not valid CEL") from error
    return tree


def unfold(tree: Tree) -> Tree:
    """Step over the rules of the grammar that have nothing to do: parentheses and precedence."""
    while (
        len(tree.children) == 1
        and isinstance(tree.children[0], lark.Tree)
        and tree.data not in {"list_lit", "map_lit"}
    ):
        tree = tree.children[0]
    return tree


def parts_of(tree: Tree) -> list[Tree]:
    """Return the operands."""
    return [part for part in tree.children if isinstance(part, lark.Tree)]


def arguments_of(tree: Tree) -> list[Tree]:
    """Return the expressions between the parentheses of a call, brackets or braces."""
    found = [part for part in parts_of(tree) if part.data in {"exprlist", "mapinits"}]
    return parts_of(found[-1]) if found else []


def words_of(tree: Tree) -> list[str]:
    """Return the names: of a field, a function or a variable."""
    return [str(part) for part in tree.children if isinstance(part, lark.Token)]
