"""Evidence: the words of the output, where it is at hand, and what it costs to judge."""

from __future__ import annotations

import argparse
import gzip
import io

import pytest

from catalog.errors import RecordError
from steps.documents import Outcome
from steps.evaluate.core import evaluate
from steps.evaluate.quotes import MOST_OUTPUTS, lines_of, quote_runs
from steps.parse.sightings import MAX_TEXT
from steps.store.runs import Run
from tests.bench import judge as bench
from tests.builders import bar, group, measured, plan, record

LOG = "".join(f"line {number} token=abc{number}\n" for number in range(1, 200))


@pytest.mark.parametrize("zipped", [False, True])
def test_lines_are_found_by_their_number_without_secrets(*, zipped: bool) -> None:
    data = gzip.compress(LOG.encode()) if zipped else LOG.encode()
    found = lines_of(io.BytesIO(data), "output.log", {57, 199, 4000})
    assert {number: (line.line, line.text) for number, line in found.items()} == {
        57: (57, "line 57 token=***"),
        199: (199, "line 199 token=***"),
    }


def test_line_that_would_be_cut_is_not_quoted() -> None:
    text = f"{'x' * MAX_TEXT}\n{'y' * (MAX_TEXT + 1)}\nend\n"
    assert lines_of(io.BytesIO(text.encode()), "diag.json", {1, 2, 3}).keys() == {1, 3}


def test_failed_expression_and_its_reason_quote_the_output() -> None:
    pair = group(["a", "b"])
    of = plan([pair])
    run = Run(of.categories[0].parts[0], pair, record(pair), measured(120.0))
    verdict = evaluate(of, of.categories[0], [run], lambda name: LOG.encode())
    [judged] = verdict.groups
    assert judged.outcome is Outcome.FAIL
    assert judged.expressions[0].evidence[0].text == "line 57 token=***"
    assert judged.reasons[0].evidence == judged.expressions[0].evidence
    assert verdict.nodes[0].reasons[-1].evidence == judged.expressions[0].evidence


@pytest.mark.parametrize("bandwidth", [120.0, 400.0])
def test_numbers_stand_where_the_output_is_gone_or_nothing_failed(bandwidth: float) -> None:
    def gone(name: str) -> bytes:
        raise RecordError(f"{name}: gone")

    pair = group(["a", "b"])
    of = plan([pair])
    run = Run(of.categories[0].parts[0], pair, record(pair), measured(bandwidth))
    verdict = evaluate(of, of.categories[0], [run], gone)
    [line] = verdict.groups[0].expressions[0].evidence
    assert (line.file, line.line) == ("output.log", 57)
    assert line.text == f"16G, cycle 1: {bandwidth:g} GB/s busbw"


def test_fleet_that_fails_as_a_whole_is_not_read_through() -> None:
    groups = [group([f"n{number}"], f"g-{number}") for number in range(MOST_OUTPUTS + 50)]
    of = plan(groups, bars=[bar()])
    part = of.categories[0].parts[0]
    runs = [Run(part, one, record(one), measured(100.0)) for one in groups]
    reads: list[str] = []

    def read(name: str) -> bytes:
        reads.append(name)
        return LOG.encode()

    verdict = evaluate(of, of.categories[0], runs, read)
    assert len(reads) == MOST_OUTPUTS
    assert len(quote_runs(verdict.groups, read)) == len(groups)


def test_the_benchmark_of_judging_judges_what_cel_python_does() -> None:
    figures = bench.run(argparse.Namespace(nodes=200))
    assert figures["nodes that pass"] == 200
    assert figures["expressions that are true"] == figures["the same, bare"] == 2000
