"""The stages of a certification: how high their bars are."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from catalog.errors import InputError, Place
from catalog.reading.model import Model, suggestion
from catalog.reading.source import shipped


class Stage(Model):
    """The numbers of a stage; see ``stages.yaml`` for the meaning of each."""

    says: str
    fraction: Annotated[float, Field(gt=0, le=1)]
    max_dip: float
    max_spread: float
    max_step_time_spread: float
    min_steps: int
    require_expected: bool


@cache
def stages() -> dict[str, Stage]:
    """Return the stages, mildest first."""
    return {
        name: Stage.model_validate(item) for name, item in shipped("bars/stages.yaml").data.items()
    }


def find_stage(name: str, place: Place | None = None) -> Stage:
    """Return a stage by name.

    Raises:
        InputError: no such stage.
    """
    if name in stages():
        return stages()[name]
    hint = suggestion(name, stages()) or f"one of {', '.join(stages())}"
    raise InputError(f"there is no stage {name!r}", place, hint)


def stage_values(stage: Stage) -> dict[str, float]:
    """Return the numbers that a stage puts into bars, by the name that bars use."""
    return {
        "fraction": stage.fraction,
        "max_dip": stage.max_dip,
        "max_spread": stage.max_spread,
        "max_step_time_spread": stage.max_step_time_spread,
        "min_steps": float(stage.min_steps),
    }
