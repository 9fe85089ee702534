"""Turns raw lines into clean ones: tags of launchers and log tools off, rank and host kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

from steps.parse.api import Line

MAX_LINE_BYTES = 16 * 1024
"""Longer lines of text are cut; no text format that is read has lines of this length."""
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Longer JSON documents are cut; nccl-tests and DCGM write theirs without any newline."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00\x07\x08\x1b\ufeff]")

_RANK_TAG = re.compile(
    r"\s*\[(?:[\w.-]+@)?\d+,(?P<rank>\d{1,7})\]<std(?:out|err|diag)>:\s?"  # mpirun --tag-output
    r"|\s*\[rank(?P<torch>\d{1,7})\]:\s?"  # torchrun
    r"|\s*\[(?:default)?\d{1,5}\]:(?=\D)"  # torchelastic: a local rank, which says nothing
    r"|\s*\[(?P<hydra>\d{1,5})\](?=\s|#|-?\d+\s|$)"  # hydra -prepend-rank and hand-made tags
    r"|\s*(?P<srun>\d{1,5}):(?: |$)"  # srun --label
)
_LOG_TAG = re.compile(
    r"\[pod/[^\]\s]+\] ?"  # kubectl logs --prefix
    r"|(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)) "
    r"(?:std(?:out|err) [FP] )?"
    # stern prints pod and container bare, so only in front of what the tools print
    r"|[a-z0-9][a-z0-9.-]*-[a-z0-9]{4,} [a-z0-9][a-z0-9-]* "
    r"(?=#|\s{3,}\d|\[\d+,\d+\]<|\S+:\d+:\d+ \[)"
)
_HOST = re.compile(r"(?P<host>[A-Za-z][A-Za-z0-9]*(?:[.-][A-Za-z0-9]+)*): (?=.)")
_MID_ROW_TAG = re.compile(r"(?<=[\d*A])\[\d{1,5}\](?=\s+[\d.-])")
_ROW_START = re.compile(r"\s*\d+\s")

# programs, kernel modules and network interfaces also stand before a colon
_NO_HOST = re.compile(
    r"(?:nvidia|lib|nv|mlx|dcgm|nccl-tests|kube|docker|containerd|systemd|cuda|python|torch)[\w.-]*"
    r"|(?:eth|en[opsx]|ib[ps]?|bond|br|veth|cali|lo|wl|rdmap|efa|docker|nvme|sd|cpu|gpu|core|numa|sm|"
    r"bus|slot|fan|psu|dimm|port|lane|link)\d+\w*"
    r"|(?:rank|epoch|step|iter|iteration|batch|xid|sxid|line|pid|tid|rc|err|error|errno|code|level|"
    r"stage|test|part|phase|run|case|attempt|try|retry|v|version)-?\d+\w*",
    re.IGNORECASE,
)
_HOST_SHAPE = re.compile(
    r"(?:[A-Za-z0-9]+[.-])+(?:[A-Za-z]|[A-Za-z]*\d[A-Za-z0-9]*)"  # node-b, ip-10-0-0-7, a3.zone-1
    r"|(?:[A-Za-z0-9]+[.-])*[A-Za-z]+\d{2,}(?:\.[A-Za-z0-9.-]+)?"  # node002, dgx17.cluster.local
    r"|(?:node|host|worker|server|compute|dgx|hgx|n)\d+"
)


def is_host(name: str) -> bool:
    """Whether the word before a colon is surely a host name, by its shape."""
    return bool(_HOST_SHAPE.fullmatch(name)) and not _NO_HOST.fullmatch(name)


def clean_line(raw: bytes, number: int, *, ended: bool = True) -> Iterator[Line]:
    r"""Yield what one raw line says: one line, or one per part where ``\r`` redraws a bar.

    Args:
        raw: without the newline.
        number: 1-based number of the raw line.
        ended: whether a newline followed.
    """
    limit = MAX_DOCUMENT_BYTES if b"{" in raw[:256] else MAX_LINE_BYTES
    text = raw[:limit].decode("utf-8", "replace")
    parts = text.rstrip("\r").split("\r")
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part or last:
            yield _strip(part, number, ended=ended or not last)


def _strip(text: str, number: int, *, ended: bool) -> Line:
    if not text.isprintable():
        text = _CONTROL.sub("", _ANSI.sub("", text))
    rank: int | None = None
    host: str | None = None
    time: str | None = None
    position = 0
    while position < len(text):
        first = text[position]
        if first == "[" or first.isspace() or first.isdigit():
            tag = _RANK_TAG.match(text, position)
            if tag:
                digits = tag["rank"] or tag["torch"] or tag["hydra"] or tag["srun"]
                if digits and rank is None:
                    rank = int(digits)
                position = tag.end()
                continue
        if not first.isspace():
            tag = _LOG_TAG.match(text, position)
            if tag:
                time = tag["time"] or time
                position = tag.end()
                continue
            tag = _HOST.match(text, position)
            if tag and host is None and is_host(tag["host"]):
                host = tag["host"]
                position = tag.end()
                continue
        break
    text = text[position:]
    if "[" in text and _ROW_START.match(text):
        text = _MID_ROW_TAG.sub("", text)
    return Line(number, text, rank, host, ended, time)
