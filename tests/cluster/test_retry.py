"""Going on after a stop: `argo retry` runs again what was stopped, off the nodes of its group."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster import dress
from tests.cluster.lab import Lab
from tests.cluster.product import Product, certification

pytestmark = pytest.mark.cluster


def run_pods(product: Product, name: str) -> list[dict[str, Any]]:
    """Return what Argo knows of the run step's pods, first started first."""
    nodes = product.workflow(name)["status"]["nodes"].values()
    pods = [node for node in nodes if node.get("templateName") == "run" and node["type"] == "Pod"]
    return sorted(pods, key=lambda node: (node["startedAt"], node["name"]))


def test_retry_of_a_stopped_certification_runs_its_group_again(lab: Lab, product: Product) -> None:
    lab.dress_all(dress.ONPREM_H100)
    text = certification("stopped-and-retried", nodes=["node-0"], pause_ms=100)
    name = product.submit(text, wait=False)
    product.wait_for_workers(1, name)
    lab.argo("stop", name, "-n", product.namespace)
    product.wait(name)
    assert product.phase(name) == "Failed", product.told_by(name)
    # For Argo the step that was stopped has not succeeded, or a retry would leave it out.
    assert run_pods(product, name)[-1]["phase"] == "Failed", product.told_by(name)
    product.wait_clean(name)
    lab.argo("retry", name, "-n", product.namespace)
    product.wait(name)
    assert product.phase(name) == "Succeeded", product.told_by(name)
    assert product.report(name)["result"] == "PASS", product.told_by(name)
    # Whatever came to the node under test by chance has handed over.
    last = run_pods(product, name)[-1]
    assert (last["phase"], last["hostNodeName"] == "node-0") == ("Succeeded", False)
    product.wait_clean(name)
