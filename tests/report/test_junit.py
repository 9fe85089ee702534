from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from steps.documents import Outcome, Result
from steps.report.junit import render_junit
from steps.report.wording import printable
from tests.report import samples

EVERY = pytest.mark.parametrize("name", list(samples.SAMPLES))
TAGS = {Outcome.FAIL: "failure", Outcome.INCONCLUSIVE: "error", Outcome.PASS: None, None: "skipped"}


def parse(name: str) -> ET.Element:
    return ET.fromstring(render_junit(samples.SAMPLES[name]()))


@EVERY
def test_every_node_has_one_case_in_every_category(name: str) -> None:
    report = samples.SAMPLES[name]()
    root = parse(name)
    for category in report.categories:
        suite = next(s for s in root if s.get("name") == category.category)
        cases = {case.get("name"): case for case in suite.iter("testcase")}
        assert len(cases) == len(list(suite.iter("testcase")))
        assert set(cases) == {printable(node.node) for node in report.nodes}
        for node in report.nodes:
            tag = TAGS[node.categories.get(category.category)]
            assert [child.tag for child in cases[printable(node.node)]] == ([tag] if tag else [])


@EVERY
def test_counts_are_those_of_the_cases(name: str) -> None:
    root = parse(name)
    for element in (root, *root):
        assert int(element.get("tests", "")) == len(list(element.iter("testcase")))
        assert int(element.get("failures", "")) == len(list(element.iter("failure")))
        assert int(element.get("errors", "")) == len(list(element.iter("error")))
        assert int(element.get("skipped", "")) == len(list(element.iter("skipped")))


@EVERY
def test_file_is_green_only_when_the_result_is_pass(name: str) -> None:
    root = parse(name)
    bad = [*root.iter("failure"), *root.iter("error")]
    assert bool(bad) == (samples.SAMPLES[name]().result is not Result.PASS)


def test_result_without_any_node_is_not_green() -> None:
    report = samples.make_report([], problems=(("NO_NODES", "no node matches the target"),))
    root = ET.fromstring(render_junit(report))
    error = root.find("./testsuite/testcase/error")
    assert error is not None
    assert error.get("type") == "INCONCLUSIVE"
    assert "NO_NODES" in str(error.text)


def test_failure_carries_reason_numbers_and_next_step() -> None:
    case = parse("eight_nodes").find(".//testcase[@name='gpu-node-07']/failure")
    assert case is not None
    assert case.get("type") == "ThresholdViolation"
    assert case.get("message") == "61.3 >= 0.92 * 467.5 is false"
    assert "with gpu-node-05 (ready)" in str(case.text)
    assert "next: " in str(case.text)


def test_left_out_nodes_are_skipped_with_what_was_found_and_needed() -> None:
    skipped = parse("incomplete").find(".//testcase[@name='h100-062']/skipped")
    assert skipped is not None
    assert skipped.get("message") == "GPU count: has 1, needs 8"


def test_source_is_told_in_the_properties() -> None:
    source = parse("eight_nodes").find(".//property[@name='source']")
    assert source is not None
    assert str(source.get("value")).startswith("SIMULATED")
