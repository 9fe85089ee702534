"""Which collective was measured, and which columns of it mean something."""

from __future__ import annotations

from collections.abc import Sequence

from steps.documents import NcclRow
from steps.parse.nccl.table import TableRow

_CATEGORIES = {
    "nccl-all-reduce": "all_reduce",
    "nccl-all-gather": "all_gather",
    "nccl-alltoall": "alltoall",
}

NO_IN_PLACE = frozenset({"alltoall", "alltoallv", "sendrecv"})
"""Collectives without an in-place form: what their in-place columns say about data is void."""


def of_category(category: str | None) -> str | None:
    """Return the collective that a category id stands for."""
    return _CATEGORIES.get((category or "").rpartition("/")[2])


def from_columns(entries: Sequence[TableRow]) -> str | None:
    """Tell the collective from its columns and from busbw / algbw, where they allow only one.

    all_reduce has busbw = algbw x 2(n-1)/n; all_gather, reduce_scatter and alltoall x (n-1)/n; the
    others have busbw = algbw, as all_reduce has on two ranks.
    """
    rows = [entry.row for entry in entries if entry.row.size_bytes]
    if not rows:
        return None
    row = rows[-1]
    ratio = _ratio(rows)
    reduces = row.redop not in {None, "none"}
    if row.root is not None and row.root >= 0:
        return "reduce" if reduces else "broadcast"
    if reduces:
        return _reducing(rows, ratio)
    if any(entry.blank_redop for entry in entries):
        return "alltoall"
    if row.redop is None and row.root is None:
        return "all_gather"  # before 2.13 only all_gather has neither column
    return _by_check(rows, "all_gather", "alltoall") if ratio is not None and ratio < 0.98 else None


def bus_factor(operation: str | None, ranks: int | None) -> float | None:
    """Return busbw / algbw of a collective on so many ranks; None where either is not known.

    Source: PERFORMANCE.md of nccl-tests.
    """
    if not operation or not ranks:
        return None
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if operation in {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"}:
        return (ranks - 1) / ranks
    return 1.0 if operation in {"broadcast", "reduce", "sendrecv"} else None


def _reducing(rows: Sequence[NcclRow], ratio: float | None) -> str | None:
    if ratio is not None and ratio > 1.02:
        return "all_reduce"
    if ratio is not None and ratio < 0.98:
        return "reduce_scatter"
    return _by_check(rows, "all_reduce", "sendrecv")  # sendrecv prints sum and -1 as well


def _by_check(rows: Sequence[NcclRow], in_place: str, not_in_place: str) -> str | None:
    """Decide by the in-place half: the tool leaves it unchecked where it means nothing."""
    if any(row.in_wrong is not None for row in rows):
        return in_place
    return not_in_place if any(row.out_wrong is not None for row in rows) else None


def _ratio(rows: Sequence[NcclRow]) -> float | None:
    """Return busbw / algbw at the row where two printed decimals tell most."""
    best = max(rows, key=lambda row: row.out_alg_gbps or 0.0)
    if not best.out_alg_gbps or best.out_bus_gbps is None or best.out_alg_gbps < 0.2:
        return None
    return best.out_bus_gbps / best.out_alg_gbps
