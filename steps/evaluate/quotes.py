"""Puts the words of the output into the evidence of expressions.

A judgment works on rows, which know their line but not its text; the text is in the raw output.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import BinaryIO

from catalog.errors import RecordError
from steps.documents import Evidence, ExpressionResult, GroupVerdict, Outcome, ReasonGiven
from steps.parse.lines import clean_line
from steps.parse.sightings import MAX_TEXT, evidence
from steps.parse.stream import read_lines

MOST_OUTPUTS = 200
"""Raw outputs that are read for one category; a fleet that fails as a whole is not read through."""

Texts = dict[int, Evidence]


def lines_of(stream: BinaryIO, file: str, numbers: Iterable[int]) -> Texts:
    """Return some lines of an output by their number, without secrets; none that is cut.

    Args:
        stream: raw bytes, or gzip of them.
        file: name of the output.
        numbers: 1-based, as the parsers count lines.
    """
    wanted = set(numbers)
    found: Texts = {}

    def take(raw: bytes, number: int, *, ended: bool = True) -> None:
        if number in wanted:
            for line in clean_line(raw, number, ended=ended):
                # Of a document in one line the beginning says nothing of the row that is meant.
                if len(line.text) <= MAX_TEXT:
                    found[number] = evidence(file, line)

    read_lines(stream, take)
    return found


def quote_runs(
    verdicts: Iterable[GroupVerdict], read_log: Callable[[str], bytes]
) -> list[GroupVerdict]:
    """Quote the lines behind every expression that is not true.

    Args:
        verdicts: of the runs.
        read_log: returns a raw output by name.
    """
    quoted = []
    reads = 0
    for verdict in verdicts:
        some = [item for item in verdict.expressions if item.outcome is not Outcome.PASS]
        texts: dict[tuple[str | None, int | None], Evidence] = {}
        for file, numbers in wanted_lines(some).items():
            reads += 1
            if reads > MOST_OUTPUTS:
                break
            try:
                stream = io.BytesIO(read_log(file))
            except RecordError:
                continue  # the numbers stand without the words
            lines = lines_of(stream, file, numbers)
            texts |= {(file, number): line for number, line in lines.items()}
        quoted.append(quote(verdict, texts) if texts else verdict)
    return quoted


def wanted_lines(results: Iterable[ExpressionResult]) -> dict[str, set[int]]:
    """Return the lines that some results rest on, by output."""
    wanted: dict[str, set[int]] = {}
    for result in results:
        for line in result.evidence:
            if line.file is not None and line.line is not None:
                wanted.setdefault(line.file, set()).add(line.line)
    return wanted


def quote(
    verdict: GroupVerdict, texts: dict[tuple[str | None, int | None], Evidence]
) -> GroupVerdict:
    """Put the text of lines into the evidence of expressions and of the reasons that cite them.

    Args:
        verdict: of one run.
        texts: lines by file and number.
    """
    cited = {line for result in verdict.expressions for line in result.evidence}

    def words(lines: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
        return tuple(
            texts.get((line.file, line.line), line) if line in cited else line for line in lines
        )

    def result_of(item: ExpressionResult) -> ExpressionResult:
        return item.model_copy(update={"evidence": words(item.evidence)})

    def reason_of(item: ReasonGiven) -> ReasonGiven:
        return item.model_copy(update={"evidence": words(item.evidence)})

    return verdict.model_copy(
        update={
            "expressions": tuple(map(result_of, verdict.expressions)),
            "reasons": tuple(map(reason_of, verdict.reasons)),
        }
    )
