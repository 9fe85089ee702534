"""What `argo lint` does not see, and what would hang, lose a failed item or blame the wrong one."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from catalog.entries.entry import builtin_entries
from catalog.reading.quantity import parse_duration
from pipelines.render import Rendering, render
from steps.isolate.core import MAX_ROUNDS
from tests.templates.argo import (
    ENDS,
    Template,
    arguments,
    called,
    conditions,
    references,
    templates,
    workflow_templates,
)

MANIFESTS = render(Rendering(artifact_repository="default"))
TEMPLATES = templates(MANIFESTS)
CONTAINERS = [item for item in TEMPLATES if "container" in item.data]
DAGS = [item for item in TEMPLATES if "dag" in item.data]
WORKFLOWS = workflow_templates(MANIFESTS)

# Functions and operators of Argo's expression language; a task of such a name breaks `depends`.
BUILTINS = {
    *("abs", "all", "and", "any", "bitand", "bitor", "bitxor", "ceil", "concat", "contains"),
    *("count", "date", "duration", "endswith", "false", "filter", "find", "first", "flatten"),
    *("float", "floor", "get", "in", "int", "join", "keys", "last", "len", "let", "lower", "map"),
    *("matches", "max", "mean", "median", "min", "nil", "none", "not", "now", "one", "or"),
    *("reduce", "repeat", "replace", "result", "reverse", "round", "sort", "split", "sprig"),
    *("string", "sum", "take", "timezone", "trim", "true", "type", "uniq", "upper", "values"),
}


def by_id(item: Template) -> str:
    return item.id


def by_name(workflow: dict[str, Any]) -> str:
    return str(workflow["metadata"]["name"])


@pytest.mark.parametrize("template", CONTAINERS, ids=by_id)
def test_every_container_says_what_it_runs_and_for_how_long(template: Template) -> None:
    container = template.data["container"]
    assert container["command"] == ["python", "-m", "steps"]
    assert re.fullmatch(r"readiness-steps:\d+\.\d+\.\d+", container["image"])
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["resources"]["limits"].keys() == {"cpu", "memory"}
    timeout = template.data["timeout"]
    if timeout != "{{workflow.parameters.deadline}}":
        assert parse_duration(timeout).total_seconds() <= 3600


@pytest.mark.parametrize("template", CONTAINERS, ids=by_id)
def test_every_container_runs_without_privileges(template: Template) -> None:
    security = template.data["container"]["securityContext"]
    assert security == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    pod = template.data["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert pod["runAsUser"] != 0
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {"name": "tmp", "mountPath": "/tmp"} in template.data["container"]["volumeMounts"]


@pytest.mark.parametrize("template", TEMPLATES, ids=by_id)
def test_workflow_parameters_exist_wherever_a_template_is_called(template: Template) -> None:
    wanted = {
        name.removeprefix("workflow.parameters.")
        for name in references(template.data)
        if name.startswith("workflow.parameters.")
    }
    assert wanted <= arguments(template.workflow).keys()
    # A template that another workflow refers to finds that workflow's parameters.
    for workflow in WORKFLOWS:
        if template.id in reachable(workflow):
            assert wanted <= arguments(workflow).keys(), by_name(workflow)


def reachable(workflow: dict[str, Any]) -> set[str]:
    return _reachable(workflow["metadata"]["name"])


@cache
def _reachable(name: str) -> set[str]:
    workflow = next(item for item in WORKFLOWS if by_name(item) == name)
    start = [f"{name}/{workflow['spec']['entrypoint']}", f"{name}/{workflow['spec']['onExit']}"]
    todo = [item for item in TEMPLATES if item.id in start]
    seen: set[str] = set()
    while todo:
        item = todo.pop()
        if item.id not in seen:
            seen.add(item.id)
            todo += called(item, TEMPLATES)
    return seen


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=by_name)
def test_every_template_is_used_somewhere(workflow: dict[str, Any]) -> None:
    used = set.union(*(reachable(item) for item in WORKFLOWS))
    own = {item.id for item in TEMPLATES if item.workflow is workflow}
    assert own <= used


@pytest.mark.parametrize("template", DAGS, ids=by_id)
def test_outputs_are_read_only_after_success_and_have_defaults(template: Template) -> None:
    everything = {item.id: item for item in TEMPLATES}
    for task in template.tasks:
        for name in references(task):
            if not name.startswith("tasks."):
                continue
            match = re.fullmatch(r"tasks\.([a-z-]+)\.outputs\.parameters\.([a-z-]+)", name)
            assert match, f"{name} may wait for ever"
            producer, output = match.groups()
            # Alternatives stand in parentheses; outside them nothing but `and` is left.
            needed = re.sub(r"\([^()]*\)", "", task["depends"]).split(" && ")
            assert f"{producer}.Succeeded" in needed
            called_name = template.task(producer)["template"]
            data = everything[f"{template.workflow['metadata']['name']}/{called_name}"].data
            found = {item["name"]: item["valueFrom"] for item in data["outputs"]["parameters"]}
            assert "default" in found[output]
            assert found[output]["path"] == f"/tmp/outputs/{output}"


@pytest.mark.parametrize("template", DAGS, ids=by_id)
def test_conditions_name_tasks_and_ends_that_exist(template: Template) -> None:
    names = {task["name"] for task in template.tasks}
    for task in template.tasks:
        for name, end in conditions(task):
            assert name in names
            assert end in ENDS


@pytest.mark.parametrize("template", DAGS, ids=by_id)
def test_no_dag_fails_before_its_last_task_has_run(template: Template) -> None:
    assert template.data["dag"]["failFast"] is False
    assert len(template.leaves) == 1


@pytest.mark.parametrize(
    ("dag", "last", "needed"),
    [
        ("certify", "aggregate", {"detect"}),
        ("category", "evaluate", set()),
        ("certification", "aggregate", {"detect"}),
    ],
)
def test_the_last_task_runs_whatever_happened_before(dag: str, last: str, needed: set[str]) -> None:
    """Without a plan there is nothing to aggregate: then the exit handler reports."""
    found = [item for item in DAGS if item.data["name"] == dag]
    assert found
    for template in found:
        assert template.leaves == [last]
        ends: dict[str, set[str]] = {}
        for name, end in conditions(template.task(last)):
            ends.setdefault(name, set()).add(end)
        every_end = {"Succeeded", "Failed", "Errored", "Skipped", "Omitted"}
        assert {name for name, found in ends.items() if found == {"Succeeded"}} == needed
        assert all(ends[name] == every_end for name in ends.keys() - needed)
        # Every other task is an ancestor, so nothing still runs when the last one starts.
        assert ancestors(template, last) == {t["name"] for t in template.tasks} - {last}


def ancestors(template: Template, name: str) -> set[str]:
    parents = {parent for parent, _ in conditions(template.task(name))}
    return parents.union(*(ancestors(template, parent) for parent in parents))


def fan_out(name: str) -> tuple[Template, dict[str, Any]]:
    template = next(item for item in TEMPLATES if item.id == f"certification/{name}")
    [[step]] = template.data["steps"]
    return template, step


def test_only_what_was_asked_for_is_in_the_tree() -> None:
    """A fan-out over names; a task for each entry would show each that was not asked for."""
    for name in ("categories", "category"):
        _, step = fan_out(name)
        assert step["templateRef"] == {"name": "{{item}}", "template": "category"}
        assert "when" not in step
    for item in TEMPLATES:
        assert all("templateRef" not in task for task in item.tasks), "a DAG looks it up again"


def test_every_item_names_a_template_that_shows_its_own_name() -> None:
    found = {
        item.workflow["metadata"]["name"]: item
        for item in TEMPLATES
        if item.data["name"] == "category"
    }
    shown = {
        name: item.data["annotations"]["workflows.argoproj.io/display-name"]
        for name, item in found.items()
    }
    own = {entry.replace("/", "-"): entry.replace("/", "-") for entry in builtin_entries()}
    assert shown == {**own, "certification": "at-once"}


def test_categories_run_one_after_another_and_side_by_side_where_asked() -> None:
    template, step = fan_out("categories")
    assert template.data["parallelism"] == 1
    assert step["withParam"] == "{{inputs.parameters.in-turn}}"
    assert step["arguments"] == {
        "parameters": [{"name": "at-once", "value": "{{inputs.parameters.at-once}}"}]
    }
    template, step = fan_out("category")
    assert "parallelism" not in template.data
    assert step["withParam"] == "{{inputs.parameters.at-once}}"
    detect = next(item for item in CONTAINERS if item.id == "certification/detect")
    assert "--side-by-side=certification" in detect.data["container"]["args"]


def test_isolation_calls_itself_a_bounded_number_of_times() -> None:
    found = [item for item in DAGS if item.data["name"] == "isolation"]
    with_isolation = [e for e in builtin_entries().values() if "isolate" in e.options]
    assert len(found) == len(with_isolation)
    for template in found:
        task = template.task("next-round")
        assert task["when"] == f"{{{{inputs.parameters.round}}}} < {MAX_ROUNDS}"
        assert template.data["annotations"] == {
            "workflows.argoproj.io/display-name": "isolation-round-{{inputs.parameters.round}}"
        }


@pytest.mark.parametrize("template", TEMPLATES, ids=by_id)
def test_names_are_safe(template: Template) -> None:
    names = [template.data["name"], *(task["name"] for task in template.tasks)]
    names += [step["name"] for group in template.data.get("steps", []) for step in group]
    for name in names:
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name)
        assert name not in BUILTINS
    outputs = template.data.get("outputs", {}).get("parameters", [])
    assert "result" not in {task["name"] for task in template.tasks}
    assert len({item["name"] for item in outputs}) == len(outputs)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=by_name)
def test_every_workflow_is_bounded_and_cleans_up(workflow: dict[str, Any]) -> None:
    spec = workflow["spec"]
    assert spec["activeDeadlineSeconds"] > 0
    assert spec["ttlStrategy"]["secondsAfterCompletion"] > 0
    assert spec["podGC"]["strategy"] == "OnWorkflowCompletion"
    assert parse_duration(spec["podGC"]["deleteDelayDuration"])
    assert spec["synchronization"]["mutexes"] == [
        {"name": "readiness-{{workflow.parameters.node-pool}}"}
    ]
    exit_handler = next(item for item in TEMPLATES if item.id == f"{by_name(workflow)}/finish")
    # A DAG there would be failed by `argo stop` before its tasks have run.
    assert exit_handler.data["container"]["args"][0] == "finish"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=by_name)
def test_whoever_reports_says_the_same_of_the_whole_workflow(workflow: dict[str, Any]) -> None:
    found = [
        item.data["outputs"]["parameters"]
        for item in CONTAINERS
        if item.workflow is workflow and item.data["name"] in {"aggregate", "finish"}
    ]
    assert len(found) == 2
    assert found[0] == found[1]
    names = [item["globalName"] for item in found[0]]
    assert names == ["result", "verdict", "ready", "failed", "not-proven", "excluded", "report"]
    assert found[0][0]["valueFrom"]["default"] == "INCONCLUSIVE", "no word is no PASS"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=by_name)
def test_parameters_explain_themselves(workflow: dict[str, Any]) -> None:
    for name, parameter in arguments(workflow).items():
        assert len(parameter["description"]) > 20, name
        assert "value" in parameter, name
        if "enum" in parameter:
            assert parameter["value"] in parameter["enum"], name
    assert "enum" in arguments(workflow)["stage"]
    assert "enum" in arguments(workflow)["scale"]
    for place in (workflow["metadata"], workflow["spec"]["workflowMetadata"]):
        assert place["annotations"]["workflows.argoproj.io/title"]
        assert place["annotations"]["workflows.argoproj.io/description"]


@pytest.mark.parametrize("template", CONTAINERS, ids=by_id)
def test_only_what_happened_to_a_pod_is_tried_again(template: Template) -> None:
    name = template.data["name"]
    if name == "run":
        # Argo starts again only a step that stands on a node of its group, or died.
        assert template.data["retryStrategy"] == {
            "limit": 5,
            "retryPolicy": "Always",
            "expression": "lastRetry.exitCode in ['75', '-1']",
            "affinity": {"nodeAntiAffinity": {}},
        }
        assert "--starts={{retries}}" in template.data["container"]["args"]
        return
    if name == "aggregate":
        # `argo retry` would run it at once, since it keeps the node of a step with retries.
        assert "retryStrategy" not in template.data
        return
    retry = template.data["retryStrategy"]
    assert retry["limit"] == 2
    assert retry["expression"] == "lastRetry.exitCode not in ['2', '3']"


@pytest.mark.parametrize("template", CONTAINERS, ids=by_id)
def test_accounts_fit_what_a_step_does(template: Template) -> None:
    runner = {"detect", "run", "finish"}
    expected = "readiness-runner" if template.data["name"] in runner else "readiness-steps"
    assert template.data["serviceAccountName"] == expected


@pytest.mark.parametrize("template", CONTAINERS, ids=by_id)
def test_artifacts_are_optional_and_shown_as_they_are(template: Template) -> None:
    artifacts = template.data.get("outputs", {}).get("artifacts", [])
    expected = {"run": ["/tmp/outputs/logs"], "aggregate": ["/tmp/outputs/report.html"]}
    expected["finish"] = expected["aggregate"]
    assert [item["path"] for item in artifacts] == expected.get(template.data["name"], [])
    for item in artifacts:
        assert item["optional"] is True
        assert item["archive"] == {"none": {}}


@pytest.mark.parametrize("template", TEMPLATES, ids=by_id)
def test_templates_are_small(template: Template) -> None:
    # 128 KiB is the limit of one environment variable, where Argo puts the template.
    assert len(json.dumps(template.data)) < 8 * 1024


def test_the_groups_of_two_thousand_nodes_fit_into_a_parameter() -> None:
    groups = [{"group": f"intra-node-{number}", "nodes": 1} for number in range(2000)]
    assert len(json.dumps(groups, separators=(",", ":"))) < 128 * 1024
