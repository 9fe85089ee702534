"""The lab goes also when its directory is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.processes import alive, restart, start, stop_all
from tests.cluster.state import State


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    monkeypatch.setenv("READINESS_LAB_DIR", str(tmp_path))
    return State()


def test_stops_without_room_for_its_record(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [start(state, f"sleeper-{number}", ["/bin/sleep", "60"]) for number in range(2)]

    def full(_: State) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(State, "save", full)
    stop_all(state)
    assert not any(alive(record) for record in records)
    assert not state.processes


def test_restarts_with_the_same_words_and_environment(state: State) -> None:
    first = start(state, "sleeper", ["/bin/sleep", "60"], env={"COLOUR": "red"})
    restart(state, "sleeper")
    second = state.processes["sleeper"]
    try:
        assert not alive(first)
        assert alive(second)
        proc = Path(f"/proc/{second.pid}")
        assert (proc / "cmdline").read_bytes() == b"/bin/sleep\x0060\x00"
        assert b"COLOUR=red" in (proc / "environ").read_bytes().split(b"\0")
    finally:
        stop_all(state)
