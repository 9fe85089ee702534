"""Where cel-python's own evaluator is right, ours gives the same.

It is right on numbers of one type, texts, booleans, lists and maps of one type, conditions, `&&`,
`||`, `!`, `in`, `size`, and macros over lists that hold something.
"""

from __future__ import annotations

import re
from typing import Any

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from hypothesis import event, given, settings
from hypothesis import strategies as st

from catalog.language.cel.node import COMPARISONS
from catalog.language.expressions import compile_expression

VALUES: dict[str, Any] = {
    "a": 3,
    "b": -7,
    "x": 2.5,
    "y": -0.25,
    "s": "ring",
    "t": "Straße",
    "p": True,
    "q": False,
    "counts": [4, -7, 3],
    "rates": [2.5, 1e3],
    "names": ["ring", "tree"],
    "sizes": {"1G": 3, "8G": -7},
}
ATOMS = {
    "int": ("a", "b", "0", "-5", "0x1F", "size(counts)", "size(s)", "sizes['8G']", "counts[1]"),
    "double": ("x", "y", "0.0", "1e3", "-2.5", "rates[0]"),
    "string": ("s", "t", "'ring'", '"tree\\u00e9"', "r'a\\b'", "''", "names[1]"),
    "bool": ("p", "q", "true", "false"),
}
LISTS = {"ints": ("counts", "[1, 2, 3]"), "doubles": ("rates", "[0.5]"), "strings": ("names",)}
TYPES = ("int", "double", "string")
COMPARED = [f"({{{kind}}} {sign} {{{kind}}})" for kind in TYPES for sign in sorted(COMPARISONS)]
FORMS = {
    "int": ["({int} + {int})", "({int} - {int})", "({int} * {int})"],
    "double": ["({double} + {double})", "({double} - {double})", "({double} * {double})"],
    "string": ["({string} + {string})"],
    "bool": [
        *COMPARED,
        *("({bool} && {bool})", "({bool} || {bool})", "!({bool})") * 3,
        *(f"({{{kind}}} in {{{kind}s}})" for kind in TYPES),
        *("({string} in sizes)", "t.contains('ra')", "s.startsWith(t)"),
        *("([{int}, {int}] == [{int}, {int}])", "({{'k': {double}}} == {{'k': {double}}})"),
        # A star stands for the variable of the macro, of which the condition may make use.
        *("{ints}.all(*, {bool*})", "{ints}.exists(*, {bool*})") * 2,
        "(size({ints}.filter(*, {bool*})) == {int})",
    ],
}
for _kind, _forms in FORMS.items():
    _forms.append(f"({{bool}} ? {{{_kind}}} : {{{_kind}}})")
SLOT = re.compile(r"(?<!\{)\{(\w+)(\*?)\}")
RUNNER = celpy.Environment()


@st.composite
def written(draw: st.DrawFn, kind: str, depth: int = 3, variables: tuple[str, ...] = ()) -> str:
    """Write an expression of a type.

    Args:
        draw: draws the parts.
        kind: the type.
        depth: how deep it may be nested.
        variables: of the macros around it; they are of type int.
    """
    if kind in LISTS:
        return draw(st.sampled_from(LISTS[kind]))
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from((*ATOMS[kind], *(variables if kind == "int" else ()))))
    variable = f"v{depth}"

    def part(slot: re.Match[str]) -> str:
        inside = (*variables, variable) if slot[2] else variables
        return draw(written(slot[1], depth - 1, inside))

    form = draw(st.sampled_from(FORMS[kind])).replace("(*,", f"({variable},")
    return SLOT.sub(part, form).replace("{{", "{").replace("}}", "}")


def by_cel_python(text: str) -> bool:
    program = RUNNER.program(RUNNER.compile(text))
    return bool(program.evaluate({name: json_to_cel(value) for name, value in VALUES.items()}))


def test_the_oracle_is_cel_python_itself() -> None:
    assert isinstance(json_to_cel(3), celtypes.IntType)
    assert by_cel_python("a == 3 && x == 2.5")


@settings(max_examples=150, deadline=None)
@given(written("bool"))
def test_same_as_cel_python_where_it_is_right(text: str) -> None:
    expression = compile_expression(text, VALUES)
    result = expression.evaluate(VALUES)
    event(f"{result}")
    assert result is by_cel_python(text)
