from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.nodes.names import expand


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu-1", ("gpu-1",)),
        ("gpu-node-[08-11]", ("gpu-node-08", "gpu-node-09", "gpu-node-10", "gpu-node-11")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("n-[1,4-5]", ("n-1", "n-4", "n-5")),
        ("r[1-2]-n[01-02].dc", ("r1-n01.dc", "r1-n02.dc", "r2-n01.dc", "r2-n02.dc")),
    ],
)
def test_a_pattern_stands_for_its_names(pattern: str, names: tuple[str, ...]) -> None:
    assert expand(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("gpu-[05-", "must be a node name or a range"),
        ("", "must be a node name or a range"),
        ("gpu-[]", "must be numbers"),
        ("gpu-[a-c]", "must be numbers"),
        ("gpu-[12-05]", "runs backwards"),
        ("gpu-[05-120]", "ends of the same width"),
        ("gpu-[1,1]", "names gpu-1 twice"),
        ("gpu-[1-999999999]", "is longer than"),
        ("gpu-[1-999]-[1-999]", "stands for 998001 nodes"),
        ("GPU-1", "no valid node name"),
        ("gpu_1", "no valid node name"),
    ],
)
def test_a_malformed_pattern_is_an_error(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        expand(pattern)


@given(first=st.integers(0, 500), length=st.integers(0, 60), width=st.integers(3, 6))
def test_a_range_has_every_number_once_and_in_order(first: int, length: int, width: int) -> None:
    names = expand(f"n-[{first:0{width}d}-{first + length:0{width}d}]")
    assert [int(name[2:]) for name in names] == list(range(first, first + length + 1))
    assert {len(name) for name in names} == {2 + width}
