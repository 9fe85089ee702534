"""The table of tools agrees with the tables that it refers to, and hides no unknown name."""

from __future__ import annotations

import re

import pytest

from catalog.entries.entry import Entry, builtin_entries
from catalog.errors import InputError
from catalog.facts.reasons import reason
from catalog.facts.tools import TOOLS, Tool, output_kind, output_kinds
from catalog.reading.table import Table


@pytest.mark.parametrize("tool", list(TOOLS), ids=lambda tool: tool.name)
def test_codes_figures_and_patterns_of_a_tool_are_known(tool: Tool) -> None:
    codes = [rule.code for rule in tool.codes] + [tool.crash]
    if tool.timeout_of_node:
        codes.append(tool.timeout_of_node)
    assert all(reason(code).code == code for code in codes)
    named = {name for rule in tool.codes for name in rule.only}
    assert named <= tool.figures.keys() | tool.rows.keys()
    units = {field.unit for field in (*tool.figures.values(), *tool.rows.values())}
    assert {unit for rule in tool.codes for unit in (*rule.units, *rule.not_with)} <= units
    if tool.expected:
        assert tool.expected.unit in units
        assert tool.expected.figure is None or tool.expected.figure in tool.figures
    for kind in tool.outputs:
        assert re.compile(kind.looks_like or "")


def test_a_kind_of_output_has_one_name() -> None:
    names = [kind.name for kind in output_kinds()]
    assert len(set(names)) == len(names)
    assert [output_kind(name).name for name in names] == names
    with pytest.raises(ValueError, match="no kind of output 'nccl-xml'"):
        output_kind("nccl-xml")


def test_every_tool_has_a_category_and_no_category_another_tool() -> None:
    assert {entry.tool for entry in builtin_entries().values()} == set(TOOLS.names)
    data = next(iter(builtin_entries().values())).model_dump()
    with pytest.raises(ValueError, match="there is no tool 'ncl'"):
        Entry.model_validate(data | {"tool": "ncl"})


def test_a_table_has_a_name_once_and_nothing_for_another() -> None:
    table: Table[Tool] = Table("tool", TOOLS)
    with pytest.raises(ValueError, match="registered twice"):
        table.register(TOOLS["nccl"])
    with pytest.raises(InputError, match=r"there is no tool 'ncll' \(did you mean 'nccl'\?\)"):
        table["ncll"]
    more = TOOLS["nccl"].model_copy(update={"name": "more"})
    with table.registered(more):
        assert table["more"] is more
        assert table.names[-1] == "more"
    assert table.names == TOOLS.names
