"""The statements of documents: certifications, files of bars, and the entries that ship."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

from catalog.bars.bar_file import BarFile, BarItem, entries_of, read_bars
from catalog.bars.lint.expected import beyond_reach
from catalog.bars.lint.statements import Finding, Statement
from catalog.bars.required import slot_of
from catalog.bars.stages import find_stage, stages
from catalog.certification import Certification, parse_certification
from catalog.entries.entry import Entry, builtin_entries, find_entry
from catalog.entries.files import place_of
from catalog.errors import InputError
from catalog.hardware.conditions import Names, meet
from catalog.hardware.profile import Profiles, builtin_profiles
from catalog.reading.model import suggestion
from catalog.reading.source import Path_, Source, validate

Stated = tuple[list[Statement], list[Finding]]
KINDS = ("Certification", "Bars")


def statements_of(source: Source, profiles: Profiles | None = None) -> Stated:
    """Return the bars that a document states, and what is wrong with the document itself.

    Args:
        source: a document of one of `KINDS`.
        profiles: the hardware profiles, whose platforms and GPUs bars may name; ours by default.
    """
    try:
        if source.data["kind"] == "Certification":
            return _of_certification(parse_certification(source), source)
        return _of_bars(source, profiles)
    except InputError as error:
        return [], [_as_finding(error)]


def _as_finding(error: InputError) -> Finding:
    return Finding("error", error.message, error.place, error.hint)


def _of_certification(document: Certification, source: Source) -> Stated:
    """Thresholds of a category stand for those of the whole certification, as when it runs."""
    stated: list[Statement] = []
    spec = document.spec
    find_stage(spec.stage, source.place(("spec", "stage")))
    for index, category in enumerate(spec.categories):
        entry = find_entry(category.id, source.place(("spec", "categories", index, "variant")))
        own = category.options.thresholds
        at: Path_ = ("spec", "categories", index, "options") if own is not None else ("spec",)
        for key, text in (own if own is not None else spec.thresholds or {}).items():
            place = source.place((*at, "thresholds", key))
            stated.append(
                Statement(
                    key=key,
                    text=text,
                    tool=entry.tool,
                    place=place,
                    stage=spec.stage,
                    set_of=f"{entry.id} {spec.target!r}",
                )
            )
    return stated, []


def _of_bars(source: Source, profiles: Profiles | None) -> Stated:
    document = validate(source, BarFile)
    wrong: list[Finding] = []
    try:
        read_bars([source], profiles)
    except InputError as error:
        wrong.append(_as_finding(error))
    known = profiles or builtin_profiles()
    wrong += _unknown_machines(document, source, known)
    wrong += _unreachable(document, source, known)
    wrong += _repeated(document, source)
    stated = [
        statement
        for index, item in enumerate(document.bars)
        for statement in _of_item(item, source, ("bars", index))
    ]
    return stated, wrong


def _unknown_machines(document: BarFile, source: Source, profiles: Profiles) -> list[Finding]:
    """Find instance types of no profile: misspelt, or a machine that needs none of its own."""
    known = sorted({name for item in profiles.all() for name in item.profile.instance_types})
    found = []
    for index, item in enumerate(document.bars):
        condition = item.when.instance_type
        for glob in condition.within + condition.not_in:
            # Profiles name theirs by globs too.
            if any(meet(glob, name) for name in known):
                continue
            text = f"names instanceType {glob!r}, which no profile has"
            place = source.place(("bars", index, "when", "instanceType"))
            found.append(Finding("warning", text, place, suggestion(glob, known)))
    return found


def _unreachable(document: BarFile, source: Source, profiles: Profiles) -> Iterator[Finding]:
    for index, item in enumerate(document.bars):
        why = beyond_reach(item, profiles)
        if why is not None:
            yield Finding("warning", why, source.place(("bars", index, "expected")))


def _repeated(document: BarFile, source: Source) -> Iterator[Finding]:
    """Find bars that a later one of the file replaces wherever they would hold."""
    stated: dict[Hashable, int | None] = {}
    for index, item in enumerate(document.bars):
        place = source.place(("bars", index))
        names = set(re.findall(r"\w+", item.expression or ""))
        says: list[Hashable] = []
        if item.expression is not None:
            says.append((slot_of(item.key, names), repr(item.when)))
        if item.expected is not None:
            says.append((item.key, repr(item.when), "expected"))
        before = [line for what in says if (line := stated.get(what)) is not None]
        if before:
            text = f"states {item.key} again under the same conditions"
            yield Finding("warning", f"{text}; that of line {before[0]} never holds", place)
        stated |= dict.fromkeys(says, place.line)


def _of_item(item: BarItem, source: Source, path: Path_) -> list[Statement]:
    if item.expression is None:
        return []
    where = item.when.model_copy(update={"stage": Names()})
    return [
        Statement(
            key=item.key,
            text=item.expression,
            tool=tool,
            scope=item.scope,
            place=source.place((*path, "expression")),
            stage=stage,
            set_of=f"{source.file} {where!r}",
        )
        for tool in dict.fromkeys(entry.tool for entry in entries_of(item))
        for stage in stages()
        if item.when.stage.fits(stage)
    ]


def shipped() -> list[Statement]:
    """Return the bars of the entries that ship, at every stage that has them."""
    return [item for entry in builtin_entries().values() for item in _of_entry(entry)]


def _of_entry(entry: Entry) -> list[Statement]:
    return [
        Statement(
            key=bar.key,
            text=bar.expression,
            tool=entry.tool,
            scope=bar.scope,
            place=place_of(entry.id, ("bars", index, "expression")),
            stage=stage,
            set_of=entry.id,
            complete=True,
        )
        for index, bar in enumerate(entry.bars)
        for stage in bar.stages or stages()
    ]
