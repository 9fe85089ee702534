"""The figures that expressions may name, by tool."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

import yaml

from catalog.reading.model import Model


class FigureType(Model):
    """What a figure is; see ``figures.yaml``."""

    type: Literal["double", "int", "map"]
    unit: str
    says: str
    optional: bool = False


@cache
def figures_of(tool: str) -> dict[str, FigureType]:
    """Return the figures of a tool (nccl, dcgm, training), by name; empty for an unknown tool."""
    text = resources.files("catalog.facts").joinpath("figures.yaml").read_text(encoding="utf-8")
    table = yaml.safe_load(text).get(tool, {})
    return {name: FigureType.model_validate(item) for name, item in table.items()}
