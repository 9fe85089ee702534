"""Conditions on a run: where a rule of a profile, or a bar of the user's, holds."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from catalog.hardware.hardware import Situation
from catalog.reading.model import Model


def _names(value: Any) -> Any:
    """Let people write ``aws`` or ``[aws, gcp]`` for ``{in: [aws, gcp]}``."""
    if isinstance(value, str):
        return {"in": [value]}
    return {"in": value} if isinstance(value, list | tuple) else value


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Globs = Annotated[
    tuple[str, ...], BeforeValidator(_list, json_schema_input_type=str | tuple[str, ...])
]


class Names(Model):
    """A condition on a name, in any case: one of ``in`` (globs), and none of ``notIn``."""

    within: Annotated[Globs, Field(alias="in")] = ()
    not_in: Globs = ()

    def fits(self, name: str | None) -> bool:
        """Say whether the condition holds for ``name``; a name that is not known fits no ``in``."""
        if self.within and not matches(name or "", self.within):
            return False
        return not matches(name or "", self.not_in)


def matches(name: str, globs: Iterable[str]) -> bool:
    """Say whether a name is one of those that globs stand for, in any case."""
    return any(fnmatchcase(name.lower(), glob.lower()) for glob in globs)


def meet(one: str, other: str) -> bool:
    """Say whether two globs may stand for the same name: one of them matches the other."""
    return matches(one, [other]) or matches(other, [one])


class Range(Model):
    """A condition on a count, ends included; None is no bound."""

    min: int | None = None
    max: int | None = None

    def fits(self, count: int | None) -> bool:
        """Say whether ``count`` is in the range; one that is not known is in no bounded range."""
        if count is None:
            return self.min is None and self.max is None
        return (self.min is None or count >= self.min) and (self.max is None or count <= self.max)


class Versions(Model):
    """A condition on the version of software found on the nodes: ``min`` ≤ version < ``below``.

    Attributes:
        missing: whether it holds when the version is not known.
    """

    min: str | None = None
    below: str | None = None
    missing: bool = False

    def fits(self, version: str | None) -> bool:
        """Say whether the condition holds; a version that is no number is not known."""
        number = version_number(version)
        if number is None:
            return self.missing
        low, high = version_number(self.min), version_number(self.below)
        return (low is None or number >= low) and (high is None or number < high)

    @field_validator("min", "below")
    @classmethod
    def _is_version(cls, text: str | None) -> str | None:
        if text is not None and version_number(text) is None:
            raise ValueError("must be a version such as 1.0.17")
        return text


def version_number(text: str | None) -> tuple[int, ...] | None:
    """Read ``v1.0.17`` or ``1.0.17-build3``; None when it is no version."""
    digits = (text or "").removeprefix("v").partition("-")[0].partition("+")[0].split(".")
    return tuple(int(part) for part in digits) if all(p.isdecimal() for p in digits) else None


NameCondition = Annotated[
    Names, BeforeValidator(_names, json_schema_input_type=str | tuple[str, ...] | Names)
]


class When(Model):
    """Conditions on a run; all that are given must hold, and none at all always holds.

    Attributes:
        category: category id, for example ``communication/*``.
        launcher: mpi, torchrun or per-node.
        stage: stage of the certification.
        scale: full-scale, intra-rack, intra-node or diagnose.
        nodes: nodes of one job.
        platform: platform of the nodes.
        gpu: GPU architecture.
        instance_type: instance type.
        profile: name of the matched profile.
        gpus_per_node: GPUs that are used on each node.
        nics_per_node: network devices that are asked for on each node.
        mnnvl: whether NVLink across nodes is on.
        software: versions found on the nodes, by name, for example ``tcpxo``.
    """

    category: NameCondition = Names()
    launcher: NameCondition = Names()
    stage: NameCondition = Names()
    scale: NameCondition = Names()
    nodes: Range = Range()
    platform: NameCondition = Names()
    gpu: NameCondition = Names()
    instance_type: NameCondition = Names()
    profile: NameCondition = Names()
    gpus_per_node: Range = Range()
    nics_per_node: Range = Range()
    mnnvl: bool | None = None
    software: dict[str, Versions] = {}

    def holds(self, run: Situation) -> bool:
        """Say whether all conditions hold."""
        hardware = run.hardware
        return (
            self.category.fits(run.category)
            and self.launcher.fits(run.launcher)
            and self.stage.fits(run.stage)
            and self.scale.fits(run.scale)
            and self.nodes.fits(run.nodes)
            and self.platform.fits(hardware.platform)
            and self.gpu.fits(hardware.gpu)
            and self.instance_type.fits(hardware.instance_type)
            and self.profile.fits(hardware.profile)
            and self.gpus_per_node.fits(hardware.gpus_per_node)
            and self.nics_per_node.fits(hardware.nics_per_node)
            and self.mnnvl in {None, hardware.mnnvl}
            and all(want.fits(hardware.software.get(name)) for name, want in self.software.items())
        )
