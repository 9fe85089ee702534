"""Reads one output of any kind and size in one pass."""

from __future__ import annotations

import io
from typing import BinaryIO

from catalog.facts.tools import UNKNOWN_OUTPUT
from steps.documents import Completeness, Measurements
from steps.parse.api import ParseContext, Part
from steps.parse.findings import finding
from steps.parse.merge import combine, from_parts
from steps.parse.recognise import Recogniser
from steps.parse.stream import Reading, read_lines

__all__ = ["combine", "parse_bytes", "parse_stream"]

_NOTHING_KNOWN = ParseContext()


def parse_stream(
    stream: BinaryIO,
    name: str,
    context: ParseContext = _NOTHING_KNOWN,
    *,
    strict: bool = False,
) -> Measurements:
    """Read one output.

    One pass, in memory that does not grow with the output (JSON documents up to 16 MiB are held).
    Any bytes are accepted; what cannot be read is said in the findings, never raised. That holds
    for a bug of a reader as well: one output must not cost the report of a whole fleet.

    Args:
        stream: raw bytes, or gzip of them.
        name: of the output, for people and evidence.
        context: what is known about the run.
        strict: let the error of a reader through; for tests.

    Raises:
        OSError: the stream itself cannot be read.
    """
    try:
        return _read(stream, name, context)
    except OSError:
        raise
    except Exception as error:
        if strict:
            raise
        return from_parts([_broken(error)], name, context)


def _read(stream: BinaryIO, name: str, context: ParseContext) -> Measurements:
    recogniser = Recogniser(name, context)
    reading = read_lines(stream, recogniser.take)
    parts = recogniser.finish(context)
    if not parts:
        parts = [_nothing(reading, blank=recogniser.blank)]
    _check_tool(parts[0], context)
    _check_stream(parts[0], reading)
    _check_exit(parts[0], context)
    return from_parts(parts, name, context)


def parse_bytes(
    data: bytes, name: str, context: ParseContext = _NOTHING_KNOWN, *, strict: bool = False
) -> Measurements:
    """Read one output that is in memory; see `parse_stream`."""
    return parse_stream(io.BytesIO(data), name, context, strict=strict)


def _broken(error: Exception) -> Part:
    return Part(
        mode=UNKNOWN_OUTPUT,
        completeness=Completeness.UNKNOWN_SCHEMA,
        findings=[
            finding("LOG_UNREADABLE", f"readiness itself failed on it: {type(error).__name__}")
        ],
    )


def _nothing(reading: Reading, *, blank: bool) -> Part:
    if blank:
        return Part(
            mode=UNKNOWN_OUTPUT,
            completeness=Completeness.EMPTY,
            findings=[finding("LOG_EMPTY", "the output is empty")],
        )
    return Part(
        mode=UNKNOWN_OUTPUT,
        completeness=Completeness.UNKNOWN_SCHEMA,
        findings=[
            finding(
                "LOG_UNREADABLE",
                f"nothing in the output is of a known format ({reading.lines} lines, "
                f"{reading.size} bytes)",
            )
        ],
    )


def _check_tool(part: Part, context: ParseContext) -> None:
    """An output without anything of the tool that was to run is no result, however clean it is."""
    if context.tool is None or part.mode.tool == context.tool:
        return
    if part.completeness in {None, Completeness.COMPLETE}:
        part.completeness = (
            Completeness.ABORTED if part.mode.of_attempts else Completeness.UNKNOWN_SCHEMA
        )
    part.findings.append(
        finding(
            "NO_RESULT_ROWS",
            f"the output is of kind {part.mode} and holds no result of {context.tool}",
        )
    )


def _check_stream(part: Part, reading: Reading) -> None:
    """A broken gzip stream is cut off, whatever its content looks like."""
    if reading.truncated:
        if part.completeness in {None, Completeness.COMPLETE}:
            part.completeness = Completeness.CUT_OFF
        part.findings.append(finding("LOG_TRUNCATED", reading.truncated))


def _check_exit(part: Part, context: ParseContext) -> None:
    """An error code contradicts an output that looks complete; the others say so themselves."""
    if part.mode.weighs_exit:
        return
    if context.exit_code and part.completeness in {None, Completeness.COMPLETE}:
        part.findings.append(
            finding("EXIT_CODE_NONZERO", f"the tool ended with exit code {context.exit_code}")
        )
