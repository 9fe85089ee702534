"""Merging options: later layers win, histories are kept, what means nothing is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.entries.entry import builtin_entries, find_entry
from catalog.errors import InputError
from catalog.workload.options import check_options, env_layers, merge_options
from tests.detect.build import certification

ALL_REDUCE = "communication/nccl-all-reduce"


def test_a_category_wins_over_the_certification_and_that_over_the_entry() -> None:
    loaded, source = certification(options={"numIterations": 7}, spec={"numIterations": 50})
    setting = merge_options(find_entry(ALL_REDUCE), loaded, 0, source)["numIterations"]
    assert setting.value == 7
    assert [old.value for old in setting.replaced] == [100, 50]
    assert setting.origin.rule == f"category {ALL_REDUCE}"
    assert setting.origin.file == "certification.yaml"
    assert setting.origin.line == 10
    assert setting.replaced[0].origin.file == "catalog/entries/shared/nccl-collective.yaml"
    assert setting.replaced[0].origin.line is not None


def test_maps_and_lists_are_replaced_whole_but_env_and_labels_merge() -> None:
    labels = {"workloadMetadata": {"labels": {"a": "1", "b": "1"}}}
    loaded, source = certification(
        options={
            "thresholds": {"busBandwidthGBps": "value >= 1"},
            "env": {"B": "2"},
            "workloadMetadata": {"labels": {"b": "2"}},
        },
        spec={"thresholds": {"wrongCount": "value == 0"}, "env": {"A": "1", "B": "1"}, **labels},
    )
    merged = merge_options(find_entry(ALL_REDUCE), loaded, 0, source)
    assert merged["thresholds"].value == {"busBandwidthGBps": "value >= 1"}
    assert merged["env"].value == {"A": "1", "B": "2"}
    assert merged["workloadMetadata"].value == {"labels": {"a": "1", "b": "2"}}
    assert [(name, value) for name, value, _ in env_layers(loaded, 0, source)] == [
        ("A", "1"),
        ("B", "1"),
        ("B", "2"),
    ]


def test_an_option_that_means_nothing_is_an_error_in_a_category() -> None:
    loaded, source = certification("diagnostics/dcgm-level1", options={"maxBytes": "8G"})
    with pytest.raises(InputError, match=r"certification.yaml:\d+: .*maxBytes: means nothing for"):
        merge_options(find_entry("diagnostics/dcgm-level1"), loaded, 0, source)


def test_at_the_top_it_is_an_error_only_when_no_category_takes_it() -> None:
    loaded, source = certification(
        ALL_REDUCE, "diagnostics/dcgm-level1", spec={"maxBytes": "8G", "testScale": "diagnose"}
    )
    check_options(loaded, source)
    assert "maxBytes" not in merge_options(find_entry("diagnostics/dcgm-level1"), loaded, 1, source)
    loaded, source = certification("diagnostics/dcgm-level1", spec={"maxBytes": "8G"})
    with pytest.raises(InputError, match="means nothing for any requested category"):
        check_options(loaded, source)
    loaded, source = certification("diagnostics/dcgm-level1", spec={"testScale": "diagnose"})
    with pytest.raises(InputError, match="has this scale"):
        check_options(loaded, source)


def test_a_scale_that_the_entry_lacks_is_an_error_in_its_category() -> None:
    loaded, source = certification("diagnostics/dcgm-level1", options={"testScale": "full-scale"})
    with pytest.raises(InputError, match=r"has no scale 'full-scale'.*one of intra-node"):
        merge_options(find_entry("diagnostics/dcgm-level1"), loaded, 0, source)


def test_a_threshold_that_tests_nothing_is_an_error_at_its_line_before_any_node_is_known() -> None:
    loaded, source = certification(options={"thresholds": {"busBandwidthGBps": "true"}})
    with pytest.raises(InputError, match=r"certification.yaml:\d+: .*GBps: tests nothing"):
        check_options(loaded, source)
    loaded, source = certification(spec={"thresholds": {"wrong.count": "wrongCount == 0"}})
    with pytest.raises(InputError, match=r"'wrong\.count' is no threshold key"):
        check_options(loaded, source)


def test_an_unknown_category_is_an_error_with_a_suggestion() -> None:
    loaded, source = certification("communication/nccl-allreduce")
    with pytest.raises(InputError, match=r"certification.yaml:\d+: .*did you mean '.*all-reduce'"):
        check_options(loaded, source)


@given(st.sampled_from(sorted(builtin_entries())))
def test_every_option_of_an_entry_is_in_the_result(entry_id: str) -> None:
    loaded, source = certification(entry_id)
    merged = merge_options(find_entry(entry_id), loaded, 0, source)
    assert set(merged) == set(find_entry(entry_id).options)
