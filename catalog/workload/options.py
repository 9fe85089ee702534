"""Merging the options of a certification: entry, profile rules, certification, category.

A later layer replaces an option whole, as in NVCRE, but ``env`` and the labels of
``workloadMetadata`` merge by name. Every option keeps the history of what was replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from catalog.bars.lint.statements import check_bar
from catalog.certification import Certification, Options
from catalog.entries.entry import Entry, find_entry
from catalog.entries.files import place_of
from catalog.errors import InputError, Place
from catalog.hardware.health import compile_rule
from catalog.hardware.profile import Assignment
from catalog.reading.model import Model, suggestion
from catalog.reading.setting import Origin, Replaced, Setting
from catalog.reading.source import Path_, Source

NO_SOURCE = Source("certification", {})


def override(current: Setting | None, value: Any, origin: Origin) -> Setting:
    """Put a value over an earlier one and keep the earlier one as history."""
    if current is None or (current.value is None and not current.replaced):
        return Setting(value=value, origin=origin)
    replaced = (*current.replaced, Replaced(value=current.value, origin=current.origin))
    return Setting(value=value, origin=origin, replaced=replaced)


def plain(value: Any) -> Any:
    """Return option values as plain data with outside names."""
    if isinstance(value, Model):
        return value.to_data()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def entry_origin(entry: Entry, *path: str) -> Origin:
    """Return the place of a field of a catalog entry."""
    found = place_of(entry.id, path)
    rule = f"entry {entry.id}"
    return Origin(rule=rule, file=found.file, line=found.line, source=entry.source)


def merge_options(
    entry: Entry,
    certification: Certification,
    index: int,
    source: Source | None = None,
    defaults: Sequence[Assignment] = (),
) -> dict[str, Setting]:
    """Merge the options of one category.

    Args:
        entry: the entry of the category.
        certification: the certification.
        index: position of the category in ``spec.categories``.
        source: where the certification was read, for the lines of origins and errors.
        defaults: options that profile rules set; weaker than the certification.

    Returns:
        Every option that the entry takes, by outside name.

    Raises:
        InputError: the category sets an option that means nothing for the entry, or a scale
            that the entry does not have.
    """
    text = source or NO_SOURCE
    merged = {
        name: Setting(value=value, origin=entry_origin(entry, "options", name))
        for name, value in entry.options.items()
    }
    for item in defaults:
        if item.key in merged:
            merged[item.key] = override(merged[item.key], item.value, item.origin)
    layers = _layers(certification, index)
    own, at_category, _ = layers[-1]
    for name in own.given():
        if name not in merged:
            raise _meaningless(entry, name, text, (*at_category, name))
    for options, path, rule in layers:
        for name, value in options.given().items():
            if name in merged and _applies(entry, name, value, path):
                origin = origin_at(text, (*path, name), rule)
                merged[name] = _merge(name, merged[name], plain(value), origin)
    scale = merged.get("testScale")
    if scale is not None and scale.value is not None and scale.value not in entry.scales:
        place = Place(scale.origin.file, scale.origin.line, "testScale")
        hint = f"one of {', '.join(entry.scales)}"
        raise InputError(f"{entry.id} has no scale {scale.value!r}", place, hint)
    return merged


def _layers(certification: Certification, index: int) -> tuple[tuple[Options, Path_, str], ...]:
    """Return the options of the certification and then of the category, each with path and rule."""
    category = certification.spec.categories[index]
    return (
        (certification.spec, ("spec",), "certification"),
        (category.options, ("spec", "categories", index, "options"), f"category {category.id}"),
    )


def _applies(entry: Entry, name: str, value: Any, path: Path_) -> bool:
    """A scale for all categories is no scale for one that cannot run at it."""
    return name != "testScale" or path != ("spec",) or value in entry.scales


def _merge(name: str, current: Setting, value: Any, origin: Origin) -> Setting:
    if name == "env" and current.value:
        value = {**current.value, **value}
    elif name == "workloadMetadata" and current.value:
        value = {"labels": {**current.value.get("labels", {}), **value.get("labels", {})}}
    return override(current, value, origin)


def env_layers(
    certification: Certification, index: int, source: Source | None = None
) -> Iterable[tuple[str, str, Origin]]:
    """Yield the variables of ``env`` with the line of each, the category's last."""
    text = source or NO_SOURCE
    for options, path, rule in _layers(certification, index):
        for name, value in (options.env or {}).items():
            yield name, value, origin_at(text, (*path, "env", name), rule)


def origin_at(source: Source, path: Path_, rule: str) -> Origin:
    """Return the origin of a field of a certification."""
    place = source.place(path)
    return Origin(rule=rule, file=place.file, line=place.line)


def check_options(certification: Certification, source: Source | None = None) -> None:
    """Refuse options of the certification that no requested category takes.

    Raises:
        InputError: at the option, at a threshold or node health rule that does not compile, or at
            a category that is not in the catalog.
    """
    text = source or NO_SOURCE
    entries = [
        find_entry(category.id, text.place(("spec", "categories", index, "variant")))
        for index, category in enumerate(certification.spec.categories)
    ]
    ids = ", ".join(sorted({entry.id for entry in entries}))
    for name in certification.spec.given():
        if not any(name in entry.options for entry in entries):
            message = f"means nothing for any requested category ({ids})"
            raise text.error(message, ("spec", name))
    scale = certification.spec.test_scale
    if scale and not any(scale in entry.scales for entry in entries):
        raise text.error(f"no requested category ({ids}) has this scale", ("spec", "testScale"))
    _check_health_rules(certification.spec, text, ("spec",))
    for index, category in enumerate(certification.spec.categories):
        at: Path_ = ("spec", "categories", index, "options")
        _check_health_rules(category.options, text, at)
        if category.options.thresholds is not None:
            _check_thresholds(category.options, entries[index], text, at)
        else:
            _check_thresholds(certification.spec, entries[index], text, ("spec",))


def _check_thresholds(options: Options, entry: Entry, text: Source, path: Path_) -> None:
    for key, expression in (options.thresholds or {}).items():
        check_bar(key, expression, entry.tool, text.place((*path, "thresholds", key)))


def _check_health_rules(options: Options, text: Source, path: Path_) -> None:
    for number, rule in enumerate(options.node_health or ()):
        compile_rule(rule, text.place((*path, "nodeHealth", number, "expression")))


def _meaningless(entry: Entry, name: str, text: Source, path: Path_) -> InputError:
    hint = suggestion(name, entry.options) or f"it takes {', '.join(sorted(entry.options))}"
    return text.error(f"means nothing for {entry.id}", path, hint)
