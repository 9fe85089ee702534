"""No node gets lost: whatever the fleet, every targeted node is in a group or excluded."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.facts.reasons import Kind, reason
from steps.detect.core import make_plan
from steps.documents import Plan, dump, load
from tests.detect.build import GB200, H100, certification, node

CATEGORIES = (
    "communication/nccl-all-reduce",
    "communication/nccl-loopback",
    "diagnostics/dcgm-level1",
    "training/nemotron5-8b",
)


@st.composite
def nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(0, 12))
    return [draw(one_node(f"n{number:02d}")) for number in range(count)]


def one_node(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        node,
        name=st.just(name),
        product=st.sampled_from([H100, H100, GB200, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", None]),
        provider=st.sampled_from(["aws:///a/i-1", "aws:///a/i-2", "", None]),
        instance=st.sampled_from(["p5.48xlarge", None, None]),
        gpus=st.sampled_from([8, 8, 4, 1, 0, None]),
        allocatable=st.sampled_from(
            [{"vpc.amazonaws.com/efa": "32"}, {"rdma/ib": "1"}, {}, {"nvidia.com/gpu": "x"}]
        ),
        labels=st.sampled_from(
            [{}, {"nvidia.com/gpu.clique": "a"}, {"nvidia.com/gpu.clique": "b"}]
        ),
        taints=st.sampled_from([None, None, [{"key": "a", "effect": "NoSchedule"}]]),
        cordoned=st.sampled_from([False, False, False, True]),
        ready=st.sampled_from(["True", "True", "False", None]),
    )


options = st.fixed_dictionaries(
    {},
    optional={
        "nodesPerJob": st.integers(1, 9),
        "gpusPerNode": st.integers(1, 8),
        "testScale": st.sampled_from(["full-scale", "intra-rack", "intra-node", "diagnose"]),
        "repeatCount": st.integers(1, 2),
        "isolate": st.booleans(),
    },
)
names = st.none() | st.lists(
    st.sampled_from([f"n{number:02d}" for number in range(14)]), min_size=1, unique=True
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes(), options, names, st.integers(1, 12))
def test_every_targeted_node_is_in_a_group_or_excluded(
    fleet: list[dict[str, Any]],
    chosen: dict[str, Any],
    named: list[str] | None,
    cap: int,
) -> None:
    spec = {**chosen, "limits": {"nodeCap": cap}}
    if named:
        spec["target"] = {"nodeNames": named}
    loaded, source = certification(*CATEGORIES, spec=spec)
    plan = make_plan(loaded, fleet, source="recorded", text=source)

    if named:
        assert plan.targeted == tuple(sorted(named))
    assert list(plan.targeted) == sorted(plan.targeted)
    for category in plan.categories:
        grouped = [n for p in category.parts for g in p.groups for n in g.nodes]
        out = {e.node for e in plan.excluded if e.category in {None, category.id}}
        assert set(grouped) | out == set(plan.targeted)
        assert not set(grouped) & out
        ids = [g.id for p in category.parts for g in p.groups]
        assert len(ids) == len(set(ids))
        for part in category.parts:
            sizes = {bars.nodes for bars in part.bars}
            assert {len(group.nodes) for group in part.groups} <= sizes
    for item in plan.excluded:
        assert reason(item.code).kind is Kind.COVERAGE
        assert item.message
    used = {n for c in plan.categories for p in c.parts for g in p.groups for n in g.nodes}
    assert len(used) <= cap
    assert plan.bounds.longest_seconds <= plan.bounds.deadline_seconds
    assert load(dump(plan), Plan, "plan") == plan


@settings(max_examples=30, deadline=None)
@given(nodes(), st.randoms())
def test_the_order_of_the_node_list_does_not_matter(
    fleet: list[dict[str, Any]], random: Any
) -> None:
    loaded, _ = certification(*CATEGORIES)
    shuffled = list(fleet)
    random.shuffle(shuffled)
    assert make_plan(loaded, fleet, source="recorded") == make_plan(
        loaded, shuffled, source="recorded"
    )
