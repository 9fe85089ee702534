"""From end to end: a node that is a tenth slower than its peers, which no absolute bar sees."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from pipelines.cli.app import app
from steps.documents import NodeStatus, Report, load

FLEET = """\
apiVersion: readiness/v1
kind: Fleet
metadata: {name: outlier}
spec:
  source: simulated
  seed: 23
  start: 2026-06-01T08:00:00Z
  nodes:
  - names: n-[01-08]
  faults:
  - {kind: slow-link, node: n-06, factor: 0.9}
"""
CERTIFICATION = """\
apiVersion: readiness/v1
kind: Certification
metadata: {name: outlier}
spec:
  stage: burn-in
  categories:
  - {domain: communication, variant: nccl-all-reduce, options: {nodesPerJob: 2, maxBytes: 1G}}
"""


def test_outlier_is_found_by_pairs_and_its_partner_is_cleared(tmp_path: Path) -> None:
    fleet, asked, out = tmp_path / "fleet.yaml", tmp_path / "asked.yaml", tmp_path / "out"
    fleet.write_text(FLEET, encoding="utf-8")
    asked.write_text(CERTIFICATION, encoding="utf-8")
    result = CliRunner().invoke(
        app, ["certify", str(asked), "--fleet", str(fleet), "--out", str(out), "--quiet"]
    )
    assert result.exit_code == 1, result.output
    report = load((out / "report.json").read_bytes(), Report, "report.json")
    bad = {node.node: node for node in report.nodes if node.status is not NodeStatus.READY}
    assert set(bad) == {"n-06"}
    assert bad["n-06"].reason == "ThresholdViolation"
    codes = {reason.code for reason in bad["n-06"].reasons}
    assert codes == {"OUTLIER"}
    [quoted] = [line.text for reason in bad["n-06"].reasons for line in reason.evidence[:1]]
    assert quoted.split()[0] == "1073741824"
    kept = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert kept["result"] == "FAIL"
