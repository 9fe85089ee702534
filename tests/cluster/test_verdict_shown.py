"""What a person sees of a certification without reading a log: Argo's tree, the API's JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import dress
from tests.cluster.lab import Lab
from tests.cluster.product import SLOW, Product, certification

pytestmark = pytest.mark.cluster

ALL_REDUCE = "communication-nccl-all-reduce"


@pytest.fixture(scope="module", autouse=True)
def onprem_nodes(lab: Lab) -> None:
    lab.dress_all(dress.ONPREM_H100)


def tree(product: Product, name: str) -> list[str]:
    """Return the lines of ``argo get`` that stand for steps."""
    text = product.lab.argo("get", name, "-n", product.namespace, "--no-color")
    print(text)
    lines = text.partition("STEP ")[2].splitlines()[1:]
    return [line.rstrip() for line in lines if re.search(r"[✔✖⚠○●◷]", line)]


def outputs(product: Product, name: str) -> dict[str, str]:
    """Return the outputs of the whole workflow."""
    found = product.workflow(name)["status"].get("outputs", {}).get("parameters", [])
    return {item["name"]: item["value"] for item in found}


def nodes(product: Product, name: str, template: str) -> Iterator[dict[str, Any]]:
    """Yield Argo's nodes of a template that are pods."""
    for node in product.workflow(name)["status"]["nodes"].values():
        if node["type"] == "Pod" and node.get("templateName") == template:
            yield node


def moves(product: Product, name: str) -> int:
    """Return the lines that are more because the run step handed over to one on another node."""
    pods = len(list(nodes(product, name, "run")))
    return pods if pods > 1 else 0


def test_a_pass_is_seen_at_a_glance(product: Product, lab: Lab) -> None:
    node = lab.node_names[0]
    name = product.submit(certification("green", nodes=[node]))
    assert product.phase(name) == "Succeeded", product.told_by(name)
    assert outputs(product, name) == {
        "result": "PASS",
        "verdict": "PASS: every targeted node is ready",
        "ready": "1",
        "failed": "0",
        "not-proven": "0",
        "excluded": "0",
        "report": f"readiness report --workflow {name} --namespace {product.namespace}",
    }
    lines = tree(product, name)
    assert len(lines) <= 13 + moves(product, name), lines
    # Nothing had to be isolated; of the categories that were not asked for there is no line.
    assert [line for line in lines if "○" in line] == [
        line for line in lines if "run-pairs" in line
    ]
    assert [line for line in lines if ALL_REDUCE in line]
    [evaluate] = nodes(product, name, "evaluate")
    given = {item["name"]: item["value"] for item in evaluate["outputs"]["parameters"]}
    assert given == {"result": "PASS", "verdict": "PASS: 1 node passed"}


def test_a_failure_is_seen_with_its_node_and_number_and_reported_once(
    product: Product, lab: Lab
) -> None:
    node = lab.node_names[0]
    name = product.submit(certification("red", nodes=[node], bar="value > 100000.0"))
    assert product.phase(name) == "Failed"
    verdict = outputs(product, name)["verdict"]
    assert re.fullmatch(rf"FAIL: {node} \w+ [0-9.]+ <= 100000", verdict), product.told_by(name)
    [aggregate] = nodes(product, name, "aggregate")
    assert aggregate["message"] == f"main: Error (exit code 1): {verdict}"
    lines = tree(product, name)
    assert [line for line in lines if verdict in line]
    # Seen once: the exit handler has a look and says nothing.
    assert product.words(name).count("FAIL  1 of 1 node") == 1, product.words(name)
    [finish] = nodes(product, name, "finish")
    assert finish["phase"] == "Succeeded"


def test_categories_side_by_side_where_asked(product: Product, lab: Lab) -> None:
    text = certification("wide", nodes=[lab.node_names[0]], pause_ms=0)
    name = product.submit(text, "-p", "parallel-categories=true")
    assert product.phase(name) == "Succeeded", product.told_by(name)
    assert [line for line in tree(product, name) if "at-once" in line]


def test_wrong_input_costs_two_pods_and_leaves_a_report(product: Product) -> None:
    text = certification("wrong").replace("stage: burn-in", "stage: nonsense")
    name = product.submit(text)
    assert product.phase(name) == "Failed"
    status = product.workflow(name)["status"]
    pods = [node for node in status["nodes"].values() if node["type"] == "Pod"]
    assert sorted(node["templateName"] for node in pods) == ["detect", "finish"]
    [detect] = nodes(product, name, "detect")
    assert re.match(
        r"main: Error \(exit code 2\): certification:\d+: spec.stage", detect["message"]
    )
    shown = outputs(product, name)
    assert shown["result"] == "INCONCLUSIVE"
    assert shown["verdict"].startswith("INCONCLUSIVE: INVALID_INPUT: certification:")
    report = product.report(name)
    [[code, message]] = report["problems"]
    assert code == "INVALID_INPUT"
    assert message in detect["message"]
    tree(product, name)


def test_a_stopped_run_says_what_became_of_it(product: Product, lab: Lab) -> None:
    node = lab.node_names[0]
    name = product.submit(certification("stopped", nodes=[node], pause_ms=SLOW), wait=False)
    product.wait_for_workers(1, name)
    lab.argo("stop", name, "-n", product.namespace)
    product.wait(name)
    shown = outputs(product, name)
    assert shown["result"] in {"INCONCLUSIVE", "INCOMPLETE"}, product.told_by(name)
    assert node in shown["verdict"]
    assert len(tree(product, name)) <= 13 + moves(product, name)
    product.wait_clean(name)
