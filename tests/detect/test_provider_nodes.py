"""Nodes as the providers set them up: what their labels, resources and taints are read as."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.hardware.profile import builtin_profiles
from steps.detect.survey import Survey, survey
from tests.detect.build import H100, fleet, node
from tests.detect.test_plan import excluded, groups, plan

AWS = "aws:///us-west-2b/i-0f3c2a"
GCP = "gce://acme/europe-west4-a/gke-n"
AZURE = "azure:///subscriptions/7/virtualMachineScaleSets/gpu/virtualMachines/1"
COUNT = {"nvidia.com/gpu.count": "8"}


def look(*nodes: dict[str, Any], **more: Any) -> Survey:
    return survey(nodes, builtin_profiles(), **more)


def gke(accelerator: str, **more: str) -> dict[str, str]:
    labels = {f"cloud.google.com/gke-{key.replace('_', '-')}": value for key, value in more.items()}
    return {"cloud.google.com/gke-accelerator": accelerator, **labels}


@pytest.mark.parametrize(
    ("fields", "profile"),
    [
        (
            {"provider": "aws:///usw2-az2/sagemaker/cluster/hyperpod-4f-i-01",
             "instance": "ml.p5.48xlarge"},
            "aws/p5.48xlarge",
        ),
        (
            {"provider": AWS, "instance": "p5.4xlarge",
             "labels": {"karpenter.k8s.aws/instance-gpu-name": "h100"}},
            "aws/gpu",
        ),
        (
            {"provider": AWS, "instance": "g7e.48xlarge",
             "labels": {"eks.amazonaws.com/instance-gpu-name": "rtx-pro-server-6000"}},
            "aws/board",
        ),
        ({"provider": GCP, "instance": "a3-ultragpu-8g", "labels": gke("nvidia-h200-141gb")},
         "gcp/a3-ultragpu-8g"),
        ({"provider": GCP, "instance": "a3-highgpu-2g", "labels": gke("nvidia-h100-80gb")},
         "gcp/a3-highgpu-part"),
        ({"provider": GCP, "instance": "g2-standard-96", "labels": gke("nvidia-l4")}, "gcp/board"),
        ({"provider": AZURE, "instance": "Standard_ND128isr_NDR_GB200_v6"}, "azure/ND_GB200_v6"),
        (
            {"provider": AZURE, "labels": {"karpenter.azure.com/sku-gpu-name": "A100"}},
            "azure/gpu",
        ),
        (
            {"labels": {"node.coreweave.cloud/type": "gd-8xh100ib-i128",
                        "gpu.nvidia.com/model": "H100_NVLINK_80GB"}},
            "coreweave/8xh100",
        ),
        (
            {"provider": AWS, "instance": "p5.48xlarge",
             "labels": {"node.coreweave.cloud/class": "gpu"}},
            "aws/p5.48xlarge",
        ),
        ({"provider": "eks-hybrid:///eu-west-1/prod/mi-07", "product": H100}, "onprem/h100"),
        ({"provider": "proxmox://rack-2/114", "product": H100}, "onprem/h100"),
        ({"provider": "crusoe://9f1c", "product": H100}, None),
        ({"provider": "nebius://computeinstance-e00x", "product": H100}, None),
    ],
    ids=[
        "HyperPod", "Karpenter", "EKS Auto Mode", "A3 Ultra", "part of an A3 High", "G2",
        "ND GB200 v6", "AKS auto-provisioning", "CoreWeave",
        "CoreWeave's labels on another cloud", "EKS hybrid", "Proxmox", "Crusoe", "Nebius",
    ],
)  # fmt: skip
def test_nodes_without_gpu_feature_discovery_are_known(
    fields: dict[str, Any], profile: str | None
) -> None:
    [cohort] = look(node("n", **{"product": None} | fields)).cohorts
    assert cohort.cohort.hardware.profile == profile


@pytest.mark.parametrize(
    ("fields", "code", "why"),
    [
        ({"provider": GCP, "product": None, "gpus": 56,
          "labels": gke("nvidia-tesla-a100", gpu_partition_size="1g.5gb")},
         "NODE_EXCLUDED_MIG", "gke-gpu-partition-size is 1g.5gb"),
        ({"provider": GCP, "product": None,
          "labels": gke("nvidia-l4", gpu_sharing_strategy="time-sharing")},
         "NODE_EXCLUDED_SHARED", "gke-gpu-sharing-strategy is time-sharing"),
        ({"labels": {"nvidia.com/mig.config": "all-3g.40gb",
                     "nvidia.com/mig.config.state": "rebooting"}},
         "NODE_EXCLUDED_MIG", "all-3g.40gb (rebooting)"),
        ({"gpus": 80, "labels": COUNT}, "NODE_EXCLUDED_SHARED", "80 GPUs are allocatable"),
        ({"product": "NVIDIA-A10-8Q", "gpus": 1, "labels": {"nvidia.com/vgpu.present": "true"}},
         "NODE_EXCLUDED_SHARED", "virtual"),
        ({"provider": AWS, "instance": "p5.48xlarge", "product": None, "gpus": 0,
          "allocatable": {"nvidia.com/gpu.shared": "128"}},
         "NODE_EXCLUDED_SHARED", "gpu.shared is allocatable"),
    ],
    ids=["GKE MIG", "GKE time-sharing", "MIG being set", "old time-slicing", "vGPU",
         "Bottlerocket time-slicing"],
)  # fmt: skip
def test_gpus_that_are_cut_or_shared_are_recognised(
    fields: dict[str, Any], code: str, why: str
) -> None:
    found = look(node("n", **fields), node("whole"))
    [reason] = [item for item in found.excluded if item.node == "n"]
    assert reason.code == code
    assert why in reason.message


def test_gpus_that_hami_splits_are_shared() -> None:
    split = node("n", labels=COUNT)
    split["metadata"]["annotations"] = {"hami.io/node-nvidia-register": "[]"}
    assert [item.code for item in look(split).excluded] == ["NODE_EXCLUDED_SHARED"]


def test_one_gpu_more_than_labelled_is_no_sharing() -> None:
    assert not look(node("n", labels={"nvidia.com/gpu.count": "7"})).excluded


def mig_slice(uuid: str | None) -> dict[str, Any]:
    def device(kind: str, uuid: str | None) -> dict[str, Any]:
        attributes: dict[str, Any] = {"type": {"string": kind}}
        attributes |= {"productName": {"string": "NVIDIA H100 80GB HBM3"}}
        attributes |= {"uuid": {"string": uuid}} if uuid else {}
        return {"name": kind, "attributes": attributes}

    return {
        "metadata": {"name": "n-gpu"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "n",
            "pool": {"name": "n", "generation": 2},
            "devices": [device("gpu", "GPU-3c"), device("mig", uuid)],
        },
    }


@pytest.mark.parametrize(
    ("uuid", "codes"), [("MIG-77", ["NODE_EXCLUDED_MIG"]), (None, [])], ids=["exists", "could be"]
)
def test_mig_devices_of_a_resource_slice_count_once_they_exist(
    uuid: str | None, codes: list[str]
) -> None:
    """Whole GPUs stay in the slice beside the MIG devices that are cut from them."""
    found = look(node("n", product=None, gpus=None), resource_slices=[mig_slice(uuid)])
    assert [item.code for item in found.excluded] == codes


@pytest.mark.parametrize(
    "fields",
    [
        {"provider": AWS, "instance": "p5.48xlarge"},
        {"labels": {"feature.node.kubernetes.io/pci-10de.present": "true"}},
        {"labels": {"feature.node.kubernetes.io/pci-0302_10de.present": "true"}},
    ],
    ids=["instance type", "NFD by vendor", "NFD by class and vendor"],
)
def test_a_gpu_node_without_device_plugin_is_not_lost(fields: dict[str, Any]) -> None:
    bare = node("bare", product=None, gpus=None, allocatable={"hugepages-2Mi": "0"}, **fields)
    result = plan([bare, node("cpu", product=None, gpus=None, allocatable={"x/y": "1"})])
    assert result.targeted == ("bare",)
    assert excluded(result)["bare"][0] == "NODE_EXCLUDED_GPU_COUNT"


@pytest.mark.parametrize(
    "labels",
    [{"crusoe.ai/accelerator": "amd-mi355x-288gb-roce"}, {"amd.com/gpu.product-name": "MI300X"}],
)
def test_gpus_of_another_make_are_no_gpus(labels: dict[str, str]) -> None:
    found = look(
        node("n", product=None, gpus=None, allocatable={"amd.com/gpu": "8"}, labels=labels)
    )
    assert found.targeted == ()
    assert "has GPUs of NVIDIA" in found.problems[0][1]


@pytest.mark.parametrize(
    ("fields", "taint"),
    [
        ({"provider": AZURE, "instance": "Standard_ND96isr_H100_v5"},
         {"key": "sku", "value": "gpu", "effect": "NoSchedule"}),
        ({"provider": AZURE, "instance": "Standard_ND96isr_H100_v5"},
         {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot",
          "effect": "NoSchedule"}),
        ({"provider": GCP, "instance": "a3-megagpu-8g"},
         {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"}),
        ({"labels": {"node.coreweave.cloud/type": "gd-8xh100ib-i128"}},
         {"key": "is_gpu", "value": "true", "effect": "NoSchedule"}),
    ],
    ids=["AKS GPU pool", "AKS spot pool", "GKE queued provisioning", "CoreWeave"],
)  # fmt: skip
def test_taints_that_a_provider_puts_on_gpu_nodes_are_tolerated(
    fields: dict[str, Any], taint: dict[str, str]
) -> None:
    nodes = fleet(2, allocatable={"rdma/ib": "8"}, taints=[taint], **fields)
    assert excluded(plan(nodes)) == {}


def test_a_node_that_coreweave_is_testing_stays_out() -> None:
    labels = {"node.coreweave.cloud/type": "gd-8xh100ib-i128"}
    taint = {"key": "node.coreweave.cloud/reserved", "value": "triage", "effect": "NoExecute"}
    nodes = fleet(2, labels=labels, allocatable={"rdma/ib": "1"}, taints=[taint])
    assert {code for code, _ in excluded(plan(nodes)).values()} == {"NODE_EXCLUDED_TAINTED"}


def test_two_cards_of_one_brand_are_two_architectures() -> None:
    cards = ("NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-3090")
    found = look(*(node(f"n{i}", product=card) for i, card in enumerate(cards)))
    assert [item.cohort.hardware.gpu for item in found.cohorts] == ["rtx3090", "rtx4090"]


def test_hyperpod_nodes_are_set_up_as_the_ec2_machine() -> None:
    nodes = fleet(
        2,
        provider="aws:///usw2-az2/sagemaker/cluster/hyperpod-4f-i-01",
        instance="ml.p4d.24xlarge",
        product=None,
        allocatable={"vpc.amazonaws.com/efa": "4", "hugepages-2Mi": "10256Mi"},
    )
    [part] = plan(nodes).categories[0].parts
    assert part.workload.nics_per_node.value == 4
    assert part.workload.resources["hugepages-2Mi"].value == "5120Mi"


def test_groups_on_oke_stay_in_a_local_block() -> None:
    block = "oci.oraclecloud.com/rdma.local_block_id"
    nodes = [
        node(f"n{i}", provider="ocid1.instance.oc1.iad.an", instance="BM.GPU.H200.8",
             allocatable={"nvidia.com/rdma-vf": "8"}, labels={block: f"b{i % 2}"})
        for i in range(4)
    ]  # fmt: skip
    result = plan(nodes, options={"nodesPerJob": 2})
    assert groups(result) == [("n0", "n2"), ("n1", "n3")]
    assert result.nodes[0].domains[block] == "b0"
