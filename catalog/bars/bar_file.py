"""Bars of the user's own, in files: what a site asks of its hardware, whatever is certified.

    kind: Bars
    source: acceptance of our first hall
    bars:
      - key: busBandwidthGBps
        when: {category: communication/nccl-all-reduce, gpu: h100, nodes: {min: 2, max: 16}}
        expected: {value: 392.0, date: '2026-03-14'}
      - key: smallMessageLatencyUs
        when: {category: communication/*, stage: production}
        expression: value <= 60

A bar with an expression replaces ours of the same key, or is added where we have none; one that
compares with the peers replaces only such a one. One with ``expected`` alone keeps our expression
and says what the figure should reach instead. Of two that fit, the later one stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from catalog.bars.lint.statements import check_bar
from catalog.bars.stages import stages
from catalog.entries.entry import Entry, builtin_entries
from catalog.facts.reasons import Kind, reason
from catalog.facts.tools import TOOLS
from catalog.hardware.conditions import Names, When, matches
from catalog.hardware.hardware import Situation
from catalog.hardware.profile import Profiles, builtin_profiles
from catalog.language.vocabulary import Scope
from catalog.reading.model import Model, suggestion
from catalog.reading.setting import Origin
from catalog.reading.source import Path_, Source, read_documents, validate, yaml_files

KIND = "Bars"
"""Kind of the document."""

_CODES = frozenset({Kind.PERFORMANCE, Kind.HARDWARE, Kind.DATA})
"""Kinds of reason codes that a measured value can prove."""


class OwnExpected(Model):
    """What a figure should reach, in its unit; ``date`` and ``reasoning`` go into reports."""

    value: Annotated[float, Field(gt=0)]
    date: str | None = None
    reasoning: str | None = None


def _number(value: Any) -> Any:
    """Let people write the number alone."""
    if isinstance(value, str):
        raise ValueError("must be a number, or value, date and reasoning")
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return {"value": value} if plain else value


class BarItem(Model):
    """One bar of a file.

    Attributes:
        key: threshold key; the figure that ``value`` stands for.
        when: where it holds; where no category is given, in every category that measures the figure
            of the key.
        expression: CEL over the vocabulary of the tool, ``value`` and ``expected`` included.
        scope: what it is evaluated for.
        code: reason code of a false result; by default that of our bar, or by what is tested.
        source: where the bar comes from; by default that of the file.
        expected: what the figure should reach, instead of what we expect.
    """

    key: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,62}$")
    when: When = When()
    expression: str | None = None
    scope: Scope = "group"
    code: str | None = None
    source: str | None = None
    expected: Annotated[
        OwnExpected | None, BeforeValidator(_number, json_schema_input_type=float | OwnExpected)
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> BarItem:
        if self.expression is None and self.expected is None:
            raise ValueError("needs an expression, or expected, or both")
        return self


class BarFile(Model):
    """A file of bars.

    Attributes:
        source: where the bars come from, unless one names its own.
    """

    api_version: Literal["readiness/v1"] = "readiness/v1"
    kind: Literal["Bars"]
    source: str = Field(min_length=1)
    bars: tuple[BarItem, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class OwnBar:
    """A bar of the user's that knows where it stands.

    Attributes:
        item: as written.
        source: where it comes from.
        origin: where it stands.
        categories: the categories that it is about; None leaves that to its conditions.
    """

    item: BarItem
    source: str
    origin: Origin
    categories: frozenset[str] | None = None

    def holds(self, run: Situation) -> bool:
        """Say whether it is about such a run."""
        about = self.categories is None or run.category in self.categories
        return about and self.item.when.holds(run)


@dataclass(frozen=True, slots=True)
class Fitting:
    """The bars of the user's that hold for a run.

    Attributes:
        bars: those with an expression, in their order; of two that test the same the later stands.
        expected: those that say what the figure should reach, by key; the latest of each.
    """

    bars: tuple[OwnBar, ...]
    expected: dict[str, OwnBar]


@dataclass(frozen=True, slots=True)
class OwnBars:
    """All bars of the user's files, in their order."""

    bars: tuple[OwnBar, ...] = ()

    def fitting(self, run: Situation) -> Fitting:
        """Return those that hold."""
        holding = [bar for bar in self.bars if bar.holds(run)]
        return Fitting(
            bars=tuple(bar for bar in holding if bar.item.expression is not None),
            expected={bar.item.key: bar for bar in holding if bar.item.expected is not None},
        )


NO_BARS = OwnBars()


def bar_documents(paths: Iterable[Path]) -> list[Source]:
    """Read the bar files of the user, not yet validated.

    Args:
        paths: files, or directories that stand for their YAML files in the order of their names.

    Raises:
        InputError: a file cannot be read or is no YAML.
    """
    return [source for path in yaml_files(paths) for source in read_documents(path)]


def read_bars(sources: Iterable[Source], profiles: Profiles | None = None) -> OwnBars:
    """Validate documents of kind Bars.

    Args:
        sources: the documents.
        profiles: the hardware profiles, whose platforms and GPUs bars may name; ours by default.

    Raises:
        InputError: with file, line and field of the first mistake.
    """
    hardware = profiles or builtin_profiles()
    known = list(hardware.all())
    names = {
        "category": list(builtin_entries()),
        "stage": list(stages()),
        "platform": hardware.platforms(),
        "gpu": sorted({gpu for p in known for gpu in p.profile.gpu}),
        "scale": sorted({scale for entry in builtin_entries().values() for scale in entry.scales}),
    }
    found = []
    for source in sources:
        if not isinstance(source.data, dict):
            raise source.error("must be a mapping of fields")
        data = validate(source, BarFile)
        for index, item in enumerate(data.bars):
            path: Path_ = ("bars", index)
            _check_when(item.when, source, (*path, "when"), names)
            entries = _check(item, source, path)
            origin = Origin(
                rule=f"bar {item.key}",
                file=source.file,
                line=source.place(path).line,
                source=item.source or data.source,
            )
            about = frozenset(entry.id for entry in entries)
            found.append(OwnBar(item, item.source or data.source, origin, about))
    return OwnBars(tuple(found))


def _check_when(when: When, source: Source, path: Path_, names: dict[str, list[str]]) -> None:
    """Refuse a condition that can never hold, which is how a misspelt name would be ignored."""
    for field, known in names.items():
        condition: Names = getattr(when, field)
        for glob in condition.within + condition.not_in:
            if not any(matches(name, [glob]) for name in known):
                hint = suggestion(glob, known) or f"known: {', '.join(known)}"
                raise source.error(
                    f"names {field} {glob!r}, which is not known", (*path, field), hint
                )
    low, high = when.nodes.min, when.nodes.max
    if low is not None and high is not None and low > high:
        raise source.error(f"holds for no number of nodes: {low} to {high}", (*path, "nodes"))


def entries_of(item: BarItem) -> list[Entry]:
    """Return the entries that a bar is about, see `BarItem`."""
    condition = item.when.category
    entries = [entry for entry in builtin_entries().values() if condition.fits(entry.id)]
    if condition == Names():
        return [entry for entry in entries if item.key in TOOLS[entry.tool].figures]
    return entries


def _check(item: BarItem, source: Source, path: Path_) -> list[Entry]:
    """Compile the expression for every entry that the bar is about, and return these.

    Raises:
        InputError: it means nothing for one of them, or is about none.
    """
    entries = entries_of(item)
    if not entries:
        hint = "name the categories in when, or give the key of a figure"
        raise source.error(f"{item.key!r} is no figure of any tool", (*path, "key"), hint)
    if item.code is not None and not _provable(item.code):
        raise source.error(
            f"{item.code!r} is no reason code that a measured value can prove",
            (*path, "code"),
            "for example ThresholdViolation",
        )
    if item.expression is None:
        return _comparing(item, entries, source, path)
    for tool in dict.fromkeys(entry.tool for entry in entries):
        place = source.place((*path, "expression"))
        check_bar(item.key, item.expression, tool, place, item.scope)
    return entries


def _comparing(
    item: BarItem, entries: Collection[Entry], source: Source, path: Path_
) -> list[Entry]:
    """Return the entries with a bar of ours that compares with what is expected."""
    keys = {
        entry.id: {bar.key for bar in entry.bars if "expected" in bar.names(entry.tool)}
        for entry in entries
    }
    found = [entry for entry in entries if item.key in keys[entry.id]]
    if not found:
        known = set().union(*keys.values())
        hint = suggestion(item.key, known) or f"one of {', '.join(sorted(known)) or 'none'}"
        message = f"no bar of these categories compares {item.key!r} with what is expected"
        raise source.error(message, (*path, "key"), hint)
    return found


def _provable(code: str) -> bool:
    try:
        known = reason(code)
    except KeyError:
        return False
    return known.kind in _CODES and not code.endswith("*")
