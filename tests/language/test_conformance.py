"""What applies of CEL's conformance data gives the value of the data, in its type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from catalog.errors import ExpressionError
from catalog.language.cel.compiler import build
from catalog.language.cel.kinds import ANY
from catalog.language.cel.tree import parse

DATA = yaml.load(
    Path(__file__).with_name("conformance.yaml").read_text(encoding="utf-8"),
    Loader=yaml.CSafeLoader,
)
AGREES = [
    pytest.param(case, id=f"{section}: {case['expr']!r:.60}")
    for section, cases in DATA["agrees"].items()
    for case in cases
]
DIFFERS = [
    pytest.param(case, id=f"{case['section']}: {case['expr']!r:.60}")
    for group in DATA["differs"]
    for case in group["cases"]
]


def _result(case: dict[str, Any]) -> Any:
    values = case.get("with", {})
    return build(parse(case["expr"]), dict.fromkeys(values, ANY)).run(dict(values))


def _same(one: Any, other: Any) -> bool:
    """Say whether values are the same and of the same types, also inside."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


@pytest.mark.parametrize("case", AGREES)
def test_gives_what_the_conformance_data_says(case: dict[str, Any]) -> None:
    if case.get("fails"):
        with pytest.raises(ExpressionError):
            _result(case)
    else:
        assert _same(_result(case), case["gives"])


@pytest.mark.parametrize("case", DIFFERS)
def test_differs_only_where_it_is_said(case: dict[str, Any]) -> None:
    if case["ours"] == "error":
        with pytest.raises(ExpressionError):
            _result(case)
    else:
        assert _same(_result(case), case["ours"])
        assert case.get("fails") or not _same(case["ours"], case["gives"])


def test_every_section_is_in_one_place_only() -> None:
    files = {section.partition("/")[0] for section in DATA["agrees"]}
    assert not (DATA["agrees"].keys() | files) & DATA["leftOut"].keys()
