"""Profiles of the user's own, on their way onto a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import InputError
from pipelines.submission import read_submission
from steps.detect.step import detect_step
from steps.documents import Plan
from steps.store.store import DirectoryStore
from tests.builders import written

EXAMPLES = Path(__file__).parents[2] / "examples"
CERTIFICATION = EXAMPLES / "certification.yaml"

PROFILES = """---
kind: Profiles
source: handbook of hall 1
rules:
  - name: hall-1
    when: {platform: onprem}
    set:
      env: {NCCL_MIN_NCHANNELS: "16"}
profiles:
  - name: acme/h100
    platform: acme
    gpu: [h100]
    gpus: 8
    nics: {resource: acme.com/nic, count: 2}
    interconnect: Ethernet
"""
BARS = """kind: Bars
source: acceptance of hall 1
bars:
  - key: busBandwidthGBps
    when: {platform: acme}
    expected: {value: 92.0}
  - key: smallMessageLatencyUs
    expression: value <= 60
"""


def carried(profiles: list[Path], bars: list[Path]) -> str:
    """Return the certification as a workflow carries it."""
    _, values = read_submission(CERTIFICATION, profiles, bars)
    return values["certification"]


def planned(text: str, folder: Path) -> Plan:
    """Return the plan that the detect step makes of what a workflow carries."""
    plan, _ = detect_step(DirectoryStore(folder), text, fleet=EXAMPLES / "fleet.yaml")
    return plan


def test_profiles_travel_with_the_certification_and_its_bars(tmp_path: Path) -> None:
    profiles = written(tmp_path, PROFILES, "profiles.yaml")
    bars = written(tmp_path, BARS, "bars.yaml")
    text = carried([profiles], [bars])
    part = planned(text, tmp_path / "store").categories[0].parts[0]
    setting = part.workload.env["NCCL_MIN_NCHANNELS"]
    assert (setting.value, setting.origin.file) == ("16", "certification")
    line = text.splitlines()[(setting.origin.line or 0) - 1]
    assert line.strip() == 'env: {NCCL_MIN_NCHANNELS: "16"}'
    own = [bar.key for bar in part.bars[0].bars if bar.origin.file == "certification"]
    assert own == ["smallMessageLatencyUs"]


def test_certification_alone_travels_as_it_is() -> None:
    assert carried([], []) == CERTIFICATION.read_text("utf-8")


@pytest.mark.parametrize(
    ("profiles", "says"),
    [
        (PROFILES.replace("kind: Profiles\n", ""), r"profiles.yaml:1: .*add `kind: Profiles`"),
        (PROFILES.replace("kind: Profiles", "kind: Bars"), r"profiles.yaml:2: .*'Profiles'"),
        (PROFILES.replace("gpus: 8", "gpuz: 8"), r"profiles.yaml:13: .*did you mean 'gpu"),
        (PROFILES.replace('"16"', "'{{x}}'"), r"profiles.yaml:8: contains '\{\{'"),
    ],
    ids=["no kind", "other kind", "misspelt", "braces"],
)
def test_profiles_that_cannot_travel_are_refused(tmp_path: Path, profiles: str, says: str) -> None:
    path = written(tmp_path, profiles, "profiles.yaml")
    with pytest.raises(InputError, match=says):
        carried([path], [])


def test_bars_may_be_about_the_platform_of_profiles_that_travel_with_them(tmp_path: Path) -> None:
    bars = written(tmp_path, BARS, "bars.yaml")
    with pytest.raises(InputError, match="acme"):
        carried([], [bars])
