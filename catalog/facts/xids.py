"""Xids: what each driver error number means and what it does to a verdict."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Self

from pydantic import Field, model_validator

from catalog.facts.reasons import Effect
from catalog.reading.model import Model
from catalog.reading.source import shipped


class XidClass(StrEnum):
    """Where an Xid comes from."""

    HARDWARE = "hardware"
    NVLINK = "nvlink"
    DRIVER = "driver"
    APPLICATION = "application"
    SECONDARY = "secondary"


class Xid(Model):
    """One driver error number.

    Attributes:
        number: as the driver prints it.
        name: what it means, in a few words.
        origin: where it comes from; ``class`` in the file.
        effect: what one sighting does to a verdict.
        fatal_word: the line says Fatal or Nonfatal, which decides instead of ``effect``.
        remedy: what to do next.
    """

    number: int
    name: str
    origin: XidClass = Field(alias="class")
    effect: Effect
    fatal_word: bool = False
    remedy: str | None = None

    @model_validator(mode="after")
    def _only_hardware_fails(self) -> Self:
        if self.effect is Effect.FAIL and self.origin not in {XidClass.HARDWARE, XidClass.NVLINK}:
            raise ValueError(f"Xid {self.number}: class {self.origin} cannot fail a node")
        return self


@cache
def _table() -> dict[int, Xid]:
    return {item["number"]: Xid.model_validate(item) for item in shipped("facts/xids.yaml").data}


def all_xids() -> tuple[Xid, ...]:
    """Return every known Xid, in the order of the file."""
    return tuple(_table().values())


def find_xid(number: int) -> Xid | None:
    """Look a number up; None for one that this version does not know."""
    return _table().get(number)
