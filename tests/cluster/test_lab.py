"""The lab does what tests of the product rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.dress import AWS_P5, ONPREM_H100
from tests.cluster.lab import Lab
from tests.cluster.shell import LabError

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"


def indexed_job(name: str, image: str, script: str, pods: int = 2) -> list[dict[str, Any]]:
    """A Job whose pods find each other by name and take whole nodes."""
    container = {
        "name": "main",
        "image": image,
        "command": ["python3", "-c", script],
        "resources": {"limits": {GPU: "8"}},
    }
    pod = {
        "subdomain": name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": {"gang": name}}, "spec": pod},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "selector": {"gang": name}, "publishNotReadyAddresses": True},
    }
    return [service, job]


def greet(name: str) -> str:
    """Each pod reaches the other on a port, and stays until the other has reached it."""
    return f"""
import os, socket, threading, time
index = int(os.environ["JOB_COMPLETION_INDEX"])
server = socket.create_server(("", 4711))
greeted = threading.Event()
threading.Thread(target=lambda: (server.accept(), greeted.set()), daemon=True).start()
peer = f"{name}-{{1 - index}}.{name}"
for _ in range(200):
    try:
        socket.create_connection((peer, 4711), timeout=2).close()
        break
    except OSError as error:
        problem = error
        time.sleep(0.2)
else:
    raise SystemExit(f"{{peer}}: {{problem}}")
print("reached", peer, flush=True)
if not greeted.wait(80):
    raise SystemExit(f"{{peer}} did not come")
"""


FAN_OUT = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"generateName": "fan-out-"},
    "spec": {
        "entrypoint": "main",
        "activeDeadlineSeconds": 280,
        "templates": [
            {
                "name": "main",
                "dag": {
                    "tasks": [
                        {"name": "plan", "template": "plan"},
                        {
                            "name": "each",
                            "template": "each",
                            "depends": "plan",
                            "arguments": {"parameters": [{"name": "n", "value": "{{item.n}}"}]},
                            "withParam": "{{tasks.plan.outputs.result}}",
                        },
                    ]
                },
            },
            {
                "name": "plan",
                "container": {
                    "image": "IMAGE",
                    "command": ["python3", "-c", 'print(\'[{"n": 1}, {"n": 2}]\')'],
                },
            },
            {
                "name": "each",
                "inputs": {"parameters": [{"name": "n"}]},
                "outputs": {
                    "parameters": [{"name": "square", "valueFrom": {"path": "/tmp/square"}}]
                },
                "container": {
                    "image": "IMAGE",
                    "command": ["sh", "-c", "echo $(({{inputs.parameters.n}} ** 2)) > /tmp/square"],
                },
            },
        ],
    },
}


def fan_out(image: str) -> str:
    return json.dumps(FAN_OUT).replace("IMAGE", image).replace("** 2", "* {{inputs.parameters.n}}")


@pytest.fixture(scope="module", autouse=True)
def p5_nodes(lab: Lab) -> None:
    """Other modules dress the nodes as they need them, and leave them so."""
    for name in lab.node_names:
        lab.dress(name, AWS_P5)


def test_nodes_look_like_gpu_machines(lab: Lab) -> None:
    lab.wait_ready()
    nodes = lab.get("nodes")["items"]
    assert len(nodes) == 2
    for node in nodes:
        assert node["status"]["allocatable"][GPU] == "8"
        assert node["status"]["allocatable"]["vpc.amazonaws.com/efa"] == "32"
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "p5.48xlarge"
    assert len({node["spec"]["providerID"] for node in nodes}) == 2


def test_gang_spreads_over_nodes_and_reaches_itself_by_name(
    lab: Lab, python_image: str, namespace: str
) -> None:
    lab.apply(*indexed_job("gang", python_image, greet("gang")), namespace=namespace)
    lab.wait_job("gang", namespace)
    pods = lab.get("pods", "-n", namespace)["items"]
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-0", "node-1"]
    for pod in pods:
        assert "reached gang-" in lab.kubectl("logs", pod["metadata"]["name"], "-n", namespace)


def test_gpus_are_counted(lab: Lab, python_image: str, namespace: str) -> None:
    lab.apply(
        *indexed_job("big", python_image, "import time; time.sleep(600)", 3), namespace=namespace
    )
    lab.wait_pods(namespace, {"Running": 2, "Pending": 1})
    lab.kubectl("delete", "job", "big", "-n", namespace, "--timeout=30s")


@pytest.mark.parametrize("server", [False, True], ids=["kubernetes-api", "argo-server"])
def test_workflow_with_fan_out_succeeds(
    cluster: Cluster, python_image: str, namespace: str, *, server: bool
) -> None:
    if server and cluster.argo_server is None:
        pytest.skip("ARGO_SERVER names no server")
    words = ["submit", "-n", namespace, "--wait", "-o", "name", "-"]
    said = cluster.argo(*words, stdin=fan_out(python_image), server=server, timeout=300)
    name = said.split()[0]
    status = cluster.get("workflow", name, "-n", namespace)["status"]
    assert status["phase"] == "Succeeded", status
    squares = [
        parameter["value"]
        for node in status["nodes"].values()
        for parameter in node.get("outputs", {}).get("parameters", [])
        if parameter["name"] == "square"
    ]
    assert sorted(squares) == ["1", "4"]


def test_failed_workflow_shows_in_the_exit_code(
    cluster: Cluster, python_image: str, namespace: str
) -> None:
    broken = fan_out(python_image).replace("echo", "false; exit 3; echo")
    done = cluster.try_argo("submit", "-n", namespace, "--wait", "-", stdin=broken, timeout=300)
    assert done.returncode != 0


def test_workflow_pods_without_a_role_cannot_read_nodes(cluster: Cluster, namespace: str) -> None:
    account = f"system:serviceaccount:{namespace}:default"
    done = cluster.try_kubectl("auth", "can-i", "list", "nodes", "--as", account)
    assert done.stdout.strip() == "no"


def test_pods_reach_the_api_server_with_their_own_token(
    lab: Lab, python_image: str, namespace: str
) -> None:
    script = """
import ssl, urllib.request
home = "/var/run/secrets/kubernetes.io/serviceaccount/"
request = urllib.request.Request("https://kubernetes.default.svc/version")
request.add_header("Authorization", "Bearer " + open(home + "token").read())
context = ssl.create_default_context(cafile=home + "ca.crt")
print(urllib.request.urlopen(request, context=context, timeout=10).read().decode())
"""
    lab.apply(*indexed_job("caller", python_image, script, 1), namespace=namespace)
    lab.wait_job("caller", namespace)
    assert "gitVersion" in lab.kubectl("logs", "job/caller", "-n", namespace)


def test_cordoned_node_gets_no_pods(lab: Lab, python_image: str, namespace: str) -> None:
    lab.cordon("node-0")
    try:
        lab.apply(*indexed_job("one", python_image, "print('here')", 1), namespace=namespace)
        lab.wait_job("one", namespace)
        pods = lab.get("pods", "-n", namespace)["items"]
        assert [pod["spec"]["nodeName"] for pod in pods] == ["node-1"]
    finally:
        lab.uncordon("node-0")


def test_node_can_be_dressed_as_another_machine_and_back(lab: Lab) -> None:
    try:
        lab.dress("node-1", ONPREM_H100)
        node = lab.get("node", "node-1")
        assert "providerID" not in node["spec"]
        assert node["status"]["allocatable"]["rdma/ib"] == "8"
        assert "vpc.amazonaws.com/efa" not in node["status"]["allocatable"]
        assert "node.kubernetes.io/instance-type" not in node["metadata"]["labels"]
    finally:
        lab.dress("node-1", AWS_P5)
    node = lab.get("node", "node-1")
    assert node["spec"]["providerID"].startswith("aws://")
    assert "rdma/ib" not in node["status"]["allocatable"]


def test_node_can_lose_a_gpu(lab: Lab) -> None:
    try:
        lab.set_resources("node-0", {GPU: "7"})
        assert lab.get("node", "node-0")["status"]["allocatable"][GPU] == "7"
    finally:
        lab.set_resources("node-0", {GPU: "8"})


def test_stopped_kubelet_makes_the_node_not_ready_and_a_start_heals_it(lab: Lab) -> None:
    try:
        lab.stop_kubelet("node-1", wait=True)
        lab.wait_ready("node-0", timeout=1)
    finally:
        lab.start_kubelet("node-1")
    assert lab.get("node", "node-1")["status"]["allocatable"][GPU] == "8"


def test_killed_node_comes_back(lab: Lab, python_image: str, namespace: str) -> None:
    try:
        lab.kill_node("node-1", wait=True)
    finally:
        lab.start_node("node-1")
    lab.apply(*indexed_job("again", python_image, greet("again")), namespace=namespace)
    lab.wait_job("again", namespace)


def test_waiting_too_long_says_what_is_wrong(lab: Lab, namespace: str) -> None:
    lab.apply(*indexed_job("lost", "docker.io/library/nothing:here", "", 1), namespace=namespace)
    lab.wait_pods(namespace, {"Pending": 1})
    with pytest.raises(LabError, match=r"(?s)timed out.*nothing:here"):
        lab.wait_job("lost", namespace, timeout=5)
