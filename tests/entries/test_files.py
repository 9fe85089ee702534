"""Entries share what they share, and every value still knows the line that it stands in."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from catalog.entries.entry import Entry, builtin_entries
from catalog.entries.files import SHARED, read_entry
from catalog.reading.source import Path_

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("entry", builtin_entries().values(), ids=lambda entry: entry.id)
def test_every_bar_and_option_stands_in_the_line_that_is_named(entry: Entry) -> None:
    text = read_entry(entry.id)
    said: list[tuple[Path_, str]] = [
        (("bars", number, "key"), bar.key) for number, bar in enumerate(entry.bars)
    ]
    said += [(("options", name), f"{name}:") for name in entry.options]
    for path, words in said:
        place = text.place(path)
        assert place.line is not None
        assert words in (ROOT / place.file).read_text(encoding="utf-8").splitlines()[place.line - 1]


def test_every_shared_file_is_built_on() -> None:
    folder = resources.files("catalog.entries").joinpath(SHARED)
    shared = {file.name.removesuffix(".yaml") for file in folder.iterdir()}
    used = {
        Path(place.file).stem
        for name in builtin_entries()
        for place in read_entry(name).places.values()
    }
    assert shared <= used


def test_a_file_adds_bars_and_replaces_other_lists() -> None:
    below, above = read_entry(f"{SHARED}/nccl"), read_entry("communication/nccl-all-reduce")
    bars, more = below.source.data["bars"], above.source.data["bars"]
    assert more[: len(bars)] == bars
    assert len(more) > len(bars)
    assert above.source.data["env"] == {"NCCL_DEBUG": "INFO", "NCCL_MNNVL_ENABLE": "${mnnvl}"}
