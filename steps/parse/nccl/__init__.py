"""Reads nccl-tests and rccl-tests: tables, JSON reports, and what NCCL logs around them."""

from __future__ import annotations

from steps.parse.nccl.json_report import read_json
from steps.parse.nccl.scanner import NcclScanner

__all__ = ["NcclScanner", "read_json"]
