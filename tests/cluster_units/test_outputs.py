"""The outputs of a gang: no pod costs another its output, and hundreds are read in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from catalog.entries.entry import Launcher
from catalog.errors import ClusterError
from steps.cluster.api.client import Object
from steps.cluster.watching.outputs import Outputs
from tests.builders import setting
from tests.cluster_units.fake import FakeCluster
from tests.cluster_units.running import job

MANY = tuple(f"gpu-{number:03d}" for number in range(60))


def pods(state: Object) -> list[Object]:
    return [
        {
            "metadata": {"name": f"pod-{name}"},
            "spec": {"nodeName": name},
            "status": {"containerStatuses": [{"name": "tool", "state": state}]},
        }
        for name in MANY
    ]


def outputs(cluster: FakeCluster) -> Outputs:
    options = {"startupStallTimeoutSeconds": setting(0.2), "stallTimeoutSeconds": setting(0.2)}
    what = job(Launcher.TORCHRUN, MANY, "training/nemotron5-8b", options=options)
    return Outputs(cluster, what, len(MANY), datetime.now(UTC))


def test_output_of_a_node_that_is_gone_costs_no_other_its_output() -> None:
    class OneGone(FakeCluster):
        def logs(self, pod: str, *_: object, follow: bool = False, **__: Any) -> Iterator[bytes]:
            if pod.endswith("000"):
                raise ClusterError("dial tcp 10.0.0.1:10250: connect: no route to host")
            yield b"2026-03-04T05:06:07.000000001Z hello\n"
            if follow:
                raise ClusterError("nothing for 30 s")
            time.sleep(0.05)

    found = outputs(OneGone())
    found.follow(pods({"running": {}}))
    time.sleep(0.2)
    found.finish(pods({"terminated": {"exitCode": 1}}), 2.5)
    files, logs = found.collect()
    assert [file.node for file in files if file.truncated] == ["gpu-000"]
    assert sum(data == b"hello\n" for data in logs.values()) == len(MANY) - 1


def test_outputs_of_a_big_gang_are_read_in_time() -> None:
    class Slow(FakeCluster):
        def logs(self, *_: object, **__: object) -> Iterator[bytes]:
            time.sleep(0.05)
            yield b"2026-03-04T05:06:07.000000001Z > compiling kernels ...\n"

    found = outputs(Slow())
    found.follow(pods({"running": {}}))
    time.sleep(0.3)
    before = time.monotonic()
    assert found.stall() is not None
    assert time.monotonic() - before < 1.5
    found.finish(pods({"running": {}}), 0)
