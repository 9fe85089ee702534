"""A certification on the local fleet, for tests of tools."""

from __future__ import annotations

from pathlib import Path

from catalog.certification import load_certification
from catalog.entries.entry import Entry
from pipelines.local import certify
from steps.documents import Measurements, Report, RunRecord
from steps.fleets.fleet import load_fleet
from steps.store.store import DirectoryStore


class Journey:
    """One certification of one category of a tool on two healthy machines."""

    def __init__(self, entry: Entry, root: Path, faults: str = "") -> None:
        self.entry = entry
        domain, variant = entry.id.split("/")
        (root / "c.yaml").write_text(
            "apiVersion: readiness/v1\nkind: Certification\nmetadata: {name: t}\nspec:\n"
            "  stage: bring-up\n  target: {nodeNames: [n-1, n-2]}\n"
            f"  categories: [{{domain: {domain}, variant: {variant}}}]\n",
            encoding="utf-8",
        )
        (root / "f.yaml").write_text(
            "apiVersion: readiness/v1\nkind: Fleet\nmetadata: {name: t}\nspec:\n"
            "  source: simulated\n  nodes:\n  - names: n-[1-2]\n    platform: onprem\n"
            "    gpuProduct: NVIDIA-H100-80GB-HBM3\n    gpus: 8\n"
            "    nics: {nvidia.com/mlnxnics: 8}\n" + faults,
            encoding="utf-8",
        )
        certification, text = load_certification(root / "c.yaml")
        self.store = DirectoryStore(root / "out")
        fleet = load_fleet(root / "f.yaml")
        self.report: Report = certify(certification, fleet, self.store, text=text)
        self.reads = list(self.store.list(Measurements, entry.id))
        records = list(self.store.list(RunRecord, entry.id))
        self.logs = [log.name for record in records for log in record.logs]
        self.records = records
