"""How many hosts show the network of the platform: what production asks for as a proof."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from catalog.hardware.hardware import Hardware
from steps.parse.api import ParseContext
from steps.parse.reader import parse_stream

FIXTURES = Path(__file__).parent / "fixtures" / "nccl"
IB = ("IB", "IBext_v8")
EFA = ("AWS Libfabric", "Libfabric")


def hosts(name: str, transport: tuple[str, ...], *, without: bytes = b"") -> object:
    lines = (FIXTURES / name).read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not without or without not in line]
    document = parse_stream(
        BytesIO(b"".join(kept)), name, ParseContext(hardware=Hardware(transport=transport))
    )
    figure = document.figures.get("fabricHostCount")
    return None if figure is None else figure.value


@pytest.mark.parametrize(
    ("name", "transport", "shown"),
    [
        ("all-reduce-2-nodes-ib.txt", IB, 2),
        ("all-reduce-2-nodes-ib.txt", EFA, 0),
        ("all-reduce-2-nodes-ib.txt", (), 2),
        ("socket-although-efa.txt", EFA, 0),
        ("socket-although-efa.txt", (), 0),
    ],
)
def test_hosts_with_the_network_of_the_platform_are_counted(
    name: str, transport: tuple[str, ...], shown: int
) -> None:
    assert hosts(name, transport) == shown


def test_a_host_that_says_nothing_is_not_counted() -> None:
    first = next(
        line
        for line in (FIXTURES / "all-reduce-2-nodes-ib.txt").read_bytes().splitlines()
        if b"Using network" in line
    )
    host = first.partition(b":")[0] + b":"
    assert hosts("all-reduce-2-nodes-ib.txt", IB, without=host) == 1


@pytest.mark.parametrize("transport", [IB, ()], ids=["known", "unknown"])
def test_output_that_names_no_network_has_no_count(transport: tuple[str, ...]) -> None:
    assert hosts("all-reduce-2-nodes-ib.txt", transport, without=b"NCCL INFO") is None
