"""What a step hands to Argo: small output parameters as files, and its last words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from steps.address import PREFIX
from steps.documents import Group, NodeStatus, Report
from steps.report.headline import MAX_MESSAGE, bounded, report_line

OUTPUTS = Path("/tmp/outputs")  # noqa: S108  (a container's own /tmp)

TERMINATION_LOG = Path("/dev/termination-log")
"""Where a kubelet reads what a container says at its end; it is there in a pod only."""


def say_last(line: str) -> None:
    """Make a line the termination message, which Argo shows for a step that failed."""
    if TERMINATION_LOG.exists():
        with suppress(OSError):
            TERMINATION_LOG.write_text(bounded(line), encoding="utf-8")


def hand_on(outputs: Path, name: str, text: str) -> None:
    """Write an output parameter."""
    hand_on_bytes(outputs / name, text.encode())


def hand_on_bytes(path: Path, data: bytes) -> None:
    """Write an output file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def hand_on_groups(outputs: Path, groups: Sequence[Group]) -> None:
    """Write what a fan-out takes its items from."""
    data = [{"group": group.id, "nodes": len(group.nodes)} for group in groups]
    hand_on(outputs, "groups", json.dumps(data, separators=(",", ":")))


def hand_on_report(outputs: Path, report: Report, store: str) -> None:
    """Write what a report says in short, and say it last.

    Args:
        outputs: directory of the output parameters.
        report: the report.
        store: address of the store that it lies in.
    """
    line = report_line(report)
    numbers = Counter(node.status for node in report.nodes)
    for status in NodeStatus:
        hand_on(outputs, status.value, str(numbers[status]))
    hand_on(outputs, "result", report.result.value)
    hand_on(outputs, "verdict", line)
    hand_on(outputs, "report", _how_to_read(store))
    say_last(report_line(report, MAX_MESSAGE))


def workflow_of(store: str) -> str:
    """Return the workflow of a store, by which a certification is called that has no name."""
    return store.split("/")[1] if store.startswith(PREFIX) else "certification"


def _how_to_read(store: str) -> str:
    if not store.startswith(PREFIX):
        return f"readiness report {store}"
    namespace = store.removeprefix(PREFIX).split("/")[0]
    return f"readiness report --workflow {workflow_of(store)} --namespace {namespace}"
