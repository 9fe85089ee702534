"""Documents survive the store unchanged, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import RecordError
from steps.documents import Plan, RunRecord, dump
from steps.store.store import DirectoryStore
from tests.builders import ALL_REDUCE, group, plan, record

WHOLE = group(["node-a", "node-b"])


def test_document_comes_back_as_it_was(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put(plan([WHOLE]))
    store.put(record(WHOLE), ALL_REDUCE, WHOLE.id)
    assert store.get(Plan) == plan([WHOLE])
    assert list(store.list(RunRecord, ALL_REDUCE)) == [record(WHOLE)]


def test_document_that_was_never_written_is_none(tmp_path: Path) -> None:
    assert DirectoryStore(tmp_path).get(Plan) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("readiness/v1", "readiness/v2"),
        lambda text: text.replace('"kind": "Plan"', '"kind": "Report"'),
        lambda text: text.replace('"stage"', '"stages"'),
        lambda _: "",
    ],
    ids=["half", "version", "kind", "unknown-field", "empty"],
)
def test_damaged_document_is_a_record_error_with_its_name(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    (tmp_path / "plan.json").write_text(damage(dump(plan([WHOLE]))), encoding="utf-8")
    with pytest.raises(RecordError, match=r"^plan\.json: "):
        DirectoryStore(tmp_path).get(Plan)


def test_log_that_is_not_there_is_a_record_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="logs/none"):
        DirectoryStore(tmp_path).get_log("none")


def test_equal_documents_are_equal_text() -> None:
    assert dump(plan([WHOLE])) == dump(plan([WHOLE]))
