"""A tool that was just added and ran badly is not ready; one that was there stays as it was."""

from __future__ import annotations

from pathlib import Path

from catalog.entries.entry import builtin_entries
from catalog.facts.tools import TOOLS
from steps.documents import NodeStatus, Result
from tests.tools import fio
from tests.tools.journey import Journey


def test_a_dead_run_of_a_new_tool_is_never_ready(tmp_path: Path) -> None:
    with fio.registered():
        entry = builtin_entries()[fio.CATEGORY]
        faults = "  faults: [{kind: no-output, node: n-1}]\n"
        report = Journey(entry, tmp_path, faults).report
    assert report.result is not Result.PASS
    ready = {node.node for node in report.nodes if node.status is NodeStatus.READY}
    assert ready == {"n-2"}
    assert fio.CATEGORY not in builtin_entries()
    assert "fio" not in TOOLS.names
