"""The report as JUnit XML, for CI systems and test dashboards.

One test suite per category with one test case per node: a failed node is a failure, a node that is
not proven is an error, a node that the category left out is skipped. A suite of its own holds the
result of the certification, so that a file without any failed node cannot look green when the
result is not PASS.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from steps.documents.report import CategoryReport, NodeReport, NodeStatus, Report, Result
from steps.documents.verdict import Outcome
from steps.report.proofs import Proof, ProofIndex, remedies, rule, statement
from steps.report.wording import coverage_line, printable, result_sentence, source_line

_BAD = {Outcome.FAIL: "failure", Outcome.INCONCLUSIVE: "error"}
_BAD_RESULT = {Result.FAIL: "failure", Result.INCONCLUSIVE: "error", Result.INCOMPLETE: "error"}


def render_junit(report: Report) -> str:
    """Write a report as JUnit XML, with declaration; the same report gives the same text."""
    index = ProofIndex(report)
    root = Element("testsuites", name=printable(report.certification))
    _certification(root, report)
    for category in report.categories:
        suite = _suite(root, report, category.category, category.duration_seconds)
        for node in report.nodes:
            _case(suite, category, node, index)
    total = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in root:
        for name in total:
            tag = {"tests": "testcase", "failures": "failure", "errors": "error"}.get(name, name)
            number = len(list(suite.iter(tag)))
            suite.set(name, str(number))
            total[name] += number
    for name, number in total.items():
        root.set(name, str(number))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _suite(root: Element, report: Report, name: str, seconds: float) -> Element:
    suite = SubElement(root, "testsuite", name=printable(name), time=f"{seconds:.1f}")
    if report.started:
        suite.set("timestamp", report.started.isoformat(timespec="seconds"))
    return suite


def _certification(root: Element, report: Report) -> None:
    seconds = sum(item.duration_seconds + item.isolation_seconds for item in report.categories)
    suite = _suite(root, report, "certification", seconds)
    properties = SubElement(suite, "properties")
    known = {
        "stage": report.stage,
        "platform": report.platform,
        "gpu": report.gpu,
        "source": source_line(report) or "cluster",
        "coverage": coverage_line(report),
        "version": report.product_version,
    }
    for name, value in known.items():
        SubElement(properties, "property", name=name, value=printable(value))
    case = SubElement(suite, "testcase", classname="certification", name="result")
    kind = _BAD_RESULT.get(report.result)
    if kind:
        problems = [f"{code}: {message}" for code, message in report.problems]
        _problem(case, kind, report.result.value, result_sentence(report), problems)


def _case(suite: Element, category: CategoryReport, node: NodeReport, index: ProofIndex) -> None:
    case = SubElement(
        suite, "testcase", classname=printable(category.category), name=printable(node.node)
    )
    outcome = node.categories.get(category.category)
    verdict = index.verdict(node.node, category.category)
    run = index.run(category.category, verdict.decided_by) if verdict else None
    if run is not None:
        case.set("time", f"{run.duration_seconds:.1f}")
    if outcome is None:
        words = index.left_out_words(node, category.category)
        SubElement(case, "skipped", message=printable(words))
    elif outcome in _BAD:
        failed = node.status is NodeStatus.FAILED and outcome is Outcome.FAIL
        proofs = index.against(node) if failed else index.open_reasons(node)
        proofs = tuple(p for p in proofs if p.category in {category.category, None})
        why = proofs[0].reason.code if proofs else outcome.value
        if verdict and verdict.reason:
            why = verdict.reason
        message = proofs[0].headline if proofs else "no detail was recorded"
        _problem(case, _BAD[outcome], why, message, _lines(proofs, node, index))


def _lines(proofs: Iterable[Proof], node: NodeReport, index: ProofIndex) -> Iterable[str]:
    proofs = tuple(proofs)
    for proof in proofs:
        yield f"{proof.reason.code}: {proof.message or ''}".rstrip(": ")
        for result in proof.expressions:
            yield f"{statement(result)} ({rule(result)})"
        for line in proof.reason.evidence:
            yield f"> {line.text}"
        yield index.place(proof, node.node)
    for remedy in remedies(proofs, node.reason):
        yield f"next: {remedy}"


def _problem(case: Element, kind: str, why: str, message: str, lines: Iterable[str]) -> None:
    element = SubElement(case, kind, type=printable(why), message=printable(message))
    text = "\n".join(printable(line) for line in lines if line)
    element.text = text or None
