"""The bars of an entry: what must hold at a stage, on given hardware, for groups of given size.

Pure: the same entry, stage, hardware and group size always give the same bars.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from catalog.bars.bar import Bar, BarKind, Missing
from catalog.bars.bar_file import NO_BARS, Fitting, OwnBars
from catalog.bars.expected import Expected, expected_figure
from catalog.bars.physics import Unknown, physics
from catalog.bars.references import published_figure
from catalog.bars.stages import find_stage, stage_values
from catalog.entries.entry import BarTemplate, Entry
from catalog.errors import Place
from catalog.hardware.hardware import Hardware, Situation
from catalog.hardware.platforms import UNKNOWN
from catalog.language.expressions import Expression, check_threshold, code_of
from catalog.language.vocabulary import PEER_NAMES
from catalog.reading.quantity import parse_size
from catalog.reading.setting import Origin, Setting

STAGES = "catalog/bars/stages.yaml"
EXPECTED = "expected"
"""Name that stands in expressions for what the figure should reach."""

ADVICE = "state a bar in thresholds"
"""What to do about hardware of which nothing is known to expect."""

Slot = tuple[str, bool]


def slot_of(key: str, names: Collection[str]) -> Slot:
    """Return what a bar tests: its key, and whether it compares with the peers.

    Of the bars of one slot the last one stands.
    """
    return key, not PEER_NAMES.isdisjoint(names)


def bars_for(
    entry: Entry,
    stage: str,
    hardware: Hardware,
    nodes: int,
    options: Mapping[str, Setting],
    *,
    scale: str = "",
    own: OwnBars = NO_BARS,
    recorded: bool = False,
) -> tuple[tuple[Bar, ...], tuple[Missing, ...]]:
    """Work out what must hold for groups of ``nodes`` nodes.

    A bar of the user's files replaces the stage's bar of the same key; a threshold of the
    certification replaces both, or all of them with ``replaceBars``. A bar over the peers replaces
    only one over the peers, and any other only such: each leaves open what the other tests.

    Args:
        entry: the catalog entry.
        stage: whose numbers go into the bars.
        hardware: of the nodes.
        nodes: size of the groups; 0 where nobody knows it.
        options: thresholds, replaceBars and maxBytes are read.
        scale: of the category; empty where nobody tells.
        own: the bar files of the user.
        recorded: the outputs are there already, and somebody else chose how to run.

    Returns:
        The bars, and which are missing.

    Raises:
        InputError: no such stage.
        ExpressionError: a threshold of the certification is no valid CEL.
    """
    if hardware.mnnvl is None:  # Where the hardware has it, it is on by default.
        hardware = replace(hardware, mnnvl=hardware.gpu in physics().domains)
    run = Situation(
        hardware=hardware,
        category=entry.id,
        launcher=entry.launcher.value,
        stage=stage,
        scale=scale,
        nodes=nodes,
    )
    known = _Known(entry, run, nodes, _largest(options), recorded)
    thresholds = list(_thresholds(known, options.get("thresholds")))
    replace_all = bool(options["replaceBars"].value) if "replaceBars" in options else False
    fitting = own.fitting(replace(run, scale=scale or entry.scale))
    everything = [*_ours(known), *_of_files(known, fitting), *thresholds]
    stated: dict[Slot, _Stated] = {}
    for one in thresholds if replace_all and thresholds else everything:
        stated.pop(one.slot, None)  # What replaces a bar stands where it was stated itself.
        stated[one.slot] = one
    maker = _Maker(known, fitting)
    for one in stated.values():
        maker.add(one)
    return tuple(maker.bars), maker.missing()


@dataclass(frozen=True, slots=True)
class _Known:
    """What the bars depend on.

    Attributes:
        entry: the catalog entry.
        run: stage, hardware and what else is known of the runs.
        nodes: size of the groups; 0 where nobody knows it.
        largest: bytes of the largest message, where the tool has any.
        recorded: somebody else chose how to run.
    """

    entry: Entry
    run: Situation
    nodes: int
    largest: int | None
    recorded: bool

    @property
    def hardware(self) -> Hardware:
        """The nodes."""
        return self.run.hardware

    def expected(self, key: str) -> Expected | Unknown:
        """Return what the figure of a bar should reach, published or derived."""
        return expected_figure(
            self.entry,
            published_figure(self.entry, key),
            self.hardware,
            nodes=self.nodes,
            scale=self.run.scale,
            largest=self.largest,
        )

    def unexpected(self, found: Unknown) -> tuple[str, str | None]:
        """Say why nothing is expected, and what helps."""
        count = f"{self.nodes} node{'s' if self.nodes != 1 else ''}"
        what = self.entry.id
        if self.hardware.platform == UNKNOWN:
            return f"the platform is not told, so nothing is known to expect of {what}", None
        why = (
            f"nothing is published of {what} for {self.hardware.gpu} on "
            f"{self.hardware.place} with {count}, and {found.why}"
        )
        return why, ADVICE

    def applies(self, template: BarTemplate) -> bool:
        """Say whether a bar of the entry is one of this stage, scale and group."""
        if template.stages and self.run.stage not in template.stages:
            return False
        if template.scales and self.run.scale and self.run.scale not in template.scales:
            return False
        return not template.transport or (self.nodes > 1 and bool(self.hardware.transport))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """A bar before the numbers are in it.

    Attributes:
        template: the bar.
        slot: see `slot_of`.
        origin: the rule that set it.
        yours: where it comes from, if it is the user's own.
    """

    template: BarTemplate
    slot: Slot
    origin: Origin
    yours: str | None = None


def _stated(
    template: BarTemplate, names: Collection[str], origin: Origin, yours: str | None = None
) -> _Stated:
    slot = slot_of(template.key, names)
    return _Stated(template=template, slot=slot, origin=origin, yours=yours)


def _ours(known: _Known) -> Iterator[_Stated]:
    """Yield the bars of the entry at the stage."""
    origin = Origin(rule=f"stage {known.run.stage}", file=STAGES)
    for template in known.entry.bars:
        if known.applies(template):
            yield _stated(template, template.names(known.entry.tool), origin)


def _of_files(known: _Known, fitting: Fitting) -> Iterator[_Stated]:
    """Yield the bars of the user's files."""
    entry = known.entry
    for bar in fitting.bars:
        item, place = bar.item, Place(bar.origin.file, bar.origin.line)
        text = item.expression or ""
        expression = check_threshold(item.key, text, entry.tool, place, item.scope)
        code = item.code or _code(entry, item.key, expression)
        template = BarTemplate(key=item.key, expression=text, scope=item.scope, code=code)
        yield _stated(template, expression.names, bar.origin, bar.source)


def _thresholds(known: _Known, setting: Setting | None) -> Iterator[_Stated]:
    """Yield the thresholds of the certification.

    Raises:
        ExpressionError: one is no valid CEL.
    """
    entry = known.entry
    if setting is None:
        return
    origin = setting.origin
    for key, text in (setting.value or {}).items():
        expression = check_threshold(key, text, entry.tool, Place(origin.file, origin.line))
        template = BarTemplate(key=key, expression=text, code=_code(entry, key, expression))
        yield _stated(template, expression.names, origin, origin.rule)


class _Maker:
    """Puts the numbers into bars, and keeps why some are missing."""

    def __init__(self, known: _Known, own: Fitting) -> None:
        self.known = known
        self.bars: list[Bar] = []
        self._own = own
        self._missing: dict[tuple[str, str, str | None], dict[str, None]] = {}

    def missing(self) -> tuple[Missing, ...]:
        """Return which bars are missing; what is missing for one reason is said once."""
        return tuple(
            Missing(code=code, keys=tuple(keys), why=why, remedy=remedy)
            for (code, why, remedy), keys in self._missing.items()
        )

    def add(self, stated: _Stated) -> None:
        """Put the numbers in and add the bar, or note why it is missing."""
        template, origin, yours = stated.template, stated.origin, stated.yours
        known = self.known
        optional = template.optional and known.run.stage not in template.required
        optional = optional or (template.own_runs and known.recorded)
        names = template.names(known.entry.tool)
        if "gpus_per_node" in names and known.hardware.gpus_per_node is None:
            why = "the GPUs per node are not known"
            self._miss(template, why, None, optional=optional)
            return
        numbers = stage_values(find_stage(known.run.stage))
        values = {name: numbers[name] for name in sorted(names & set(numbers))}
        kind: BarKind = "yours" if yours else "rule"
        source, reasoning = yours, None
        if EXPECTED in names:
            found = self._expected(template.key)
            if isinstance(found, Unknown):
                # Nobody can know what to expect of hardware that is not told.
                told = known.hardware.platform != UNKNOWN and known.nodes > 0
                milder = told and not yours and not find_stage(known.run.stage).require_expected
                self._miss(template, *known.unexpected(found), optional=optional or milder)
                return
            values[EXPECTED] = found.value
            kind, source, reasoning = found.kind, found.source, found.reasoning
            if yours:  # The height of a bar of one's own is one's word, whatever it compares with.
                kind, source = "yours", f"{yours}; compares with {found.source}"
            elif found.origin is not None:
                origin = found.origin
        self.bars.append(
            Bar(
                key=template.key,
                expression=template.expression,
                scope=template.scope,
                values=values,
                code=template.code,
                kind=kind,
                source=source,
                reasoning=reasoning,
                origin=origin.model_copy(update={"source": source or origin.source}),
                optional=optional,
            )
        )

    def _expected(self, key: str) -> Expected | Unknown:
        own = self._own.expected.get(key)
        if own is not None and own.item.expected is not None:
            given = own.item.expected
            words = f"{own.source} (yours, {given.date})" if given.date else f"{own.source} (yours)"
            reasoning = given.reasoning or f"stated in {Place(own.origin.file, own.origin.line)}"
            return Expected(given.value, "yours", words, reasoning, own.origin)
        return self.known.expected(key)

    def _miss(self, template: BarTemplate, why: str, remedy: str | None, *, optional: bool) -> None:
        code = "BAR_LEFT_OUT" if optional else "NO_THRESHOLD"
        self._missing.setdefault((code, why, remedy), {})[template.key] = None


def _code(entry: Entry, key: str, expression: Expression) -> str:
    """Name the code of a bar of one's own: that of the bar it replaces, if it tests the like."""
    slot = slot_of(key, expression.names)
    if slot[1]:
        return "OUTLIER"
    code = code_of(key, expression, entry.tool)
    if code == "FIGURE_MISSING":
        return code
    replaced = (bar for bar in entry.bars if slot_of(bar.key, bar.names(entry.tool)) == slot)
    return next((bar.code for bar in replaced), code)


def _largest(options: Mapping[str, Setting]) -> int | None:
    """Return the bytes of the largest message that the options ask for."""
    setting = options.get("maxBytes")
    return parse_size(str(setting.value)) if setting and setting.value else None
