"""Names and labels: which platform, which GPU."""

from __future__ import annotations

import pytest

from catalog.certification import Target
from catalog.hardware.platforms import (
    architecture_of,
    is_mig_product,
    is_shared_product,
    platform_of,
)
from catalog.hardware.profile import builtin_profiles, load_profiles
from catalog.reading.source import parse_documents
from steps.detect.survey import survey
from tests.detect.build import fleet

RULES = builtin_profiles().platform_rules()


@pytest.mark.parametrize(
    ("product", "architecture"),
    [
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("NVIDIA-H100-NVL", "h100"),
        ("NVIDIA-H200", "h200"),
        ("NVIDIA-GB200-NVL72", "gb200"),
        ("NVIDIA-B300-SXM6-AC", "b300"),
        ("NVIDIA-A100-SXM4-80GB", "a100"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "a100"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "h100"),
        ("NVIDIA-A10G", "a10g"),
        ("NVIDIA-L40S", "l40s"),
        ("NVIDIA-GH200-480GB", "gh200"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtxpro6000"),
        ("Tesla-V100-SXM2-32GB", "v100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("nvidia-h100-mega-80gb", "h100"),
        ("nvidia-tesla-t4", "t4"),
        ("H100_NVLINK_80GB", "h100"),
        ("GH200_480GB", "gh200"),
        ("nvidia-h100-80gb-sxm-ib", "h100"),
        ("nvidia-rtx-pro-6000", "rtxpro6000"),
        ("rtx-pro-server-6000", "rtxpro6000"),
        ("NVIDIA-GeForce-RTX-4090", "rtx4090"),
        ("NVIDIA-GeForce-GTX-1080-Ti", "gtx1080ti"),
        ("NVIDIA-RTX-6000-Ada-Generation", "rtx6000ada"),
        ("Quadro-RTX-6000", "rtx6000"),
        ("NVIDIA-RTX-A6000", "a6000"),
        ("NVIDIA-H20", "h20"),
        ("NVIDIA-GB10", "gb10"),
        ("Something-Else", "something"),
        ("", "unknown"),
        ("  ", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_product_name_tells_the_architecture(product: str | None, architecture: str) -> None:
    assert architecture_of(product) == architecture


def test_the_product_name_tells_mig_and_sharing() -> None:
    assert is_mig_product("NVIDIA-A100-SXM4-80GB-MIG-INVALID")
    assert is_mig_product("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb")
    assert not is_mig_product("NVIDIA-H100-80GB-HBM3")
    assert is_shared_product("NVIDIA-H100-80GB-HBM3-SHARED")
    assert not is_shared_product(None)


@pytest.mark.parametrize(
    ("provider", "labels", "resources", "gpu", "platform"),
    [
        ("aws:///eu-west-1a/i-0", {}, (), "h100", "aws"),
        ("gce://p/z/n", {}, (), "h100", "gcp"),
        ("azure:///subscriptions/0", {}, (), "h100", "azure"),
        ("ocid1.instance.oc1.x", {}, (), "h100", "oci"),
        ("openstack:///1", {}, ("nscale.com/rdmashare",), "h100", "nscale"),
        ("openstack:///1", {"topology.nks.nscale.com/accelerator-domain": "d"}, (), "gb300",
         "nscale"),
        ("nscale://eu/1", {}, (), "b200", "nscale"),
        ("openstack:///1", {}, (), "h100", "onprem"),
        ("kubevirt://n", {"node-role.together.ai/worker": ""}, (), "h100", "togetherai"),
        ("kubevirt://n", {}, (), "h100", "onprem"),
        ("metal3://n", {}, (), "gb300", "mistral"),
        ("metal3://n", {}, (), "h100", "onprem"),
        ("", {"kubernetes.io/hostname": "node-forge-4"}, (), "l40", "forge"),
        ("", {"nke.nvidia.com/site-name": "s"}, (), "gb200", "forge"),
        ("", {}, (), "h100", "onprem"),
        ("", {"eks.amazonaws.com/nodegroup": "g"}, (), "h100", "aws"),
        ("k3s://n", {}, (), "h100", "onprem"),
        ("rke2://n", {}, (), "h100", "onprem"),
        ("vsphere://4221", {}, (), "h100", "onprem"),
        ("nutanix://5c1f", {}, (), "h100", "onprem"),
        ("talos://192.0.2.7", {}, (), "h100", "onprem"),
        ("moc://gpunodepool-9", {}, (), "t4", "onprem"),
        ("baremetalhost:///openshift-machine-api/n/u", {}, (), "h200", "onprem"),
        ("", {"node.coreweave.cloud/type": "b200-8x"}, (), "b200", "coreweave"),
        ("acmecloud://r/1", {}, (), "h100", "acmecloud"),
    ],
)  # fmt: skip
def test_provider_id_and_labels_tell_the_platform(
    provider: str, labels: dict[str, str], resources: tuple[str, ...], gpu: str, platform: str
) -> None:
    guess = platform_of(provider, labels, resources, (), gpu, rules=RULES)
    assert guess.platform == platform
    assert guess.why


def test_a_doubtful_platform_carries_a_note() -> None:
    assert "another site" in str(platform_of("metal3://n", {}, (), (), "gb300", rules=RULES).note)
    assert "not known" in str(platform_of("acmecloud://n", {}, rules=RULES).note)


OWN = """
kind: Profiles
source: handbook of hall 1
platforms:
  - {platform: acme, providerID: 'openstack://', label: acme.example/*}
profiles:
  - name: acme/h100
    platform: acme
    gpu: [h100]
    gpus: 8
    nics: {resource: acme.example/nic, count: 2}
    interconnect: Ethernet
"""


def test_profile_file_tells_its_own_platform_before_ours() -> None:
    profiles = load_profiles(parse_documents(OWN, "own.yaml"))
    label = {"acme.example/hall": "1"}
    nodes = [
        *fleet(
            2, "acme", provider="openstack:///1", labels=label, allocatable={"acme.example/nic": 2}
        ),
        *fleet(2, "other", provider="openstack:///2"),
    ]
    found = survey(nodes, profiles, target=Target(node_names=("acme-1", "acme-2")))
    assert [
        (item.cohort.hardware.platform, item.profile and item.profile.name)
        for item in found.cohorts
    ] == [("acme", "acme/h100")]
    others = survey(nodes, profiles, target=Target(node_names=("other-1", "other-2")))
    assert [item.cohort.hardware.platform for item in others.cohorts] == ["onprem"]
