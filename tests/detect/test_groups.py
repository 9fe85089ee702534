"""Forming groups: every node is in one, sizes are those that were asked for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.detect.groups import fixed_size, one_by_one, packed, per_domain, screening, valid_size

counts = st.integers(1, 200)


def names(count: int) -> list[str]:
    return [f"n{number:03d}" for number in range(count)]


@given(counts, st.integers(1, 40))
def test_groups_of_fixed_size_cover_every_node_and_have_that_size(count: int, size: int) -> None:
    groups = fixed_size(names(count), size)
    assert {node for group in groups for node in group.nodes} == set(names(count))
    if count >= size:
        assert {len(group.nodes) for group in groups} == {size}
        assert len(groups) == math.ceil(count / size)
    assert all(len(set(group.nodes)) == len(group.nodes) for group in groups)
    # Only the last group may borrow, and it says so.
    shared = [group.overflow for group in groups]
    assert shared == [False] * (len(groups) - 1) + [count % size != 0 and count > size]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 12))
def test_packing_covers_every_node_and_keeps_sizes(domains: list[int], size: int) -> None:
    nodes = names(len(domains))
    known = {node: f"d{domain}" for node, domain in zip(nodes, domains, strict=True) if domain}
    groups = packed(nodes, size, known)
    assert {node for group in groups for node in group.nodes} == set(nodes)
    if len(nodes) >= size:
        assert {len(group.nodes) for group in groups} == {size}
    else:
        assert [len(group.nodes) for group in groups] == [len(nodes)]
    for group in groups:
        if group.domain:
            assert {known[node] for node in group.nodes} == {group.domain}


def test_packing_crosses_as_few_domains_as_it_can() -> None:
    domains = {**dict.fromkeys(names(4), "a"), **dict.fromkeys(names(10)[4:], "b")}
    groups = packed(names(10), 4, domains)
    assert [group.domain for group in groups] == ["b", "a", None]
    assert groups[2].overflow
    assert set(groups[2].nodes) >= {"n008", "n009"}


@given(st.integers(2, 400), st.integers(2, 8))
def test_screening_covers_every_node_once_in_chunks_near_the_square_root(
    count: int, smallest: int
) -> None:
    groups = screening(names(count), smallest)
    found = [node for group in groups for node in group.nodes]
    assert sorted(found) == names(count)
    if count >= smallest:
        assert min(len(group.nodes) for group in groups) >= smallest
    size = max(smallest, math.ceil(math.sqrt(count)))
    assert max(len(group.nodes) for group in groups) <= size + smallest - 1


def test_one_group_per_domain_has_its_natural_size() -> None:
    domains = {"a": "r1", "b": "r1", "c": "r2"}
    assert [(g.domain, g.nodes) for g in per_domain(["c", "b", "a", "x"], domains)] == [
        ("r1", ("a", "b")),
        ("r2", ("c",)),
    ]


def test_one_by_one() -> None:
    assert [group.nodes for group in one_by_one(["b", "a"])] == [("b",), ("a",)]


@pytest.mark.parametrize(
    ("wanted", "gpus", "min_gpus", "model", "size"),
    [
        (8, 8, 1, 1, 8),
        (7, 4, 4, 8, 6),
        (5, 1, 1, 4, 4),
        (3, 8, 32, 4, None),
        (1, 4, 4, 8, None),
    ],
)
def test_the_largest_size_that_the_workload_can_run_at(
    wanted: int, gpus: int, min_gpus: int, model: int, size: int | None
) -> None:
    found = valid_size(wanted, gpus, min_nodes=1, min_gpus=min_gpus, model_gpus=model)
    assert found == size
