"""What an expression may name, by the tool that measures and the scope it is evaluated for.

Figures are in camelCase, as NVCRE's threshold keys are. What is known beforehand is in snake_case:
the context, the numbers of the stage, ``expected``, the peers, and the fields of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

from catalog.facts.tools import TOOLS, FieldType
from catalog.language.cel.kinds import AnyKey, Record
from catalog.reading.model import Model
from catalog.reading.source import shipped

Scope = Literal["group", "node", "gpu", "row"]
"""What an expression is evaluated for: once a group, a node or a GPU, or on every row."""


class Name(Model):
    """What a name stands for.

    Attributes:
        type: double, int, string, bool; map (doubles by message size); row (a map of fields); rows
            (a list of them).
        unit: GB/s, us, ratio, count, …; ``value`` for the unit of the figure that the key names.
        says: one line for people.
        origin: where its value comes from.
        optional: it is not always there.
        fields: of a row.
    """

    type: Literal["double", "int", "string", "bool", "map", "row", "rows"]
    unit: str
    says: str
    origin: Literal["figure", "context", "stage", "peers", "expected", "row"] = "row"
    optional: bool = False
    fields: dict[str, Name] = {}


MEASURED = frozenset({"figure", "row"})
"""Origins of what is measured; an expression over nothing else tests nothing."""
PEER_NAMES = frozenset({"peer_median", "peer_count"})
"""Names that stand for the other runs of the same kind."""


@cache
def _data() -> Any:
    return shipped("language/vocabulary.yaml").data


@cache
def row_fields(tool: str) -> dict[str, Name]:
    """Return the fields that rows of a tool may have, by name."""
    return {name: Name(**field.model_dump()) for name, field in TOOLS[tool].rows.items()}


@cache
def names_of(tool: str, scope: Scope = "group", key: str | None = None) -> dict[str, Name]:
    """Return all that an expression may name.

    Args:
        tool: name of the tool.
        scope: what it is evaluated for; ``row`` is there in scope row only, the peers are of whole
            runs, so in scope group and node.
        key: its threshold key. ``value`` and the peers are there when it names a figure.
    """
    figures = {name: _figure(figure) for name, figure in TOOLS[tool].figures.items()}
    found = dict(figures)
    if key in figures:
        figure = figures[key]
        says = f"the figure that the key names, {key}: {figure.says}"
        found["value"] = figure.model_copy(update={"says": says})
    parts = ["context", "stage"]
    if scope in {"group", "node"} and key in figures and figures[key].type != "map":
        parts.append("peers")
    for part in parts:
        for name, item in _data()[part].items():
            found[name] = Name.model_validate({**item, "origin": part})
    expected = Name.model_validate({**_data()["expected"], "origin": "expected"})
    found["expected"] = expected.model_copy(update={"unit": _expected_unit(tool) or "value"})
    fields = row_fields(tool)
    if fields:
        says = "all result rows, for macros: rows.all(r, r.FIELD > 0)"
        found["rows"] = Name(type="rows", unit="any", says=says, fields=fields)
        if scope == "row":
            found["row"] = Name(type="row", unit="any", says="this result row", fields=fields)
    return found


def _figure(figure: FieldType) -> Name:
    return Name(**figure.model_dump(), origin="figure")


@cache
def samples_of(tool: str, scope: Scope = "group", key: str | None = None) -> Mapping[str, object]:
    """Return a sample value of the right type for every name; see `names_of`."""
    return {name: _sample(item) for name, item in names_of(tool, scope, key).items()}


def _sample(name: Name) -> object:
    if name.type in {"row", "rows"}:
        row = Record({field: _sample(item) for field, item in name.fields.items()})
        return row if name.type == "row" else [row]
    samples: dict[str, object] = {"double": 1.5, "int": 1, "string": "", "bool": False}
    return AnyKey({"1G": 1.5}) if name.type == "map" else samples[name.type]


def expects(tool: str, key: str, names: Iterable[str]) -> bool:
    """Say whether there can be an ``expected`` for a bar of this key over these names."""
    units = {name.unit for text in (*names, key) if (name := names_of(tool, "row", key).get(text))}
    return _expected_unit(tool) in units | _row_units(tool, names)


def _expected_unit(tool: str) -> str | None:
    expected = TOOLS[tool].expected
    return expected.unit if expected else None


def _row_units(tool: str, names: Iterable[str]) -> set[str]:
    reads_rows = not {"row", "rows"}.isdisjoint(names)
    return {field.unit for field in row_fields(tool).values()} if reads_rows else set()
