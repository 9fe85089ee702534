"""What is wrong with bars is said before anything is measured; of sound bars nothing is said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.bars.lint.samples import Domain, samples
from catalog.bars.lint.sources import shipped, statements_of
from catalog.bars.lint.statements import Finding, Statement, check_bar, lint
from catalog.errors import ExpressionError, Place
from catalog.language.expressions import check_threshold
from catalog.language.vocabulary import Scope, names_of
from catalog.reading.model import suggestion
from catalog.reading.source import parse_documents


def _lint(
    text: str, key: str = "busBandwidthGBps", tool: str = "nccl", scope: Scope = "group"
) -> tuple[Finding, ...]:
    return lint([Statement(key=key, text=text, tool=tool, scope=scope, place=Place("b.yaml", 3))])


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("value >", "is not valid CEL", None),
        ("busBandwidthGPBs >= 300", "names unknown 'busBandwidthGPBs'", "'busBandwidthGBps'"),
        ("value >= '300'", "different types", None),
        ("value >= gpu", "different types", None),
        ("max(value) >= 300", "gives a number to max", "a list of numbers"),
        ("bussbw_at('8G') > 300", "unknown function 'bussbw_at'", "'busbw_at'"),
        ("rows.all(r, r.out_busbw > 3)", "unknown field 'out_busbw'", "'out_bus_gbps'"),
        ("value + 1", "not a boolean", None),
        ("true", "tests nothing", None),
        ("expected >= 300", "tests nothing", None),
        ("has(rows[0].out_wrong)", r"has\(\) is no test", "INCONCLUSIVE"),
        ("value > 5.0 && value < 3.0", "can never pass", "false of every value"),
        ("value > 3 && !(value > 2)", "can never pass", "false of every value"),
        ("value >= 1.1 * expected && value <= 0.9 * expected", "can never pass", None),
        ("value < 0", "can never pass", None),
        ("wrongCount < 0", "can never pass", None),
        ("stage == 'prod' && value > 300", "can never pass", None),
        ("value > 3.0 || value < 5.0", "can never fail", "true of every value"),
        ("value >= 0", "can never fail", None),
        ("!(value < 0)", "can never fail", None),
        ("value > 300 || value <= 300", "can never fail", None),
        ("value >= fraction * expected || value < expected", "can never fail", None),
        ("rows.all(r, r.size_bytes > 0 || r.size_bytes <= 0)", "can never fail", None),
    ],
)
def test_error_is_found(text: str, says: str, hint: str | None) -> None:
    found = _lint(text)
    assert [item.level for item in found] == ["error"]
    assert found[0].place == Place("b.yaml", 3)
    assert says.replace(r"\(\)", "()") in found[0].text
    assert hint is None or hint in (found[0].hint or "")


@pytest.mark.parametrize(
    ("key", "tool", "text", "says"),
    [
        ("goodputRatio", "training", "value >= 300", "a ratio, which is 0 to 1, with 300"),
        ("bandwidthDip", "nccl", "value <= 40", "a ratio, which is 0 to 1, with 40"),
        ("bandwidthDip", "nccl", "40 > bandwidthDip", "a ratio, which is 0 to 1, with 40"),
        ("bar", "nccl", "busBandwidthGBps > smallMessageLatencyUs", "GB/s and us"),
        ("bar", "nccl", "busBandwidthGBps > bandwidthDip", "GB/s and ratio"),
        ("bar", "nccl", "busbw_at('8G') > time_at('8G')", "GB/s and us"),
        ("bar", "nccl", "busBandwidthAtGBps['8G'] > rowCount", "GB/s and count"),
        ("bar", "nccl", "rows.all(r, r.out_bus_gbps > r.out_time_us)", "GB/s and us"),
        ("bar", "nccl", "mean(rows.map(r, r.out_bus_gbps)) > timeAtUs['8G']", "GB/s and us"),
        ("bar", "nccl", "busBandwidthGBps - smallMessageLatencyUs > 3", "GB/s and us"),
        ("bandwidthDip", "nccl", "peer_median * 400 < busBandwidthGBps", "ratio and GB/s"),
        ("bar", "training", "avgStepTimeSec < avgTFLOPsPerGPU", "s and TFLOP/s"),
        ("bar", "nccl", "rowCount / 2 > 10", "cut to a whole number"),
        ("bar", "nccl", "rankCount / nodes == 8", "cut to a whole number"),
        ("busBandwidthGBps", "nccl", "value <= 50000", "passes whatever a machine is likely to"),
        ("busBandwidthGBps", "nccl", "value >= 50000", "fails whatever a machine is likely to"),
        ("bar", "nccl", "!('16G' in busBandwidthAtGBps) || busbw_at('16G') > 3", "is missing"),
        ("busBandwithGBps", "nccl", "busBandwidthGBps >= 300", "replaces no bar of ours"),
    ],
)
def test_warning_is_found(key: str, tool: str, text: str, says: str) -> None:
    found = _lint(text, key, tool)
    assert {item.level for item in found} == {"warning"}
    assert any(says in item.text for item in found)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("value >= 300", "group"),
        ("300 <= value", "group"),
        ("!(value < 300)", "group"),
        ("value == 370", "group"),
        ("value >= 0.92 * expected && value <= 1.05 * expected", "group"),
        ("value / expected > 0.9 && value / expected < 0.91", "group"),
        ("abs(value - expected) < 0.01 * expected", "group"),
        ("value >= fraction * expected", "group"),
        ("value >= 0.95 * peer_median", "node"),
        ("peer_count < 3 || value >= 0.95 * peer_median", "group"),
        ("busbw_at('8G') >= 0.9 * busbw_at('1G')", "group"),
        ('busBandwidthAtGBps["8G"] > 300 && busBandwidthAtGBps["8G"] < 301', "group"),
        ("busBandwidthAtGBps.all(s, busBandwidthAtGBps[s] > 1)", "group"),
        ("rows.filter(r, r.size_bytes >= 1073741824).all(r, r.out_bus_gbps > 300)", "group"),
        ("rows.all(r, r.out_bus_gbps > 300 && r.out_bus_gbps < 300.5)", "group"),
        ("percentile(rows.map(r, r.out_bus_gbps), 5) > 0.8 * value", "group"),
        ("row.size_bytes < 1048576 || row.out_bus_gbps > 0.5 * expected", "row"),
        ("row.out_wrong == 0", "row"),
        ("wrongCount == 0", "group"),
        ("gpu == 'h100' ? value > 300 : value > 200", "group"),
        ("stage == 'production' ? value > 350 : value > 300", "group"),
        ("rankCount == nodes * gpus_per_node", "group"),
        ("double(rankCount) / nodes >= 7.5", "group"),
        ("bandwidthDip <= 0.4 && cycleSpread <= max_spread && value >= 300", "group"),
        ("nodes == 18 && gpus_per_node == 4 ? value >= 700 : value >= 300", "group"),
        ("!(nodes == 18 && gpus_per_node == 4) || value >= 300", "group"),
        ("!(platform == 'aws' && gpu == 'gb200' && nodes == 18) || value >= 300", "group"),
    ],
)
def test_of_a_sound_bar_nothing_is_said(text: str, scope: Scope) -> None:
    assert _lint(text, scope=scope) == ()


@pytest.mark.parametrize(
    "text",
    [
        "size(busBandwidthAtGBps) > 30",
        "rows.exists(r, r.size_bytes == 8589934592 && r.cycle == 2 && r.out_bus_gbps > 300)",
    ],
)
def test_what_was_false_of_all_that_was_tried_is_no_error_where_more_is_possible(text: str) -> None:
    assert {item.level for item in _lint(text)} <= {"warning"}


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("value >= 0", "can never fail"),
        ("value - value == 0", "can never fail"),
        ("value > 3 || value <= 3", "can never fail"),
        ("rows.all(r, true)", "can never fail"),
        ("value > 400 && value < 300", "can never pass"),
        ("wrongCount < 0", "can never pass"),
        ("value > 0", None),
        ("value != 7", None),
        ("value == 370.125", None),
        ("'32G' in busBandwidthAtGBps", None),
        ("busBandwidthAtGBps.exists(k, k == '1G')", None),
        ("rows.size() > 0", None),
        ("rows.exists(r, r.type == 'int8' && r.cycle == 7)", None),
    ],
)
def test_bar_that_is_sure_to_decide_nothing_is_refused(text: str, refused: str | None) -> None:
    said = ""
    try:
        check_bar("busBandwidthGBps", text, "nccl")
    except ExpressionError as error:
        said = error.message
    assert said == (f"{refused}: {text}" if refused else "")


def test_single_gpus_are_asked_of_diagnostics_only() -> None:
    assert "only diagnostics" in _lint("value > 3", scope="gpu")[0].text
    assert _lint("value > 30", "hostToDeviceMinGBps", "dcgm", "gpu") == ()


def test_expected_of_what_nothing_is_expected_is_an_error() -> None:
    found = _lint("value <= 0.9 * expected", "smallMessageLatencyUs")
    assert found[0].level == "error"
    assert "nothing says what to expect of value" in found[0].text


def _at(stage: str, text: str, key: str = "busBandwidthGBps") -> Statement:
    return Statement(key=key, text=text, tool="nccl", stage=stage, place=Place(f"{stage}.yaml", 1))


@pytest.mark.parametrize(
    ("mild", "strict", "passes"),
    [
        ("value >= 300", "value >= 280", True),
        ("value >= 300", "value >= 300", False),
        ("value >= 300", "value > 300", False),
        ("value >= 300", "value >= 300 && bandwidthDip < 0.4", False),
        ("value >= 300 && bandwidthDip < 0.4", "value >= 320", True),
        ("value >= 0.8 * expected", "value >= 0.9 * expected", False),
        ("value >= 0.9 * expected", "value >= 0.899 * expected", True),
        ("value >= 0.9 * expected", "value >= fraction * expected", False),
        ("value >= 0.95 * expected", "value >= fraction * expected", True),
        ("value >= 300", "0.9 * busbw_at('8G') >= 270", True),
        ("rows.all(r, r.out_bus_gbps > 3)", "rows.exists(r, r.out_bus_gbps > 3)", True),
        ("rows.exists(r, r.out_bus_gbps > 3)", "rows.all(r, r.out_bus_gbps > 3)", False),
    ],
)
def test_stage_that_passes_what_a_milder_one_fails_is_an_error(
    mild: str, strict: str, passes: bool
) -> None:
    found = lint([_at("burn-in", mild), _at("production", strict)])
    assert [item.place for item in found] == ([Place("production.yaml", 1)] if passes else [])
    if passes:
        assert found[0].level == "error"
        assert "production passes what burn-in fails, " in found[0].text
        assert found[0].hint == f"at burn-in: {mild}"


def test_all_bars_of_a_key_together_are_compared() -> None:
    mild = [_at("burn-in", "value >= 0.8 * expected"), _at("burn-in", "value >= 0.9 * peer_median")]
    strict = [_at("production", "value >= 0.9 * peer_median")]
    assert lint([*mild, *strict, _at("production", "value >= 0.9 * expected")]) == ()
    assert len(lint([*mild, *strict])) == 1


def test_bars_of_different_keys_sets_or_scopes_are_not_compared() -> None:
    other_key = _at("production", "busBandwidthGBps >= 200", "peakBusBandwidthGBps")
    other_set = Statement(
        key="busBandwidthGBps", text="value >= 200", tool="nccl", stage="production", set_of="x"
    )
    assert lint([_at("burn-in", "value >= 300"), other_key, other_set]) == ()


def test_bar_that_the_strictest_stage_lacks_is_an_error_where_the_set_is_complete() -> None:
    def statement(*, complete: bool) -> Statement:
        return Statement(
            key="cycleSpread", text="value <= 0.3", tool="nccl", stage="burn-in", complete=complete
        )

    assert lint([statement(complete=False)]) == ()
    found = lint([statement(complete=True)])
    assert "a bar of burn-in, but not of the stricter production" in found[0].text


def test_bars_that_ship_are_clean() -> None:
    stated = shipped()
    assert len(stated) > 100
    assert lint(stated) == ()


CERTIFICATION = """\
kind: Certification
metadata: {name: a}
spec:
  stage: burn-in
  thresholds:
    goodputRatio: value >= 0.9
  categories:
    - domain: communication
      variant: nccl-all-reduce
      options:
        thresholds:
          busBandwidthGBps: value >= 350
          goodputRatio: value >= 0.9
    - {domain: training, variant: nemotron5-8b}
    - {domain: diagnostics, variant: dcgm-level1}
"""
BARS = """\
kind: Bars
source: our first hall
bars:
  - key: smallMessageLatencyUs
    when: {category: communication/*, stage: production}
    expression: value <= 60
  - key: smallMessageLatencyUs
    when: {category: communication/*, stage: [bring-up, burn-in]}
    expression: value <= 50
  - key: slowRow
    when: {category: communication/*}
    scope: row
    expression: row.size_bytes < 1048576 || row.out_bus_gbps > 0.5 * expected
  - key: busBandwidthGBps
    when: {category: communication/nccl-all-reduce, gpu: h100}
    expected: 392.0
"""


def test_thresholds_of_a_certification_are_checked_for_the_tool_of_each_category() -> None:
    stated, wrong = statements_of(parse_documents(CERTIFICATION, "c.yaml")[0])
    assert wrong == []
    assert [(item.tool, item.key, item.stage) for item in stated] == [
        ("nccl", "busBandwidthGBps", "burn-in"),
        ("nccl", "goodputRatio", "burn-in"),
        ("training", "goodputRatio", "burn-in"),
        ("dcgm", "goodputRatio", "burn-in"),
    ]
    found = lint(stated)
    assert [(str(item.place), item.text) for item in found] == [
        (
            "c.yaml:13: spec.categories[0].options.thresholds.goodputRatio",
            "'goodputRatio' is no figure of nccl",
        ),
        ("c.yaml:6: spec.thresholds.goodputRatio", "'goodputRatio' is no figure of dcgm"),
    ]


def test_bars_of_a_file_are_checked_at_the_stages_that_they_hold_at() -> None:
    stated, wrong = statements_of(parse_documents(BARS, "b.yaml")[0])
    assert wrong == []
    found = lint(stated)
    assert [item.place.line if item.place else None for item in found] == [6]
    assert "production passes what burn-in fails" in found[0].text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CERTIFICATION.replace("burn-in", "burnin"), "there is no stage 'burnin'"),
        (CERTIFICATION.replace("nccl-all-reduce", "nccl-all"), "there is no catalog entry"),
        (CERTIFICATION.replace("value >= 350", "350"), "must be an expression"),
        (BARS.replace("gpu: h100", "gpu: h1000"), "names gpu 'h1000', which is not known"),
        (BARS.replace("scope: row", "scope: rows"), "scope"),
        (BARS.replace("source: our first hall", "sauce: ours"), "is not a known field"),
    ],
)
def test_document_that_is_wrong_itself_is_a_finding_with_its_line(text: str, says: str) -> None:
    _, wrong = statements_of(parse_documents(text, "b.yaml")[0])
    assert len(wrong) == 1
    assert says in f"{wrong[0].place}: {wrong[0].text}"
    assert wrong[0].place is not None
    assert wrong[0].place.line is not None


ALL_REDUCE = "category: communication/nccl-all-reduce"


def _of_bars(*items: str) -> list[tuple[int | None, str]]:
    text = "kind: Bars\nsource: our first hall\nbars:\n"
    text += "".join(f"  - {{{item}}}\n" for item in items)
    _, wrong = statements_of(parse_documents(text, "b.yaml")[0])
    return [
        (item.place.line if item.place else None, f"{item.level}: {item.text}") for item in wrong
    ]


@pytest.mark.parametrize(
    ("item", "most"),
    [
        (f"key: busBandwidthGBps, when: {{{ALL_REDUCE}, platform: onprem, gpu: h100}}", 480),
        (f"key: busBandwidthGBps, when: {{{ALL_REDUCE}, gpu: gh200, platform: azure}}", 600),
        ("key: busBandwidthGBps, when: {category: communication/nccl-alltoall, gpu: h100}", 350),
        ("key: hostToDeviceMinGBps, when: {gpu: h100}", 56),
        ("key: hostToDeviceMinGBps, when: {instanceType: p5.48xlarge}", 56),
        ("key: avgTFLOPsPerGPU, when: {gpu: h100}", 700),
    ],
    ids=["published", "nothing known", "derived", "host", "instance type", "training"],
)
def test_what_no_machine_reaches_is_not_expected(item: str, most: float) -> None:
    assert _of_bars(f"{item}, expected: {most}") == []
    # Such numbers come from MB/s in place of GB/s.
    [(line, text)] = _of_bars(f"{item}, expected: {most * 1000}")
    assert line == 4
    assert text.startswith(f"warning: expects {most * 1000} of")


def test_time_may_be_expected_to_be_long() -> None:
    item = "key: smallMessageLatencyUs, expression: value <= expected, expected: 4000"
    assert not any("expects" in text for _, text in _of_bars(item))


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("expression: value >= 350", "expression: value >= 360", True),
        ("expected: 390", "expected: 380", True),
        ("expression: value >= 350", "expected: 390", False),
        ("expression: value >= 350", "expression: value >= 0.9 * peer_median", False),
        ("expression: value >= 350", "expression: value >= 360, when: {nodes: {min: 9}}", False),
    ],
    ids=["expressions", "expected", "one of each", "height and peers", "other conditions"],
)
def test_key_that_is_stated_twice_is_found(first: str, second: str, *, found: bool) -> None:
    key = "key: busBandwidthGBps"
    says = "warning: states busBandwidthGBps again under the same conditions; that of line 4 "
    expected = [(5, f"{says}never holds")] if found else []
    assert _of_bars(f"{key}, {first}", f"{key}, {second}") == expected


@pytest.mark.parametrize(
    ("name", "near"), [("H100", "h100"), ("h10", "h100"), ("ONPREM", "onprem")]
)
def test_nearest_name_is_found_in_any_case(name: str, near: str) -> None:
    assert suggestion(name, ["v100", "h100", "onprem"]) == f"did you mean {near!r}?"


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ("gpu: H100", None),
        ("platform: OnPrem", None),
        ("category: Communication/NCCL-all-*", None),
        ("gpu: H10", "names gpu 'H10', which is not known"),
    ],
)
def test_names_compare_in_any_case(when: str, says: str | None) -> None:
    item = f"key: busBandwidthGBps, expression: value >= 300, when: {{{when}}}"
    assert _of_bars(item) == ([(4, f"error: {says}")] if says else [])


@settings(deadline=None)
@given(
    st.floats(0.001, 0.99),
    st.floats(0.001, 0.2),
    st.sampled_from(
        [
            "value >= {low} * expected && value <= {high} * expected",
            "value / expected >= {low} && value / expected <= {high}",
            "busbw_at('8G') >= {low} * value && busbw_at('8G') <= {high} * value",
            "bandwidthDip >= {low} && bandwidthDip <= {high}",
            "rows.all(r, r.out_bus_gbps >= {low} * value && r.out_bus_gbps <= {high} * value)",
        ]
    ),
)
def test_samples_find_every_band_and_what_is_outside_of_it(
    low: float, width: float, form: str
) -> None:
    text = form.format(low=low, high=low + low * width)
    expression = check_threshold("busBandwidthGBps", text, "nccl")
    domain = Domain(names_of("nccl", "group", "busBandwidthGBps"), {}, plausible=True)
    assert {expression.evaluate(values) for values in samples([expression], domain)} == {
        True,
        False,
    }


def test_certifications_are_compared_where_they_certify_the_same_nodes() -> None:
    def statements(stage: str, bar: str, pool: str) -> list[Statement]:
        text = CERTIFICATION.replace("burn-in", stage).replace("value >= 350", bar)
        text = text.replace("  stage:", f"  target: {{nodeSelector: {{pool: {pool}}}}}\n  stage:")
        stated, _ = statements_of(parse_documents(text, f"{stage}.yaml")[0])
        return [item for item in stated if item.key == "busBandwidthGBps"]

    mild = statements("burn-in", "value >= 350", "a")
    assert lint([*mild, *statements("production", "value >= 200", "b")]) == ()
    found = lint([*mild, *statements("production", "value >= 340", "a")])
    assert [item.place.file if item.place else None for item in found] == ["production.yaml"]
