"""Stages, reference figures, and the bars that follow from them.

Pure: the same entry, stage, hardware and group size always give the same bars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from catalog.entry import BarTemplate, Entry
from catalog.errors import InputError, Place
from catalog.expressions import Expression, check_threshold, code_of
from catalog.model import Model, suggestion
from catalog.resolved import Bar, Origin, Setting

Missing = tuple[tuple[str, str], ...]


class Stage(Model):
    """How high the bars of a stage are; see ``stages.yaml`` for the meaning of each field."""

    says: str
    fraction: Annotated[float, Field(gt=0, le=1)]
    max_dip: float
    max_step_time_spread: float
    min_steps: int
    require_reference: bool


class Reference(Model):
    """A published figure; see ``references.yaml`` for the meaning of each field."""

    figure: str
    operation: str
    path: Literal["fabric", "nvlink", "nic"]
    gpu: str
    platforms: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    mnnvl: bool | None = None
    nodes: tuple[int, int]
    value: Annotated[float, Field(gt=0)]
    size: str | None = None
    kind: Literal["measured", "floor", "wire"]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What a bar depends on besides entry, stage and group size.

    Attributes:
        gpus_per_node: None where nobody knows; bars over it are left out then, with a note.
    """

    platform: str
    gpu_architecture: str
    gpus_per_node: int | None
    instance_type: str | None = None
    profile: str | None = None


def _data(name: str) -> Any:
    return yaml.safe_load(resources.files("catalog").joinpath(name).read_text(encoding="utf-8"))


@cache
def stages() -> dict[str, Stage]:
    """Return the stages, mildest first."""
    return {name: Stage.model_validate(item) for name, item in _data("stages.yaml").items()}


@cache
def references() -> tuple[Reference, ...]:
    """Return the published figures, in the order in which they are tried."""
    return tuple(Reference.model_validate(item) for item in _data("references.yaml"))


def find_stage(name: str, place: Place | None = None) -> Stage:
    """Return a stage by name.

    Raises:
        InputError: no such stage.
    """
    if name in stages():
        return stages()[name]
    hint = suggestion(name, stages()) or f"one of {', '.join(stages())}"
    raise InputError(f"there is no stage {name!r}", place, hint)


def find_reference(
    entry: Entry, figure: str, hardware: Hardware, *, nodes: int, mnnvl: bool
) -> Reference | None:
    """Return the first published figure that fits, or None."""
    path = entry.facts.get("path", "fabric")
    if path == "fabric" and nodes == 1 and entry.tool == "nccl":
        path = "nvlink"
    for row in references():
        if (
            (row.figure, row.operation, row.path) == (figure, entry.operation, path)
            and row.gpu == hardware.gpu_architecture
            and row.nodes[0] <= nodes <= row.nodes[1]
            and (not row.platforms or hardware.platform in row.platforms)
            and (not row.instance_types or hardware.instance_type in row.instance_types)
            and (row.mnnvl is None or row.mnnvl == mnnvl)
        ):
            return row
    return None


def bars_for(
    entry: Entry,
    stage: str,
    hardware: Hardware,
    nodes: int,
    options: Mapping[str, Setting],
) -> tuple[tuple[Bar, ...], Missing]:
    """Work out what must hold for groups of ``nodes`` nodes.

    Thresholds of the certification replace the stage's bar of the same key, or all of them with
    ``replaceBars``.

    Returns:
        The bars, and why bars are missing, a code and a message for each: NO_THRESHOLD, or
        BAR_LEFT_OUT where that is no more than a note.

    Raises:
        InputError: no such stage.
        ExpressionError: a threshold of the certification is no valid CEL.
    """
    rules = find_stage(stage)
    thresholds = options.get("thresholds")
    own: dict[str, str] = dict(thresholds.value or {}) if thresholds else {}
    replace_all = bool(options["replaceBars"].value) if "replaceBars" in options else False
    bars: list[Bar] = []
    missing: list[tuple[str, str]] = []
    for template in entry.bars:
        if template.key in own or (replace_all and own):
            continue
        if template.stages and stage not in template.stages:
            continue
        if "gpusPerNode" in template.uses and hardware.gpus_per_node is None:
            why = f"{template.expression}: the GPUs per node are not known"
            missing.append(("BAR_LEFT_OUT" if template.optional else "NO_THRESHOLD", why))
            continue
        reference = None
        if "reference" in template.uses:
            figure = "busBandwidthGBps" if entry.tool == "nccl" else template.key
            mnnvl = _mnnvl(hardware, options)
            reference = find_reference(entry, figure, hardware, nodes=nodes, mnnvl=mnnvl)
            if reference is None:
                if rules.require_reference:
                    why = _no_reference(template, entry, hardware, nodes)
                    missing.append(("NO_THRESHOLD", why))
                continue
        bars.append(_bar(template, stage, hardware, reference))
    if thresholds:
        place = Place(thresholds.origin.file, thresholds.origin.line)
        for key, text in own.items():
            code = _code(entry, key, check_threshold(key, text, entry.tool, place))
            bars.append(Bar(key=key, expression=text, code=code, origin=thresholds.origin))
    return tuple(bars), tuple(missing)


def stage_values(stage: Stage) -> dict[str, float]:
    """Return the numbers that a stage puts into bars, by the name that bars use."""
    return {
        "fraction": stage.fraction,
        "maxDip": stage.max_dip,
        "maxStepTimeSpread": stage.max_step_time_spread,
        "minSteps": float(stage.min_steps),
    }


def _bar(template: BarTemplate, stage: str, hardware: Hardware, reference: Reference | None) -> Bar:
    known = {**stage_values(find_stage(stage)), "gpusPerNode": float(hardware.gpus_per_node or 0)}
    source = None
    if reference:
        known["reference"] = reference.value
        source = f"{reference.source} ({reference.kind}"
        source += f", {reference.size})" if reference.size else ")"
    return Bar(
        key=template.key,
        expression=template.expression,
        values={name: known[name] for name in template.uses},
        code=template.code,
        source=source,
        origin=Origin(rule=f"stage {stage}", file="catalog/stages.yaml", source=source),
        optional=template.optional,
    )


def _no_reference(template: BarTemplate, entry: Entry, hardware: Hardware, nodes: int) -> str:
    where = hardware.instance_type or hardware.platform
    return (
        f"no published {template.key} of {entry.id} for {hardware.gpu_architecture} on {where} "
        f"with {nodes} node{'s' if nodes != 1 else ''}; state a bar in thresholds"
    )


def _mnnvl(hardware: Hardware, options: Mapping[str, Setting]) -> bool:
    """NVLink across nodes is on by default where the hardware has it, as in NVCRE."""
    setting = options.get("enableMNNVL")
    if setting is not None and setting.value is not None:
        return bool(setting.value)
    return hardware.gpu_architecture in {"gb200", "gb300"}


def _code(entry: Entry, key: str, expression: Expression) -> str:
    """Name the code of a threshold of the user's own: that of the bar it replaces, if any."""
    own = code_of(key, expression, entry.tool)
    if own == "FIGURE_MISSING":
        return own
    return next((template.code for template in entry.bars if template.key == key), own)
