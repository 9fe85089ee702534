"""Reads DCGM diagnostics and what stands beside them: nvbandwidth, preflight logs, nvidia-smi."""

from __future__ import annotations

from dataclasses import replace

from steps.documents import Completeness
from steps.parse.api import KindReader, ParseContext, Part
from steps.parse.dcgm.diag_json import read_diag
from steps.parse.dcgm.nvbandwidth import NvbandwidthTextScanner, read_nvbandwidth
from steps.parse.dcgm.preflight import read_preflight
from steps.parse.dcgm.smi import NvidiaSmiScanner
from steps.parse.dcgm.text import DcgmTextScanner
from steps.parse.findings import finding

__all__ = ["KINDS", "DcgmTextScanner", "NvbandwidthTextScanner", "NvidiaSmiScanner"]


def _read_results(
    data: object, text: str, name: str, context: ParseContext, *, cut_off: bool
) -> Part | None:
    """Read JSON of dcgmi diag or of a preflight check."""
    if isinstance(data, list):
        return _read_so_far(read_preflight(data, name, context), cut_off=cut_off)
    if not isinstance(data, dict):
        return None
    part = read_diag(data, text, name, context) or read_preflight([data], name, context)
    return _read_so_far(part, cut_off=cut_off)


def _read_bandwidths(
    data: object, text: str, name: str, context: ParseContext, *, cut_off: bool
) -> Part | None:
    part = read_nvbandwidth(data, text, name, context) if isinstance(data, dict) else None
    return _read_so_far(part, cut_off=cut_off)


def _read_so_far(part: Part | None, *, cut_off: bool) -> Part | None:
    if part is None or not cut_off:
        return part
    lost = finding("LOG_TRUNCATED", "the JSON document is cut off")
    return replace(part, completeness=Completeness.CUT_OFF, findings=[*part.findings, lost])


KINDS = (
    KindReader(name="dcgm-json", read_json=_read_results),
    KindReader(
        name="dcgm-text",
        scanners=(
            lambda name, _: DcgmTextScanner(name),
            lambda name, _: NvbandwidthTextScanner(name),
        ),
    ),
    KindReader(name="nvbandwidth-json", read_json=_read_bandwidths),
)
