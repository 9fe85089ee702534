"""Tables of programs that ran beside each other without exchanging any data."""

from __future__ import annotations

import pytest

from catalog.facts.reasons import Effect
from steps.documents import Measurements
from steps.parse import parse_bytes
from tests.parse.nccl_logs import SIZES, SPEEDS, Table, config, devices, footer, log

TABLE = Table(sizes=SIZES, speeds=SPEEDS)


def _parse(text: str) -> Measurements:
    return parse_bytes(text.encode(), "all_reduce.log", strict=True)


def _tagged(text: str, tag: str) -> str:
    return "".join(f"{tag}{line}\n" for line in text.splitlines())


def _interleaved() -> str:
    """Print what two processes print that were started together, without tags."""
    lines = [config(SIZES[0], SIZES[-1])] * 2
    lines += [*devices(["gpu-c3"], 4), *devices(["gpu-c4"], 4), *TABLE.heading(), *TABLE.heading()]
    lines += [row for row in TABLE.rows() for _ in range(2)]
    lines += footer(TABLE.average()) * 2
    return "\n".join(lines) + "\n"


APART = {
    "untagged and interleaved": _interleaved(),
    "tags of mpirun": _tagged(log(nodes=["gpu-c3"]), "[1,0]<stdout>:")
    + _tagged(log(nodes=["gpu-c4"]), "[1,8]<stdout>:"),
    "tags of srun": _tagged(log(nodes=["gpu-c3"]), "0: ") + _tagged(log(nodes=["gpu-c4"]), "1: "),
}


@pytest.mark.parametrize("text", APART.values(), ids=APART.keys())
def test_tests_side_by_side_prove_nothing_about_the_network_between_them(text: str) -> None:
    found = [item for item in _parse(text).findings if item.code == "INFRA_BAD_ARGS"]
    assert [item.effect for item in found] == [Effect.INCONCLUSIVE]
    assert "2 processes" in found[0].message
    assert not found[0].entities


TOGETHER = {
    "one run": log(),
    "one run, tagged": _tagged(log(), "[1,0]<stdout>:"),
    "one after the other": log() + log(),
    "one for each node, by pdsh": _tagged(log(nodes=["gpu-c3"]), "gpu-c3: ")
    + _tagged(log(nodes=["gpu-c4"]), "gpu-c4: "),
    "a first attempt without rows": "\n".join(log().splitlines()[:20]) + "\n" + log(),
    "a first attempt, then two runs": "\n".join(log().splitlines()[:20]) + "\n" + log() + log(),
}


@pytest.mark.parametrize("text", TOGETHER.values(), ids=TOGETHER.keys())
def test_runs_on_purpose_are_no_mistake(text: str) -> None:
    assert not [item for item in _parse(text).findings if item.code == "INFRA_BAD_ARGS"]
