"""Reads what the tools printed: pure streaming parsers that produce Measurements."""

from __future__ import annotations

from steps.parse.reader import combine, parse_bytes, parse_stream

__all__ = ["combine", "parse_bytes", "parse_stream"]
