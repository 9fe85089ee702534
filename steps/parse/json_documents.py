"""Finds JSON documents in text: alone, after noise, in the middle of a log, or one on each line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from steps.parse.api import Line
from steps.parse.lines import MAX_DOCUMENT_BYTES

MAX_DOCUMENTS = 20_000

_OPENS = re.compile(r"\s*(?:\{\s*(?:\"|\}|$)|\[\s*(?:[\[{]|$))")
# Lines that can stand inside a document; others are noise of another process and go elsewhere.
_CONTINUES = re.compile(r"\s*(?:[\"{}\[\],]|(?:-?\d[\d.eE+-]*|true|false|null)\s*(?:[,\]}]|$)|$)")
# half a surrogate pair is valid JSON and no valid text
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(slots=True)
class Document:
    """One JSON document.

    Attributes:
        data: as parsed.
        text: as printed, without noise.
        line: number of its first line.
        cut_off: the output ends inside it; ``data`` holds what was complete.
    """

    data: object
    text: str
    line: int
    cut_off: bool = False

    @property
    def one_line(self) -> bool:
        """Whether it stood on one line, as in JSON lines."""
        return "\n" not in self.text


@dataclass(slots=True)
class JsonDocuments:
    """Collects documents from the lines of an output.

    Attributes:
        found: complete documents, in order.
        overflow: some were left out because there are too many or too large ones.
    """

    found: list[Document] = field(default_factory=list)
    overflow: bool = False
    _lines: list[str] = field(default_factory=list)
    _start: int = 0
    _depth: int = 0
    _size: int = 0
    _kept: int = 0

    def feed(self, line: Line) -> bool:
        """Take a line if it belongs to a document."""
        if not self._depth and not _OPENS.match(line.text):
            return False
        if self._depth and not _CONTINUES.match(line.text):
            return False
        if not self._depth:
            self._lines, self._start, self._size = [], line.number, 0
        bare = _STRING.sub("", line.text)
        self._depth += bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")
        self._lines.append(line.text)
        self._size += len(line.text)
        if self._size > MAX_DOCUMENT_BYTES:
            self.overflow, self._depth = True, 0
            return True
        return self._closed() if self._depth <= 0 else True

    def _closed(self) -> bool:
        self._depth = 0
        text = "\n".join(self._lines)
        try:
            data = _loads(text)
        except (ValueError, RecursionError):
            return False
        self._keep(Document(data, text, self._start))
        return True

    def _keep(self, document: Document) -> None:
        self._kept += len(document.text)
        if len(self.found) >= MAX_DOCUMENTS or self._kept > 2 * MAX_DOCUMENT_BYTES:
            self.overflow = True
            return
        self.found.append(document)

    def finish(self) -> list[Document]:
        """Return the documents; one that is cut off comes last, closed as far as it goes."""
        if self._depth > 0:
            text = "\n".join(self._lines)
            data = close_cut_off(text)
            self._keep(Document(data, text, self._start, cut_off=True))
            self._depth = 0
        return self.found


def close_cut_off(text: str) -> object:
    """Return what a cut-off JSON document holds up to its last complete value, or None."""
    stack: list[str] = []
    best: tuple[int, str] | None = None
    in_string = escaped = False
    for position, letter in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif letter == "\\":
                escaped = True
            elif letter == '"':
                in_string = False
        elif letter == '"':
            in_string = True
        elif letter in "{[":
            stack.append("}" if letter == "{" else "]")
        elif letter in "}]" and stack:
            stack.pop()
            best = (position + 1, "".join(reversed(stack)))
    if best is None:
        return None
    end, closing = best
    try:
        return _loads(text[:end] + closing)
    except (ValueError, RecursionError):
        return None


def _loads(text: str) -> object:
    data: object = json.loads(_SURROGATE.sub(r"\\ufffd", text))
    return data
