"""Judging output that somebody already has, by what is told and what it says itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from catalog.bars.bar import Bar, Missing
from catalog.bars.bar_file import NO_BARS, OwnBars
from catalog.bars.required import bars_for
from catalog.bars.stages import find_stage, stage_values
from catalog.entries.entry import Entry, builtin_entries
from catalog.errors import InputError, Place
from catalog.facts.reasons import Effect
from catalog.facts.tools import TOOLS, UNKNOWN_OUTPUT
from catalog.hardware.hardware import Hardware, Situation
from catalog.hardware.platforms import UNKNOWN, architecture_of
from catalog.hardware.profile import LoadedProfile, builtin_profiles, hardware_of_profile
from catalog.language.vocabulary import Scope
from catalog.reading.model import suggestion
from catalog.reading.setting import Origin, Setting
from pipelines.own_bar import own_bar, with_numbers
from steps.documents import BarSet, Group, GroupVerdict, Measurements, NcclRow
from steps.evaluate.group import judge_output
from steps.evaluate.reasons import give
from steps.parse.api import ParseContext
from steps.parse.reader import combine
from steps.tools import TOOL_STEPS

_BY_PROFILE = {"GPU_MISSING", "DCGM_GPU_MISSING", "NCCL_TRANSPORT_FALLBACK"}
"""Findings that compare the output with a hardware profile."""

_NO_BAR = (
    "tell --platform and --gpu (or --entry, --nodes) where the output does not, "
    "or state a bar: --expr 'KEY: value >= …'"
)
"""What to do where no bar is known."""


@dataclass(frozen=True)
class Asked:
    """What a person tells about an output; everything may be left to the output itself.

    Attributes:
        entry: the catalog entry it belongs to.
        stage: whose bars judge.
        expressions: CEL texts that replace the bars.
        platform: platform, instance type or profile.
        gpu: GPU architecture.
        nodes: nodes of the run.
        scope: what the expressions are evaluated for; None takes ``row`` for those that name
            ``row``, else ``group``.
        own_bars: bars of files of the user's own, which replace ours of the same key.
    """

    entry: Entry | None = None
    stage: str = "production"
    expressions: Sequence[str] = ()
    platform: str | None = None
    gpu: str | None = None
    nodes: int | None = None
    scope: Scope | None = None
    own_bars: OwnBars = NO_BARS

    def check(self) -> LoadedProfile | None:
        """Check everything that can be checked before an output is read.

        Returns:
            The hardware profile that platform and GPU stand for, if they stand for one.

        Raises:
            InputError: an unknown platform or GPU, or an expression that is no CEL.
        """
        profile = self._profile()
        if self.entry:
            for text in self.expressions:
                own_bar(text, self.entry.tool, self.scope)
        return profile

    def _profile(self) -> LoadedProfile | None:
        profiles = builtin_profiles()
        gpu = architecture_of(self.gpu) if self.gpu else None
        architectures = {name for p in profiles.all() for name in p.profile.gpu}
        if gpu and gpu not in architectures:
            hint = suggestion(gpu, architectures) or f"known: {', '.join(sorted(architectures))}"
            raise InputError(f"GPU {self.gpu!r} is not known", Place("--gpu"), hint)
        platforms = profiles.platforms()
        if self.platform is None or self.platform in platforms:
            found = profiles.match(self.platform, None, gpu) if self.platform and gpu else None
            return found[0] if found else None
        try:
            found_profile = profiles.find(self.platform)
        except InputError as error:
            near = suggestion(self.platform, platforms)
            hint = near or f"platforms: {', '.join(platforms)}"
            message = f"{self.platform!r} is no platform, instance type or profile"
            raise InputError(message, Place("--platform"), hint) from error
        has = found_profile.profile.gpu
        if gpu and has and gpu not in has:
            message = f"{self.gpu!r} does not fit --platform {self.platform}"
            raise InputError(message, Place("--gpu"), f"which has {', '.join(has)}")
        return found_profile


def with_profile(context: ParseContext, profile: LoadedProfile | None) -> ParseContext:
    """Tell the parsers what the hardware profile says."""
    if profile is None:
        return context
    return replace(context, hardware=hardware_of_profile(profile, UNKNOWN))


def join_beside(documents: Sequence[Measurements]) -> list[Measurements]:
    """Let kernel and launcher logs join the one run that they stand beside."""
    runs = [document for document in documents if document.mode.tool]
    beside = [document for document in documents if not document.mode.tool]
    return [combine([*runs, *beside])] if len(runs) == 1 and beside else list(documents)


def judge(document: Measurements, asked: Asked, profile: LoadedProfile | None) -> GroupVerdict:
    """Judge one output as if it were one run.

    Raises:
        ExpressionError: an expression does not fit the figures of the tool.
    """
    names = _nodes(document)
    tool = asked.entry.tool if asked.entry else document.mode.tool
    nodes = len(names) or asked.nodes or 0
    if profile is None:
        profile = _profile_of(document, asked)
        document = _ranks_checked(document, profile)
    hardware = _hardware(document, asked, profile)
    bars = _bars(document, asked, tool, hardware, nodes) if tool else _no_figures(document)
    group = Group(id="run", nodes=names or ("unknown",))
    differs = [
        give("ASKED_DIFFERS", text, group=group.id)
        for text in contradictions(document, asked, profile)
    ]
    if differs:
        document = _without_profile(document)
    # As of a run that is not whole: figures are no proof while it is not clear what was measured.
    context = Situation(
        hardware=hardware,
        category=asked.entry.id if asked.entry else "",
        launcher=asked.entry.launcher.value if asked.entry else "",
        stage=asked.stage,
        scale=asked.entry.scale if asked.entry else "",
        nodes=nodes or None,
    )
    verdict = judge_output(group, tool, bars, document, seen=differs, context=context)
    return _with_own_remedy(verdict)


def _with_own_remedy(verdict: GroupVerdict) -> GroupVerdict:
    """Say what helps here, where there is no certification that could state a bar."""
    reasons = tuple(
        item.model_copy(update={"remedy": _NO_BAR}) if item.code == "NO_THRESHOLD" else item
        for item in verdict.reasons
    )
    return verdict.model_copy(update={"reasons": reasons})


def contradictions(
    document: Measurements, asked: Asked, profile: LoadedProfile | None
) -> list[str]:
    """Say what a person told that the output itself denies, each with both values.

    What a person tells fills in what the output leaves open; it never overrules the output. A bar
    of other hardware, or of another number of nodes, judges nothing.
    """
    found = []
    names = _nodes(document)
    if asked.nodes and names and asked.nodes != len(names):
        found.append(f"--nodes {asked.nodes}, but the output names {len(names)}: {_few(names)}")
    products = _products(document)
    wanted = {architecture_of(asked.gpu)} if asked.gpu else set()
    told = f"--gpu {asked.gpu}"
    if not wanted and profile is not None:
        wanted = set(profile.profile.gpu)
        told = f"--platform {asked.platform}, which has {', '.join(sorted(wanted))}"
    others = [product for product, gpu in products.items() if wanted and gpu not in wanted]
    if others:
        found.append(f"{told}, but the output names {_few(others)}")
    return found


def _without_profile(document: Measurements) -> Measurements:
    """Let nothing fail that was found by comparing with the hardware that was told."""
    findings = tuple(
        item.model_copy(update={"effect": Effect.INCONCLUSIVE})
        if item.code in _BY_PROFILE and item.effect is Effect.FAIL
        else item
        for item in document.findings
    )
    return document.model_copy(update={"findings": findings})


def _nodes(document: Measurements) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place.node for place in document.ranks if place.node))


def _products(document: Measurements) -> dict[str, str]:
    """Return the GPU products that the output names, with their architecture.

    A name without a model number, such as ``NVIDIA Graphics Device``, names nothing.
    """
    found = {place.product: architecture_of(place.product) for place in document.ranks}
    return {
        product: gpu for product, gpu in found.items() if product and any(map(str.isdigit, gpu))
    }


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _no_figures(document: Measurements) -> BarSet:
    none = Missing(code="NO_RESULT_ROWS", why="nothing was measured")
    if document.mode is not UNKNOWN_OUTPUT:
        why = f"output of kind {document.mode} holds no measurement"
        none = Missing(code="NO_RESULT_ROWS", why=why, remedy="judge it beside its run")
    return BarSet(nodes=1, missing=(none,))


def _bars(
    document: Measurements, asked: Asked, tool: str, hardware: Hardware, nodes: int
) -> BarSet:
    size = max(nodes, 1)
    entry = _entry_of(document, asked)
    if asked.expressions:
        made = [
            _own_bar(document, own_bar(text, tool, asked.scope), asked, hardware, nodes=nodes)
            for text in asked.expressions
        ]
        return BarSet(
            nodes=size,
            bars=tuple(bar for bar in made if isinstance(bar, Bar)),
            missing=tuple(_without_advice(bar) for bar in made if isinstance(bar, Missing)),
        )
    if entry is None:
        what = document.operation or document.tool or "this output"
        none = Missing(
            code="NO_THRESHOLD",
            why=f"the catalog has no bar for {what}",
            remedy="give --entry or --expr",
        )
        return BarSet(nodes=size, missing=(none,))
    # Of groups of no node nothing is expected, so the bars that need nothing are what is left.
    over_links = TOOLS[tool].measures_links and entry.scale != "intra-node"
    of_nodes = 0 if over_links and nodes == 0 else size
    bars, missing = bars_for(
        entry, asked.stage, hardware, of_nodes, _sizes(document), own=asked.own_bars, recorded=True
    )
    if of_nodes == 0:
        why = "the output does not name its nodes"
        missing = tuple(Missing(code=item.code, why=why, remedy="give --nodes") for item in missing)
    else:
        missing = tuple(map(_without_advice, missing))
        if hardware.profile is None:
            missing = tuple(_insisted(missing, document))
    return BarSet(nodes=size, bars=bars, missing=missing)


def _without_advice(item: Missing) -> Missing:
    """Leave out what would help a certification: there is none here."""
    return item.model_copy(update={"remedy": None})


def _insisted(missing: Iterable[Missing], document: Measurements) -> Iterator[Missing]:
    """Insist on the bars of figures that were measured, although they are optional.

    An optional bar may be left out where its figure is not to be had, not because nobody told what
    hardware it is.
    """
    for item in missing:
        measured = tuple(key for key in item.keys if key in document.figures)
        others = tuple(key for key in item.keys if key not in document.figures)
        for keys, code in ((measured, "NO_THRESHOLD"), (others, item.code)):
            if keys:
                yield Missing(code=code, keys=keys, why=item.why)


def _sizes(document: Measurements) -> dict[str, Setting]:
    """Tell the largest message of a sweep as the option that would have asked for it."""
    sizes = [row.size_bytes for row in document.rows if isinstance(row, NcclRow)]
    origin = Origin(rule="rows of the output", file=", ".join(document.files) or "output")
    return {"maxBytes": Setting(value=str(max(sizes)), origin=origin)} if any(sizes) else {}


def _entry_of(document: Measurements, asked: Asked) -> Entry | None:
    """Name the entry by what the output says it ran."""
    if asked.entry:
        return asked.entry
    tool = document.mode.tool
    # For example the bars of all levels of DCGM; which was asked for only a person can say.
    any_will_do = tool is not None and TOOLS[tool].same_bars
    fitting = [
        entry
        for entry in builtin_entries().values()
        if entry.tool == tool and (any_will_do or entry.operation == document.operation)
    ]
    # The loopback variants print the same table; the fabric variant is the one that is meant
    # unless the person says otherwise.
    return next((entry for entry in fitting if "loopback" not in entry.id), None)


def _hardware(document: Measurements, asked: Asked, profile: LoadedProfile | None) -> Hardware:
    gpu = architecture_of(_product(document) or asked.gpu)
    if profile is None:
        return Hardware(
            platform=asked.platform or UNKNOWN,
            gpu=gpu,
            gpus_per_node=_gpus_used(document),
        )
    known = profile.profile
    if gpu == UNKNOWN and len(known.gpu) == 1:
        gpu = known.gpu[0]
    stated = None if asked.platform in {known.name, known.platform} else asked.platform
    hardware = hardware_of_profile(profile, gpu, instance_type=stated)
    return replace(hardware, gpus_per_node=_gpus_used(document) or known.gpus)


def _product(document: Measurements) -> str:
    return next(iter(_products(document)), "").replace(" ", "-")


def _profile_of(document: Measurements, asked: Asked) -> LoadedProfile | None:
    """Return the profile of the platform that was told and the GPU that the output names."""
    product = _product(document)
    gpu = architecture_of(product or asked.gpu)
    if asked.platform is None or gpu == UNKNOWN:
        return None
    found = builtin_profiles().match(asked.platform, None, gpu, product=product or None)
    return found[0] if found else None


def _ranks_checked(document: Measurements, profile: LoadedProfile | None) -> Measurements:
    """Compare the device table with a profile that was not known when the output was parsed."""
    tool, gpus = document.mode.tool, profile.profile.gpus if profile else None
    if gpus is None or not document.ranks or tool is None:
        return document
    found = TOOL_STEPS[tool].check_gpus(document, gpus)
    return document.model_copy(update={"findings": (*document.findings, *found)})


def _gpus_used(document: Measurements) -> int | None:
    """Return how many GPUs of a node the device table names; None without a table."""
    used = Counter(place.node for place in document.ranks if place.gpu is not None)
    return max(used.values(), default=None)


def _own_bar(
    document: Measurements, bar: Bar, asked: Asked, hardware: Hardware, *, nodes: int
) -> Bar | Missing:
    """Put the numbers of stage and hardware into an expression of a person.

    Returns:
        The bar, or why there is none.
    """
    entry = _entry_of(document, asked)
    if entry is not None and nodes:
        options = _sizes(document)
        return with_numbers(bar, entry, asked.stage, hardware, nodes=nodes, options=options)
    if re.search(r"\bexpected\b", bar.expression):
        lacks = "what ran is not known; give --entry" if entry is None else "give --nodes"
        why = f"{bar.expression}: nothing says what to expect: {lacks}"
        return Missing(code="NO_THRESHOLD", why=why)
    return bar.model_copy(update={"values": stage_values(find_stage(asked.stage))})
