"""The parse step: from the raw outputs of one run to its Measurements."""

from __future__ import annotations

import io
from collections.abc import Callable

from catalog.entry import Entry
from catalog.quantity import parse_size
from catalog.resolved import Workload
from steps.documents import Measurements, RunRecord
from steps.parse.api import ParseContext
from steps.parse.reader import combine, parse_stream


def context_of(entry: Entry, workload: Workload, record: RunRecord) -> ParseContext:
    """Tell the parsers what the plan and the launcher know about a run."""
    nodes = record.group.nodes
    gpus = int(workload.gpus_per_node.value)
    max_bytes = workload.options.get("maxBytes")
    sequence = entry.facts.get("sequenceLength")
    transport = workload.transport.value or ()
    return ParseContext(
        category=entry.id,
        tool=entry.tool,
        exit_code=record.exit_code,
        node=nodes[0] if len(nodes) == 1 else None,
        nodes=nodes,
        gpus_per_node=gpus,
        nics_per_node=int(workload.nics_per_node.value) or None,
        transport=tuple(transport) if len(nodes) > 1 else (),
        max_bytes=parse_size(str(max_bytes.value)) if max_bytes and max_bytes.value else None,
        diag_level=entry.diag_level,
        nvlink=workload.nvlink,
        multi_node_nvlink=workload.mnnvl,
        warmup_steps=entry.facts.get("warmupSteps"),
        gpus=gpus * len(nodes),
        # One sample per GPU: the entries set the global batch size to the number of GPUs.
        tokens_per_step=int(sequence) * gpus * len(nodes) if sequence else None,
        rank_nodes={rank: nodes[rank // gpus] for rank in range(gpus * len(nodes))},
    )


def measure(
    entry: Entry, workload: Workload, record: RunRecord, read_log: Callable[[str], bytes]
) -> Measurements:
    """Read all outputs of one run.

    Args:
        entry: the catalog entry.
        workload: what was run.
        record: the run; names its outputs.
        read_log: returns a raw output by name.
    """
    context = context_of(entry, workload, record)
    parts = []
    for log in record.logs:
        mine = context
        if log.role == "kernel":
            mine = ParseContext(node=log.node, gpus_per_node=context.gpus_per_node)
        parts.append(parse_stream(io.BytesIO(read_log(log.name)), log.name, mine))
    if not parts:
        parts.append(parse_stream(io.BytesIO(b""), "output", context))
    read = combine(parts)
    return read.model_copy(update={"category": entry.id, "group": record.group.id})
