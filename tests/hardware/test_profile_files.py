"""Profile files: ours are sound, the user's stand beside them, mistakes are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.entries.entry import find_entry
from catalog.errors import InputError
from catalog.hardware.profile import (
    builtin_profiles,
    find_profile,
    hardware_of_profile,
    load_profiles,
    match_profile,
    profile_documents,
)
from catalog.workload.needs import Seen
from catalog.workload.resolve import Request, prepare, resolve_workload
from catalog.workload.workload import Workload
from steps.detect.core import make_plan
from tests.builders import written
from tests.detect.build import certification, fleet

MINE = """
source: https://example.com/handbook
rules:
  - name: acme/small-groups
    when: {platform: acme, nodes: {max: 4}}
    set:
      env: {NCCL_MIN_NCHANNELS: "16"}
  - name: acme/rack
    when: {platform: acme, scale: intra-rack}
    set:
      env: {NCCL_CROSS_NIC: "1"}
profiles:
  - name: acme/h100
    platform: acme
    gpu: [h100]
    gpus: 8
    nics: {resource: acme.com/nic, count: 2}
    interconnect: Ethernet
    set:
      env: {NCCL_DEBUG: WARN}
"""


def workload(path: Path, nodes: int, **options: str) -> Workload:
    loaded, source = certification(options=options)
    profiles = load_profiles(profile_documents([path]))
    profile = profiles.find("acme/h100")
    request = Request(
        entry=find_entry("communication/nccl-all-reduce"),
        certification=loaded,
        index=0,
        hardware=hardware_of_profile(profile, "h100"),
        seen=Seen(),
        profiles=profiles,
        profile=profile,
        source=source,
    )
    return resolve_workload(prepare(request), nodes)


def test_every_shipped_profile_and_rule_has_a_public_source() -> None:
    for file in builtin_profiles().files:
        for profile in file.profiles.values():
            assert profile.origin.source
            assert profile.origin.line
        for rule in file.rules:
            assert rule.assignments
            assert all(item.origin.source and item.origin.line for item in rule.assignments)


def test_every_instance_type_of_the_matrix_has_a_profile() -> None:
    types = {glob for loaded in builtin_profiles().all() for glob in loaded.profile.instance_types}
    assert {
        "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge",
        "p6-b200.48xlarge", "p6-b300.48xlarge", "p6e-gb200.36xlarge", "a3-highgpu-8g",
        "a3-megagpu-8g", "a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g",
        "Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4", "Standard_ND96isr_H100_v5",
        "Standard_ND96isr_H200_v5", "Standard_ND128isr_NDR_GB200_v6",
        "Standard_ND128isr_GB300_v6", "BM.GPU4.8", "BM.GPU.B4.8", "BM.GPU.A100-v2.8",
        "BM.GPU.H100.8", "BM.GPU.H200.8", "BM.GPU.B200.8", "BM.GPU.B300.8", "BM.GPU.GB200.4",
        "BM.GPU.GB300.4",
    } <= types  # fmt: skip


@pytest.mark.parametrize(
    ("platform", "instance", "gpu", "name"),
    [
        ("aws", "p5.48xlarge", "h100", "aws/p5.48xlarge"),
        ("aws", "p5.48xlarge", None, "aws/p5.48xlarge"),
        (None, "p5en.48xlarge", "h200", "aws/p5en.48xlarge"),
        ("aws", "p5.4xlarge", "h100", "aws/gpu"),
        ("gcp", "a3-highgpu-8g", "h100", "gcp/a3-highgpu-8g"),
        ("gcp", None, "h100", "gcp/h100"),
        ("azure", "standard_nd96isr_h100_v5", "h100", "azure/ND_H100_v5"),
        ("onprem", "any-label", "h100", "onprem/h100"),
    ],
)
def test_the_instance_type_is_tried_before_platform_and_gpu(
    platform: str | None, instance: str | None, gpu: str | None, name: str
) -> None:
    found = match_profile(platform, instance, gpu)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("platform", "instance", "gpu"),
    [("aws", "p5.48xlarge", "a100"), ("nowhere", None, "h100"), ("onprem", None, None)],
    ids=["GPU contradicts the instance type", "unknown platform", "unknown GPU"],
)
def test_nothing_fits_where_nothing_is_known(
    platform: str, instance: str | None, gpu: str | None
) -> None:
    found = match_profile(platform, instance, gpu)
    assert found is None or not found.profile.instance_types


def test_a_profile_is_found_by_name_or_instance_type() -> None:
    assert find_profile("aws/p5.48xlarge").name == "aws/p5.48xlarge"
    assert find_profile("p5.48xlarge").name == "aws/p5.48xlarge"
    assert find_profile("p6e-gb300r.36xlarge").name == "aws/p6e-gb300"
    with pytest.raises(InputError, match=r"did you mean 'p5\.48xlarge'"):
        find_profile("p5.48xlrge")


def test_a_users_profile_is_used_with_its_own_rules(tmp_path: Path) -> None:
    path = written(tmp_path, MINE)
    work = workload(path, 4)
    assert work.resources["acme.com/nic"].value == 2
    assert work.env["NCCL_MIN_NCHANNELS"].value == "16"
    assert work.env["NCCL_DEBUG"].value == "WARN"
    assert work.env["NCCL_DEBUG"].origin.file == str(path)
    assert work.env["NCCL_DEBUG"].origin.line == 20
    assert work.env["NCCL_DEBUG"].origin.source == "https://example.com/handbook"
    assert work.env["NCCL_DEBUG"].replaced[0].value == "INFO"
    assert "NCCL_MIN_NCHANNELS" not in workload(path, 5).env
    assert workload(path, 5, testScale="intra-rack").env["NCCL_CROSS_NIC"].value == "1"


def test_a_users_profile_fits_nodes_of_a_cloud_that_we_do_not_know(tmp_path: Path) -> None:
    path = written(tmp_path, MINE)
    loaded, _ = certification()
    nodes = fleet(2, provider="acme://eu/1", allocatable={"acme.com/nic": "2"})
    plan = make_plan(loaded, nodes, source="recorded", profiles=profile_documents([path]))
    assert plan.cohorts[0].hardware.profile == "acme/h100"
    assert plan.problems == ()


def test_a_users_profile_replaces_ours_of_the_same_name(tmp_path: Path) -> None:
    text = MINE.replace("acme/h100", "aws/p5.48xlarge").replace("platform: acme", "platform: aws")
    text = text.replace("gpu: [h100]", "instanceTypes: [p5.48xlarge]")
    profiles = load_profiles(profile_documents([written(tmp_path, text)]))
    found = profiles.match("aws", "p5.48xlarge", "h100")
    assert found is not None
    assert found[0].profile.interconnect == "Ethernet"


def test_a_directory_stands_for_its_files(tmp_path: Path) -> None:
    written(tmp_path, MINE)
    assert load_profiles(profile_documents([tmp_path])).find("acme/h100").name == "acme/h100"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gpus: 8", "gpuz: 8", r"mine.yaml:16: .*did you mean 'gpu"),
        ("nodes: {max: 4}", "nodse: {max: 4}", r"mine.yaml:5: .*did you mean 'nodes'"),
        ("{max: 4}", "{most: 4}", r"mine.yaml:5: .*known fields: max, min"),
        ("env: {NCCL_DEBUG", "evn: {NCCL_DEBUG", r"mine.yaml:20: .*did you mean 'env'"),
        ("gpus: 8", "gpus: zero", r"mine.yaml:16: profiles\[0\].gpus"),
        ("source: https://example.com/handbook", "x: 1", "known fields|source: is required"),
        ('"16"', '"${gpus}"', r"mine.yaml:6: .*uses \$\{gpus\}"),
        ("platform: acme, nodes", "platform: acmee, nodes", r"mine.yaml:4: .*mean 'acme'"),
        ("gpu: [h100]", "nvlink: true", "needs instanceTypes or gpu"),
        ("count: 2}", "count: 2, deviceClass: x}", "more than one of"),
    ],
    ids=[
        "profile field", "condition", "range", "section", "count", "no source", "placeholder",
        "platform", "no hardware", "two ways",
    ],
)  # fmt: skip
def test_a_mistake_is_one_error_with_file_line_and_suggestion(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in MINE
    path = written(tmp_path, MINE.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        load_profiles(profile_documents([path]))
