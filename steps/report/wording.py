"""How a report says things: one wording for text, HTML and JUnit.

Node names, log lines and notes come from outside. `printable` takes their teeth out (escape codes,
control and direction characters) before they reach a terminal, a browser or an XML reader.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from catalog.facts.reasons import Effect
from catalog.reading.quantity import format_duration
from steps.documents.report import NodeStatus, Report, Result
from steps.documents.verdict import Outcome

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp", "Zs"})
_NUMBERED = re.compile(r"([A-Za-z0-9_.-]*?)([0-9]{1,18})([A-Za-z_-]*(?:\.[A-Za-z0-9_.-]*)?)")

BAR_WORDS = {
    Outcome.PASS: "met",
    Outcome.FAIL: "not met",
    Outcome.INCONCLUSIVE: "not proven",
}
"""What is said of an expression."""

GROUP_WORDS = {
    Outcome.PASS: "passed",
    Outcome.FAIL: "not passed",
    Outcome.INCONCLUSIVE: "no result",
}
"""What is said of a group. Not 'FAIL': most nodes of a group that did not pass are innocent."""

STATUS_WORDS = {
    NodeStatus.FAILED: "failed",
    NodeStatus.NOT_PROVEN: "not proven",
    NodeStatus.READY: "ready",
    NodeStatus.EXCLUDED: "excluded",
}
"""What is said of a node, in the order in which reports list them."""


EFFECT_WORDS = {
    Effect.FAIL: "fault",
    Effect.INCONCLUSIVE: "inconclusive",
    Effect.WARN: "warning",
    Effect.NOTE: "note",
}
"""What is said of a reason by what it does to the verdict."""


def printable(text: str) -> str:
    r"""Return text on one line with every control, format and odd space character spelt out.

    An escape character becomes the four characters ``\x1b``, a right-to-left override ``\u202e``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " " if char in " \t" else _spell(char) if unicodedata.category(char) in _UNSAFE else char
        for char in text
    )


def _spell(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def count(number: int, noun: str) -> str:
    """Return ``1 node`` or ``8 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def fold_names(names: Iterable[str]) -> str:
    """Write names as ranges, as batch schedulers do: ``gpu-node-[05-06,08-11], login-1``.

    The last number of the host part is folded; numbers with leading zeros only fold with numbers
    of the same length, so the text can be unfolded again without doubt.
    """
    numbered: dict[tuple[str, str], list[str]] = {}
    folded: list[tuple[str, str]] = []
    for name in sorted(set(names)):
        match = _NUMBERED.fullmatch(name)
        if match:
            numbered.setdefault((match[1], match[3]), []).append(match[2])
        else:
            folded.append((name, printable(name)))
    for (prefix, suffix), digits in numbered.items():
        padded = any(len(text) > 1 and text.startswith("0") for text in digits)
        lengths: dict[int, list[str]] = {}
        for text in digits:
            lengths.setdefault(len(text) if padded else 0, []).append(text)
        for same in lengths.values():
            ranges = _ranges(sorted(same, key=int))
            single = "-" not in ranges and "," not in ranges
            text = f"{prefix}{ranges}{suffix}" if single else f"{prefix}[{ranges}]{suffix}"
            folded.append((prefix + min(same) + suffix, text))
    return ", ".join(text for _, text in sorted(folded))


def _ranges(numbers: Sequence[str]) -> str:
    runs: list[tuple[str, str]] = []
    for number in numbers:
        if runs and int(number) == int(runs[-1][1]) + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(low if low == high else f"{low}-{high}" for low, high in runs)


def named_expression(key: str, expression: str) -> str:
    """Return a bar's expression, behind its key where the expression does not name it."""
    named = re.search(rf"\b{re.escape(key)}\b", expression)
    return expression if named else f"{key}: {expression}"


def exclusion_label(code: str) -> str:
    """Return ``GPU count`` for ``NODE_EXCLUDED_GPU_COUNT``."""
    words = code.removeprefix("NODE_EXCLUDED_").split("_")
    return " ".join(word if word in {"GPU", "NIC", "MIG"} else word.lower() for word in words)


def exclusion_words(code: str, message: str) -> str:
    """Return ``GPU count: has 1, needs 8``, and ``is cordoned`` where the message says it all."""
    label = exclusion_label(code)
    return message if label in message.lower() else f"{label}: {message}"


def coverage_line(report: Report) -> str:
    """Return ``tested 61 of 64 nodes, 3 excluded: 2 GPU count, 1 cordoned``."""
    cover = report.coverage
    line = f"tested {cover.tested} of {count(cover.targeted, 'node')}"
    if cover.excluded:
        line += f", {cover.excluded} excluded"
        without = {node.node for node in report.nodes if node.status is NodeStatus.EXCLUDED}
        first: dict[str, str] = {}
        for exclusion in report.excluded:
            if exclusion.node in without:
                first.setdefault(exclusion.node, exclusion.code)
        codes = Counter(exclusion_label(code) for code in first.values())
        if codes:
            ordered = sorted(codes.items(), key=lambda item: (-item[1], item[0]))
            line += ": " + ", ".join(f"{number} {words}" for words, number in ordered)
    lost = cover.targeted - cover.tested - cover.excluded
    if lost > 0:
        line += f", {lost} planned but not tested"
    partly = _in_part(report)
    return f"{line}; {partly} not in every category" if partly else line


def counts_line(report: Report) -> str:
    """Return ``2 failed, 6 ready``, without the statuses that no node has."""
    numbers = Counter(node.status for node in report.nodes)
    parts = [
        f"{numbers[status]} {word}" for status, word in STATUS_WORDS.items() if numbers[status]
    ]
    return ", ".join(parts) or "no node"


def result_sentence(report: Report) -> str:
    """Say in one sentence why the result is what it is."""
    numbers = Counter(node.status for node in report.nodes)
    nodes = count(len(report.nodes), "node")
    failed, open_ = numbers[NodeStatus.FAILED], numbers[NodeStatus.NOT_PROVEN]
    match report.result:
        case Result.PASS:
            return "every targeted node is ready"
        case Result.FAIL if failed:
            return f"{failed} of {nodes} failed"
        case Result.FAIL:
            return "a category failed, and no single node is proven the cause"
        case Result.INCONCLUSIVE:
            return _nothing_bad(report, open_)
        case Result.INCOMPLETE:
            left = report.coverage.targeted - report.coverage.tested
            partly = _in_part(report)
            gaps = [f"{left} of {nodes} {_are(left)} not covered"] if left or not partly else []
            if partly:
                gaps.append(f"{partly} of {nodes} {_are(partly)} not covered by every category")
            return f"what was tested is ready, but {' and '.join(gaps)}"


def _nothing_bad(report: Report, open_: int) -> str:
    if not report.categories:
        return "nothing was tested"
    if open_:
        of = count(len(report.nodes), "node")
        return f"nothing is proven bad, but {open_} of {of} {_are(open_)} not proven good"
    return "nothing is proven bad, but not everything is proven good"


def _in_part(report: Report) -> int:
    """Return the number of nodes that some categories tested and others left out."""
    return sum(0 < len(node.categories) < len(report.categories) for node in report.nodes)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def source_line(report: Report) -> str | None:
    """Return what must be known of numbers that no cluster gave; None for a real run."""
    match report.source:
        case "cluster":
            return None
        case "simulated":
            line = "SIMULATED: no hardware was tested; a simulator wrote all outputs"
        case "recorded":
            line = "RECORDED: nothing ran now; stored outputs were judged"
    return f"{line} ({printable(report.source_note)})" if report.source_note else line


def hardware_line(report: Report) -> str:
    """Return platform, instance types and GPU: ``aws p5.48xlarge, GPU h100``."""
    kinds = {cohort.hardware.instance_type for cohort in report.cohorts}
    types = sorted(kind for kind in kinds if kind)
    return printable(f"{' '.join([report.platform, '/'.join(types)]).strip()}, GPU {report.gpu}")


def time_text(moment: datetime) -> str:
    """Return ``2026-03-02 04:05:06 UTC``; a moment without zone is printed as it is."""
    if moment.tzinfo is None:
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def period_text(start: datetime, end: datetime) -> str:
    """Return both moments and the time between them, as they are shown: in whole seconds."""
    whole = end.replace(microsecond=0) - start.replace(microsecond=0)
    return f"{time_text(start)} to {time_text(end)}, {format_duration(whole.total_seconds())}"


def number_text(value: float) -> str:
    """Write a number with four significant digits and no exponent where it can be avoided."""
    if isinstance(value, int) or value == 0 or abs(value) >= 1e12:
        return f"{value:g}" if isinstance(value, float) else str(value)
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}"


def amount(unit: str, *values: float) -> str:
    """Write a number with its unit, or two as ``2 to 3 GB/s``; ratios as per cent."""
    factor = 100 if unit == "ratio" else 1
    numbers = " to ".join(number_text(value * factor) for value in values)
    if unit in {"count", "1"}:
        return numbers
    return f"{numbers} {'%' if unit == 'ratio' else printable(unit)}"
