"""The report for a terminal or a log: most important first, one screen for a small fleet."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from catalog.facts.reasons import Effect
from steps.documents.report import CategoryReport, NodeReport, NodeStatus, Report, Result
from steps.documents.verdict import GroupVerdict, Outcome
from steps.report.proofs import Cluster, Proof, ProofIndex, remedies, rule, statement
from steps.report.summaries import (
    Judged,
    bar_summaries,
    common_facts,
    figure_summaries,
    group_line,
    node_line,
    of_purpose,
    reason_summaries,
    run_line,
)
from steps.report.wording import (
    BAR_WORDS,
    EFFECT_WORDS,
    count,
    counts_line,
    coverage_line,
    fold_names,
    hardware_line,
    period_text,
    printable,
    result_sentence,
    source_line,
)

DEFAULT_WIDTH = 100
_MAX_WIDTH = 140
_MAX_MESSAGES = 3
_MAX_UNTRUE = 20
_MANY_FAILED = 8
_STYLES = {
    Result.PASS: "bold green",
    Result.FAIL: "bold red",
    Result.INCONCLUSIVE: "bold yellow",
    Result.INCOMPLETE: "bold yellow",
}
_BAR_STYLES = {Outcome.PASS: "green", Outcome.FAIL: "red", Outcome.INCONCLUSIVE: "yellow"}
_SOFT = "dim"


def render_text(report: Report, *, colour: bool = False, width: int | None = None) -> str:
    """Write a report as text.

    Args:
        report: the report.
        colour: add ANSI colours; without it the text holds no escape code at all.
        width: columns to fit into, at least 40; `DEFAULT_WIDTH` when None. Lines never grow
            beyond 140 columns, since longer ones are hard to read.

    Returns:
        The text, ending in a line feed. It has non-ASCII characters.
    """
    page = _Page(max(40, min(width or DEFAULT_WIDTH, _MAX_WIDTH)), colour=colour)
    index = ProofIndex(report)
    _head(page, report)
    _failed(page, index)
    _not_proven(page, index)
    for category in report.categories:
        _category(page, category, index)
    _ready(page, index)
    _excluded(page, index)
    _foot(page, report)
    return page.text()


class _Page:
    """Lines of styled text, wrapped with a hanging indent."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self.width = width
        # Everything that rich would take from the environment is given, so that the same report
        # is the same text everywhere.
        self._console = Console(
            file=io.StringIO(),
            width=width,
            height=100,
            force_terminal=colour,
            force_jupyter=False,
            force_interactive=False,
            color_system="standard" if colour else None,
            no_color=not colour,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )
        self._lines: list[Text] = []

    def line(self, *parts: str | tuple[str, str], indent: int = 0, hang: int | None = None) -> None:
        """Add a paragraph; parts are text, or text with a style."""
        text = Text.assemble(*parts)
        hang = indent + 2 if hang is None else hang
        if text.cell_len <= self.width - indent:
            self._lines.append(_indented(text, indent))
            return
        for number, piece in enumerate(text.wrap(self._console, self.width - hang)):
            self._lines.append(_indented(piece, hang if number else indent))

    def blank(self) -> None:
        """Add an empty line."""
        self._lines.append(Text())

    def names(
        self, names: Iterable[str], *, style: str = "", after: str = "", indent: int = 0
    ) -> None:
        """Add node names as ranges, broken at commas only, with something said after them."""
        rest = fold_names(names)
        width = self.width - indent
        while len(rest) > width and "," in rest[:width]:
            cut = rest.rindex(",", 0, width) + 1
            self.line((rest[:cut], style), indent=indent)
            rest = rest[cut:].lstrip()
        if after and len(rest) + 2 + len(after) > width:
            self.line((rest, style), indent=indent)
            self.line(after, indent=indent + 2)
        else:
            self.line((rest, style), f"  {after}" if after else "", indent=indent)

    def items(
        self, items: Iterable[str], separator: str, *, style: str = "", before: str = ""
    ) -> None:
        """Add a list, broken between items only where each of them fits on a line."""
        line, indent = before, 0
        for number, item in enumerate(map(printable, items)):
            added = f"{line}{separator if number else ''}{item}"
            if number and indent + cell_len(added) >= self.width:
                self.line((f"{line}{separator.rstrip()}", style), indent=indent, hang=2)
                added, indent = item, 2
            line = added
        if line != before:
            self.line((line, style), indent=indent, hang=2)

    def heading(self, title: str, style: str = "bold") -> None:
        """Add a heading with a rule."""
        self.blank()
        dashes = "─" * max(0, self.width - len(title) - 4)
        self.line(("── ", _SOFT), (title, style), (f" {dashes}", _SOFT))

    def pair(self, label: str, value: str, style: str = "") -> None:
        """Add a labelled line of the head."""
        self.line((f"{label:<15}", _SOFT), (value, style), hang=15)

    def text(self) -> str:
        """Return all lines."""
        with self._console.capture() as capture:
            self._console.print(Text("\n").join(self._lines), soft_wrap=True)
        return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _indented(text: Text, indent: int) -> Text:
    text.rstrip()
    return Text.assemble(" " * indent, text) if indent else text


def _head(page: _Page, report: Report) -> None:
    source = source_line(report)
    if source:
        frame = ("!" * page.width, "bold magenta")
        page.line(frame)
        page.line((source, "bold magenta"))
        page.line(frame)
    style = _STYLES[report.result]
    page.line((report.result.value, f"{style} reverse"), (f"  {result_sentence(report)}", style))
    page.pair("certification", printable(f"{report.certification}, stage {report.stage}"))
    page.pair("hardware", hardware_line(report))
    page.pair("coverage", coverage_line(report))
    page.pair("nodes", counts_line(report))
    if report.started and report.ended:
        page.pair("time", period_text(report.started, report.ended))
    if report.source == "cluster" and report.source_note:
        page.pair("source", printable(report.source_note))
    for code, message in report.problems:
        page.pair("problem", printable(f"{code}: {message}"), "yellow")


def _failed(page: _Page, index: ProofIndex) -> None:
    nodes = index.nodes(NodeStatus.FAILED)
    if not nodes:
        return
    page.heading(f"Failed: {count(len(nodes), 'node')}", "bold red")
    seen: set[str] = set()
    next_steps: dict[str, list[str]] = {}
    for node in nodes:
        proofs = index.against(node)
        _failed_node(page, node, proofs, index, seen)
        for remedy in remedies(proofs, node.reason):
            next_steps.setdefault(remedy, []).append(node.node)
            if len(nodes) <= _MANY_FAILED:
                page.line(("next: ", "bold"), printable(remedy), indent=4)
    if len(nodes) > _MANY_FAILED:
        for remedy, names in next_steps.items():
            page.line(("next: ", "bold"), printable(remedy))
            page.names(names, indent=4)


def _failed_node(
    page: _Page,
    node: NodeReport,
    proofs: tuple[Proof, ...],
    index: ProofIndex,
    seen: set[str],
) -> None:
    codes = dict.fromkeys(p.reason.code for p in proofs if p.reason.code != node.reason)
    name = (printable(node.node), "bold red")
    page.line(name, f"  {node.reason or 'failed'}", *((f"  {code}") for code in codes))
    for place, members in index.by_place(node):
        for proof in members:
            _proof(page, proof, seen)
        if place:
            page.line((place, _SOFT), indent=4)
    if not proofs:
        page.line("no detail was recorded", indent=4)
    rest = dict.fromkeys(proof.reason.code for proof in index.besides(node))
    if rest:
        page.line((f"also: {', '.join(rest)}", _SOFT), indent=4)


def _proof(page: _Page, proof: Proof, seen: set[str]) -> None:
    """Print what proves a reason; a rule or line that was shown is not shown again."""
    if proof.message:
        page.line(printable(proof.message), indent=4)
    for item in proof.expressions:
        words = rule(item)
        origin = "" if words in seen else (f"  ({printable(words)})", _SOFT)
        seen.add(words)
        page.line(printable(statement(item)), origin, indent=4)
    if proof.quote:
        text = printable(proof.quote)
        most = 2 * (page.width - 6)
        text = text if len(text) <= most else f"{text[: most - 4]} …"
        place = f"  ({printable(proof.quoted_from)})" if proof.quoted_from else ""
        if text + place not in seen:
            page.line(("> ", _SOFT), text, (place, _SOFT), indent=4)
        seen.add(text + place)


def _not_proven(page: _Page, index: ProofIndex) -> None:
    clusters = index.clusters()
    if not clusters:
        return
    total = sum(len(cluster.nodes) for cluster in clusters)
    page.heading(f"Not proven: {count(total, 'node')}", "bold yellow")
    seen: set[str] = set()
    for cluster in clusters:
        _cluster(page, cluster, seen)


def _cluster(page: _Page, cluster: Cluster, seen: set[str]) -> None:
    codes = ", ".join(cluster.codes) or "no reason was recorded"
    page.names(cluster.nodes, style="bold", after=codes)
    shown: dict[str, list[Proof]] = {}
    for proof in cluster.proofs:
        shown.setdefault(proof.reason.code, []).append(proof)
    for proofs in shown.values():
        for proof in proofs[:_MAX_MESSAGES]:
            _proof(page, proof, seen)
        if len(proofs) > _MAX_MESSAGES:
            page.line((f"… {len(proofs) - _MAX_MESSAGES} more like this", _SOFT), indent=4)
    places = dict.fromkeys(proof.category for proof in cluster.proofs if proof.category)
    if places:
        page.line((f"in {', '.join(map(printable, places))}", _SOFT), indent=4)
    for remedy in remedies(cluster.proofs):
        page.line(("next: ", "bold"), printable(remedy), indent=4)


def _category(page: _Page, category: CategoryReport, index: ProofIndex) -> None:
    style = _STYLES[Result(category.outcome.value)]
    page.heading(f"{printable(category.category)}: {category.outcome}", style)
    page.line(printable(run_line(category)))
    page.line(node_line(category))
    measured = of_purpose(category, "measure")
    page.items([f"{item.label} {item.text}" for item in figure_summaries(measured)], "; ")
    facts = common_facts(measured)[0]
    page.items([f"{name} {value}" for name, value in facts.items()], ", ", style=_SOFT)
    if len(measured) > 1:
        page.line(f"{count(len(measured), 'group')}: {group_line(measured)}")
    _bars(page, measured)
    isolated = of_purpose(category, "isolate")
    if isolated:
        page.line(f"{count(len(isolated), 'isolation run')}: {group_line(isolated)}")
        _bars(page, isolated)
    for item in reason_summaries(category):
        where = f" ({_groups(item.groups)})" if item.groups and len(measured) > 1 else ""
        page.line(
            f"{EFFECT_WORDS[item.effect]}: ",
            printable(f"{item.code}{where}: {item.messages(_MAX_MESSAGES)}"),
            indent=2,
            hang=4,
        )
    for message, names in index.left_out(category.category).items():
        text = printable(f"not covered here: {fold_names(names)}: {message}")
        page.line(text, indent=2, hang=4)


def _groups(names: tuple[str, ...]) -> str:
    text = fold_names(names)
    return text if len(text) <= 60 else count(len(names), "group")


def _bars(page: _Page, groups: Iterable[GroupVerdict]) -> None:
    for bar in bar_summaries(groups):
        soft = (printable(f"  ({bar.rule})"), _SOFT)
        untrue = (*bar.not_met, *bar.not_evaluated)
        if bar.total == 1 and len(untrue) < 2:
            judged = (*untrue, *bar.met)[0]
            _bar_line(page, judged.result.outcome, _said(judged), soft)
            continue
        if len(bar.not_met) == bar.total > _MANY_FAILED:
            text = f"{_ends(bar.not_met)}{len(bar.not_met)} of {count(bar.total, 'group')}"
            _bar_line(page, Outcome.FAIL, text, soft)
            continue
        for judged in untrue[:_MAX_UNTRUE]:
            text = f"{_said(judged)}  {judged.group.group.id}"
            _bar_line(page, judged.result.outcome, text)
        if len(untrue) > _MAX_UNTRUE:
            page.line(f"… {len(untrue) - _MAX_UNTRUE} more", indent=2)
        text = f"{_ends(bar.met)}{len(bar.met)} of {count(bar.total, 'group')}"
        _bar_line(page, Outcome.PASS, text, soft)


def _said(judged: Judged) -> str:
    message = judged.result.message
    return judged.result.statement + (f" ({message})" if message else "")


def _ends(judged: Sequence[Judged]) -> str:
    """Return the statements with the least and the greatest measured value."""
    ends = dict.fromkeys(item.result.statement for item in (*judged[:1], *judged[-1:]))
    return f"{' … '.join(ends)}  " if ends else ""


def _bar_line(page: _Page, outcome: Outcome, text: str, soft: tuple[str, str] | str = "") -> None:
    word = (f"{BAR_WORDS[outcome]:<10} ", _BAR_STYLES[outcome])
    page.line(word, printable(text), soft, indent=2, hang=13)


def _ready(page: _Page, index: ProofIndex) -> None:
    nodes = index.nodes(NodeStatus.READY)
    if not nodes:
        return
    page.heading(f"Ready: {count(len(nodes), 'node')}", "bold green")
    page.names((node.node for node in nodes), style="green")
    warned: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        for proof in index.warnings(node):
            warned.setdefault((proof.reason.code, proof.reason.message), []).append(node.node)
    for (code, message), names in warned.items():
        text = printable(f"{code}: {message}")
        page.line(f"{EFFECT_WORDS[Effect.WARN]}: {text}", indent=2)
        page.names(names, indent=4)


def _excluded(page: _Page, index: ProofIndex) -> None:
    nodes = index.nodes(NodeStatus.EXCLUDED)
    if not nodes:
        return
    page.heading(f"Excluded: {count(len(nodes), 'node')}")
    causes: dict[str, list[str]] = {}
    for node in nodes:
        causes.setdefault(index.exclusion(node), []).append(node.node)
    for words, names in causes.items():
        page.names(names, style="bold", after=words)


def _foot(page: _Page, report: Report) -> None:
    page.blank()
    versions = [f"{name} {value}" for name, value in report.versions.items()]
    page.items(versions, ", ", style=_SOFT, before="versions: ")
    source = "" if report.source == "cluster" else f" ({report.source})"
    style = _STYLES[report.result]
    page.line((f"{report.result}{source}", style), f": {result_sentence(report)}")
