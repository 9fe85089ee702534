"""Values that know which rule set them."""

from __future__ import annotations

from typing import Any

from catalog.reading.model import Model


class Origin(Model):
    """The rule that set a value.

    Attributes:
        rule: name of the rule, for example ``profile aws/p5.48xlarge`` or ``certification``.
        file: the file it stands in.
        line: 1-based line where known.
        source: public source of the figure or setting.
    """

    rule: str
    file: str
    line: int | None = None
    source: str | None = None


class Replaced(Model):
    """A value that a later rule replaced."""

    value: Any = None
    origin: Origin


class Setting(Model):
    """A resolved value with its history, oldest replaced value first; None is a value too."""

    value: Any = None
    origin: Origin
    replaced: tuple[Replaced, ...] = ()
