"""What a report says against a node, joined with the run that proves it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from catalog.facts.reasons import Effect, reason
from steps.documents.measurements import Evidence
from steps.documents.plan import Exclusion
from steps.documents.report import NodeReport, NodeStatus, Report
from steps.documents.verdict import (
    ExpressionResult,
    GroupVerdict,
    NodeVerdict,
    Outcome,
    ReasonGiven,
)
from steps.report.wording import STATUS_WORDS, exclusion_words, printable

_NOT_EVALUATED = {"FIGURE_MISSING", "EXPRESSION_ERROR", "ROWS_MISSING", "PEERS_MISSING"}
"""Codes of expressions that are neither true nor false."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One reason against a node and what it rests on.

    Attributes:
        reason: the reason.
        category: the category whose verdict holds it; None when the report as a whole does.
        run: the group whose run gave the reason.
        expressions: the expressions of that run that are not true and belong to the reason.
    """

    reason: ReasonGiven
    category: str | None = None
    run: GroupVerdict | None = None
    expressions: tuple[ExpressionResult, ...] = ()

    @property
    def message(self) -> str | None:
        """The reason's own words, or None when they only repeat the expression."""
        words = _one_line(self.reason.message)
        shown = (_one_line(item.statement) for item in self.expressions)
        return None if any(words.startswith(text) for text in shown) else words

    @property
    def headline(self) -> str:
        """The shortest way to say it in one line."""
        first = statement(self.expressions[0]) if self.expressions else self.reason.code
        return self.message or first

    @property
    def quote(self) -> str | None:
        """The earliest line of evidence, or None when there is none or the message quotes it."""
        lines = [_one_line(item.text) for item in self.reason.evidence]
        return lines[0] if lines and lines[0] not in _one_line(self.reason.message) else None

    @property
    def quoted_from(self) -> str | None:
        """Where the quote stands: ``output.log, line 118``."""
        return evidence_place(self.reason.evidence[0]) if self.quote else None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that are not proven for the same codes.

    Attributes:
        codes: reason codes, most serious first.
        nodes: names, in the order of the report.
        proofs: one for every distinct message.
    """

    codes: tuple[str, ...]
    nodes: tuple[str, ...]
    proofs: tuple[Proof, ...]


class ProofIndex:
    """Finds verdicts, runs and exclusions of a report by node, without searching it again."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._runs: dict[tuple[str, str], GroupVerdict] = {}
        self._verdicts: dict[str, list[tuple[str, NodeVerdict]]] = {}
        self._exclusions: dict[str, list[Exclusion]] = {}
        for category in report.categories:
            for run in category.groups:
                self._runs.setdefault((category.category, run.group.id), run)
            for verdict in category.nodes:
                self._verdicts.setdefault(verdict.node, []).append((category.category, verdict))
        for exclusion in report.excluded:
            self._exclusions.setdefault(exclusion.node, []).append(exclusion)
        self.status = {node.node: node.status for node in report.nodes}

    def nodes(self, status: NodeStatus) -> tuple[NodeReport, ...]:
        """Return the nodes of one status, in the order of the report."""
        return tuple(node for node in self._report.nodes if node.status is status)

    def exclusion(self, node: NodeReport) -> str:
        """Say why a node was left out of everything: ``GPU count: has 1, needs 8``."""
        found = [(item.code, item.message) for item in self._exclusions.get(node.node, ())]
        found = found or [(item.code, item.message) for item in node.reasons]
        words = (exclusion_words(code, message) for code, message in dict.fromkeys(found))
        return printable("; ".join(words)) or "no reason was recorded"

    def left_out_words(self, node: NodeReport, category: str) -> str:
        """Say why a category did not test a node."""
        found = self._exclusions.get(node.node, ())
        own = [exclusion_words(x.code, x.message) for x in found if x.category in {category, None}]
        return "; ".join(own) or (
            self.exclusion(node) if node.status is NodeStatus.EXCLUDED else "not planned here"
        )

    def run(self, category: str, group: str | None) -> GroupVerdict | None:
        """Return a group's verdict by id."""
        return self._runs.get((category, group)) if group else None

    def verdict(self, node: str, category: str) -> NodeVerdict | None:
        """Return the verdict of a node in a category; None when the category left it out."""
        return next((v for name, v in self._verdicts.get(node, ()) if name == category), None)

    def left_out(self, category: str) -> dict[str, list[str]]:
        """Return the nodes that other categories tested and this one left out, by the reason."""
        nodes: dict[str, list[str]] = {}
        for item in self._report.excluded:
            tested = self.status.get(item.node) is not NodeStatus.EXCLUDED
            if item.category == category and tested:
                nodes.setdefault(item.message, []).append(item.node)
        return nodes

    def place(self, proof: Proof, node: str) -> str:
        """Say where a proof was seen: ``in CATEGORY, isolation run pair-2-0 with b (ready)``."""
        if proof.category is None:
            return ""
        words = f"in {proof.category}"
        if proof.run is not None:
            group = proof.run.group
            words += ", isolation run " if group.purpose == "isolate" else ", group "
            words += group.id
            others = [name for name in group.nodes if name != node]
            if len(others) > 1:
                words += f" of {len(group.nodes)} nodes"
            elif others:
                status = self.status.get(others[0])
                words += f" with {others[0]}" + (f" ({STATUS_WORDS[status]})" if status else "")
        return printable(words)

    def against(self, node: NodeReport) -> tuple[Proof, ...]:
        """Return what proves a failed node bad; never empty when any reason was recorded."""
        everything = self._all(node)
        bad = [name for name, v in self._verdicts.get(node.node, ()) if v.outcome is Outcome.FAIL]
        proofs = [p for p in everything if p.category in {*bad, None}]
        hard = tuple(p for p in proofs if p.reason.effect is Effect.FAIL)
        return hard or tuple(proofs) or everything

    def by_place(self, node: NodeReport) -> tuple[tuple[str, tuple[Proof, ...]], ...]:
        """Return `against` by the place of the proof, see `place`."""
        places: dict[str, list[Proof]] = {}
        for proof in self.against(node):
            places.setdefault(self.place(proof, node.node), []).append(proof)
        return tuple((place, tuple(proofs)) for place, proofs in places.items())

    def besides(self, node: NodeReport) -> tuple[Proof, ...]:
        """Return the further reasons of a failed node."""
        used = self.against(node)
        return tuple(proof for proof in self._all(node) if proof not in used)

    def open_reasons(self, node: NodeReport) -> tuple[Proof, ...]:
        """Return why a node is not proven."""
        everything = self._all(node)
        return tuple(p for p in everything if p.reason.effect.blocks) or everything

    def warnings(self, node: NodeReport) -> tuple[Proof, ...]:
        """Return the warnings of a node."""
        return tuple(p for p in self._all(node) if p.reason.effect is Effect.WARN)

    def clusters(self) -> tuple[Cluster, ...]:
        """Return the nodes that are not proven, by their codes; the largest cluster first."""
        found: dict[tuple[str, ...], tuple[list[str], dict[tuple[str, str], Proof]]] = {}
        for node in self.nodes(NodeStatus.NOT_PROVEN):
            proofs = self.open_reasons(node)
            codes = tuple(dict.fromkeys(proof.reason.code for proof in proofs))
            names, seen = found.setdefault(codes, ([], {}))
            names.append(node.node)
            for proof in proofs:
                seen.setdefault((proof.reason.code, proof.reason.message), proof)
        return tuple(
            Cluster(codes, tuple(names), tuple(seen.values()))
            for codes, (names, seen) in sorted(
                found.items(), key=lambda item: (-len(item[1][0]), item[0])
            )
        )

    def _all(self, node: NodeReport) -> tuple[Proof, ...]:
        proofs = [
            self._proof(category, item, verdict)
            for category, verdict in self._verdicts.get(node.node, ())
            for item in verdict.reasons
        ]
        known = {proof.reason for proof in proofs}
        proofs += [Proof(item) for item in node.reasons if item not in known]
        return tuple(sorted(proofs, key=lambda proof: proof.reason.effect.rank))

    def _proof(self, category: str, item: ReasonGiven, verdict: NodeVerdict) -> Proof:
        run = self.run(category, item.group or verdict.decided_by)
        return Proof(item, category, run, _untrue(run, item) if run else ())


def remedies(proofs: Iterable[Proof], why: str | None = None) -> tuple[str, ...]:
    """Return what to do next, without repeats.

    Args:
        proofs: the reasons; each may have a remedy of its own or one in the catalog.
        why: the reason of the node, whose remedy is the last resort.
    """
    own = [p.reason.remedy or _catalog_remedy(p.reason.code) for p in proofs]
    found = tuple(dict.fromkeys(remedy for remedy in own if remedy))
    last = _catalog_remedy(why) if why else None
    return found or ((last,) if last else ())


def statement(result: ExpressionResult) -> str:
    """Say what became of an expression: ``61.3 >= 0.92 * 467.5 is false``."""
    words = _one_line(result.statement)
    if result.outcome is not Outcome.INCONCLUSIVE and result.message:
        words += f" ({_one_line(result.message)})"
    match result.outcome:
        case Outcome.PASS:
            return f"{words} is true"
        case Outcome.FAIL:
            return f"{words} is false"
        case Outcome.INCONCLUSIVE:
            return f"{words} could not be evaluated" + (
                f": {result.message}" if result.message else ""
            )


def evidence_place(line: Evidence) -> str | None:
    """Say where a line stands: ``output.log, line 118``; None when that is not known."""
    number = f"line {line.line}" if line.line else None
    return ", ".join(part for part in (line.file, number) if part) or None


def rule(result: ExpressionResult) -> str:
    """Return the expression as it was written, and where its bar comes from."""
    words = _one_line(result.expression)
    return f"{words}; bar from {result.source}" if result.source else words


def _untrue(run: GroupVerdict, item: ReasonGiven) -> tuple[ExpressionResult, ...]:
    """Return the expressions that the reason speaks of; it may quote one of them."""
    if item.code in _NOT_EVALUATED:
        own = [e for e in run.expressions if e.outcome is Outcome.INCONCLUSIVE]
    else:
        own = [e for e in run.expressions if e.outcome is Outcome.FAIL and e.code == item.code]
    words = _one_line(item.message)
    quoted = tuple(e for e in own if words.startswith(_one_line(e.statement)))
    return quoted or tuple(own)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _catalog_remedy(code: str) -> str | None:
    try:
        return reason(code).remedy
    except KeyError:  # a report of another version may know more codes
        return None
