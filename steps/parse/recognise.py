"""Recognises what kind an output is: all readers see it, the one that claims most of it wins."""

from __future__ import annotations

import re
from collections.abc import Sequence

from catalog.facts.tools import UNKNOWN_OUTPUT, OutputKind, output_kinds
from steps.documents import Completeness, Finding
from steps.parse.api import Line, ParseContext, Part, Scanner
from steps.parse.findings import finding
from steps.parse.json_documents import Document, JsonDocuments
from steps.parse.kinds import KINDS
from steps.parse.lines import clean_line
from steps.parse.prefilter import prefilter


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
        self._scanners: dict[type[Scanner], Scanner] = {}
        self._in_documents: set[type[Scanner]] = set()
        self._owners: list[tuple[bytes, frozenset[type[Scanner]]]] = []
        for kind in KINDS:
            scanners = {
                type(each): each for each in (make(name, context) for make in kind.scanners)
            }
            self._scanners |= scanners
            if kind.inside_documents:
                self._in_documents |= scanners.keys()
            if kind.own_lines:
                self._owners.append((kind.own_lines, frozenset(scanners)))
        self._prefilter = prefilter(*self._scanners)
        self._known_keys: dict[frozenset[str], bool] = {}

    def take(self, raw: bytes, number: int, *, ended: bool = True) -> None:
        """Take one raw line."""
        for mark, owners in self._owners:
            if mark in raw:
                wanting = owners
                break
        else:
            wanting = self._prefilter.match(raw)
        for line in clean_line(raw, number, ended=ended):
            if self.blank and line.text.strip():
                self.blank = False
            if self._is_document(line):
                continue
            for scanner in wanting:
                self._scanners[scanner].feed(line)

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
        parts += [scanner.finish(context) for scanner in self._scanners.values()]
        parts = [part for part in parts if part.claimed]
        parts.sort(key=lambda part: _rank(part, context), reverse=True)
        return parts

    def _read_as_text(self, unknown: Sequence[Document]) -> None:
        """Look for kernel lines in JSON of any structure, such as events and node conditions."""
        for document in unknown:
            if document.one_line and isinstance(document.data, dict) and not document.cut_off:
                continue  # was read as text already
            lines = document.text.split("\n")
            for index, text in enumerate(lines):
                ended = not document.cut_off or index + 1 < len(lines)
                wanting = self._prefilter.match(text.encode("utf-8", "replace"))
                for scanner in wanting & self._in_documents:
                    self._scanners[scanner].feed(Line(document.line + index, text, ended=ended))


def _rank(part: Part, context: ParseContext) -> tuple[object, ...]:
    strong = bool(part.rows or part.figures) and part.mode.tool is not None
    return (
        part.mode is not UNKNOWN_OUTPUT,
        context.tool is not None and part.mode.tool == context.tool,
        # numbers of a JSON report are exact, those of a table beside it are rounded
        part.mode.exact and part.completeness is Completeness.COMPLETE,
        strong and part.claimed > 2,
        part.claimed,
    )


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
    for kind in KINDS:
        part = kind.read_json and kind.read_json(data, text, name, context, cut_off=first.cut_off)
        if part:
            return part
    return None


def _cut_off(document: Document) -> Part:
    return Part(
        mode=_looks_like(document.text),
        claimed=document.text.count("\n") + 1,
        completeness=Completeness.CUT_OFF,
        findings=[_truncated("the JSON document is cut off")],
    )


def _looks_like(text: str) -> OutputKind:
    for kind in output_kinds():
        if kind.looks_like and re.search(kind.looks_like, text):
            return kind
    return UNKNOWN_OUTPUT


def _unreadable(documents: Sequence[Document], why: str) -> Part:
    return Part(
        mode=UNKNOWN_OUTPUT,
        claimed=1 + sum(document.text.count("\n") for document in documents),
        completeness=Completeness.UNKNOWN_SCHEMA,
        findings=[finding("SCHEMA_UNKNOWN", why)],
    )


def _truncated(message: str) -> Finding:
    return finding("LOG_TRUNCATED", message)
