"""Ranks and hosts of an output against those of its group."""

from __future__ import annotations

import re

import pytest

from catalog.hardware.hardware import Hardware
from steps.documents import Measurements
from steps.parse import parse_bytes
from steps.parse.api import ParseContext
from tests.parse.nccl_logs import log

NODES = ("gpu-a1", "gpu-a2")


def context(
    nodes: tuple[str, ...] = NODES, other_nodes: frozenset[str] = frozenset()
) -> ParseContext:
    return ParseContext(
        nodes=nodes,
        other_nodes=other_nodes,
        gpus=8 * len(nodes),
        rank_nodes={rank: nodes[rank // 8] for rank in range(8 * len(nodes))},
        hardware=Hardware(gpus_per_node=8),
    )


def parse(text: str, known: ParseContext | None = None) -> Measurements:
    return parse_bytes(text.encode(), "log", known or context(), strict=True)


def effects(found: Measurements) -> dict[str, str]:
    return {item.code: item.effect.value for item in found.findings}


def without_ranks(*ranks: int) -> str:
    return "".join(
        line
        for line in log().splitlines(keepends=True)
        if not re.match(rf"#  Rank +(?:{'|'.join(map(str, ranks))}) ", line)
    )


def info(rank: int, ranks: int) -> str:
    return (
        f"{NODES[rank // 8]}:71:72 [{rank % 8}] NCCL INFO ncclCommInitRank comm 0x5c rank {rank} "
        f"nranks {ranks} cudaDev {rank % 8} busId 1b000 - Init COMPLETE"
    )


class TestRanks:
    def test_all_planned_ranks_find_nothing(self) -> None:
        assert effects(parse(log(before=[info(rank, 16) for rank in range(16)]))) == {}

    @pytest.mark.parametrize(
        ("ranks", "nodes"),
        [
            ((15,), {"gpu-a2"}),
            ((3,), {"gpu-a1"}),
            ((4, 5, 6, 7, 12, 13, 14, 15), {"gpu-a1", "gpu-a2"}),
            ((0, 1, 2, 3, 4, 5, 6, 7), {"gpu-a1"}),
        ],
        ids=["the last", "one inside", "half of each node", "a whole node"],
    )
    def test_ranks_that_are_absent_from_the_devices_name_their_node(
        self, ranks: tuple[int, ...], nodes: set[str]
    ) -> None:
        (item,) = parse(without_ranks(*ranks)).findings
        assert (item.code, item.effect) == ("GPU_MISSING", "inconclusive")
        assert {entity.node for entity in item.entities} == nodes

    def test_a_rank_that_only_the_log_of_nccl_names_is_absent_from_the_devices(self) -> None:
        text = without_ranks(15).replace("#\n", info(15, 16) + "\n#\n", 1)
        assert effects(parse(text)) == {"GPU_MISSING": "inconclusive"}

    @pytest.mark.parametrize("nodes", [NODES[:1], (*NODES, "gpu-a3")])
    def test_another_number_of_nodes_is_a_wrong_launch(self, nodes: tuple[str, ...]) -> None:
        known = effects(parse(log(nodes=nodes)))
        assert known["INFRA_BAD_ARGS"] == "inconclusive"
        assert "GPU_MISSING" not in known

    def test_one_gpu_on_each_node_is_a_wrong_launch(self) -> None:
        lines = [
            re.sub(r"Rank +8 ", "Rank  1 ", line)
            for line in without_ranks(*range(1, 8), *range(9, 16)).splitlines()
        ]
        known = effects(parse("\n".join(lines) + "\n"))
        assert known["INFRA_BAD_ARGS"] == "inconclusive"

    def test_fewer_gpus_than_the_profile_has_are_found_without_a_plan(self) -> None:
        assert effects(parse(log(), ParseContext(hardware=Hardware(gpus_per_node=4)))) == {
            "INFRA_BAD_ARGS": "inconclusive"
        }
        assert effects(parse(log(), ParseContext(hardware=Hardware(gpus_per_node=8)))) == {}

    def test_the_communicator_tells_where_the_devices_are_not_listed(self) -> None:
        text = without_ranks(*range(16)).replace("#\n", info(0, 8) + "\n#\n", 1)
        assert effects(parse(text))["INFRA_BAD_ARGS"] == "inconclusive"

    def test_a_table_alone_does_not_say_where_it_ran(self) -> None:
        text = "".join(line + "\n" for line in log().splitlines() if "Rank" not in line)
        assert effects(parse(text)) == {"RANKS_UNKNOWN": "note"}
        assert effects(parse(text, ParseContext())) == {}


class TestHosts:
    def test_hosts_of_the_group_in_any_order_find_nothing(self) -> None:
        assert effects(parse(log(nodes=NODES[::-1]))) == {}

    def test_short_names_are_the_full_names_of_nodes(self) -> None:
        found = parse(
            log(nodes=NODES[::-1]), context(("gpu-a1.rack.example", "gpu-a2.rack.example"))
        )
        assert effects(found) == {}
        # by name, not by the order of ranks
        assert found.ranks[0].node == "gpu-a2.rack.example"

    def test_an_output_of_other_nodes_of_the_plan_proves_nothing(self) -> None:
        found = parse(log(), context(("gpu-b1", "gpu-b2"), frozenset(NODES)))
        assert effects(found) == {"HOSTS_DIFFER": "inconclusive"}
        assert {place.node for place in found.ranks} == set(NODES)

    def test_a_strange_host_beside_a_node_proves_nothing(self) -> None:
        assert effects(parse(log(), context(("gpu-a1", "gpu-b2")))) == {
            "HOSTS_DIFFER": "inconclusive"
        }

    def test_names_of_pods_are_joined_by_the_launcher_and_noted(self) -> None:
        found = parse(log(nodes=("run-worker-0", "run-worker-1")))
        assert effects(found) == {"HOSTS_DIFFER": "note"}
        assert {place.node for place in found.ranks} == set(NODES)

    def test_names_that_cannot_be_joined_prove_nothing(self) -> None:
        mixed = log(nodes=("pod-x", "pod-y")).replace("pod-x device  3", "pod-y device  3")
        assert effects(parse(mixed))["HOSTS_DIFFER"] == "inconclusive"

    def test_nothing_is_compared_where_no_nodes_are_known(self) -> None:
        assert effects(parse(log(), ParseContext())) == {}
