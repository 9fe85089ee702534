"""What each expression gives: true, false, refused before anything runs, or not proven.

The sections follow what people trip on when they write thresholds: numbers of different types,
NaN and infinity, what is missing, empty lists, errors that other operands swallow, and what is
accepted elsewhere but is no CEL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from catalog.errors import ExpressionError
from catalog.language.cel.kinds import AnyKey, Record
from catalog.language.expressions import NotFiniteError, compile_expression

NODE = {
    "metadata": {"name": "gpu-07", "labels": {"pool": "a", "some-name": "b"}},
    "spec": {"taints": [{"key": "k", "value": None}]},
    "status": {"allocatable": 8, "load": 0.5},
}
"""A map of which nobody knows what is in it; expressions are tried on it before anything runs."""
ROW = Record(size_bytes=8, bus=1.5, wrong=1.5, type="float", nan=False)
SAMPLES: dict[str, object] = {
    "x": 1.5,
    "whole": 1.5,
    "zero": 1.5,
    "n": 1,
    "none": 1,
    "ratio": 1.5,
    "gpu": "",
    "empty": "",
    "ok": True,
    "busBandwidthAtGBps": AnyKey(),
    "rows": [ROW],
    "few": [1.5],
    "nothing": [1.5],
    "node": NODE,
}
VALUES: dict[str, Any] = {
    "x": 373.25,
    "whole": 370,  # JSON writes a double that is whole without its point
    "zero": 0.0,
    "n": 8,
    "none": 0,
    "ratio": 0.04,
    "gpu": "h100",
    "empty": "",
    "ok": True,
    "busBandwidthAtGBps": {"1G": 361.5, "8G": 377, "16G": 380.25},
    "rows": [
        {"size_bytes": 1024, "bus": 0.5, "wrong": 0, "type": "float", "nan": False},
        {"size_bytes": 8589934592, "bus": 377, "wrong": None, "type": "float", "nan": False},
    ],
    "few": [3, 1.5, 2],
    "nothing": [],
    "node": NODE,
}


@dataclass(frozen=True)
class Refused:
    """An error before anything runs."""

    says: str


@dataclass(frozen=True)
class Unproven:
    """An error on these values."""

    says: str


@dataclass(frozen=True)
class NotFinite(Unproven):
    """An error because a number is none."""


OTHER_TYPES = Refused("different types")
EMPTY = Unproven("empty list, which proves nothing")

TABLE: list[tuple[str, bool | Refused | Unproven]] = [
    # whole numbers and decimals, in every order
    ("x >= 300", True),
    ("300 <= x", True),
    ("x >= 373.5", False),
    ("373.5 <= x", False),
    ("n >= 7.5", True),
    ("7.5 <= n", True),
    ("n >= 8.5", False),
    ("n > 8", False),
    ("whole == 370", True),
    ("370 == whole", True),
    ("whole == 370.0", True),
    ("whole != 370", False),
    ("x == 370", False),
    ("n == 8.0", True),
    ("8.0 == n", True),
    ("n != 8.0", False),
    ("0.9 * 370 == 333.0", True),
    ("370 * 0.9 == 333.0", True),
    ("370 * 0.9 == 333", True),
    ("x >= 0.92 * 400", True),
    ("x >= 400 * 0.92", True),
    ("x - 1 > 372", True),
    ("1 - x < 0", True),
    ("n / 3.0 > 2.6", True),
    ("3.0 / n < 0.4", True),
    ("n + 0.5 == 8.5", True),
    ("0.5 + n == 8.5", True),
    ("whole / 4 == 92.5", True),
    ("n in [1, 2, 8]", True),
    ("n in [1.0, 8.0]", True),
    ("whole in [1, 370]", True),
    ("x in [1, 2]", False),
    ("370 in [whole]", True),
    ("[1, 2] == [1.0, 2.0]", True),
    ("[1, 2] != [1.0, 2.5]", True),
    ("[1, 2] == [1, 2, 3]", False),
    ("{'a': 1} == {'a': 1.0}", True),
    ("{'a': 1} == {'b': 1}", False),
    ("{'a': 1} != {'a': 2.0}", True),
    ("9007199254740993 > 9007199254740992.0", True),
    ("9007199254740993 == 9007199254740992.0", False),
    ("9223372036854775807 < 9223372036854775808.0", True),
    ("x > 350 && x < 400", True),
    ("350 < x && x < 360", False),
    # whole numbers among themselves, as in every CEL
    ("5 / 2 == 2", True),
    ("-5 / 2 == -2", True),
    ("5 / -2 == -2", True),
    ("5 % 2 == 1", True),
    ("-5 % 2 == -1", True),
    ("n / 3 == 2", True),
    ("7 / 2.0 == 3.5", True),
    ("2 + 3 * 4 == 14", True),
    ("(2 + 3) * 4 == 20", True),
    ("-n == -8", True),
    ("--n == 8", True),
    ("-x < 0", True),
    ("n-1 == 7", True),
    ("n -1 == 7", True),
    ("0x10 == 16", True),
    ("1e3 == 1000", True),
    (".5 + 1. == 1.5", True),
    ("5.0 % 2 == 1", Refused("% of a decimal")),
    ("x % 2 == 1", Refused("% of a decimal")),
    # numbers that are none
    ("1 / 0 == 1", NotFinite("divides by zero")),
    ("n / none > 1", NotFinite("divides by zero")),
    ("n % none == 0", NotFinite("divides by zero")),
    ("1.0 / 0.0 > 1.0", NotFinite("divides by zero")),
    ("0.0 / 0.0 == 0.0 / 0.0", NotFinite("divides by zero")),
    ("!(x / zero < 1)", NotFinite("divides by zero")),
    ("1e308 * 10 > x", NotFinite("inf, not a finite number")),
    ("!(1e308 * 10 < x)", NotFinite("inf, not a finite number")),
    ("x >= 1e400", Refused("1e400, which is too great")),
    ("9223372036854775807 + 1 > 0", NotFinite("does not fit in 64 bits")),
    ("-9223372036854775808 - 1 < 0", NotFinite("does not fit in 64 bits")),
    ("-(-9223372036854775808) > 0", NotFinite("does not fit in 64 bits")),
    ("-9223372036854775808 / -1 > 0", NotFinite("does not fit in 64 bits")),
    ("9223372036854775807 * 2 > 0", NotFinite("does not fit in 64 bits")),
    ("n > 9223372036854775808", Refused("too great")),
    ("double('nan') != x", Refused("nan, not a finite number")),
    ("double('inf') >= x", Refused("inf, not a finite number")),
    ("double(gpu) >= x", Unproven("'h100' is not a number")),
    ("x.isNaN()", Refused("not finite is an error")),
    # types that no arithmetic mixes
    ("x >= '300'", OTHER_TYPES),
    ("'300' <= x", OTHER_TYPES),
    ("x == '373.25'", OTHER_TYPES),
    ("gpu == 100", OTHER_TYPES),
    ("gpu != 100", OTHER_TYPES),
    ("x == true", OTHER_TYPES),
    ("ok == 1", OTHER_TYPES),
    ("ok > 0", OTHER_TYPES),
    ("5 > 3 > 1", OTHER_TYPES),
    ("1 < x < 400", OTHER_TYPES),
    ("null >= 1", OTHER_TYPES),
    ("x >= null", OTHER_TYPES),
    ("x == null", OTHER_TYPES),
    ("x != null", OTHER_TYPES),
    ("null == null", True),
    ("null < null", OTHER_TYPES),
    ("[0] < [1]", OTHER_TYPES),
    ("{'a': 1} < {'a': 2}", OTHER_TYPES),
    ("x in ['a', 'b']", OTHER_TYPES),
    ("x in gpu", Refused("looks for something in a text")),
    ("x + 'a' == 'a'", OTHER_TYPES),
    ("gpu + 1 == 'h1001'", OTHER_TYPES),
    ("ok ? x : 'a' == 'a'", OTHER_TYPES),
    ("dyn(1) == dyn('a')", Refused("different types")),
    ("node.metadata.name == 7", Refused("different types")),
    ("node.metadata.name != 7", Refused("different types")),
    ("node.status.allocatable == 8.0", True),
    ("node.status.load < 1", True),
    # what gives no boolean
    ("x", Refused("not a boolean")),
    ("x + 1", Refused("gives a number, not a boolean")),
    ("gpu", Refused("gives a text, not a boolean")),
    ("[x > 1]", Refused("gives a list, not a boolean")),
    ("x > 1 ? 1 : 0", Refused("not a boolean")),
    ("node.metadata.name", Refused("the result is a text, not a boolean")),
    ("x && ok", Refused("a number where && takes true or false")),
    ("ok || 1", Refused("a number where || takes true or false")),
    ("!x", Refused("a number where ! takes true or false")),
    ("x ? ok : ok", Refused(r"a number where \? takes true or false")),
    ("ok && node.metadata.name", Refused("a text where && takes true or false")),
    # what is missing
    ("y > 1", Refused("names unknown 'y'")),
    ("busBandwidthAtGBs['8G'] > 1", Refused("did you mean 'busBandwidthAtGBps'")),
    ("busBandwidthAtGBps['8G'] > 370", True),
    ("busBandwidthAtGBps['32G'] > 1", Unproven("no value for 32G; there is 1G, 8G, 16G")),
    ("!(busBandwidthAtGBps['32G'] < 1)", Unproven("no value for 32G")),
    ("'8G' in busBandwidthAtGBps", True),
    ("'32G' in busBandwidthAtGBps", False),
    ("node.metadata.labels.team == 'a'", Refused("no value for team; there is pool, some-name")),
    ("node.metadata.labels['some-name'] == 'b'", True),
    ("node.metadata.labels.some-name == 'b'", Refused(r'write labels\["some-name"\]')),
    ("node.a.b.c == 1", Refused("no value for a")),
    ("has(node.spec)", True),
    ("has(node.spec.taints) && node.spec.taints.exists(t, t.key == 'k')", True),
    ("has(node.spec.unschedulable)", False),
    ("!has(node.spec.unschedulable) || node.spec.unschedulable", True),
    ("has(node.a.b)", Refused("no value for a")),
    ("!has(nude.x) || nude.x > 3", Refused("names unknown 'nude'")),
    ("has(nude.x)", Refused("names unknown 'nude'")),
    ("has(node)", Refused(r"has\(\) on something else than a field")),
    ("has(x.y)", Refused("which has no fields")),
    ("has(node.spec.taints[0])", Refused(r"has\(\) on something else")),
    ("node.spec.taints[0].value == 'v'", Refused("no value for value")),
    ("has(node.spec.taints[0].value)", False),
    ("node.spec.taints[1].key == 'k'", Unproven("item 1 of a list of 1")),
    ("few[0] == 3", True),
    ("few[3] > 1", Unproven("item 3 of a list of 3")),
    ("few[-1] > 1", Unproven("item -1 of a list of 3")),
    ("few['a'] > 1", Refused("a text for the key of a list")),
    ("rows[1].bus > 370", True),
    ("rows[0].bsu > 1", Refused("did you mean 'bus'")),
    ("rows[1].wrong == 0", Unproven("no value for wrong")),
    ("rows[1]['bus'] / 2 == 188.5", True),
    ("gpu.name == 'a'", Refused("a text, which has no fields")),
    # lists, and macros over them
    ("rows.all(r, r.bus > 0.1)", True),
    ("rows.all(r, r.bus > 1)", False),
    ("rows.exists(r, r.bus > 370)", True),
    ("rows.exists(r, r.bus > 400)", False),
    ("!rows.exists(r, r.bus > 400)", True),
    ("rows.exists_one(r, r.bus > 370)", True),
    ("rows.filter(r, r.size_bytes >= 1048576).all(r, r.bus > 370)", True),
    ("rows.filter(r, r.size_bytes >= 1048576).size() == 1", True),
    ("rows.map(r, r.bus) == [0.5, 377]", True),
    ("rows.map(r, r.size_bytes > 2048, r.bus) == [377]", True),
    ("few.map(i, i * 2) == [6, 3, 4]", True),
    ("few.filter(i, i > 1.75) == [3, 2]", True),
    ("few.map(i, i > 1, i, i) == few", Refused(r"another form than map\(x")),
    ("few.all(i)", Refused(r"another form than all\(x")),
    ("few.all(1, true)", Refused(r"another form than all\(x")),
    ("few.all()", Refused(r"another form than all\(x")),
    ("few.all(i, i)", Refused(r"a number where all\(\) takes true or false")),
    ("x.all(i, i > 1)", Refused(r"all\(\) on a number, which is no list")),
    ("few.reduce(a, b, 0, a + b) > 1", Refused("unknown function 'reduce'")),
    ("busBandwidthAtGBps.all(s, busBandwidthAtGBps[s] > 360)", True),
    ("busBandwidthAtGBps.all(s, busBandwidthAtGBps[s] > 370)", False),
    ("busBandwidthAtGBps.exists(s, s == '32G')", False),
    ("nothing.all(i, i > 1)", EMPTY),
    ("[].all(i, i > 1)", EMPTY),
    ("!nothing.all(i, i > 1)", EMPTY),
    ("few.filter(i, i > 99).all(i, i > 1)", EMPTY),
    ("nothing.exists(i, i > 1)", False),
    ("nothing.exists(i, i > 1) || x > 1", True),
    ("!nothing.exists(i, i > 1)", EMPTY),
    ("!(x > 1 && nothing.exists(i, i > 1))", EMPTY),
    ("!!nothing.exists(i, i > 1)", False),
    ("nothing.exists(i, i > 1) == false", EMPTY),
    ("(nothing.exists(i, i > 1) ? x : n) > 1", EMPTY),
    ("nothing.exists_one(i, i > 1)", False),
    ("!nothing.exists_one(i, i > 1)", EMPTY),
    ("nothing.size() == 0", True),
    ("rows.all(r, r.wrong == 0)", Unproven("no value for wrong")),
    ("rows.exists(r, r.wrong > 0)", Unproven("no value for wrong")),
    ("rows.exists(r, r.wrong == 0)", True),
    ("rows.all(r, r.wrong > 0)", False),
    ("few.all(i, i / zero > 1)", NotFinite("divides by zero")),
    ("few.exists(i, busBandwidthAtGBps['2M'] > i)", Unproven("no value for 2M")),
    ("few.all(x, x > 1)", True),
    ("few.all(i, few.exists(j, j >= i))", True),
    ("few.all(i, few.all(j, i == j))", False),
    ("size(few) == 3 && few.size() == 3", True),
    ("few + [1] == [3, 1.5, 2, 1]", True),
    # errors that the other operand decides without
    ("1 / 0 == 1 || true", True),
    ("true || 1 / 0 == 1", True),
    ("1 / 0 == 1 && false", False),
    ("false && 1 / 0 == 1", False),
    ("1 / 0 == 1 || false", NotFinite("divides by zero")),
    ("true && 1 / 0 == 1", NotFinite("divides by zero")),
    ("1 / 0 == 1 && true", NotFinite("divides by zero")),
    ("busBandwidthAtGBps['32G'] > 1 || x > 1", True),
    ("busBandwidthAtGBps['32G'] > 1 || x > 999", Unproven("no value for 32G")),
    ("x > 1 ? x > 2 : 1 / 0 == 1", True),
    ("1 / 0 == 1 ? true : true", NotFinite("divides by zero")),
    ("zero == 0 || x / zero > 1", True),
    ("zero != 0 && x / zero > 1", False),
    # texts
    ("gpu == 'h100'", True),
    ('gpu == "h100"', True),
    ("gpu != 'h200'", True),
    ("empty == ''", True),
    ("gpu < 'h200'", True),
    ("gpu in ['h100', 'h200']", True),
    ("gpu.startsWith('h') && gpu.endsWith('0') && gpu.contains('10')", True),
    ("size(gpu) == 4", True),
    ("'gpu-' + gpu == 'gpu-h100'", True),
    ("gpu.matches('^h[0-9]+$')", True),
    ("matches(gpu, '10')", True),
    ("gpu.matches('b')", False),
    ("gpu.matches(r'^h\\d+$')", True),
    ("gpu.matches('^h\\d+$')", Refused(r"unknown escape \\d")),
    ("gpu.matches('(')", Refused("no RE2 pattern")),
    ("gpu.matches('(?=h)')", Refused("no RE2 pattern")),
    ("gpu.matches(gpu + '(')", Refused("no RE2 pattern")),
    ("gpu.matches(100)", Refused("it takes two texts")),
    ("'\\u00e9' == 'é' && 'a\\tb'.size() == 3", True),
    ("'\\x41\\101' == 'AA'", True),
    ("'\\u00e9' + '\\U0001F436' != gpu", True),
    ("'\\UFFFFFFFF' != gpu", Refused("a character that there is none")),
    ("'\\ud800' != gpu", Refused("a character that there is none")),
    ("'\\?' == '?' && '\\X41' == 'A'", True),
    ("'\\q' == 'q'", Refused("unknown escape")),
    ("gpu.lowerAscii() == 'h100'", Refused("unknown function 'lowerAscii'")),
    ("b'ab' == b'ab'", Refused("bytes are of no use here")),
    # conversions
    ("double(n) / 3 > 2.6", True),
    ("double('1.5e2') == 150", True),
    ("int(x) == 373", True),
    ("int(-1.9) == -1", True),
    ("int('12') == 12", True),
    ("int('1.5') == 1", Refused("'1.5' is not a whole number")),
    ("int(1e30) > 0", Refused("does not fit in 64 bits")),
    ("n == 8u", Refused(r"no unsigned numbers.*\(write 8\)")),
    ("uint(n) == 8", Refused("unknown function .*write int")),
    ("string(n) == '8'", Refused("conversions to int and double only")),
    ("duration('90s') > duration('1m')", Refused("times are figures here, numbers of seconds")),
    ("int(ok) == 1", Refused("gives a boolean to int")),
    ("type(x) == double", Refused("types are checked before")),
    # functions that CEL lacks
    ("min(few) == 1.5 && max(few) == 3", True),
    ("min(x, 1, n) == 1", True),
    ("max(x, 400) == 400", True),
    ("mean(few) > 2.16 && mean(few) < 2.17", True),
    ("mean(1, 2) == 1.5", True),
    ("sum(few) == 6.5", True),
    ("sum([1, 2, 3]) == 6", True),
    ("sum([1, 2, 3]) / 4 == 1", True),
    ("median(few) == 2", True),
    ("median([1, 2]) == 1.5", True),
    ("percentile(few, 0) == 1.5 && percentile(few, 100) == 3", True),
    ("percentile(few, 50) == 2 && percentile(few, 75) == 2.5", True),
    ("percentile([7], 5) == 7", True),
    ("stddev([2, 4, 4, 4, 5, 5, 7, 9]) == 2", True),
    ("stddev(few) / mean(few) < 0.3", True),
    ("abs(x - 400) < 30", True),
    ("abs(-3) == 3", True),
    ("min(rows.map(r, r.bus)) == 0.5", True),
    ("busbw_at('8G') == 377", True),
    ("busbw_at('8192M') == 377", True),
    ("busbw_at(8589934592) == 377", True),
    ("busbw_at('8G') / 2 == 188.5", True),
    ("busbw_at('32G') > 1", Unproven("no value for 32G; there is 1G, 8G, 16G")),
    ("busbw_at('8 gigs') > 1", Refused("must be a message size")),
    ("busbw_at('0') > 1", Refused("must be a message size")),
    ("busbw_at(x) > 1", Refused(r"busbw_at\(\).* \(it takes a message size")),
    ("busbw_at() > 1", Refused("gives nothing to busbw_at")),
    ("time_at('8G') < 1", Refused("reads timeAtUs, and there is none here")),
    ("mean(nothing) > 1", Unproven(r"mean\(\) has an empty list")),
    ("sum(nothing) == 0", Unproven(r"sum\(\) has an empty list")),
    ("max(rows.filter(r, r.bus > 999).map(r, r.bus)) < 1", Unproven("empty list")),
    ("mean([1e308, 1e308]) > 1", NotFinite("too great|not a finite")),
    ("min(x) > 1", Refused("takes a list of numbers, or several")),
    ("min(gpu, 'a') == 'a'", Refused("takes a list of numbers, or several")),
    ("mean(['a']) > 1", Refused("takes a list of numbers, or several")),
    ("min(busBandwidthAtGBps) > 1", Refused("gives a map to min")),
    ("min(dyn(1), dyn('a')) > 0", Refused(r"min\(\) takes numbers, not a text")),
    ("percentile(few, 101) > 1", Refused("from 0 to 100")),
    ("percentile(few, x) > 1", Unproven("from 0 to 100")),
    ("percentile(few) > 1", Refused("a list of numbers and a percentage")),
    ("abs(gpu) > 1", Refused("it takes a number")),
    ("few.max() > 1", Refused(r"write max\(")),
    ("avg(few) > 1", Refused(r"write mean\(")),
    ("men(few) > 1", Refused("did you mean 'mean'")),
    ("startsWith(gpu, 'h')", Refused(r"write x.startsWith\(")),
    # what is no CEL, or of no use here
    ("", Refused("is empty")),
    ("x >", Refused("is not valid CEL")),
    ("x => 1", Refused("is not valid CEL at column 3")),
    ("x = 1", Refused("is not valid CEL")),
    ("x > 1 and ok", Refused("is not valid CEL")),
    ("x > 1 & ok", Refused("is not valid CEL")),
    ("a?.b == 1", Refused("is not valid CEL")),
    ("1_000 < x", Refused("is not valid CEL")),
    ("x > 1 // a comment", True),
    ("cel.bind(a, x, a > 1)", Refused("unknown function 'bind'")),
    ("math.greatest(x, 1) > 1", Refused(r"write max\(")),
    ("Foo{a: 1} == Foo{a: 1}", Refused("builds a message")),
    (".x > 1", True),
    (".size(few) > 1", Refused("of no use here")),
    ("{'a': 1, 'a': 2} == {'a': 1}", Refused("gives the key a twice")),
    ("{1.5: 2} == {1.5: 2}", Refused("a number for the key of a map")),
    ("{'a': 1}['b'] == 1", Refused("no value for b")),
    ('__import__("os").system("id")', Refused("unknown function 'system'")),
    ("open('/etc/passwd') == ''", Refused("unknown function 'open'")),
    ("x.__class__ == ''", Refused("which has no fields")),
    ("gpu.format('a') == ''", Refused("unknown function 'format'")),
    ("node.__class__ == ''", Refused("no value for __class__")),
    ("(" * 900 + "x > 1" + ")" * 900, True),
    ("!" * 1990 + "ok", Refused("is nested too deeply|is not valid CEL")),
    ("x > 1" + " " * 3000, Refused("longer than")),
]


def _ids() -> list[str]:
    return [text if len(text) <= 60 else f"{text[:57]}..." for text, _ in TABLE]


@pytest.mark.parametrize(("text", "expected"), TABLE, ids=_ids())
def test_expression(text: str, expected: bool | Refused | Unproven) -> None:
    if isinstance(expected, Refused):
        with pytest.raises(ExpressionError, match=expected.says) as refused:
            compile_expression(text, SAMPLES)
        assert "\n" not in str(refused.value)
        return
    expression = compile_expression(text, SAMPLES)
    if isinstance(expected, Unproven):
        kind = NotFiniteError if isinstance(expected, NotFinite) else ExpressionError
        with pytest.raises(kind, match=expected.says):
            expression.evaluate(VALUES)
    else:
        assert expression.evaluate(VALUES) is expected


def test_table_is_as_long_as_it_claims() -> None:
    assert len({text for text, _ in TABLE}) == len(TABLE) > 300
