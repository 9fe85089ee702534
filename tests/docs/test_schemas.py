"""The published schemas are those of the models, and real documents satisfy them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from catalog.bars.bar_file import bar_documents, read_bars
from catalog.certification import load_certification
from pipelines.local import certify
from pipelines.schemas import DOCUMENTS, published, schema_text
from steps.fleets.fleet import load_fleet
from steps.store.store import DirectoryStore

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_published_schema_is_up_to_date(kind: str) -> None:
    """Run ``python -m pipelines.schemas`` after a change of the models."""
    assert published(kind) == schema_text(kind)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("out")
    loaded, source = load_certification(EXAMPLES / "p5-certification.yaml")
    certify(loaded, load_fleet(EXAMPLES / "p5-fleet.yaml"), DirectoryStore(root), text=source)
    return root


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("Plan", "plan.json"),
        ("RunRecord", "records/*/*.json"),
        ("Measurements", "measurements/*/*.json"),
        ("Verdict", "verdicts/*.json"),
        ("Report", "report.json"),
    ],
)
def test_documents_of_a_run_satisfy_their_schema(out: Path, kind: str, pattern: str) -> None:
    schema = json.loads(published(kind))
    files = list(out.glob(pattern))
    assert files
    for file in files:
        jsonschema.validate(json.loads(file.read_text("utf-8")), schema)


@pytest.mark.parametrize("name", ["fleet.yaml", "p5-fleet.yaml", "recorded/fleet.yaml"])
def test_example_fleet_satisfies_its_schema(name: str) -> None:
    document = yaml.safe_load((EXAMPLES / name).read_text("utf-8"))
    jsonschema.validate(
        json.loads(json.dumps(document, default=str)), json.loads(published("Fleet"))
    )


def test_example_of_a_bar_file_satisfies_its_schema_and_holds_where_it_says() -> None:
    file = EXAMPLES / "bars.yaml"
    jsonschema.validate(yaml.safe_load(file.read_text("utf-8")), json.loads(published("Bars")))
    assert len(read_bars(bar_documents([file])).bars) == 2


@pytest.mark.parametrize(
    "file", sorted((ROOT / "catalog" / "hardware" / "profiles").glob("*.yaml")), ids=str
)
def test_shipped_profiles_satisfy_the_schema_of_a_profile_file(file: Path) -> None:
    jsonschema.validate(
        yaml.safe_load(file.read_text("utf-8")), json.loads(published("ProfileFile"))
    )


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*certification.yaml")), ids=str)
def test_examples_satisfy_the_schema_of_a_certification(file: Path) -> None:
    jsonschema.validate(
        yaml.safe_load(file.read_text("utf-8")), json.loads(published("Certification"))
    )


def test_schema_refuses_a_misspelt_field() -> None:
    data = yaml.safe_load((EXAMPLES / "certification.yaml").read_text("utf-8"))
    data["spec"]["stages"] = data["spec"].pop("stage")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json.loads(published("Certification")))
