"""The parse step: from the raw outputs of one run to its Measurements."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from catalog.entries.entry import Entry
from catalog.reading.quantity import parse_size
from catalog.workload.workload import Workload
from steps.documents import Finding, Measurements, RunOutcome, RunRecord
from steps.parse.api import ParseContext
from steps.parse.findings import finding
from steps.parse.reader import combine, parse_stream


def context_of(
    entry: Entry,
    workload: Workload,
    record: RunRecord,
    other_nodes: Iterable[str] = (),
) -> ParseContext:
    """Tell the parsers what the plan and the launcher know about a run.

    Args:
        entry: the catalog entry.
        workload: what was run.
        record: the run.
        other_nodes: all targeted nodes of the plan; those of the group itself are left out.
    """
    nodes = record.group.nodes
    gpus = int(workload.gpus_per_node.value)
    hardware = workload.hardware
    if len(nodes) == 1:  # The traffic of one node shows no network.
        hardware = replace(hardware, transport=())
    max_bytes = workload.options.get("maxBytes")
    sequence = _sequence_length(workload)
    # A stored output whose times nobody noted has a record that ends when it starts.
    timed = record.ended > record.started
    return ParseContext(
        category=entry.id,
        tool=entry.tool,
        exit_code=record.exit_code,
        node=nodes[0] if len(nodes) == 1 else None,
        nodes=nodes,
        other_nodes=frozenset(other_nodes) - frozenset(nodes),
        hardware=hardware,
        max_bytes=parse_size(str(max_bytes.value)) if max_bytes and max_bytes.value else None,
        diag_level=entry.diag_level,
        warmup_steps=entry.facts.get("warmupSteps"),
        gpus=gpus * len(nodes),
        # One sample per GPU: the entries set the global batch size to the number of GPUs.
        tokens_per_step=sequence * gpus * len(nodes) if sequence else None,
        rank_nodes={rank: nodes[rank // gpus] for rank in range(gpus * len(nodes))},
        pod_nodes=_hosts_of(record.placements),
        started=record.started if timed else None,
        ended=record.ended if timed else None,
    )


def _sequence_length(workload: Workload) -> int | None:
    """Return the tokens of a sample, which profiles may set; None where the command tells none."""
    words = (word.partition("=") for word in workload.command)
    found = (text for name, _, text in words if name == "--seq-length" and text.isdecimal())
    return int(next(found, 0)) or None


def _hosts_of(placements: Mapping[str, str]) -> dict[str, str]:
    """Add the host names of pods: those of an Indexed Job lack the random end of the pod's name."""
    hosts = {pod.rpartition("-")[0]: node for pod, node in placements.items() if "-" in pod}
    return hosts | dict(placements)


def measure(
    entry: Entry,
    workload: Workload,
    record: RunRecord,
    read_log: Callable[[str], bytes],
    other_nodes: Iterable[str] = (),
) -> Measurements:
    """Read all outputs of one run.

    Args:
        entry: the catalog entry.
        workload: what was run.
        record: the run; names its outputs.
        read_log: returns a raw output by name.
        other_nodes: all targeted nodes of the plan.
    """
    context = context_of(entry, workload, record, other_nodes)
    parts = []
    for log in record.logs:
        mine = context
        if log.role == "kernel":
            mine = ParseContext(
                node=log.node,
                hardware=context.hardware,
                started=context.started,
                ended=context.ended,
            )
        parts.append(parse_stream(io.BytesIO(read_log(log.name)), log.name, mine))
    if not parts:
        parts.append(parse_stream(io.BytesIO(b""), "output", context))
    read = combine(parts)
    return read.model_copy(
        update={
            "category": entry.id,
            "group": record.group.id,
            "attempt": record.attempt,
            "findings": (*read.findings, *_unknown_exit(record, read)),
        }
    )


def _unknown_exit(record: RunRecord, read: Measurements) -> list[Finding]:
    """An output that looks whole is no proof that the tool ended well."""
    code = "EXIT_CODE_UNKNOWN"
    if record.exit_code is not None or record.outcome is not RunOutcome.COMPLETED:
        return []
    if any(known.code == code for known in read.findings):
        return []
    return [finding(code, "nobody noted the exit code of the tool")]
