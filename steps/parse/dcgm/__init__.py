"""Reads DCGM diagnostics and what stands beside them: nvbandwidth, preflight logs, nvidia-smi."""

from __future__ import annotations

from steps.parse.api import ParseContext, Part
from steps.parse.dcgm.diag_json import read_diag
from steps.parse.dcgm.nvbandwidth import NvbandwidthTextScanner, read_nvbandwidth
from steps.parse.dcgm.preflight import read_preflight
from steps.parse.dcgm.smi import NvidiaSmiScanner
from steps.parse.dcgm.text import DcgmTextScanner

__all__ = ["DcgmTextScanner", "NvbandwidthTextScanner", "NvidiaSmiScanner", "read_json"]


def read_json(data: object, text: str, name: str, context: ParseContext) -> Part | None:
    """Read one JSON document.

    Args:
        data: the parsed JSON; for JSON lines the list of their objects.
        text: the same as text, for line numbers; may be empty.
        name: of the output, for the evidence.
        context: what is known about the run.

    Returns:
        What it says, or None when it is of no kind that is read here.
    """
    if isinstance(data, list):
        return read_preflight(data, name, context)
    if not isinstance(data, dict):
        return None
    return (
        read_diag(data, text, name, context)
        or read_nvbandwidth(data, text, name, context)
        or read_preflight([data], name, context)
    )
