"""Bars move with stage, hardware and group size; without anything to expect there is no bar."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from catalog.bars.bar import Bar
from catalog.bars.references import find_reference, references
from catalog.bars.required import bars_for
from catalog.bars.stages import find_stage, stages
from catalog.entries.entry import Entry, builtin_entries, find_entry
from catalog.errors import ExpressionError, InputError
from catalog.facts.reasons import reason
from catalog.hardware.hardware import Hardware
from catalog.hardware.profile import builtin_profiles, find_profile, hardware_of_profile
from catalog.language.expressions import compile_bar
from catalog.reading.setting import Origin, Setting

P5 = hardware_of_profile(find_profile("p5.48xlarge"), "h100")
ALL_REDUCE = find_entry("communication/nccl-all-reduce")
ORIGIN = Origin(rule="certification", file="cert.yaml", line=12)

HARDWARE = [
    hardware_of_profile(profile, gpu, instance_type=instance)
    for profile in builtin_profiles().all()
    for gpu in profile.profile.gpu
    for instance in profile.profile.instance_types or (None,)
]


def options(**values: object) -> dict[str, Setting]:
    return {name: Setting(value=value, origin=ORIGIN) for name, value in values.items()}


def bandwidth_bar(stage: str, hardware: Hardware = P5, nodes: int = 2, **values: object) -> Bar:
    bars, missing = bars_for(ALL_REDUCE, stage, hardware, nodes, options(**values))
    assert missing == ()
    return next(bar for bar in bars if bar.key == "busBandwidthGBps")


def height(bar: Bar) -> float:
    return bar.values["fraction"] * bar.values["expected"]


def test_bar_rises_from_stage_to_stage() -> None:
    heights = [height(bandwidth_bar(stage)) for stage in stages()]
    assert heights == sorted(set(heights))


def test_every_number_of_a_stage_is_as_strict_as_that_of_the_stage_before() -> None:
    for mild, strict in itertools.pairwise(stages().values()):
        assert mild.fraction < strict.fraction
        assert mild.max_dip > strict.max_dip
        assert mild.max_spread > strict.max_spread
        assert mild.max_step_time_spread > strict.max_step_time_spread
        assert mild.min_steps < strict.min_steps
        assert mild.require_expected <= strict.require_expected


def test_bar_depends_on_the_number_of_nodes() -> None:
    alone, pair, many = (bandwidth_bar("production", nodes=nodes) for nodes in (1, 2, 8))
    assert height(pair) == pytest.approx(0.92 * 487.1)
    assert height(alone) == pytest.approx(0.92 * 480.2)
    # Eight p5 are published by nobody; rings are bound by NVLink or by 32 x 100 Gb/s.
    assert height(many) == pytest.approx(0.92 * min(0.75 * 450, 0.85 * 400))
    assert (pair.kind, many.kind) == ("published", "derived")
    assert "derived" in str(many.source)


def test_bar_says_where_its_height_comes_from() -> None:
    bar = bandwidth_bar("production")
    assert bar.source == (
        "awsome-distributed-training micro-benchmarks/nccl-tests README (measured, 16G, 2026-02-21)"
    )
    assert bar.reasoning == "two p5; two nodes exceed the 400 GB/s of the devices"
    assert bar.origin.file == "catalog/bars/stages.yaml"


@pytest.mark.parametrize(
    ("largest", "part"), [("32G", 1.0), ("16G", 1.0), ("8G", 0.98), ("3G", 0.9), ("1G", 0.88)]
)
def test_smaller_messages_are_not_asked_for_what_large_ones_reach(
    largest: str, part: float
) -> None:
    assert height(bandwidth_bar("production", maxBytes=largest)) == pytest.approx(
        part * height(bandwidth_bar("production"))
    )


def test_messages_that_say_too_little_have_no_bandwidth_bar() -> None:
    bars, missing = bars_for(ALL_REDUCE, "production", P5, 2, options(maxBytes="64M"))
    assert "busBandwidthGBps" not in [bar.key for bar in bars]
    assert [item.code for item in missing] == ["NO_THRESHOLD"]
    assert "messages up to 64M say too little; 1G do" in missing[0].message


def test_nothing_to_expect_is_no_threshold_except_where_the_stage_allows_it() -> None:
    odd = Hardware(platform="nowhere", gpu="h100", gpus_per_node=8)
    bars, missing = bars_for(ALL_REDUCE, "burn-in", odd, 2, {})
    assert [item.code for item in missing] == ["NO_THRESHOLD"]
    assert "busBandwidthGBps" not in [bar.key for bar in bars]
    mild = bars_for(ALL_REDUCE, "bring-up", odd, 2, {})[1]
    assert [item.code for item in mild] == ["BAR_LEFT_OUT"]


@pytest.mark.parametrize(("platform", "nodes"), [("unknown", 2), ("nowhere", 0)])
def test_nothing_to_expect_as_nobody_told_the_hardware_is_no_threshold_at_any_stage(
    platform: str, nodes: int
) -> None:
    odd = Hardware(platform=platform, gpu="h100", gpus_per_node=8)
    for stage in stages():
        assert bars_for(ALL_REDUCE, stage, odd, nodes, {})[1][0].code == "NO_THRESHOLD"


def test_boards_without_nvlink_are_not_measured_by_those_with_it() -> None:
    boards = hardware_of_profile(find_profile("onprem/pcie"), "h100")
    bars, missing = bars_for(ALL_REDUCE, "production", boards, 1, {})
    assert "busBandwidthGBps" not in [bar.key for bar in bars]
    assert "no NVLink is known" in missing[0].message


def test_a_part_of_the_gpus_is_not_asked_for_what_all_of_them_reach() -> None:
    half = bandwidth_bar("production", replace(P5, gpus_per_node=4), 2)
    assert half.kind == "derived"
    assert half.values["expected"] == pytest.approx(0.85 * 200)


def test_nodes_in_several_nvlink_domains_are_bound_by_their_network_devices() -> None:
    rack = hardware_of_profile(find_profile("a4x-highgpu-4g"), "gb200")
    apart = replace(rack, one_domain=False)
    assert bandwidth_bar("production", rack, 2).values["expected"] == 834.6
    assert bandwidth_bar("production", apart, 2).values["expected"] == pytest.approx(0.85 * 200)
    assert bandwidth_bar("production", apart, 30).values["expected"] == 810.4


def test_figures_of_few_nodes_are_lowered_for_many() -> None:
    cluster = hardware_of_profile(find_profile("coreweave/8xh100"), "h100")
    few, many = (bandwidth_bar("production", cluster, nodes) for nodes in (64, 65))
    assert many.values["expected"] == pytest.approx(0.9 * few.values["expected"])
    assert str(many.source).endswith("x 0.9 (more than 64 nodes)")
    rack = hardware_of_profile(find_profile("coreweave/gb200-4x"), "gb200")
    assert bandwidth_bar("production", rack, 360).values["expected"] == 405.7


def test_threshold_of_the_user_replaces_the_bar_of_its_key_only() -> None:
    own = options(thresholds={"busBandwidthGBps": "value >= 250"})
    bars, _ = bars_for(ALL_REDUCE, "production", P5, 2, own)
    by_key = {bar.key: bar for bar in bars}
    assert by_key["busBandwidthGBps"].expression == "value >= 250"
    assert by_key["busBandwidthGBps"].origin.line == 12
    assert by_key["busBandwidthGBps"].kind == "yours"
    assert {"wrongCount", "bandwidthDip"} <= set(by_key)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("largestSizeBusBandwidthGBps: value >= 300", "NCCL_LOW_BANDWIDTH"),
        ("largestSizeBusBandwidthGBps: value >= 0.9 * peer_median", "OUTLIER"),
        ("cycleSpread: value < 0.1", "NCCL_UNSTEADY"),
        ("smallMessageLatencyUs: value < 50", "NCCL_HIGH_LATENCY"),
    ],
)
def test_code_of_an_own_bar_is_that_of_the_bar_that_tests_the_like(text: str, code: str) -> None:
    key, _, expression = text.partition(": ")
    bars, _ = bars_for(ALL_REDUCE, "production", P5, 2, options(thresholds={key: expression}))
    assert [bar.code for bar in bars if bar.expression == expression] == [code]


@pytest.mark.parametrize(
    ("key", "text", "stays"),
    [
        ("largestSizeBusBandwidthGBps", "value >= 300", "value >= 0.95 * peer_median"),
        ("largestSizeBusBandwidthGBps", "value >= 0.9 * peer_median", None),
        ("busBandwidthGBps", "value >= 0.9 * peer_median", "largestSizeBusBandwidthGBps >="),
    ],
)
def test_height_and_peers_are_tested_whichever_of_them_a_threshold_replaces(
    key: str, text: str, stays: str | None
) -> None:
    bars, missing = bars_for(ALL_REDUCE, "production", P5, 8, options(thresholds={key: text}))
    others = [bar.expression for bar in bars if bar.key == key and bar.expression != text]
    assert [other[: len(stays or "")] for other in others] == ([stays] if stays else [])
    assert missing == ()


def test_threshold_may_compare_with_what_is_expected_and_with_numbers_of_the_stage() -> None:
    own = options(thresholds={"busBandwidthGBps": "value >= 0.97 * expected * fraction"})
    bars, _ = bars_for(ALL_REDUCE, "production", P5, 2, own)
    bar = next(bar for bar in bars if bar.key == "busBandwidthGBps")
    assert bar.values == {"expected": 487.1, "fraction": 0.92}
    assert bar.kind == "yours"
    assert str(bar.source).startswith("certification; compares with awsome-")


def test_threshold_that_compares_with_what_nobody_knows_is_no_threshold() -> None:
    odd = Hardware(platform="nowhere", gpu="h100", gpus_per_node=8)
    own = options(thresholds={"busBandwidthGBps": "value >= 0.9 * expected"}, replaceBars=True)
    bars, missing = bars_for(ALL_REDUCE, "bring-up", odd, 2, own)
    assert bars == ()
    assert [item.code for item in missing] == ["NO_THRESHOLD"]


def test_threshold_that_is_no_cel_names_its_line() -> None:
    own = options(thresholds={"busBandwidthGBps": "value >>"})
    with pytest.raises(ExpressionError, match=r"^cert\.yaml:12: "):
        bars_for(ALL_REDUCE, "production", P5, 2, own)


def test_bar_over_an_unknown_number_of_gpus_is_left_out_with_a_note() -> None:
    entry = find_entry("diagnostics/dcgm-level1")
    bars, missing = bars_for(entry, "production", replace(P5, gpus_per_node=None), 1, {})
    assert "gpusSeen" not in [bar.key for bar in bars]
    assert ("BAR_LEFT_OUT", ("gpusSeen",)) in [(item.code, item.keys) for item in missing]
    bars, missing = bars_for(entry, "production", P5, 1, {})
    assert "gpusSeen" in [bar.key for bar in bars]
    assert missing == ()


@pytest.mark.parametrize("entry", builtin_entries().values(), ids=lambda entry: entry.id)
def test_what_production_insists_on(entry: Entry) -> None:
    """Checked data, repeated sweeps and the right network are no option there."""
    if entry.tool != "nccl":
        return
    bars, _ = bars_for(entry, "production", P5, entry.min_nodes + 1, {})
    required = {bar.key for bar in bars if not bar.optional}
    across = {"fabricHostCount"} if entry.scale != "intra-node" else set()
    assert required >= {"wrongCount", "bandwidthDip", "cycleSpread", *across}
    mild, _ = bars_for(entry, "bring-up", P5, entry.min_nodes + 1, {})
    assert {bar.key for bar in mild if not bar.optional} <= {"busBandwidthGBps", "bandwidthDip"}


def test_a_recorded_output_is_not_held_to_how_it_was_run() -> None:
    bars, _ = bars_for(ALL_REDUCE, "production", P5, 2, {}, recorded=True)
    optional = {bar.key for bar in bars if bar.optional}
    assert optional == {"cycleSpread", "fabricHostCount"}


def test_transport_is_only_asked_for_between_nodes_whose_network_is_known() -> None:
    def keys(hardware: Hardware, nodes: int) -> set[str]:
        return {bar.key for bar in bars_for(ALL_REDUCE, "production", hardware, nodes, {})[0]}

    assert "fabricHostCount" in keys(P5, 2)
    assert "fabricHostCount" not in keys(P5, 1)
    assert "fabricHostCount" not in keys(replace(P5, transport=()), 2)
    kind = next(
        bar.code for bar in ALL_REDUCE.bars if bar.key == "fabricHostCount"
    )  # an absent proof is no fault of a node
    assert reason(kind).effect == "inconclusive"


def test_screening_is_not_asked_to_repeat_itself() -> None:
    bars, _ = bars_for(ALL_REDUCE, "production", P5, 2, {}, scale="diagnose")
    assert "cycleSpread" not in [bar.key for bar in bars]


def test_unknown_stage_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="did you mean 'burn-in'"):
        find_stage("burnin")


@pytest.mark.parametrize("entry", builtin_entries().values(), ids=lambda entry: entry.id)
def test_every_bar_of_every_entry_compiles_and_names_what_exists(entry: Entry) -> None:
    for bar in entry.bars:
        compile_bar(bar.key, bar.expression, entry.tool, bar.scope)
        reason(bar.code)
        assert set(bar.stages) <= set(stages())
        assert set(bar.required) <= set(stages())
        assert set(bar.scales) <= set(entry.scales)


def test_every_reference_belongs_to_an_operation_of_the_catalog() -> None:
    operations = {entry.operation for entry in builtin_entries().values()}
    assert {row.operation for row in references()} <= operations


def test_every_reference_is_the_first_that_fits_somewhere() -> None:
    """A row that stands behind one that always wins would never be used."""
    used = set()
    for entry in builtin_entries().values():
        figure = "avgTFLOPsPerGPU" if entry.tool == "training" else "busBandwidthGBps"
        for hardware, nodes, mnnvl in itertools.product(
            HARDWARE, (1, 2, 3, 4, 19, 100), (False, True)
        ):
            for nics, inside in itertools.product({hardware.nics, 1}, (True, False)):
                known = replace(hardware, nics=nics, one_domain=inside, mnnvl=mnnvl)
                row = find_reference(entry, figure, known, nodes=nodes)
                used.add(id(row))
    assert [row for row in references() if id(row) not in used] == []


@pytest.mark.parametrize("entry", builtin_entries().values(), ids=lambda entry: entry.id)
def test_no_stage_asks_for_less_than_the_one_before(entry: Entry) -> None:
    """Over all hardware and sizes: the stricter stage has every bar of the milder, as high."""
    for hardware, nodes in itertools.product(HARDWARE, (1, 2, 8, 100)):
        found = [bars_for(entry, stage, hardware, nodes, {}) for stage in stages()]
        for (mild, _), (strict, missing) in itertools.pairwise(found):
            kept = {(bar.key, bar.expression): bar for bar in strict}
            for bar in mild:
                other = kept.get((bar.key, bar.expression))
                assert other is not None, (hardware, bar.key, missing)
                assert other.optional <= bar.optional
                for name, value in bar.values.items():
                    rises = name in {"fraction", "min_steps", "expected"}
                    assert other.values[name] >= value if rises else other.values[name] <= value
