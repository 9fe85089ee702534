"""From text to nodes that check their types once and evaluate themselves.

cel-python parses; its tree is turned into one `Node` for each operation. cel-python's own evaluator
is not used: it compares numbers of different types in some operand orders only, loses the cause of
an error inside ``all()``, and needs about a third of a millisecond for one comparison.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import lark

from catalog.errors import ExpressionError
from catalog.language.cel.containers import (
    chosen,
    converted,
    field_of,
    has_field,
    item_of,
    items_of,
    only_one,
    quantifier,
)
from catalog.language.cel.data import reader
from catalog.language.cel.functions import FUNCTIONS, Function
from catalog.language.cel.kinds import (
    ANY,
    BOOL,
    DOUBLE,
    Kind,
    check_comparison,
    common,
    comparable,
    field_kind,
    item_kind,
    result_kind,
    same,
)
from catalog.language.cel.literals import read_literal
from catalog.language.cel.node import MACROS, Env, Evaluation, Node, Scope, Test
from catalog.language.cel.operators import (
    DataError,
    arithmetic,
    contains,
    cut,
    describe,
    equal,
    has_key,
    negate,
    ordering,
)
from catalog.language.cel.tree import Tree, arguments_of, parts_of, unfold, words_of
from catalog.reading.model import suggestion


class UnknownNameError(ExpressionError):
    """The expression reads a name that is not declared."""

    def __init__(self, name: str, known: Mapping[str, object]) -> None:
        self.name = name
        hint = suggestion(name, known) or f"known: {cut(', '.join(sorted(known)))}"
        super().__init__(f"names unknown {name!r}", hint=hint)


def build(tree: Tree, names: Mapping[str, Kind]) -> Node:
    """Turn a tree into nodes, with all types checked as far as they are known.

    Raises:
        ExpressionError: an unknown name or function, wrong arguments, or types that do not go
            together.
    """
    return _build(tree, Scope(names))


def _build(tree: Tree, scope: Scope) -> Node:
    tree = unfold(tree)
    return _BUILDERS[tree.data](tree, scope)


def _node(
    tree: Tree, op: str, args: tuple[Node, ...], kind: Kind, run: Evaluation, **more: Any
) -> Node:
    start, end = tree.meta.start_pos, tree.meta.end_pos
    return Node(op=op, args=args, kind=kind, run=run, start=start, end=end, **more)


# names, literals, lists and maps


def _literal(tree: Tree, _: Scope) -> Node:
    token = tree.children[0]
    value, kind = read_literal(token) if isinstance(token, lark.Token) else (None, ANY)
    return _node(tree, "literal", (), kind, lambda _env: value, value=value)


def _name(tree: Tree, scope: Scope) -> Node:
    name = words_of(tree)[0]
    if name not in scope.names:
        raise UnknownNameError(name, scope.names)
    return _node(tree, "name", (), scope.names[name], operator.itemgetter(name), value=name)


def _list(tree: Tree, scope: Scope) -> Node:
    items = tuple(_build(part, scope.apart()) for part in arguments_of(tree))
    runs = [item.run for item in items]
    kind = Kind("list", same(item.kind for item in items))
    return _node(tree, "list", items, kind, lambda env: [run(env) for run in runs])


def _dict(tree: Tree, scope: Scope) -> Node:
    nodes = tuple(_build(part, scope.apart()) for part in arguments_of(tree))
    for key in nodes[::2]:
        if key.kind.name not in {"string", "int", "any"}:
            raise ExpressionError(f"takes {key.kind} for the key of a map")
    pairs = [(key.run, value.run) for key, value in zip(nodes[::2], nodes[1::2], strict=True)]

    def run(env: Env) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_of, value_of in pairs:
            key = key_of(env)
            if has_key(found, key):
                raise ExpressionError(f"gives the key {key} twice")
            found[key] = value_of(env)
        return found

    return _node(tree, "dict", nodes, Kind("map", ANY), run)


# fields and items


def _select(tree: Tree, scope: Scope) -> Node:
    base, name = _build(parts_of(tree)[0], scope.apart()), words_of(tree)[0]
    kind, of = field_kind(base.kind, name), base.run
    read = reader(kind)
    return _node(
        tree, "select", (base,), kind, lambda env: field_of(of(env), name, read), value=name
    )


def _index(tree: Tree, scope: Scope) -> Node:
    base, key = (_build(part, scope.apart()) for part in parts_of(tree))
    if base.kind.name not in {"map", "list", "any"}:
        raise ExpressionError(f"reads an item of {base.kind}")
    texts = key.kind.name == "string" and base.kind.name != "list"
    if not (texts or key.kind.number or key.kind == ANY):
        raise ExpressionError(f"takes {key.kind} for the key of {base.kind}")
    kind = base.kind.inside
    if base.kind.fields and key.op == "literal":
        kind = field_kind(base.kind, str(key.value))
    of, at, read = base.run, key.run, reader(kind)
    return _node(tree, "index", (base, key), kind, lambda env: item_of(of(env), at(env), read))


def _has(tree: Tree, scope: Scope) -> Node:
    arguments = arguments_of(tree)
    if len(arguments) != 1 or unfold(arguments[0]).data != "member_dot":
        raise ExpressionError("calls has() on something else than a field, has(a.b)")
    asked = _select(unfold(arguments[0]), scope.apart())
    base, name = asked.args[0].run, asked.value
    return _node(tree, "has", (asked,), BOOL, lambda env: has_field(base(env), name), value=name)


# operators


_SIGNS = {
    "relation_lt": "<",
    "relation_le": "<=",
    "relation_gt": ">",
    "relation_ge": ">=",
    "relation_eq": "==",
    "relation_ne": "!=",
    "relation_in": "in",
    "addition_add": "+",
    "addition_sub": "-",
    "multiplication_mul": "*",
    "multiplication_div": "/",
    "multiplication_mod": "%",
}
_OF_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OF_ANY: dict[str, Callable[[Any, Any], Any]] = {
    **{sign: ordering(sign) for sign in ("<", "<=", ">", ">=")},
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "in": contains,
    **{sign: arithmetic(sign) for sign in "+-*/%"},
}


def _operation(tree: Tree, scope: Scope) -> Node:
    """Build a comparison or a calculation; of plain numbers Python compares exactly."""
    first, second = parts_of(tree)
    sign = _SIGNS[first.data]
    left, right = _build(parts_of(first)[0], scope.apart()), _build(second, scope.apart())
    if tree.data == "relation":
        kind = BOOL
        check_comparison(sign, left.kind, right.kind)
    else:
        kind = result_kind(sign, left.kind, right.kind)
    numbers = left.kind.number and right.kind.number
    apply = (_OF_NUMBERS if numbers and sign in _OF_NUMBERS else _OF_ANY)[sign]
    # Of min(value, 300) the whole number may be what is divided.
    one = _as_double(left.run) if (sign, kind) == ("/", DOUBLE) else left.run
    other = right.run
    return _node(tree, sign, (left, right), kind, lambda env: apply(one(env), other(env)))


def _as_double(run: Evaluation) -> Evaluation:
    return lambda env: float(run(env))


def _unary(tree: Tree, scope: Scope) -> Node:
    sign, operand = parts_of(tree)
    if sign.data == "unary_not":
        node = _build(operand, scope.turned())
        truth = _truth(node, "!")
        return _node(tree, "!", (node,), BOOL, lambda env: not truth(env))
    node = _build(operand, scope.apart())
    if node.kind.name not in {"int", "double", "any"}:
        raise ExpressionError(f"has the negative of {node.kind}")
    run = node.run
    return _node(tree, "neg", (node,), node.kind, lambda env: negate(run(env)))


def _truth(node: Node, sign: str) -> Test:
    """Return an evaluation that gives true or false and nothing else."""
    run = node.run
    if node.kind == BOOL:
        return run
    if node.kind != ANY:
        raise ExpressionError(f"has {node.kind} where {sign} takes true or false")

    def truth(env: Env) -> bool:
        value = run(env)
        if not isinstance(value, bool):
            raise ExpressionError(f"has {describe(value)} where {sign} takes true or false")
        return value

    return truth


def _either(tree: Tree, scope: Scope) -> Node:
    """Build ``&&`` or ``||``: an error counts unless the other operand decides alone."""
    sign = "||" if tree.data == "conditionalor" else "&&"
    decides = sign == "||"
    left, right = (_build(part, scope) for part in parts_of(tree))
    one, other = _truth(left, sign), _truth(right, sign)

    def run(env: Env) -> bool:
        try:
            if one(env) is decides:
                return decides
        except ExpressionError:
            if other(env) is decides:
                return decides
            raise
        return other(env)

    return _node(tree, sign, (left, right), BOOL, run)


def _condition(tree: Tree, scope: Scope) -> Node:
    first, *others = parts_of(tree)
    asked = _build(first, scope.apart())
    then, otherwise = (_build(part, scope) for part in others)
    if not comparable(then.kind, otherwise.kind):
        raise ExpressionError(f"gives {then.kind} or {otherwise.kind}, of different types")
    kind = common((then.kind, otherwise.kind))
    truth, one, other = _truth(asked, "?"), then.run, otherwise.run

    def chosen_of(env: Env) -> Any:
        return one(env) if truth(env) else other(env)

    run = _as_double(chosen_of) if kind == DOUBLE else chosen_of
    return _node(tree, "?:", (asked, then, otherwise), kind, run)


# functions and macros


_INSTEAD = {
    **dict.fromkeys(("avg", "average"), "write mean(…)"),
    **dict.fromkeys(("len", "count"), "write size(…)"),
    **dict.fromkeys(("isNaN", "isInf", "isFinite"), "a number that is not finite is an error"),
    "greatest": "write max(…)",
    "least": "write min(…)",
    "any": "write list.exists(x, …)",
    "type": "types are checked before anything runs",
    "uint": "write int(…); there are no unsigned numbers",
    **dict.fromkeys(("string", "bytes", "bool"), "there are conversions to int and double only"),
    **dict.fromkeys(("duration", "timestamp"), "times are figures here, numbers of seconds"),
}


def _call(tree: Tree, scope: Scope) -> Node:
    name = words_of(tree)[0]
    if name == "has":
        return _has(tree, scope)
    known = {name: function for name, function in FUNCTIONS.items() if function.free}
    if name in FUNCTIONS and name not in known:
        raise ExpressionError(f"calls {name}() on nothing", hint=f"write x.{name}(…)")
    return _apply(tree, _find(name, known), arguments_of(tree), scope)


def _method(tree: Tree, scope: Scope) -> Node:
    name, base = words_of(tree)[0], parts_of(tree)[0]
    if name in MACROS:
        return _macro(tree, name, scope)
    known = {name: function for name, function in FUNCTIONS.items() if function.method}
    if name in FUNCTIONS and name not in known:
        raise ExpressionError(f"calls {name}() on a value", hint=f"write {name}(…)")
    return _apply(tree, _find(name, known), [base, *arguments_of(tree)], scope)


def _find(name: str, known: Mapping[str, Function]) -> Function:
    if name in known:
        return known[name]
    names = [*known, *MACROS, "has"]
    hint = _INSTEAD.get(name) or suggestion(name, names) or f"known: {', '.join(sorted(names))}"
    raise ExpressionError(f"calls unknown function {name!r}", hint=hint)


def _apply(tree: Tree, function: Function, given: list[Tree], scope: Scope) -> Node:
    name, apply = function.name, function.run
    arguments = tuple(_build(part, scope.apart()) for part in given)
    kind = function.result(tuple(argument.kind for argument in arguments))
    if kind is None:
        kinds = ", ".join(str(argument.kind) for argument in arguments) or "nothing"
        raise ExpressionError(f"gives {kinds} to {name}()", hint=f"it takes {function.takes}")
    runs = [argument.run for argument in arguments]
    if function.reads:
        if function.reads not in scope.names:
            message = f"calls {name}(), which reads {function.reads}, and there is none here"
            raise ExpressionError(message)
        runs.insert(0, operator.itemgetter(function.reads))
    if function.check and arguments[-1].op == "literal":
        try:
            function.check(arguments[-1].value)
        except DataError as error:
            raise ExpressionError(error.message) from error
    return _node(
        *(tree, "call", arguments, kind, lambda env: apply(*[run(env) for run in runs])),
        value=name,
        figure=function.reads,
    )


def _macro(tree: Tree, name: str, scope: Scope) -> Node:
    base = _build(parts_of(tree)[0], scope.apart())
    variable, *bodies = arguments_of(tree) or [tree]
    if unfold(variable).data != "ident" or len(bodies) not in ({1, 2} if name == "map" else {1}):
        raise ExpressionError(f"calls {name}() in another form than {name}(x, …)")
    if base.kind.name not in {"map", "list", "any"}:
        raise ExpressionError(f"calls {name}() on {base.kind}, which is no list")
    word, item = words_of(unfold(variable))[0], item_kind(base.kind)
    inside = scope.inside(word, item)
    if name not in {"all", "exists"}:
        inside = inside.apart()
    nodes = tuple(_build(part, inside) for part in bodies)
    truth = _truth(nodes[0], f"{name}()") if name != "map" or len(nodes) > 1 else None
    if truth is None or name == "map":
        apply, kind = converted(nodes[-1].run, truth), Kind("list", nodes[-1].kind)
    elif name == "filter":
        apply, kind = chosen(truth), Kind("list", item)
    elif name == "exists_one":
        apply, kind = only_one(truth, positive=scope.positive), BOOL
    else:
        apply, kind = quantifier(name, truth, positive=scope.positive), BOOL
    of, read = base.run, reader(item)
    return _node(
        *(tree, name, (base, *nodes), kind),
        lambda env: apply(items_of(of(env), name, read), env.copy(), word),
        value=word,
    )


def _refused(tree: Tree, _: Scope) -> Node:
    what = "builds a message" if tree.data == "member_object" else "calls a function by .name()"
    raise ExpressionError(f"{what}, which is of no use here")


_BUILDERS: dict[str, Callable[[Tree, Scope], Node]] = {
    "expr": _condition,
    **dict.fromkeys(("conditionalor", "conditionaland"), _either),
    **dict.fromkeys(("relation", "addition", "multiplication"), _operation),
    "unary": _unary,
    "member_dot": _select,
    "member_dot_arg": _method,
    "member_index": _index,
    "ident_arg": _call,
    **dict.fromkeys(("ident", "dot_ident"), _name),
    **dict.fromkeys(("member_object", "dot_ident_arg"), _refused),
    "literal": _literal,
    "list_lit": _list,
    "map_lit": _dict,
}
