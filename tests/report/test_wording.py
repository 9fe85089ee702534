from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.documents import Report, Result
from steps.report.wording import (
    amount,
    coverage_line,
    fold_names,
    number_text,
    period_text,
    printable,
    result_sentence,
    source_line,
    time_text,
)
from tests.report import samples
from tests.report.reading import unfold


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["gpu-node-05"], "gpu-node-05"),
        (["gpu-node-05", "gpu-node-06"], "gpu-node-[05-06]"),
        ([f"gpu-node-{n:02}" for n in (5, 6, 8, 9, 10, 11)], "gpu-node-[05-06,08-11]"),
        (["n8", "n9", "n10", "n12"], "n[8-10,12]"),
        (["n01", "n2"], "n01, n2"),
        (["ip-10-0-1-7.ec2.internal", "ip-10-0-1-8.ec2.internal"], "ip-10-0-1-[7-8].ec2.internal"),
        (["rack1-gpu-3", "rack2-gpu-3"], "rack1-gpu-3, rack2-gpu-3"),
        (["login", "gpu1", "gpu2"], "gpu[1-2], login"),
        (["gpu1", "gpu1"], "gpu1"),
        (["a,b[1]", "a,b[2]"], "a,b[1], a,b[2]"),
        ([], ""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_names_fold_into_ranges(names: list[str], folded: str) -> None:
    assert fold_names(names) == folded


NAMES = st.from_regex(r"(gpu|h100-node|ip-10-0)-?[0-9]{1,4}(\.rack[0-9])?", fullmatch=True)


@given(st.sets(NAMES, max_size=40))
def test_folded_names_unfold_to_the_same_names(names: set[str]) -> None:
    assert sorted(unfold(fold_names(names))) == sorted(names)


@given(st.text())
def test_printable_text_has_no_control_character_and_stays_on_one_line(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not set(shown) & {"\x1b", "\x00", "\r", "\x7f", "\x9b", "\u202e", "\u2028"}
    shown.encode("utf-8")


def test_printable_leaves_ordinary_text_alone() -> None:
    assert printable("Größe 16 GiB → ok") == "Größe 16 GiB → ok"


def test_coverage_names_how_many_were_excluded_and_why() -> None:
    assert (
        coverage_line(samples.incomplete())
        == "tested 61 of 64 nodes, 3 excluded: 2 GPU count, 1 cordoned"
    )


def test_coverage_counts_a_node_once_however_many_categories_excluded_it() -> None:
    report = samples.incomplete()
    twice = tuple(
        item.model_copy(update={"category": category})
        for item in report.excluded
        for category in (samples.ALL_REDUCE, samples.DCGM)
    )
    line = coverage_line(report.model_copy(update={"excluded": twice}))
    assert line == "tested 61 of 64 nodes, 3 excluded: 2 GPU count, 1 cordoned"


def in_part(*, out: bool) -> Report:
    """Two nodes were left out by one category; with ``out`` three were left out by all."""
    report = samples.incomplete() if out else samples.all_pass()
    left_out = [
        node.model_copy(update={"categories": dict(list(node.categories.items())[1:])})
        for node in report.nodes[:2]
    ]
    nodes = (*left_out, *report.nodes[2:])
    return report.model_copy(update={"result": Result.INCOMPLETE, "nodes": nodes})


def test_coverage_tells_nodes_that_some_category_left_out() -> None:
    assert coverage_line(in_part(out=False)) == "tested 8 of 8 nodes; 2 not in every category"


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (samples.all_pass(), "every targeted node is ready"),
        (samples.eight_nodes(), "2 of 8 nodes failed"),
        (samples.incomplete(), "what was tested is ready, but 3 of 64 nodes are not covered"),
        (
            in_part(out=False),
            "what was tested is ready, but 2 of 8 nodes are not covered by every category",
        ),
        (
            in_part(out=True),
            "what was tested is ready, but 3 of 64 nodes are not covered and 2 of 64 nodes are not "
            "covered by every category",
        ),
        (
            samples.inconclusive(),
            "nothing is proven bad, but 51 of 64 nodes are not proven good",
        ),
    ],
    ids=["pass", "fail", "incomplete", "in part", "incomplete and in part", "inconclusive"],
)
def test_result_is_explained_in_a_sentence(report: Report, sentence: str) -> None:
    assert result_sentence(report) == sentence


def test_only_a_real_run_needs_no_note_on_its_source() -> None:
    assert source_line(samples.all_pass()) is None
    assert str(source_line(samples.eight_nodes())).startswith("SIMULATED: no hardware was tested")
    assert str(source_line(samples.inconclusive())).startswith("RECORDED: nothing ran now")


def test_times_are_printed_in_utc() -> None:
    moment = datetime(2026, 3, 2, 6, 5, 6, tzinfo=timezone(timedelta(hours=2)))
    assert time_text(moment) == "2026-03-02 04:05:06 UTC"
    assert time_text(moment.astimezone(UTC)) == "2026-03-02 04:05:06 UTC"
    assert time_text(moment.replace(tzinfo=None)) == "2026-03-02 06:05:06"


def test_period_is_that_between_the_moments_shown() -> None:
    start = datetime(2026, 3, 2, 9, 0, 0, tzinfo=UTC)
    end = datetime(2026, 3, 2, 11, 16, 16, 800_000, tzinfo=UTC)
    shown = "2026-03-02 09:00:00 UTC to 2026-03-02 11:16:16 UTC, 2h16m16s"
    assert period_text(start, end) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (8, "8"), (61.3, "61.3"), (469.312, "469.3"), (1234.56, "1235"), (0.0001, "0.0001")],
)
def test_numbers_have_four_digits_and_no_exponent(value: float, text: str) -> None:
    assert number_text(value) == text


def test_amounts_carry_their_unit_once() -> None:
    assert amount("GB/s", 61.3, 467.5) == "61.3 to 467.5 GB/s"
    assert amount("ratio", 0.021) == "2.1 %"
    assert amount("count", 8) == "8"
