"""The files of entries: each may build on a shared one, and all that is merged keeps its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from catalog.errors import Place
from catalog.reading.source import Path_, Source, shipped

SHARED = "shared"
"""Directory of what entries build on."""
EXTENDS = "extends"
ADDED = "bars"
"""The only list that a file adds to; it replaces all others."""


@dataclass(frozen=True, slots=True)
class EntryText:
    """The text of an entry, merged with what it builds on.

    Attributes:
        source: the merged data, under the name of the entry's own file.
        places: file and line by path.
    """

    source: Source
    places: Mapping[Path_, Place]

    def place(self, path: Path_) -> Place:
        """Return the place of ``path``, or of its nearest ancestor that stands somewhere."""
        probe = path
        while probe and probe not in self.places:
            probe = probe[:-1]
        return self.places.get(probe) or Place(self.source.file)


@cache
def entry_ids() -> tuple[str, ...]:
    """Return the ids of the entries that ship, sorted."""
    root = resources.files("catalog.entries")
    found = (
        f"{domain.name}/{file.name.removesuffix('.yaml')}"
        for domain in root.iterdir()
        if domain.is_dir() and domain.name != SHARED
        for file in domain.iterdir()
        if file.name.endswith(".yaml")
    )
    return tuple(sorted(found))


def place_of(entry_id: str, path: Path_) -> Place:
    """Return where a field of an entry stands; an entry that does not ship stands in no file."""
    if entry_id not in entry_ids():
        return Place(f"catalog/entries/{entry_id}.yaml")
    return read_entry(entry_id).place(path)


@cache
def read_entry(name: str) -> EntryText:
    """Read the file of an entry, or a shared one, with what it builds on.

    Args:
        name: id of an entry, or ``shared/NAME``.

    Raises:
        InputError: a shipped file is damaged.
    """
    own = shipped(f"entries/{name}.yaml")
    file, data = own.file, dict(own.data)
    base = data.pop(EXTENDS, None)
    places = {path: Place(file, line) for path, line in own.lines.items() if path[:1] != (EXTENDS,)}
    if base is None:
        return EntryText(Source(file, data, own.lines), places)
    below = read_entry(f"{SHARED}/{base}")
    before = len(below.source.data.get(ADDED, ()))
    merged = _merged(below.source.data, data)
    merged_places = {path: place for path, place in below.places.items() if path}
    for path, place in places.items():
        if path[:1] == (ADDED,) and len(path) > 1 and isinstance(path[1], int):
            merged_places[ADDED, path[1] + before, *path[2:]] = place
        else:
            merged_places[path] = place
    return EntryText(Source(file, merged, own.lines), merged_places)


def _merged(below: Any, above: Any, name: str | None = None) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        both = {key: _merged(below[key], above[key], key) for key in below.keys() & above.keys()}
        return {**below, **above, **both}
    return [*below, *above] if name == ADDED else above
