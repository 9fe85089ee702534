"""The tools as the steps know them, one module each; there is no other list of them.

A tool of the catalog without a module here is an error when this is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from catalog.facts.tools import TOOLS
from catalog.reading.table import Table
from steps.tools.tool import ToolSteps


def _all() -> Iterator[ToolSteps[Any]]:
    for tool in TOOLS:
        found: ToolSteps[Any] = import_module(f"steps.tools.{tool.name}").TOOL
        if found.name != tool.name:
            raise ValueError(f"steps.tools.{tool.name} is of {found.name!r}")
        yield found


TOOL_STEPS: Table[ToolSteps[Any]] = Table("tool", _all())
"""Every tool, by name."""
