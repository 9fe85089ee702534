"""Fixtures of the tests that need a cluster.

With KUBECONFIG set, that cluster is used as it is and nothing is started or stopped; ARGO_SERVER
and its like may name its Argo server. A lab that was started by hand is used and left running.
Otherwise the first test that asks starts a lab, and the end of the session stops it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from steps.cluster.api.store import ConfigMapStore
from tests.cluster import gangs
from tests.cluster.cluster import Cluster
from tests.cluster.config import PYTHON_IMAGE
from tests.cluster.lab import Lab
from tests.cluster.lifecycle import attach, down, keep_logs, up
from tests.cluster.pki import kubeconfig
from tests.cluster.product import Product, installed
from tests.cluster.state import testing_lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the test that takes the lab down be the last one, in whatever order modules are named."""
    items.sort(key=lambda item: item.path.name == "test_teardown.py")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with Argo Workflows."""
    chosen = os.environ.get("KUBECONFIG")
    if chosen and Path(chosen) != kubeconfig("admin"):
        argo = {key: value for key, value in os.environ.items() if key.startswith("ARGO_")}
        yield Cluster(Path(chosen), argo)
        return
    with testing_lab():
        running = attach()
        if running is not None and not running.state.owner_pid:
            yield running
            return
        try:
            yield up(owner_pid=os.getpid())
        finally:
            if request.session.testsfailed and attach() is not None:
                print(f"logs of the lab: {keep_logs()}")
            down()


@pytest.fixture(scope="session")
def lab(cluster: Cluster) -> Lab:
    """The lab, for tests that change its nodes or images."""
    if not isinstance(cluster, Lab):
        pytest.skip("needs the lab's own nodes; KUBECONFIG names another cluster")
    return cluster


@pytest.fixture(scope="session")
def python_image(cluster: Cluster) -> str:
    """The name of an image with Python and a shell that every node has or can fetch."""
    return cluster.load_python_image() if isinstance(cluster, Lab) else PYTHON_IMAGE


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own, in which Argo's pods may report their results."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture(scope="session")
def standin(lab: Lab) -> str:
    """The name of the CPU stand-in's image, on every node."""
    return gangs.build_standin(lab)


@pytest.fixture
def run_step(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, namespace: str) -> Iterator[None]:
    """Let the run step reach the cluster and wait only as long as suits a test.

    Whatever the test did, nothing of its runs may be left.
    """
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    for name, value in gangs.QUICK.items():
        monkeypatch.setenv(name, value)
    yield
    assert gangs.left_over(cluster, namespace) == []


@pytest.fixture
def store(run_step: None, namespace: str) -> ConfigMapStore:
    """A record store in the test's own namespace."""
    return gangs.open_store(namespace)


@pytest.fixture(scope="module")
def product(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The product, installed in a namespace of its own."""
    with installed(lab, tmp_path_factory.mktemp("manifests")) as found:
        yield found
