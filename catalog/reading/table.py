"""A table of objects by name: each stands in it once, and whoever asks for another is told so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from catalog.errors import InputError
from catalog.reading.model import suggestion


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


class Table(Generic[T]):
    """What is registered under its name, in the order in which it came.

    There is no way to ask for a name with something to fall back on: what the table does not have
    nobody knows how to treat.

    Args:
        what: an item is, for errors.
        items: the first ones.
    """

    def __init__(self, what: str, items: Iterable[T] = ()) -> None:
        self._what = what
        self._items: dict[str, T] = {}
        for item in items:
            self.register(item)

    def register(self, item: T) -> T:
        """Add an item.

        Raises:
            ValueError: its name is taken.
        """
        if item.name in self._items:
            raise ValueError(f"{self._what} {item.name!r} is registered twice")
        self._items[item.name] = item
        return item

    @contextmanager
    def registered(self, *items: T) -> Iterator[None]:
        """Have some more items for a while, as tests do."""
        for item in items:
            self.register(item)
        try:
            yield
        finally:
            for item in items:
                del self._items[item.name]

    def __getitem__(self, name: str) -> T:
        """Return an item.

        Raises:
            InputError: there is none of this name; the hint names the nearest.
        """
        found = self._items.get(name)
        if found is None:
            hint = suggestion(name, self._items) or f"one of {', '.join(self._items)}"
            raise InputError(f"there is no {self._what} {name!r}", hint=hint)
        return found

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._items.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order in which they came."""
        return tuple(self._items)
