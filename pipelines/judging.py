"""Judging output that somebody already has, by what is told and what it says itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.bars import Hardware, bars_for
from catalog.entry import Entry, Tool, builtin_entries
from catalog.errors import ExpressionError, InputError, Place
from catalog.expressions import check_threshold, split_keyed
from catalog.model import suggestion
from catalog.platforms import UNKNOWN, architecture_of, platform_rules
from catalog.profile import LoadedProfile, builtin_profiles
from catalog.resolved import Bar, Origin
from steps.documents import BarSet, Group, GroupVerdict, Measurements, ReadMode
from steps.evaluate.group import judge_output
from steps.parse.api import ParseContext
from steps.parse.reader import combine

TOOLS: dict[ReadMode, Tool] = {
    ReadMode.NCCL_TABLE: "nccl",
    ReadMode.NCCL_JSON: "nccl",
    ReadMode.DCGM_JSON: "dcgm",
    ReadMode.DCGM_TEXT: "dcgm",
    ReadMode.NVBANDWIDTH_JSON: "dcgm",
    ReadMode.TRAINING_LOG: "training",
}
"""The tool whose figures an output has; kernel and launcher logs have none of their own."""

_CODES = {"nccl": "NCCL_LOW_BANDWIDTH", "training": "TRAIN_SLOW"}


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
    """

    entry: Entry | None = None
    stage: str = "production"
    expressions: Sequence[str] = ()
    platform: str | None = None
    gpu: str | None = None
    nodes: int | None = None

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
                own_bar(text, self.entry.tool)
        return profile

    def _profile(self) -> LoadedProfile | None:
        profiles = builtin_profiles()
        gpu = architecture_of(self.gpu) if self.gpu else None
        architectures = {name for p in profiles.all() for name in p.profile.architectures}
        if gpu and gpu not in architectures:
            hint = suggestion(gpu, architectures) or f"known: {', '.join(sorted(architectures))}"
            raise InputError(f"GPU {self.gpu!r} is not known", Place("--gpu"), hint)
        platforms = {rule.platform for rule in platform_rules()}
        if self.platform is None or self.platform in platforms:
            found = profiles.match(self.platform, None, gpu) if self.platform and gpu else None
            return found[0] if found else None
        try:
            return profiles.find(self.platform)
        except InputError as error:
            near = suggestion(self.platform, platforms)
            hint = near or f"platforms: {', '.join(sorted(platforms))}"
            message = f"{self.platform!r} is no platform, instance type or profile"
            raise InputError(message, Place("--platform"), hint) from error


def with_profile(context: ParseContext, profile: LoadedProfile | None) -> ParseContext:
    """Tell the parsers what the hardware profile says."""
    if profile is None:
        return context
    return replace(
        context,
        gpus_per_node=profile.profile.gpus,
        transport=profile.profile.transport,
        nvlink=profile.profile.nvlink,
        multi_node_nvlink=profile.profile.mnnvl,
    )


def join_beside(documents: Sequence[Measurements]) -> list[Measurements]:
    """Let kernel and launcher logs join the one run that they stand beside."""
    runs = [document for document in documents if document.mode in TOOLS]
    beside = [document for document in documents if document.mode not in TOOLS]
    return [combine([*runs, *beside])] if len(runs) == 1 and beside else list(documents)


def judge(document: Measurements, asked: Asked, profile: LoadedProfile | None) -> GroupVerdict:
    """Judge one output as if it were one run.

    Raises:
        ExpressionError: an expression does not fit the figures of the tool.
    """
    names = tuple(dict.fromkeys(place.node for place in document.ranks if place.node))
    tool = asked.entry.tool if asked.entry else TOOLS.get(document.mode)
    nodes = asked.nodes or len(names)
    bars = _bars(document, asked, profile, nodes) if tool else _no_figures(document)
    return judge_output(Group(id="run", nodes=names or ("unknown",)), tool or "", bars, document)


def _no_figures(document: Measurements) -> BarSet:
    if document.mode is ReadMode.UNKNOWN:
        return BarSet(nodes=1, missing=(("NO_RESULT_ROWS", "nothing was measured"),))
    text = f"output of kind {document.mode} holds no measurement; judge it beside its run"
    return BarSet(nodes=1, missing=(("NO_RESULT_ROWS", text),))


def _bars(
    document: Measurements, asked: Asked, profile: LoadedProfile | None, nodes: int
) -> BarSet:
    tool = asked.entry.tool if asked.entry else TOOLS[document.mode]
    size = max(nodes, 1)
    if asked.expressions:
        own = tuple(own_bar(text, tool) for text in asked.expressions)
        return BarSet(nodes=size, bars=own)
    entry = _entry_of(document, asked)
    if entry is None:
        what = document.operation or document.tool or "this output"
        why = f"the catalog has no bar for {what}; give --entry or --expr"
        return BarSet(nodes=size, missing=(("NO_THRESHOLD", why),))
    hardware = _hardware(document, asked, profile)
    # Groups of no node have no published figure, so the bars that need none are what is left.
    of_nodes = 0 if tool == "nccl" and nodes == 0 else size
    bars, missing = bars_for(entry, asked.stage, hardware, of_nodes, {})
    if of_nodes == 0:
        missing = tuple(
            (code, "the output does not name its nodes; give --nodes") for code, _ in missing
        )
    return BarSet(nodes=size, bars=bars, missing=missing)


def _entry_of(document: Measurements, asked: Asked) -> Entry | None:
    """Name the entry by what the output says it ran."""
    if asked.entry:
        return asked.entry
    if TOOLS[document.mode] == "dcgm":
        # The bars of all levels are the same; which level was asked for only a person can say.
        return builtin_entries()["diagnostics/dcgm-level1"]
    fitting = [
        entry
        for entry in builtin_entries().values()
        if entry.tool == TOOLS[document.mode] and entry.operation == document.operation
    ]
    # The loopback variants print the same table; the fabric variant is the one that is meant
    # unless the person says otherwise.
    return next((entry for entry in fitting if "loopback" not in entry.id), None)


def _hardware(document: Measurements, asked: Asked, profile: LoadedProfile | None) -> Hardware:
    product = next((place.product for place in document.ranks if place.product), None)
    gpu = architecture_of(asked.gpu or product)
    if profile is None and asked.platform and gpu != UNKNOWN:
        found = builtin_profiles().match(asked.platform, None, gpu, product=product)
        profile = found[0] if found else None
    if profile is None:
        return Hardware(
            platform=asked.platform or UNKNOWN,
            gpu_architecture=gpu,
            gpus_per_node=max((place.gpu or 0 for place in document.ranks), default=0) + 1,
        )
    hardware = profile.profile
    if gpu == UNKNOWN and len(hardware.architectures) == 1:
        gpu = hardware.architectures[0]
    return Hardware(
        platform=hardware.platform,
        gpu_architecture=gpu,
        gpus_per_node=hardware.gpus or 1,
        instance_type=asked.platform if asked.platform in hardware.instance_types else None,
        profile=profile.name,
    )


def own_bar(text: str, tool: str) -> Bar:
    """Compile one expression that a person gave.

    Raises:
        ExpressionError: it is no valid expression over the figures of the tool.
    """
    key, expression = split_keyed(text)
    place = Place("--expr")
    if key is None and re.search(r"\bvalue\b", expression):
        hint = "write KEY: expression over value"
        raise ExpressionError(f"uses value without a key: {text}", place, hint)
    check_threshold(key or "expr", expression, tool, place)
    origin = Origin(rule="--expr", file="--expr")
    code = _CODES.get(tool, "ThresholdViolation")
    return Bar(key=key or "expr", expression=expression, code=code, origin=origin)
