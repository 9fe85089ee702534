"""Whatever the report: no node is lost, and no innocent node stands among the failed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.facts.reasons import Effect
from steps.documents import CategoryReport, Exclusion, NodeStatus, Outcome, Report
from steps.report.html import render_html
from steps.report.junit import render_junit
from steps.report.text import render_text
from steps.report.wording import printable
from tests.report import samples
from tests.report.reading import Page, text_sections
from tests.report.test_wording import NAMES

CODES = ("NCCL_LOW_BANDWIDTH", "XID_79", "LOG_TRUNCATED", "SUSPECT", "INFRA_DNS", "RESULT_MISSING")
CATEGORIES = (samples.ALL_REDUCE, samples.DCGM)
TEXTS = st.text(max_size=30) | st.sampled_from(samples.HOSTILE)


@st.composite
def reports(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> Report:
    nodes = sorted(draw(st.sets(names, min_size=1, max_size=12)))
    reasons = st.builds(
        samples.give,
        st.sampled_from(CODES),
        TEXTS,
        effect=st.sampled_from(Effect),
        group=st.sampled_from([None, "g-0", "lost"]),
        evidence=st.none() | TEXTS,
    )
    run = samples.nccl_group("g-0", nodes, draw(st.sampled_from([61.3, 469.3])))
    categories, covered = [], set()
    for category in CATEGORIES:
        verdicts = []
        for node in nodes:
            given_ = draw(st.lists(reasons, max_size=2))
            match draw(st.sampled_from([*Outcome, None])):
                case Outcome.PASS:
                    verdicts.append(samples.passed(node, "g-0", *given_))
                case Outcome.INCONCLUSIVE:
                    verdicts.append(samples.not_proven(node, *given_))
                case Outcome.FAIL:
                    verdicts.append(samples.failed(node, "WorkloadFailed", "g-0", *given_))
        covered |= {verdict.node for verdict in verdicts}
        categories.append(
            CategoryReport(
                category=category,
                outcome=draw(st.sampled_from(Outcome)),
                scale="full-scale",
                reasons=tuple(draw(st.lists(reasons, max_size=2))),
                groups=(run,),
                nodes=tuple(verdicts),
            )
        )
    out = [
        Exclusion(node=node, code="NODE_EXCLUDED_BUSY", message="2 pods use its GPUs")
        for node in nodes
        if node not in covered
    ]
    return samples.make_report(categories, excluded=out)


def by_status(report: Report, status: NodeStatus) -> list[str]:
    return sorted(node.node for node in report.nodes if node.status is status)


@given(reports())
@settings(max_examples=60, deadline=None)
def test_text_names_every_node_in_its_section_only(report: Report) -> None:
    found = text_sections(render_text(report))
    for status in NodeStatus:
        assert sorted(found.get(status, [])) == by_status(report, status)


@given(reports(st.text(min_size=1, max_size=20) | NAMES))
@settings(max_examples=60, deadline=None)
def test_html_names_every_node_in_its_section_only(report: Report) -> None:
    page = Page(render_html(report))
    for status in NodeStatus:
        expected = sorted(printable(name) for name in by_status(report, status))
        assert sorted(page.nodes.get(status.value, [])) == expected
    assert not page.tags & {"script", "img"}


@given(reports(st.text(min_size=1, max_size=20) | NAMES))
@settings(max_examples=60, deadline=None)
def test_junit_is_well_formed_and_fails_failed_nodes_only(report: Report) -> None:
    root = ET.fromstring(render_junit(report))
    cases = [case for case in root.iter("testcase") if case.get("classname") in CATEGORIES]
    bad = {case.get("name") for case in cases if case.find("failure") is not None}
    assert bad == {printable(name) for name in by_status(report, NodeStatus.FAILED)}
    assert len(cases) == len(report.nodes) * len(CATEGORIES)


@given(reports(st.text(min_size=1, max_size=20)))
@settings(max_examples=40, deadline=None)
def test_text_without_colour_is_printable_whatever_comes_in(report: Report) -> None:
    text = render_text(report, width=80)
    assert all(char == "\n" or char.isprintable() for char in text)
