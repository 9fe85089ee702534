"""`readiness render`: options, certifications, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from catalog.certification import load_certification
from catalog.errors import InputError
from pipelines.cli import render as command
from pipelines.render import Rendering, Request, render
from pipelines.templates.images import STEPS_IMAGE
from steps.detect.core import make_plan
from steps.fleets.fleet import load_fleet

app = typer.Typer()
command.register(app)


@app.callback()
def _root() -> None:
    pass


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is ten times as fast

CERTIFICATION = """\
# Nightly look at the second rack.
kind: Certification
metadata:
  name: rack-2
spec:
  stage: burn-in
  limits: {deadline: 90m}
  categories:
    - domain: communication
      variant: nccl-all-reduce
"""


@pytest.fixture
def certification(tmp_path: Path) -> Path:
    path = tmp_path / "rack-2.yaml"
    path.write_text(CERTIFICATION, encoding="utf-8")
    return path


def rendered(tmp_path: Path, *arguments: str | Path) -> dict[str, list[dict[str, Any]]]:
    out = tmp_path / "out"
    words = ["render", *map(str, arguments), "--out", str(out)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return {
        str(path.relative_to(out)): list(yaml.load_all(path.read_text(encoding="utf-8"), LOADER))
        for path in out.rglob("*")
        if path.is_file()
    }


def parameters(workflow_spec: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in workflow_spec["arguments"]["parameters"]}


def test_a_certification_becomes_a_workflow_with_its_parameters(
    tmp_path: Path, certification: Path
) -> None:
    files = rendered(tmp_path, certification, "--node-pool", "rack-2")
    workflow = files["workflow-rack-2.yaml"][0]
    assert workflow["metadata"]["generateName"] == "rack-2-"
    assert workflow["spec"]["workflowTemplateRef"] == {"name": "certification"}
    assert parameters(workflow["spec"]) == {
        "certification": CERTIFICATION,
        "deadline": "90m",
        "node-pool": "rack-2",
    }
    assert workflow["spec"]["activeDeadlineSeconds"] == (90 + 60) * 60
    # `kubectl apply` refuses objects with a generated name.
    assert "workflow-rack-2.yaml" not in files["kustomization.yaml"][0]["resources"]


def test_a_schedule_makes_a_cron_workflow_that_is_not_suspended(
    tmp_path: Path, certification: Path
) -> None:
    files = rendered(
        tmp_path, certification, "--schedule", "30 1 * * 1-5", "--timezone", "Europe/Berlin"
    )
    cron = files["cronworkflows/rack-2.yaml"][0]
    assert cron["spec"]["schedules"] == ["30 1 * * 1-5"]
    assert cron["spec"]["timezone"] == "Europe/Berlin"
    assert cron["spec"]["suspend"] is False
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    assert cron["spec"]["startingDeadlineSeconds"] > 0
    assert cron["spec"]["successfulJobsHistoryLimit"] > 1
    assert cron["spec"]["failedJobsHistoryLimit"] > 1
    assert parameters(cron["spec"]["workflowSpec"])["certification"] == CERTIFICATION
    assert "cronworkflows/rack-2.yaml" in files["kustomization.yaml"][0]["resources"]


def test_shipped_cron_workflows_start_suspended(tmp_path: Path) -> None:
    files = rendered(tmp_path)
    crons = [docs[0] for name, docs in files.items() if name.startswith("cronworkflows/")]
    assert {cron["metadata"]["name"] for cron in crons} == {"burn-in-nightly", "burn-in-weekly"}
    assert all(cron["spec"]["suspend"] is True for cron in crons)
    template = files["workflowtemplates/certification.yaml"][0]
    known = {item["name"] for item in template["spec"]["arguments"]["parameters"]}
    for cron in crons:
        assert parameters(cron["spec"]["workflowSpec"]).keys() <= known


def test_namespace_and_image_reach_every_object(tmp_path: Path) -> None:
    image = "registry.example.com/readiness-steps@sha256:" + "5" * 64
    files = rendered(tmp_path, "--namespace", "gpu-ops", "--image", image)
    for docs in files.values():
        for doc in docs:
            if doc.get("kind") not in {None, "Kustomization", "ClusterRole", "ClusterRoleBinding"}:
                assert doc["metadata"]["namespace"] == "gpu-ops"
            for subject in doc.get("subjects", []):
                assert subject["namespace"] == "gpu-ops"
            for template in doc.get("spec", {}).get("templates", []):
                if "container" in template:
                    assert template["container"]["image"] == image


def test_installations_in_two_namespaces_share_no_object(tmp_path: Path) -> None:
    """Neither may overwrite the other's rights."""
    objects = [
        {
            (doc["kind"], doc["metadata"].get("namespace"), doc["metadata"]["name"])
            for docs in rendered(tmp_path / namespace, "--namespace", namespace).values()
            for doc in docs
            if "metadata" in doc and doc["kind"] != "Kustomization"
        }
        for namespace in ("gpu-ops", "research")
    ]
    assert objects[0]
    assert objects[0].isdisjoint(objects[1])


@pytest.mark.parametrize(
    ("repository", "reference"),
    [
        ("default", None),
        ("artifact-repositories", {"configMap": "artifact-repositories"}),
        ("stores/minio", {"configMap": "stores", "key": "minio"}),
    ],
)
def test_artifacts_are_rendered_only_where_asked(
    repository: str, reference: dict[str, str] | None
) -> None:
    files = render(Rendering(artifact_repository=repository))
    spec = files["workflowtemplates/diagnostics-dcgm-level1.yaml"][0]["spec"]
    assert spec.get("artifactRepositoryRef") == reference
    kept = {t["name"] for t in spec["templates"] if t.get("outputs", {}).get("artifacts")}
    assert kept == {"run", "aggregate", "finish"}
    plain = render(Rendering())["workflowtemplates/diagnostics-dcgm-level1.yaml"][0]["spec"]
    assert "artifactRepositoryRef" not in plain
    assert not any(t.get("outputs", {}).get("artifacts") for t in plain["templates"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schedule", "every night"], "no five fields"),
        (["--schedule", "61 2 * * 6"], r"'61 2 \* \* 6' has a wrong minute \(minute 0-59"),
        (["--schedule", "0 24 * * 6"], "wrong hour"),
        (["--schedule", "0 2 0 * *"], "wrong day-of-month"),
        (["--schedule", "0 2 L * *"], "wrong day-of-month"),
        (["--schedule", "0 2 30 2 *"], "wrong day-of-month"),
        (["--schedule", "0 2 * 13 *"], "wrong month"),
        (["--schedule", "0 2 * * 7"], "wrong day-of-week"),
        (["--schedule", "0 2 * * 1#2"], "wrong day-of-week"),
        (["--schedule", "*/0 2 * * 6"], "wrong minute"),
        (["--schedule", "@nightly"], "no five fields"),
        (["--schedule", "0 1 * * *", "--timezone", "Mars/Olympus"], "no time zone"),
        (["--artifact-repository", "stores/"], "names no repository"),
    ],
)
def test_mistakes_are_explained(
    tmp_path: Path, certification: Path, options: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        rendered(tmp_path, certification, *options)


@pytest.mark.parametrize(
    "schedule", ["@daily", "@every 1h30m", "*/20 0-6 1,15 jan-mar Mon-Fri", "0 */7 * * */7"]
)
def test_schedules_that_argo_reads_are_kept(
    tmp_path: Path, certification: Path, schedule: str
) -> None:
    cron = rendered(tmp_path, certification, "--schedule", schedule)["cronworkflows/rack-2.yaml"][0]
    assert cron["spec"]["schedules"] == [schedule]


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("nccl-all-reduce", "nccl-allreduce", r"rack-2.yaml:10: .*mean 'communication/nccl-all-r"),
        ("stage: burn-in", "stage: burnin", r"rack-2.yaml:6: spec.stage: .*mean 'burn-in'"),
        ("stage: burn-in", "profile: aws/h100s", r"rack-2.yaml:6: spec.profile: .*did you mean"),
        ("stage: burn-in", "maxSteps: 5", r"rack-2.yaml:6: spec.maxSteps: means nothing for any"),
        ("-all-reduce", "-all-reduce\n      options: {maxSteps: 5}", r"rack-2.yaml:11: .*nothing"),
        (
            "-all-reduce",
            "-all-reduce\n      options: {thresholds: {busBandwithGBps: value > 9}}",
            r"rack-2.yaml:11: .*did you mean 'busBandwidthGBps'",
        ),
        (
            "-all-reduce",
            "-all-reduce\n      options: {thresholds: {busBandwidthGBps: value > = 9}}",
            r"rack-2.yaml:11: .*is not valid CEL",
        ),
    ],
    ids=["category", "stage", "profile", "option", "own option", "threshold key", "CEL"],
)
def test_what_needs_no_nodes_to_be_wrong_is_refused_before_anything_is_written(
    tmp_path: Path, certification: Path, right: str, wrong: str, message: str
) -> None:
    certification.write_text(CERTIFICATION.replace(right, wrong), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        rendered(tmp_path, certification)
    assert not (tmp_path / "out").exists()


def test_a_second_rendering_with_another_image_is_told(tmp_path: Path, certification: Path) -> None:
    out = tmp_path / "out"
    image = "registry.example.com/readiness-steps:4"
    words = ["render", "--image", image, "--out", str(out)]
    again = ["render", str(certification), "--schedule", "0 2 * * 6", "--out", str(out)]
    assert CliRunner().invoke(app, words).stderr.count("warning") == 0
    assert CliRunner().invoke(app, [*again, "--image", image]).stderr.count("warning") == 0
    said = CliRunner().invoke(app, again).stderr
    assert f"had the image {image}; now they have {STEPS_IMAGE}" in said


def test_a_schedule_needs_a_certification(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a certification"):
        rendered(tmp_path, "--schedule", "0 1 * * *")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("# {{workflow.name}}", "Argo would replace"),
        ("# " + "node names " * 12_000, "KiB long"),
    ],
)
def test_texts_that_argo_cannot_carry_are_refused(
    tmp_path: Path, certification: Path, line: str, message: str
) -> None:
    certification.write_text(CERTIFICATION + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        rendered(tmp_path, certification)


def test_missing_hera_is_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys  # noqa: PLC0415

    import pipelines  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "pipelines.render", None)
    monkeypatch.delattr(pipelines, "render", raising=False)
    absent = ModuleNotFoundError("No module named 'hera'", name="hera")
    assert "readiness[argo]" in str(command._without_extra(absent))
    other = ModuleNotFoundError("No module named 'x'", name="x")
    assert command._without_extra(other) is other


def test_known_nodes_put_the_resolved_values_into_annotations() -> None:
    examples = Path(__file__).parents[2] / "examples"
    loaded, source = load_certification(examples / "p5-certification.yaml")
    fleet = load_fleet(examples / "p5-fleet.yaml")
    plan = make_plan(loaded, fleet.nodes(), source=fleet.source, text=source)
    request = Request(certification=loaded, plan=plan)
    [workflow] = render(Rendering(), request)[f"workflow-{loaded.metadata.name}.yaml"]
    annotations = workflow["metadata"]["annotations"]
    assert annotations["readiness/detected-platform"] == "aws"
    assert annotations["readiness/detected-gpu-architecture"] == "h100"
    resolved = json.loads(annotations["readiness/resolved"])
    values = resolved["communication/nccl-all-reduce"]["aws-p5.48xlarge-h100"]
    assert values["env FI_PROVIDER"]["value"] == "efa"
    assert values["env FI_PROVIDER"]["rule"]
    assert len(annotations["readiness/resolved"]) < 128 * 1024
