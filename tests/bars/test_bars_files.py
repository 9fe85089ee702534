"""Bars of the user's own: strict to read, stronger than ours, weaker than a certification."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.bars.bar import Bar
from catalog.bars.bar_file import OwnBars, bar_documents, read_bars
from catalog.bars.required import bars_for
from catalog.entries.entry import find_entry
from catalog.errors import InputError
from catalog.hardware.hardware import Hardware
from catalog.hardware.profile import find_profile, hardware_of_profile
from catalog.reading.setting import Origin, Setting
from catalog.reading.source import parse_documents

P5 = hardware_of_profile(find_profile("p5.48xlarge"), "h100")
ALL_REDUCE = find_entry("communication/nccl-all-reduce")
ORIGIN = Origin(rule="certification", file="cert.yaml", line=12)


def read(bars: str) -> OwnBars:
    text = f"kind: Bars\nsource: hall 1\nbars:\n{bars}"
    return read_bars(parse_documents(text, "mine.yaml"))


def bars(
    own: OwnBars,
    stage: str = "production",
    nodes: int = 2,
    hardware: Hardware = P5,
    entry: str = ALL_REDUCE.id,
    **options: object,
) -> dict[str, Bar]:
    found, _ = bars_for(
        find_entry(entry),
        stage,
        hardware,
        nodes,
        {name: Setting(value=value, origin=ORIGIN) for name, value in options.items()},
        own=own,
    )
    return {bar.key: bar for bar in found}


def test_expression_replaces_our_bar_of_the_key_and_names_its_line() -> None:
    own = read("  - key: wrongCount\n    expression: value < 1\n")
    bar = bars(own)["wrongCount"]
    assert bar.expression == "value < 1"
    assert (bar.kind, bar.source, bar.code) == ("yours", "hall 1", "NCCL_DATA_CORRUPTION")
    assert (bar.origin.file, bar.origin.line) == ("mine.yaml", 4)
    assert "busBandwidthGBps" in bars(own)


def test_key_that_we_have_no_bar_for_is_added() -> None:
    own = read("  - key: smallMessageLatencyUs\n    expression: value <= 60.0\n")
    found = bars(own)
    assert found["smallMessageLatencyUs"].code == "NCCL_HIGH_LATENCY"
    assert set(bars(OwnBars())) == set(found) - {"smallMessageLatencyUs"}


def test_expected_alone_keeps_our_expression() -> None:
    own = read(
        "  - key: busBandwidthGBps\n"
        "    expected: {value: 392.0, date: '2026-03-14', reasoning: x}\n"
    )
    bar, ours = bars(own)["busBandwidthGBps"], bars(OwnBars())["busBandwidthGBps"]
    assert bar.expression == ours.expression
    assert bar.values == {"expected": 392.0, "fraction": 0.92}
    assert (bar.kind, bar.source, bar.reasoning) == ("yours", "hall 1 (yours, 2026-03-14)", "x")
    assert (bar.origin.file, bar.origin.line) == ("mine.yaml", 4)


def test_expected_gives_a_bar_where_we_know_nothing() -> None:
    odd = Hardware(platform="nowhere", gpu="h100", gpus_per_node=8)
    assert "busBandwidthGBps" not in bars(OwnBars(), hardware=odd)
    own = read("  - key: busBandwidthGBps\n    expected: 300\n")
    assert bars(own, hardware=odd)["busBandwidthGBps"].values["expected"] == 300.0


def test_own_expression_may_compare_with_what_is_expected() -> None:
    own = read("  - key: busBandwidthGBps\n    expression: value >= 0.97 * expected\n")
    bar = bars(own)["busBandwidthGBps"]
    assert bar.values == {"expected": 487.1}
    assert str(bar.source).startswith("hall 1; compares with ")
    both = read("  - {key: busBandwidthGBps, expression: value >= expected, expected: 400}\n")
    assert bars(both)["busBandwidthGBps"].values == {"expected": 400.0}


def test_a_file_may_state_a_height_and_a_place_among_the_peers_for_one_figure() -> None:
    own = read(
        "  - {key: largestSizeBusBandwidthGBps, expression: value >= 400}\n"
        "  - {key: largestSizeBusBandwidthGBps, expression: value >= 0.97 * peer_median}\n"
    )
    found, _ = bars_for(ALL_REDUCE, "production", P5, 8, {}, own=own)
    stated = [bar.expression for bar in found if bar.key == "largestSizeBusBandwidthGBps"]
    assert stated == ["value >= 400", "value >= 0.97 * peer_median"]


def test_certification_stands_over_the_file() -> None:
    own = read(
        "  - key: busBandwidthGBps\n    expression: value >= 100\n"
        "  - key: smallMessageLatencyUs\n    expression: value <= 60\n"
    )
    stated = bars(own, thresholds={"busBandwidthGBps": "value >= 470"})
    assert stated["busBandwidthGBps"].expression == "value >= 470"
    assert "smallMessageLatencyUs" in stated
    alone = bars(own, thresholds={"busBandwidthGBps": "value >= 470"}, replaceBars=True)
    assert list(alone) == ["busBandwidthGBps"]


def test_of_two_that_fit_the_later_stands() -> None:
    own = read(
        "  - key: busBandwidthGBps\n    expected: 400\n"
        "  - key: busBandwidthGBps\n    when: {nodes: {min: 4}}\n    expected: 350\n"
    )
    assert bars(own, nodes=2)["busBandwidthGBps"].values["expected"] == 400.0
    assert bars(own, nodes=4)["busBandwidthGBps"].values["expected"] == 350.0


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ("category: communication/*", True),
        ("category: '*/nccl-alltoall'", False),
        ("stage: production", True),
        ("stage: {notIn: [bring-up, production]}", False),
        ("platform: aws", True),
        ("platform: [gcp, onprem]", False),
        ("gpu: h100", True),
        ("gpu: b200", False),
        ("instanceType: p5.*", True),
        ("instanceType: p5en.*", False),
        ("scale: full-scale", True),
        ("scale: intra-rack", False),
        ("nodes: {min: 2, max: 16}", True),
        ("nodes: {min: 3}", False),
        ("nodes: {max: 1}", False),
        ("platform: aws, gpu: b200", False),
    ],
)
def test_bar_holds_where_all_of_its_conditions_fit(when: str, *, fits: bool) -> None:
    own = read(f"  - key: busBandwidthGBps\n    when: {{{when}}}\n    expression: value >= 1\n")
    assert (bars(own)["busBandwidthGBps"].expression == "value >= 1") is fits


def test_bar_without_category_is_about_those_that_measure_its_figure() -> None:
    own = read("  - key: hostToDeviceMinGBps\n    expression: value >= 50\n")
    assert bars(own) == bars(OwnBars())
    dcgm = bars(own, entry="diagnostics/dcgm-level3", nodes=1)
    assert dcgm["hostToDeviceMinGBps"].expression == "value >= 50"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- key: busBandwidthGBps\n", r"4: bars\[0\]: needs an expression, or expected"),
        ("- key: bus-bandwidth\n    expected: 1\n", r"4: bars\[0\]\.key: .*pattern"),
        ("- key: busBandwidthGBps\n    expresion: value > 1\n", r"5: .*did you mean 'expression'"),
        ("- key: busBandwidthGBps\n    expression: value >\n", r"5: bars\[0\]\.expression: .*CEL"),
        ("- key: busBandwidth\n    expression: value > 1\n", "4: .*no figure of any tool"),
        ("- key: wrongCount\n    expression: nodes > 1\n", "5: .*tests nothing"),
        ("- key: x\n    expected: 1\n", r"4: bars\[0\]\.key: 'x' is no figure of any tool"),
        ("- key: wrongCount\n    expected: 1\n", "4: .*no bar of these categories compares"),
        ("- key: busBandwidthGBps\n    expected: 0\n", "5: .*greater than 0"),
        ("- key: busBandwidthGBps\n    expected: fast\n", r"5: bars\[0\]\.expected: "),
        (
            "- key: busBandwidthGBps\n    when: {platform: awz}\n    expected: 1\n",
            r"5: bars\[0\]\.when\.platform: names platform 'awz', .*did you mean 'aws'",
        ),
        ("- key: wrongCount\n    when: {stage: prod}\n    expression: value < 1\n", "names stage"),
        ("- key: wrongCount\n    when: {gpu: h1000}\n    expression: value < 1\n", "names gpu"),
        ("- key: wrongCount\n    when: {scale: huge}\n    expression: value < 1\n", "names scale"),
        (
            "- key: wrongCount\n    when: {category: nccl/*}\n    expression: value < 1\n",
            "names category 'nccl/",
        ),
        (
            "- key: wrongCount\n    when: {nodes: {min: 9, max: 2}}\n    expression: value < 1\n",
            "holds for no number of nodes: 9 to 2",
        ),
        (
            "- key: wrongCount\n    code: INFRA_DNS\n    expression: value < 1\n",
            "5: .*'INFRA_DNS' is no reason code that a measured value can prove",
        ),
        ("- key: wrongCount\n    code: XID_*\n    expression: value < 1\n", "is no reason code"),
        (
            "- key: wrongCount\n    when: {category: diagnostics/*}\n    expression: value < 1\n",
            "'wrongCount' is no figure of dcgm",
        ),
    ],
)
def test_mistake_is_told_with_its_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read("  " + text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Bar\nsource: x\nbars: []\n", "mine.yaml:1: kind: "),
        ("source: x\nbars: []\n", "kind: is required"),
        ("kind: Bars\nbars: [{key: wrongCount, expected: 1}]\n", "source: is required"),
        ("kind: Bars\nsource: x\nbars: []\n", "bars: "),
        ("- kind: Bars\n", "must be a mapping"),
    ],
)
def test_file_that_is_no_bar_file_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_bars(parse_documents(text, "mine.yaml"))


def test_directory_stands_for_its_files_and_a_file_for_its_documents(tmp_path: Path) -> None:
    one = "kind: Bars\nsource: s\nbars: [{key: busBandwidthGBps, expected: %s}]\n"
    (tmp_path / "b.yaml").write_text(one % 2)
    (tmp_path / "a.yml").write_text(one % 1 + "---\n" + one % 7)
    (tmp_path / "notes.txt").write_text("not YAML: [")
    own = read_bars(bar_documents([tmp_path]))
    assert [bar.item.expected.value for bar in own.bars if bar.item.expected] == [1.0, 7.0, 2.0]
    assert own.bars[1].origin.line == 7
