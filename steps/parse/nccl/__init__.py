"""Reads nccl-tests and rccl-tests: tables, JSON reports, and what NCCL logs around them."""

from __future__ import annotations

from steps.parse.api import KindReader
from steps.parse.nccl.json_report import read_json
from steps.parse.nccl.scanner import NcclScanner

__all__ = ["KINDS", "NcclScanner", "read_json"]

KINDS = (
    KindReader(
        name="nccl-table",
        scanners=(lambda name, _: NcclScanner(name),),
        own_lines=b" NCCL INFO ",
    ),
    KindReader(name="nccl-json", read_json=read_json),
)
