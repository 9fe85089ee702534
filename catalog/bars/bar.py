"""A bar whose height is known: one expression that a measurement must meet."""

from __future__ import annotations

from typing import Literal

from catalog.language.vocabulary import Scope
from catalog.reading.model import Model
from catalog.reading.setting import Origin

BarKind = Literal["rule", "published", "derived", "yours"]


class Bar(Model):
    """One expression that a measurement must meet.

    Attributes:
        key: NVCRE's threshold key or ours; names the bar in reports.
        expression: CEL over the figures of the entry's tool and ``values``.
        scope: what the expression is evaluated for; see `steps.evaluate.scopes`.
        values: constants that the expression may use, for example ``expected`` and ``fraction``.
        code: the detail code to report when the expression is false.
        kind: where its height comes from: ``rule`` (the same for all hardware), ``published`` (a
            figure of the same hardware), ``derived`` (from physics, where nothing is published) or
            ``yours`` (a threshold or a bar file).
        source: where the figure comes from, with its date.
        reasoning: why that figure is the one to compare with.
        origin: the rule that set it.
        optional: a missing figure skips the bar instead of making the verdict inconclusive; only
            for figures that some tools do not print, never for the main figure of an entry.
    """

    key: str
    expression: str
    scope: Scope = "group"
    values: dict[str, float] = {}
    code: str = "ThresholdViolation"
    kind: BarKind = "rule"
    source: str | None = None
    reasoning: str | None = None
    origin: Origin
    optional: bool = False


class Missing(Model):
    """Bars that cannot be asked for.

    Attributes:
        code: NO_THRESHOLD, BAR_LEFT_OUT where that is no more than a note, or NO_RESULT_ROWS.
        keys: keys of the bars; none where it is about all.
        why: why there are none.
        remedy: what helps.
    """

    code: str
    keys: tuple[str, ...] = ()
    why: str
    remedy: str | None = None

    @property
    def message(self) -> str:
        """All of it for people."""
        about = f"{', '.join(self.keys)}: " if self.keys else ""
        return about + self.why + (f"; {self.remedy}" if self.remedy else "")
