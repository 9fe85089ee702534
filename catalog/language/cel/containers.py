"""Reading lists and maps, and the macros that go over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from catalog.errors import ExpressionError
from catalog.language.cel.data import Reader
from catalog.language.cel.node import Env, Evaluation, Test
from catalog.language.cel.operators import DataError, NoValueError, describe, has_key


def field_of(value: Any, name: str, read: Reader) -> Any:
    """Return ``value.name``.

    Raises:
        NoValueError: the map has no such field, or null there.
        ExpressionError: the value is no map.
    """
    if name not in _map(value, name):
        raise NoValueError(name, value)
    return read(value[name], name)


def has_field(value: Any, name: str) -> bool:
    """Return ``has(value.name)``; null in data is nothing."""
    return name in _map(value, name) and value[name] is not None


def _map(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ExpressionError(f"reads .{name} of {describe(value)}, which has no fields")
    return value


def item_of(value: Any, key: Any, read: Reader) -> Any:
    """Return ``value[key]``.

    Raises:
        NoValueError: the map has no such key, or null there.
        DataError: the list is shorter.
        ExpressionError: the value is no map and no list.
    """
    if isinstance(value, Mapping):
        if not has_key(value, key):
            raise NoValueError(key, value)
        return read(value[key], f"the value at {key}")
    if not isinstance(value, list):
        raise ExpressionError(f"reads an item of {describe(value)}")
    if type(key) is float and key.is_integer():
        key = int(key)
    if type(key) is not int:
        raise ExpressionError(f"takes {describe(key)} for the number of an item")
    if not 0 <= key < len(value):
        raise DataError(f"reads item {key} of a list of {len(value)}")
    return read(value[key], f"item {key}")


def items_of(value: Any, name: str, read: Reader) -> list[Any]:
    """Return what a macro goes over: the items of a list, the keys of a map."""
    if isinstance(value, Mapping):
        return list(value)
    if isinstance(value, list):
        return [read(item, "an item") for item in value]
    raise ExpressionError(f"calls {name}() on {describe(value)}, which is no list")


Macro = Callable[[list[Any], Env, str], Any]
"""Takes the items, values that it may change, and the name of its variable."""


def quantifier(name: str, body: Test, *, positive: bool) -> Macro:
    """Return ``all`` or ``exists``: an error counts unless another item decides.

    Over an empty list ``all`` is an error, as nothing was tested. So is ``exists`` where its false
    could make the whole true: ``!slow.exists(…)``.
    """
    decides = name == "exists"

    def run(items: list[Any], env: Env, variable: str) -> bool:
        if not items and not (decides and positive):
            raise _empty(name)
        failed: ExpressionError | None = None
        for item in items:
            env[variable] = item
            try:
                if body(env) is decides:
                    return decides
            except ExpressionError as error:
                failed = failed or error
        if failed:
            raise failed
        return not decides

    return run


def only_one(body: Test, *, positive: bool) -> Macro:
    """Return ``exists_one``, for which every error counts."""

    def run(items: list[Any], env: Env, variable: str) -> bool:
        if not items and not positive:
            raise _empty("exists_one")
        return len(chosen(body)(items, env, variable)) == 1

    return run


def chosen(body: Test) -> Macro:
    """Return ``filter``."""

    def run(items: list[Any], env: Env, variable: str) -> list[Any]:
        found = []
        for item in items:
            env[variable] = item
            if body(env):
                found.append(item)
        return found

    return run


def converted(body: Evaluation, condition: Test | None) -> Macro:
    """Return ``map``, in its form of two or of three arguments."""

    def run(items: list[Any], env: Env, variable: str) -> list[Any]:
        found = []
        for item in items:
            env[variable] = item
            if condition is None or condition(env):
                found.append(body(env))
        return found

    return run


def _empty(name: str) -> DataError:
    return DataError(f"{name}() has an empty list, which proves nothing")
