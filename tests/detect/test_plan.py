"""Whole plans: which nodes, which groups, and what is said about the others."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import InputError
from steps.detect import core
from steps.detect.core import make_plan
from steps.documents import Plan
from tests.detect.build import GB200, H100, certification, fleet, node

AWS = "aws:///us-west-2b/i-0123"
EFA = {"vpc.amazonaws.com/efa": "32"}
ALL_REDUCE = "communication/nccl-all-reduce"


def plan(
    nodes: list[dict[str, Any]],
    *categories: str,
    options: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **more: Any,
) -> Plan:
    loaded, source = certification(*categories, options=options, spec=spec)
    return make_plan(loaded, nodes, source="recorded", text=source, **more)


def groups(result: Plan, category: int = 0) -> list[tuple[str, ...]]:
    return [g.nodes for part in result.categories[category].parts for g in part.groups]


def excluded(result: Plan) -> dict[str, tuple[str, str]]:
    return {item.node: (item.code, item.message) for item in result.excluded}


def test_several_gpu_architectures_get_one_cohort_each() -> None:
    nodes = [
        node("gpu-node-01", provider=AWS, allocatable=EFA),
        node("gpu-node-02", provider=AWS, allocatable=EFA),
        node("gpu-node-03-odd", provider=AWS, product="NVIDIA-B200", allocatable=EFA),
    ]
    result = plan(nodes, options={"nodesPerJob": 1})
    assert [cohort.hardware.gpu for cohort in result.cohorts] == ["b200", "h100"]
    assert groups(result) == [("gpu-node-03-odd",), ("gpu-node-01",), ("gpu-node-02",)]
    assert result.excluded == ()


def test_a_node_with_too_few_gpus_is_excluded_with_both_numbers() -> None:
    nodes = [node("gpu-node-01"), node("gpu-node-02-small", gpus=1), node("gpu-node-03")]
    result = plan(nodes, options={"gpusPerNode": 2, "nodesPerJob": 2})
    assert groups(result) == [("gpu-node-01", "gpu-node-03")]
    assert excluded(result) == {
        "gpu-node-02-small": ("NODE_EXCLUDED_GPU_COUNT", "has 1, needs 2"),
    }


def test_no_node_with_enough_gpus_leaves_no_group_and_loses_no_node() -> None:
    result = plan(fleet(3, gpus=2), options={"gpusPerNode": 8})
    assert groups(result) == []
    assert [text for _, text in excluded(result).values()] == ["has 2, needs 8"] * 3


def test_a_cordoned_node_is_excluded() -> None:
    nodes = fleet(3, provider=AWS, allocatable=EFA)
    nodes[1]["spec"]["unschedulable"] = True
    result = plan(nodes, options={"nodesPerJob": 1})
    assert groups(result) == [("gpu-1",), ("gpu-3",)]
    assert excluded(result) == {"gpu-2": ("NODE_EXCLUDED_CORDONED", "unschedulable (cordoned)")}


def test_a_taint_selector_for_cordoned_nodes_takes_them_and_tolerates_the_taint() -> None:
    nodes = [node("gpu-1", cordoned=True), node("gpu-2")]
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    result = plan(nodes, options={"nodesPerJob": 1}, spec={"target": {"taintSelectors": [taint]}})
    assert result.targeted == ("gpu-1",)
    assert groups(result) == [("gpu-1",)]
    tolerations = result.categories[0].parts[0].workload.pod["tolerations"].value
    assert {**taint, "operator": "Exists"} in tolerations


def test_nine_nodes_without_topology_are_screened_three_by_three() -> None:
    result = plan(fleet(9), options={"testScale": "diagnose", "minGroupSize": 2})
    [part] = result.categories[0].parts
    assert [group.id for group in part.groups] == ["screen-0", "screen-1", "screen-2"]
    assert groups(result) == [tuple(f"gpu-{n + i}" for i in range(3)) for n in (1, 4, 7)]
    assert part.workload.timeout_seconds.value == 900
    assert part.workload.options["numIterations"].value == 5
    assert part.workload.options["numCycles"].value == 1


def test_screening_follows_topology_domains() -> None:
    nodes = [
        node(f"node-{clique}{n}", product=GB200, gpus=4,
             labels={"nvidia.com/gpu.clique": f"clique-{clique}"})
        for clique in "ab" for n in (1, 2)
    ]  # fmt: skip
    result = plan(nodes, options={"testScale": "diagnose"})
    found = {g.domain: g.nodes for p in result.categories[0].parts for g in p.groups}
    assert found == {
        "clique-a": ("node-a1", "node-a2"),
        "clique-b": ("node-b1", "node-b2"),
    }


def test_two_candidates_for_the_nics_request_none_and_say_so() -> None:
    nodes = fleet(
        2, product="NVIDIA-GB300", gpus=4, allocatable={"rdma/ib-a": "4", "rdma/ib-b": "4"}
    )
    result = plan(nodes, options={"mlnxPerNode": 1})
    work = result.categories[0].parts[0].workload
    assert work.nic_resource.value is None
    assert set(work.resources) == {"nvidia.com/gpu"}
    assert work.gpus_per_node.value == 4
    assert work.env["NCCL_MNNVL_ENABLE"].value == "1"
    assert work.pod["computeDomain"].value["numNodes"] == "${nodesPerJob}"
    assert "rdma/ib-a, rdma/ib-b" in result.annotations["notes"][0]


def test_one_candidate_for_the_nics_is_requested() -> None:
    nodes = fleet(2, product="NVIDIA-GB300", gpus=4, allocatable={"rdma/ib-a": "4"})
    work = plan(nodes, options={"mlnxPerNode": 1}).categories[0].parts[0].workload
    assert work.nic_resource.value == "rdma/ib-a"
    assert work.resources["rdma/ib-a"].value == 1


def test_two_p5_nodes_get_the_efa_image_and_32_devices() -> None:
    nodes = fleet(2, provider=AWS, instance="p5.48xlarge", allocatable=EFA)
    result = plan(nodes)
    [part] = result.categories[0].parts
    assert groups(result) == [("gpu-1", "gpu-2")]
    assert "efa" in part.workload.image.value
    assert part.workload.resources["vpc.amazonaws.com/efa"].value == 32
    assert part.workload.launch["flags"].value["-N"] == "8"
    assert part.workload.transport.value == ["AWS Libfabric", "Libfabric"]


def test_a_machine_short_of_its_network_devices_is_excluded() -> None:
    nodes = fleet(3, provider=AWS, instance="p5.48xlarge", allocatable=EFA)
    nodes[1]["status"]["allocatable"]["vpc.amazonaws.com/efa"] = "31"
    result = plan(nodes, ALL_REDUCE, "diagnostics/dcgm-level1")
    assert [(e.node, e.code, e.category) for e in result.excluded] == [
        ("gpu-2", "NODE_EXCLUDED_NIC_MISSING", ALL_REDUCE)
    ]
    assert result.excluded[0].message == "vpc.amazonaws.com/efa: has 31, needs 32"
    assert groups(result, 1) == [("gpu-1",), ("gpu-2",), ("gpu-3",)]


def test_a_test_of_network_devices_needs_some() -> None:
    result = plan(fleet(2), "communication/nccl-loopback", "communication/nccl-loopback-nvswitch")
    assert groups(result, 0) == []
    assert groups(result, 1) == [("gpu-1",), ("gpu-2",)]
    assert {item.code for item in result.excluded} == {"NODE_EXCLUDED_NIC_MISSING"}
    by_path = plan(
        fleet(2), "communication/nccl-loopback", options={"rdmaDeviceAccess": "hostPath"}
    )
    assert groups(by_path) == [("gpu-1",), ("gpu-2",)]
    assert by_path.categories[0].parts[0].workload.pod["privileged"].value is True


# Cases after public reports.


def test_nodes_of_different_size_behind_one_selector() -> None:
    """A run must not wait for ever for pods that fit on no node."""
    small = [node(f"n{i}", product="NVIDIA-A10", gpus=1) for i in (2, 3)]
    large = [node(f"n{i}", product="NVIDIA-A10", gpus=2) for i in (4, 5, 6, 7)]
    result = plan(small + large, options={"gpusPerNode": 2, "nodesPerJob": 4})
    assert groups(result) == [("n4", "n5", "n6", "n7")]
    assert excluded(result) == {
        "n2": ("NODE_EXCLUDED_GPU_COUNT", "has 1, needs 2"),
        "n3": ("NODE_EXCLUDED_GPU_COUNT", "has 1, needs 2"),
    }


def test_allocatable_counts_and_not_the_label_when_mig_or_sharing_is_on() -> None:
    count = {"nvidia.com/gpu.count": "8"}
    nodes = [
        node("full", labels=count),
        node("mig-mixed", gpus=0, labels=count, allocatable={"nvidia.com/mig-2g.20gb": "24"}),
        node("mig-broken", product="NVIDIA-A100-SXM4-80GB-MIG-INVALID", gpus=0, labels=count),
        node("mig-single", product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", gpus=56, labels=count),
        node("sliced", product=f"{H100}-SHARED", gpus=32, labels=count),
        node("mps", gpus=16, labels=count | {"nvidia.com/gpu.sharing-strategy": "mps"}),
    ]
    result = plan(nodes, "diagnostics/dcgm-level1")
    assert groups(result) == [("full",)]
    assert {name: code for name, (code, _) in excluded(result).items()} == {
        "mig-mixed": "NODE_EXCLUDED_MIG",
        "mig-broken": "NODE_EXCLUDED_MIG",
        "mig-single": "NODE_EXCLUDED_MIG",
        "sliced": "NODE_EXCLUDED_SHARED",
        "mps": "NODE_EXCLUDED_SHARED",
    }


def test_a_node_without_the_accelerator_label_is_named_and_not_counted() -> None:
    label = {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}
    nodes = [
        node("g1", product=None, provider="gce://p/z/g1", labels=label),
        node("g2", product=None, provider="gce://p/z/g2", labels=label),
        node("g3", product=None, provider="gce://p/z/g3"),
    ]
    result = plan(nodes)
    assert [cohort.hardware.profile for cohort in result.cohorts] == ["gcp/a3-megagpu-8g"]
    assert groups(result) == [("g1", "g2")]
    assert excluded(result)["g3"][0] == "LABEL_MISSING"


def test_gpu_nodes_are_found_by_what_they_allocate() -> None:
    labels = {"feature.node.kubernetes.io/pci-0302_10de.present": "true"}
    nodes = [node("a", product=None, labels=labels), node("cpu", product=None, gpus=None)]
    result = plan(nodes, "diagnostics/dcgm-level1")
    assert result.targeted == ("a",)
    assert groups(result) == [("a",)]


def test_an_empty_target_is_a_problem_that_prints_the_selector() -> None:
    selector = {"feature.node.kubernetes.io/pci-10de.present": "true"}
    result = plan(fleet(2), spec={"target": {"nodeSelector": selector}})
    [(code, message)] = result.problems
    assert code == "NO_NODES"
    assert "feature.node.kubernetes.io/pci-10de.present=true" in message
    assert "is missing" in message
    assert groups(result) == []


def test_one_node_is_too_few_for_a_test_across_nodes() -> None:
    for options in ({}, {"nodesPerJob": 2}):
        result = plan([node("only")], options=options)
        assert groups(result) == []
        code, message = excluded(result)["only"]
        assert code == "NOT_ENOUGH_NODES"
        assert message.startswith("has 1, needs 2")


def test_one_node_is_enough_where_one_is_asked_for() -> None:
    assert groups(plan([node("only")], options={"nodesPerJob": 1})) == [("only",)]
    assert groups(plan([node("only")], options={"testScale": "intra-node"})) == [("only",)]


# Platforms and profiles.


def test_mixed_platforms_are_refused_with_a_list_and_no_node_is_lost() -> None:
    nodes = [
        node("a1", provider=AWS, allocatable=EFA),
        node("g1", provider="gce://p/z/g1"),
        node("a2", provider=AWS, allocatable=EFA),
    ]
    result = plan(nodes)
    [(code, message)] = result.problems
    assert code == "PLATFORM_MIXED"
    assert "aws: a1, a2" in message
    assert "gcp: g1" in message
    assert groups(result) == []
    assert {code for code, _ in excluded(result).values()} == {"PLATFORM_MIXED"}
    assert set(excluded(result)) == {"a1", "a2", "g1"}


@pytest.mark.parametrize(
    ("provider", "product"),
    [("acmecloud://eu/i-1", H100), (AWS, "NVIDIA-X900-Ultra"), ("", "NVIDIA-X900-Ultra")],
    ids=["unknown platform", "unknown GPU", "unknown GPU on own machines"],
)
def test_unknown_hardware_is_tested_but_has_no_profile(provider: str, product: str) -> None:
    result = plan(fleet(2, provider=provider, product=product))
    assert result.cohorts[0].hardware.profile is None
    assert [code for code, _ in result.problems] == ["PLATFORM_UNKNOWN"]
    assert groups(result) == [("gpu-1", "gpu-2")]


def test_a_stated_profile_settles_an_unknown_platform() -> None:
    nodes = fleet(2, provider="acmecloud://eu/i-1", allocatable={"rdma/ib": "1"})
    result = plan(nodes, spec={"profile": "onprem/h100"})
    assert result.problems == ()
    assert result.cohorts[0].hardware.profile == "onprem/h100"
    assert result.cohorts[0].profile_origin == "stated by the certification"


def test_a_stated_profile_excludes_nodes_of_another_gpu() -> None:
    nodes = [*fleet(2), node("odd", product="NVIDIA-A100-SXM4-80GB")]
    result = plan(nodes, spec={"profile": "onprem/h100"})
    assert excluded(result) == {
        "odd": ("NODE_EXCLUDED_ARCHITECTURE", "has a100, profile onprem/h100 is for h100")
    }


def test_an_unknown_profile_name_is_an_error_with_its_line_and_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"certification.yaml:\d+: .*did you mean 'onprem/h100'"):
        plan(fleet(2), spec={"profile": "onprem/h1OO"})


def test_the_instance_type_tells_platform_and_gpu_of_a_bare_node() -> None:
    bare = fleet(2, product=None, instance="p5.48xlarge", allocatable=EFA)
    result = plan(bare)
    assert result.cohorts[0].hardware.profile == "aws/p5.48xlarge"
    assert {facts.platform for facts in result.nodes} == {"aws"}
    assert {facts.gpu for facts in result.nodes} == {"h100"}


def test_different_instance_types_form_cohorts_of_their_own() -> None:
    nodes = [
        node("a", provider=AWS, instance="p5.48xlarge", allocatable=EFA),
        node("b", provider=AWS, instance="p5en.48xlarge", product="NVIDIA-H200",
             allocatable={"vpc.amazonaws.com/efa": "16"}),
    ]  # fmt: skip
    result = plan(nodes, options={"nodesPerJob": 1})
    counts = {part.cohort: part.workload.nics_per_node.value for part in result.categories[0].parts}
    assert counts == {"aws-p5.48xlarge-h100": 32, "aws-p5en.48xlarge-h200": 16}


# States of nodes.


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ready": "False"}, "NODE_EXCLUDED_NOT_READY"),
        ({"ready": "Unknown"}, "NODE_EXCLUDED_NOT_READY"),
        ({"gpus": 0}, "NODE_EXCLUDED_GPU_COUNT"),
        ({"gpus": 7, "capacity": {"nvidia.com/gpu": "8"}}, "NODE_EXCLUDED_GPU_COUNT"),
        (
            {"taints": [{"key": "acme/repair", "value": "yes", "effect": "NoSchedule"}]},
            "NODE_EXCLUDED_TAINTED",
        ),
        ({"taints": [{"key": "acme/repair", "effect": "NoExecute"}]}, "NODE_EXCLUDED_TAINTED"),
    ],
    ids=["not ready", "ready unknown", "no GPU left", "a GPU lost", "taint", "evicting taint"],
)
def test_an_unusable_node_is_excluded(fields: dict[str, Any], code: str) -> None:
    result = plan([*fleet(2), node("odd", **fields)])
    assert excluded(result)["odd"][0] == code
    assert groups(result) == [("gpu-1", "gpu-2")]


@pytest.mark.parametrize(
    "fields",
    [
        {"gpus": 7, "labels": {"nvidia.com/gpu.count": "8"}},
        {"gpus": 7, "capacity": {"nvidia.com/gpu": "8"}},
        {"gpus": 7},
    ],
    ids=["the label tells", "the capacity tells", "the board has eight"],
)
def test_a_fleet_in_which_every_node_lost_a_gpu_is_no_smaller_fleet(fields: dict[str, Any]) -> None:
    result = plan(fleet(2, **fields), "diagnostics/dcgm-level1")
    assert groups(result) == []
    assert {message for _, message in excluded(result).values()} == {"has 7, needs 8"}


def test_machines_with_fewer_gpus_by_design_are_tested_with_those() -> None:
    result = plan(fleet(2, gpus=4), "diagnostics/dcgm-level1")
    assert result.categories[0].parts[0].workload.gpus_per_node.value == 4
    assert result.excluded == ()


def test_a_node_with_fewer_claimable_devices_is_excluded() -> None:
    nodes = fleet(3, product="NVIDIA-B200", provider="openstack:///1", gpus=None)
    slices = [
        {
            "spec": {
                "driver": driver,
                "nodeName": item["metadata"]["name"],
                "pool": {"name": "p"},
                "devices": [{}] * (7 if (number, driver) == (1, "rdma.nscale.com") else 8),
            }
        }
        for number, item in enumerate(nodes)
        for driver in ("gpu.nvidia.com", "rdma.nscale.com")
    ]
    result = plan(nodes, resource_slices=slices)
    assert result.cohorts[0].hardware.profile == "nscale/b200"
    assert excluded(result) == {
        "gpu-2": ("NODE_EXCLUDED_NIC_MISSING", "rdma.nscale.com: has 7, needs 8")
    }


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "effect": "NoExecute"},
        {"key": "acme/busy", "effect": "PreferNoSchedule"},
    ],
    ids=["GPU taint", "GPU taint with another effect", "a mere preference"],
)
def test_a_taint_that_pods_tolerate_keeps_the_node(taint: dict[str, str]) -> None:
    assert plan(fleet(2, taints=[taint])).excluded == ()


def test_the_arm_taint_is_tolerated_where_the_profile_does() -> None:
    taint = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}
    assert plan(fleet(2, product=GB200, gpus=4, taints=[taint])).excluded == ()
    assert {code for code, _ in excluded(plan(fleet(2, taints=[taint]))).values()} == {
        "NODE_EXCLUDED_TAINTED"
    }


def test_a_recorded_node_without_status_is_kept_with_notes() -> None:
    bare = [{"metadata": {"name": f"r{i}", "labels": {"nvidia.com/gpu.product": H100}}}
            for i in (1, 2)]  # fmt: skip
    result = plan(bare)
    assert groups(result) == [("r1", "r2")]
    assert any("no allocatable" in note for note in result.nodes[0].notes)
    assert any("no Ready condition" in note for note in result.nodes[0].notes)


def test_gpus_of_an_init_container_are_in_use_too() -> None:
    def container(gpus: int, **more: str) -> dict[str, Any]:
        return {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}, **more}

    spec = {
        "nodeName": "gpu-1",
        "initContainers": [container(6), container(1, restartPolicy="Always")],
        "containers": [container(2), container(1)],
    }
    pod = {"metadata": {"name": "load-0"}, "spec": spec, "status": {"phase": "Pending"}}
    assert excluded(plan(fleet(3), pods=[pod])) == {
        "gpu-1": ("NODE_EXCLUDED_BUSY", "6 of 8 GPUs are used by default/load-0 (6)")
    }


@pytest.mark.parametrize(("amount", "used"), [("4", 4), (4, 4), ("all", 1)])
def test_a_node_whose_gpus_are_in_use_is_left_alone(amount: object, used: int) -> None:
    def pod(on: str, phase: str) -> dict[str, Any]:
        container = {"resources": {"limits": {"nvidia.com/gpu": amount}}}
        return {
            "metadata": {"name": "train-0", "namespace": "ml"},
            "spec": {"nodeName": on, "containers": [container]},
            "status": {"phase": phase},
        }

    result = plan(fleet(3), pods=[pod("gpu-2", "Running"), pod("gpu-1", "Succeeded")])
    assert excluded(result) == {
        "gpu-2": ("NODE_EXCLUDED_BUSY", f"{used} of 8 GPUs are used by ml/train-0 ({used})")
    }


# Targets by name, caps.


def test_named_nodes_are_never_lost() -> None:
    names = ["gpu-1", "gpu-2", "gone", "cpu"]
    nodes = [*fleet(3), node("cpu", product=None, gpus=None)]
    target = {"nodeNames": names, "nodeSelector": {"kubernetes.io/hostname": "gpu-1"}}
    result = plan(nodes, options={"nodesPerJob": 1}, spec={"target": target})
    assert result.targeted == ("cpu", "gone", "gpu-1", "gpu-2")
    codes = {name: code for name, (code, _) in excluded(result).items()}
    assert codes == {
        "cpu": "NODE_EXCLUDED_NOT_MATCHING",
        "gone": "NODE_EXCLUDED_NOT_FOUND",
        "gpu-2": "NODE_EXCLUDED_NOT_MATCHING",
    }


def test_a_named_node_without_gpus_does_not_match() -> None:
    nodes = [*fleet(2), node("cpu", product=None, gpus=None)]
    result = plan(nodes, spec={"target": {"nodeNames": ["gpu-1", "gpu-2", "cpu"]}})
    assert excluded(result)["cpu"] == ("NODE_EXCLUDED_NOT_MATCHING", "has no GPUs of NVIDIA")


def test_nodes_over_the_cap_are_excluded_by_name() -> None:
    result = plan(fleet(5), spec={"limits": {"nodeCap": 3}})
    assert groups(result) == [("gpu-1", "gpu-2", "gpu-3")]
    assert set(excluded(result)) == {"gpu-4", "gpu-5"}
    assert excluded(result)["gpu-4"] == (
        "NODE_EXCLUDED_NODE_CAP",
        "5 nodes can be used, limits.nodeCap is 3",
    )
    assert result.bounds.node_cap == 3


# Sizes of groups.


def test_training_gets_the_largest_size_that_its_parallelism_divides() -> None:
    nodes = fleet(5, product="NVIDIA-A100-SXM4-80GB", gpus=4)
    result = plan(nodes, "training/nemotron5-8b")
    sizes = [len(found) for found in groups(result)]
    assert sizes == [4, 4]
    assert {name for found in groups(result) for name in found} == {f"gpu-{i}" for i in range(1, 6)}
    command = result.categories[0].parts[0].workload.command
    assert "--tensor-model-parallel-size=8" in command
    assert "--global-batch-size=${totalGpus}" in command


def test_training_that_needs_more_gpus_than_there_are_has_no_group() -> None:
    result = plan(fleet(3), "training/nemotron5-56b")
    assert groups(result) == []
    assert excluded(result)["gpu-1"] == ("NOT_ENOUGH_NODES", "has 3 x 8 GPUs, needs 32")


def test_left_over_nodes_borrow_from_the_last_full_group() -> None:
    result = plan(fleet(8), options={"nodesPerJob": 3})
    found = result.categories[0].parts[0].groups
    assert [group.overflow for group in found] == [False, False, True]
    assert found[2].nodes == ("gpu-4", "gpu-7", "gpu-8")


def test_a_rack_is_a_group_and_a_node_without_the_label_is_excluded() -> None:
    racks = {"a": 3, "b": 2}
    nodes = [
        node(f"{rack}{i}", product=GB200, gpus=4, labels={"nvidia.com/gpu.clique": f"r.{rack}"})
        for rack, count in racks.items() for i in range(count)
    ]  # fmt: skip
    nodes.append(node("lost", product=GB200, gpus=4))
    result = plan(nodes, options={"testScale": "intra-rack"})
    assert groups(result) == [("a0", "a1", "a2"), ("b0", "b1")]
    assert excluded(result)["lost"] == ("LABEL_MISSING", "label nvidia.com/gpu.clique is missing")


def test_repeats_are_groups_of_their_own() -> None:
    result = plan(fleet(2), options={"repeatCount": 3})
    found = result.categories[0].parts[0].groups
    assert [(group.id, group.iteration) for group in found] == [
        ("full-scale-0", 1),
        ("full-scale-0-i2", 2),
        ("full-scale-0-i3", 3),
    ]


def test_bars_cover_the_sizes_of_groups_and_of_isolation_runs() -> None:
    part = plan(fleet(8), options={"nodesPerJob": 8}).categories[0].parts[0]
    assert [bars.nodes for bars in part.bars] == [1, 2, 8]
    alone = plan(fleet(8), options={"nodesPerJob": 8, "isolate": False}).categories[0].parts[0]
    assert [bars.nodes for bars in alone.bars] == [8]


def test_bounds_count_isolation_waits_and_repeats_and_end_at_the_deadline() -> None:
    options = {"nodesPerJob": 4, "timeoutPerJob": "10m", "measurementTimeout": "5m"}
    hour = 3600
    once = plan(fleet(8), options=options).bounds
    assert once.longest_seconds == 3 * 15 * 60
    assert once.gpu_hours == 8 * 8 * 0.75
    one_by_one = plan(fleet(8), options=options | {"maxConcurrent": 1}).bounds
    assert one_by_one.longest_seconds == 2 * once.longest_seconds
    without = plan(fleet(8), options=options | {"isolate": False, "repeatCount": 2}).bounds
    assert without.longest_seconds == 2 * 15 * 60
    capped = plan(fleet(8), options=options, spec={"limits": {"deadline": "30m"}}).bounds
    assert capped.longest_seconds == hour / 2
    assert capped.deadline_seconds == hour / 2


def test_a_reason_for_all_categories_is_said_once() -> None:
    nodes = [*fleet(2), node("small", gpus=1)]
    result = plan(nodes, ALL_REDUCE, "diagnostics/dcgm-level1", "training/nemotron5-8b")
    assert [(item.node, item.category) for item in result.excluded] == [("small", None)]


def test_gang_scheduler_queue_and_labels_reach_the_pods() -> None:
    spec = {
        "gangScheduler": {"schedulerName": "kai-scheduler", "queue": "gpu"},
        "workloadMetadata": {"labels": {"kueue.x-k8s.io/queue-name": "certify"}},
        "imagePullSecrets": [{"name": "registry"}],
    }
    pod = plan(fleet(2), spec=spec).categories[0].parts[0].workload.pod
    assert pod["schedulerName"].value == "kai-scheduler"
    assert pod["labels"].value == {"kai.scheduler/queue": "gpu"}
    assert pod["jobLabels"].value == {"kueue.x-k8s.io/queue-name": "certify"}
    assert pod["imagePullSecrets"].value == [{"name": "registry"}]
    assert pod["schedulerName"].origin.line is not None


def test_a_resource_slice_tells_the_gpu_of_an_unlabelled_node() -> None:
    nodes = fleet(2, product=None, gpus=None)
    for item in nodes:
        item["metadata"]["labels"]["nvidia.com/gpu.present"] = "true"
    device = {"attributes": {"productName": {"string": "NVIDIA H100 80GB HBM3"}}}
    vfio = {"attributes": {"type": {"string": "vfio"}}}
    slices = [
        {
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": item["metadata"]["name"],
                "pool": {"name": "gpus", "generation": generation},
                "devices": [device] * count + [vfio],
            }
        }
        for item in nodes for generation, count in ((1, 4), (2, 8))
    ]  # fmt: skip
    result = plan(nodes, resource_slices=slices)
    assert {(f.gpu_product, f.gpus) for f in result.nodes} == {(H100, 8)}
    assert result.cohorts[0].hardware.profile == "onprem/h100"


def test_a_topology_key_that_no_node_has_is_an_error_with_a_suggestion() -> None:
    nodes = fleet(4, labels={"example.com/rack": "r1"})
    result = plan(nodes, options={"topologyKey": "example.com/rack", "nodesPerJob": 2})
    assert len(groups(result)) == 2
    with pytest.raises(InputError, match=r"has the label example\.com/rak .*did you"):
        plan(nodes, options={"topologyKey": "example.com/rak"})


@pytest.mark.parametrize(
    ("scale", "says"),
    [
        ("full-scale", "minGroupSize 7 is for testScale diagnose, not full-scale"),
        ("diagnose", "minGroupSize 7 is above the 4 usable nodes: one group"),
    ],
)
def test_a_smallest_group_that_changes_nothing_is_noted(scale: str, says: str) -> None:
    result = plan(fleet(4), options={"testScale": scale, "minGroupSize": 7})
    assert f"onprem-h100: {says}" in result.annotations["notes"]


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MOST_GROUPS", 20)
    assert len(groups(plan(fleet(5), options={"testScale": "intra-node", "repeatCount": 4}))) == 20
    with pytest.raises(InputError, match="would have 25 groups, more than 20"):
        plan(fleet(5), options={"testScale": "intra-node", "repeatCount": 5})
