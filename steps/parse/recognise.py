"""Recognises what kind an output is: all readers see it, the one that claims most of it wins."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from steps.documents import Completeness, Finding, ReadMode
from steps.parse import dcgm, nccl
from steps.parse.api import Line, ParseContext, Part, Scanner
from steps.parse.dcgm import DcgmTextScanner, NvbandwidthTextScanner, NvidiaSmiScanner
from steps.parse.findings import finding
from steps.parse.json_documents import Document, JsonDocuments
from steps.parse.kernel import KernelScanner
from steps.parse.launcher import LauncherScanner
from steps.parse.lines import clean_line
from steps.parse.nccl import NcclScanner
from steps.parse.training import TrainingScanner

SCANNERS: tuple[Callable[[str], Scanner], ...] = (
    NcclScanner,
    DcgmTextScanner,
    NvbandwidthTextScanner,
    NvidiaSmiScanner,
    TrainingScanner,
    KernelScanner,
    LauncherScanner,
)

_NCCL_LOG = b" NCCL INFO "

TOOL_MODES: dict[str, frozenset[ReadMode]] = {
    "nccl": frozenset({ReadMode.NCCL_JSON, ReadMode.NCCL_TABLE}),
    "dcgm": frozenset({ReadMode.DCGM_JSON, ReadMode.DCGM_TEXT, ReadMode.NVBANDWIDTH_JSON}),
    "training": frozenset({ReadMode.TRAINING_LOG}),
}
"""Modes in which the tool of a category prints its result."""

JSON_MODES = frozenset({ReadMode.NCCL_JSON, ReadMode.DCGM_JSON, ReadMode.NVBANDWIDTH_JSON})
BYSTANDERS = frozenset({ReadMode.KERNEL_LOG, ReadMode.LAUNCHER_LOG, ReadMode.NVIDIA_SMI})
"""Modes that accompany a tool's output and have no result of their own."""

_HINTS = (
    (ReadMode.NCCL_JSON, re.compile(r'"(?:nccl_version|average_bus_bandwidth|alg_bw|algBw)"')),
    (ReadMode.NVBANDWIDTH_JSON, re.compile(r'"nvbandwidth"|"bandwidth_matrix"')),
    (ReadMode.DCGM_JSON, re.compile(r'"DCGM [\w ]*Diagnostic"|"test_categories"')),
)


class Recogniser:
    """Feeds the lines of one output to every reader and collects what they found.

    Args:
        name: of the output.
        context: what is known about the run; a kernel log also tells of other times.
    """

    def __init__(self, name: str, context: ParseContext) -> None:
        self.name = name
        self.blank = True
        self._documents = JsonDocuments()
        self._scanners = [
            (scanner, _needle_search(scanner)) for scanner in (make(name) for make in SCANNERS)
        ]
        for scanner, _ in self._scanners:
            if isinstance(scanner, KernelScanner):
                scanner.begin(context)
        # there can be very many lines of NCCL's log, and they are no other tool's
        self._nccl: list[Scanner] = [
            scanner for scanner, _ in self._scanners if isinstance(scanner, NcclScanner)
        ]
        self._known_keys: dict[frozenset[str], bool] = {}

    def take(self, raw: bytes, number: int, *, ended: bool = True) -> None:
        """Take one raw line."""
        if _NCCL_LOG in raw:
            wanting = self._nccl
        else:
            wanting = [scanner for scanner, search in self._scanners if not search or search(raw)]
        for line in clean_line(raw, number, ended=ended):
            if self.blank and line.text.strip():
                self.blank = False
            if self._is_document(line):
                continue
            for scanner in wanting:
                scanner.feed(line)

    def _is_document(self, line: Line) -> bool:
        """Take the line as JSON; one-line objects that no JSON reader knows stay text as well."""
        count = len(self._documents.found)
        if not self._documents.feed(line):
            return False
        if len(self._documents.found) == count:
            return True
        document = self._documents.found[-1]
        if not document.one_line or not isinstance(document.data, dict):
            return True
        keys = frozenset(document.data)
        known = self._known_keys.get(keys)
        if known is None:
            known = _read([document], self.name, ParseContext()) is not None
            if len(self._known_keys) < 1000:
                self._known_keys[keys] = known
        return known

    def finish(self, context: ParseContext) -> list[Part]:
        """Return the parts that recognised something, the main one first."""
        parts, unknown = _read_documents(self._documents, self.name, context)
        self._read_as_text(unknown)
        parts += [scanner.finish(context) for scanner, _ in self._scanners]
        parts = [part for part in parts if part.claimed]
        parts.sort(key=lambda part: _rank(part, context), reverse=True)
        return parts

    def _read_as_text(self, unknown: Sequence[Document]) -> None:
        """Look for kernel lines in JSON of any structure, such as events and node conditions."""
        kernel = [item for item in self._scanners if isinstance(item[0], KernelScanner)]
        for document in unknown:
            if document.one_line and isinstance(document.data, dict) and not document.cut_off:
                continue  # was read as text already
            lines = document.text.split("\n")
            for index, text in enumerate(lines):
                ended = not document.cut_off or index + 1 < len(lines)
                for scanner, search in kernel:
                    if search is None or search(text.encode("utf-8", "replace")):
                        scanner.feed(Line(document.line + index, text, ended=ended))


def _rank(part: Part, context: ParseContext) -> tuple[object, ...]:
    modes = TOOL_MODES.get(context.tool or "", frozenset())
    known = part.mode is not ReadMode.UNKNOWN
    strong = bool(part.rows or part.figures) and part.mode not in BYSTANDERS
    return (
        known,
        part.mode in modes,
        # numbers of a JSON report are exact, those of a table beside it are rounded
        part.mode in JSON_MODES and part.completeness is Completeness.COMPLETE,
        strong and part.claimed > 2,
        part.claimed,
    )


def _needle_search(scanner: Scanner) -> Callable[[bytes], object] | None:
    if not scanner.needles:
        return None
    return re.compile(b"|".join(re.escape(needle) for needle in scanner.needles)).search


def _read_documents(
    documents: JsonDocuments, name: str, context: ParseContext
) -> tuple[list[Part], list[Document]]:
    """Return what the JSON readers found, and the documents that none of them knows."""
    found = documents.finish()
    lines = [document for document in found if document.one_line and not document.cut_off]
    parts: list[Part] = []
    rest = found
    if lines and (part := _read(lines, name, context)):
        rest = [document for document in found if document not in lines]
        half = next((item for item in rest if item.cut_off and item.one_line), None)
        if half and half.line > lines[-1].line:
            part.completeness = Completeness.CUT_OFF
            part.findings.append(_truncated("the last line of JSON is cut off"))
        parts.append(part)
    unknown: list[Document] = []
    for document in rest:
        part = _read([document], name, context)
        if part:
            parts.append(part)
        else:
            unknown.append(document)
    if documents.overflow:
        parts.append(_unreadable(unknown[:1], "JSON documents are too large or too many"))
    cut_off = [document for document in unknown if document.cut_off]
    if cut_off:
        parts.append(_cut_off(cut_off[0]))
    elif unknown and not parts:
        parts.append(_unreadable(unknown, "JSON of an unknown structure"))
    return parts, unknown


def _read(documents: Sequence[Document], name: str, context: ParseContext) -> Part | None:
    """Ask the JSON readers; several documents are the lines of JSON lines."""
    first = documents[0]
    data = first.data if len(documents) == 1 else [document.data for document in documents]
    text = "\n".join(document.text for document in documents)
    part = nccl.read_json(data, text, name, context, cut_off=first.cut_off)
    if part is None and data is not None:
        part = dcgm.read_json(data, text, name, context)
        if part and first.cut_off:
            part = replace(
                part,
                completeness=Completeness.CUT_OFF,
                findings=[*part.findings, _truncated("the JSON document is cut off")],
            )
    return part


def _cut_off(document: Document) -> Part:
    mode = next((mode for mode, hint in _HINTS if hint.search(document.text)), ReadMode.UNKNOWN)
    return Part(
        mode=mode,
        claimed=document.text.count("\n") + 1,
        completeness=Completeness.CUT_OFF,
        findings=[_truncated("the JSON document is cut off")],
    )


def _unreadable(documents: Sequence[Document], why: str) -> Part:
    return Part(
        mode=ReadMode.UNKNOWN,
        claimed=1 + sum(document.text.count("\n") for document in documents),
        completeness=Completeness.UNKNOWN_SCHEMA,
        findings=[finding("SCHEMA_UNKNOWN", why)],
    )


def _truncated(message: str) -> Finding:
    return finding("LOG_TRUNCATED", message)
