from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from catalog.errors import InputError
from steps.documents import Group, RunOutcome
from steps.fleets.fleet import Fleet, load_fleet
from tests.fleets.jobs import ALL_REDUCE, START, make_job

HEAD = """\
apiVersion: readiness/v1
kind: Fleet
metadata: {name: kept}
spec:
  source: recorded
  nodes: [{names: 'n-[1-4]'}]
  outputs:
"""
PAIR = f"category: {ALL_REDUCE}, nodes: [n-1, n-2]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    for name in ("a.txt", "b.txt", "c.txt", "logs/a.txt", "kernel.log"):
        (tmp_path / name).write_bytes(f"text of {name}\n".encode())
    return tmp_path


def load(folder: Path, *outputs: str) -> Fleet:
    path = folder / "fleet.yaml"
    path.write_text(HEAD + "".join(f"  - {{{text}}}\n" for text in outputs), encoding="utf-8")
    return load_fleet(path)


def text_of(fleet: Fleet, **job: object) -> list[str]:
    result = fleet.run(make_job(**job))  # type: ignore[arg-type]
    assert [log.name for log in result.record.logs] == list(result.logs)
    return [data.decode().strip() for data in result.logs.values()]


def test_a_job_gets_the_output_of_its_category_and_nodes_in_any_order(folder: Path) -> None:
    fleet = load(
        folder,
        f"{PAIR}, file: a.txt, exitCode: 0",
        f"category: {ALL_REDUCE}, nodes: [n-3, n-4], file: b.txt",
        "category: diagnostics/dcgm-level1, nodes: n-1, file: c.txt",
    )
    assert text_of(fleet, nodes=("n-2", "n-1")) == ["text of a.txt"]
    assert text_of(fleet, nodes=("n-3", "n-4")) == ["text of b.txt"]
    assert text_of(fleet, category="diagnostics/dcgm-level1", nodes=("n-1",)) == ["text of c.txt"]
    assert fleet.unused() == []


def test_the_record_tells_what_was_stored(folder: Path) -> None:
    fleet = load(
        folder,
        f"{PAIR}, file: [a.txt, logs/a.txt], exitCode: 3, kernelLogs: {{n-2: kernel.log}}, "
        "started: 2026-02-03T04:05:06Z, ended: 2026-02-03T04:06:00Z",
    )
    record = fleet.run(make_job()).record
    assert record.started == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert (record.ended - record.started).total_seconds() == 54
    assert (record.outcome, record.exit_code) == (RunOutcome.FAILED, 3)
    assert [failure.code for failure in record.failures] == ["WorkloadFailed"]
    assert [(log.name, log.role, log.node) for log in record.logs] == [
        ("g-0-a.txt", "output", None),
        ("g-0-2-a.txt", "output", None),
        ("g-0-kernel-n-2.log", "kernel", "n-2"),
    ]
    assert set(record.placements.values()) == {"n-1", "n-2"}
    assert fleet.start == record.started


@pytest.mark.parametrize(
    ("more", "outcome", "codes"),
    [
        ("exitCode: 0", RunOutcome.COMPLETED, []),
        ("", RunOutcome.COMPLETED, []),
        ("exitCode: 124", RunOutcome.TIMED_OUT, ["JobTimedOut"]),
        ("exitCode: 226", RunOutcome.FAILED, ["WorkloadFailed"]),
        ("outcome: timed-out", RunOutcome.TIMED_OUT, ["JobTimedOut"]),
        (
            "events: [{node: n-2, at: 2026-02-03T04:05:30Z, code: NODE_CORDONED, "
            "source: taint, text: drained}]",
            RunOutcome.HARDWARE,
            ["HardwareFailureDetected"],
        ),
    ],
)
def test_the_outcome_follows_from_what_was_noted(
    folder: Path, more: str, outcome: RunOutcome, codes: list[str]
) -> None:
    record = load(folder, f"{PAIR}, file: a.txt, {more}").run(make_job()).record
    assert record.outcome is outcome
    assert [failure.code for failure in record.failures] == codes


def test_a_group_without_output_is_a_missing_result(folder: Path) -> None:
    fleet = load(folder, f"{PAIR}, file: a.txt")
    result = fleet.run(make_job(nodes=("n-1", "n-3")))
    assert result.record.outcome is RunOutcome.STOPPED
    assert [failure.code for failure in result.record.failures] == ["RESULT_MISSING"]
    assert "n-1, n-3" in result.record.failures[0].message
    assert result.record.group.nodes == ("n-1", "n-3")
    assert result.logs == {}
    assert result.record.started == START


def test_outputs_that_no_job_asks_for_are_named(folder: Path) -> None:
    fleet = load(
        folder,
        f"{PAIR}, file: a.txt",
        f"{PAIR}, file: b.txt, iteration: 2",
        f"category: {ALL_REDUCE}, nodes: [n-3, n-4], file: [c.txt, logs/a.txt]",
    )
    fleet.run(make_job())
    says = "belongs to no planned group and was not judged"
    assert fleet.unused() == [
        f"output b.txt of {ALL_REDUCE} on n-1, n-2, iteration 2, {says}",
        f"output c.txt, logs/a.txt of {ALL_REDUCE} on n-3, n-4 {says}",
    ]


def test_an_exit_code_that_nobody_noted_stays_unknown(folder: Path) -> None:
    record = load(folder, f"{PAIR}, file: a.txt").run(make_job()).record
    assert (record.exit_code, record.outcome) == (None, RunOutcome.COMPLETED)


def test_times_that_nobody_noted_are_never_those_of_now(folder: Path) -> None:
    def start(*outputs: str) -> datetime:
        return load(folder, *outputs).start

    untimed = f"{PAIR}, file: a.txt"
    assert start(untimed) == datetime(2000, 1, 1, tzinfo=UTC)
    timed = f"category: {ALL_REDUCE}, nodes: [n-3, n-4], file: b.txt, "
    assert start(untimed, timed + "started: 2026-02-03T04:05:06Z") == datetime(
        2026, 2, 3, 4, 5, 6, tzinfo=UTC
    )
    record = load(folder, untimed).run(make_job()).record
    assert record.started == record.ended == START


def test_iterations_take_the_outputs_by_their_number(folder: Path) -> None:
    fleet = load(
        folder,
        f"{PAIR}, file: a.txt, iteration: 3",
        f"{PAIR}, file: b.txt",
        f"{PAIR}, file: c.txt, iteration: 2",
    )

    def iteration(number: int) -> list[str]:
        return text_of(fleet, group=Group(id="g", nodes=("n-1", "n-2"), iteration=number))

    assert iteration(2) == ["text of c.txt"]
    assert iteration(1) == ["text of b.txt"]
    assert iteration(3) == ["text of a.txt"]
    assert iteration(4) == []


def test_isolation_prefers_its_own_outputs(folder: Path) -> None:
    fleet = load(
        folder,
        f"{PAIR}, file: a.txt",
        f"{PAIR}, file: b.txt, purpose: isolate",
        f"category: {ALL_REDUCE}, nodes: [n-3, n-4], file: c.txt, purpose: measure",
    )
    isolate = Group(id="pair-1-0", nodes=("n-1", "n-2"), purpose="isolate")
    assert text_of(fleet, group=isolate) == ["text of b.txt"]
    assert text_of(fleet, nodes=("n-1", "n-2")) == ["text of a.txt"]
    other = Group(id="pair-1-1", nodes=("n-3", "n-4"), purpose="isolate")
    assert text_of(fleet, group=other) == []


def test_an_output_that_vanished_is_an_error_not_an_empty_log(folder: Path) -> None:
    fleet = load(folder, f"{PAIR}, file: a.txt")
    (folder / "a.txt").unlink()
    with pytest.raises(InputError, match=r"a\.txt: cannot be read"):
        fleet.run(make_job())


def test_names_of_outputs_differ_between_groups(folder: Path) -> None:
    fleet = load(
        folder,
        f"{PAIR}, file: a.txt",
        f"category: {ALL_REDUCE}, nodes: [n-3, n-4], file: logs/a.txt",
    )
    first = fleet.run(make_job(group=Group(id="g-0", nodes=("n-1", "n-2"))))
    second = fleet.run(make_job(group=Group(id="g-1", nodes=("n-3", "n-4"))))
    assert not set(first.logs) & set(second.logs)
