"""Bars that compare a run with its peers: outliers of a fleet, and fleets that fall in two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog.bars.bar import Bar
from catalog.language.expressions import Expression
from steps.documents import Group, Outcome
from steps.evaluate.expressions import Trial, attempt, not_proven
from steps.evaluate.peers import Figures, PeerClass


@dataclass(frozen=True, slots=True)
class Question:
    """A bar over ``peer_median`` or ``peer_count``; its key names the figure that is compared.

    Attributes:
        bar: the bar.
        expression: the same, compiled.
    """

    bar: Bar
    expression: Expression

    def ask(self, peers: PeerClass, group: Group, known: Mapping[str, Any]) -> Trial:
        """Evaluate for one group, at both ends of what the median of the others can be.

        Args:
            peers: the runs of the same kind.
            group: the group that is judged.
            known: its figures and context, by name.
        """
        figure = self.bar.key
        found = peers.median(group, figure)
        values = {**known, **self.bar.values, "peer_count": found.known}
        if figure in known:
            values["value"] = known[figure]
        if "peer_median" not in self.expression.names:
            return attempt(self.expression, values, figure)
        lost = f"{found.total - found.known} of {found.total} other runs have no {figure}"
        if not (math.isfinite(found.low) and math.isfinite(found.high)):
            trial = Trial(Outcome.INCONCLUSIVE, self.expression.with_values(values), {})
            return not_proven(trial, "PEERS_MISSING", lost)
        trial = attempt(self.expression, values | {"peer_median": found.low}, figure)
        trial = replace(trial, values={**trial.values, "peer_count": found.known})
        if found.low == found.high:
            return trial
        other = attempt(self.expression, values | {"peer_median": found.high}, figure)
        if trial.outcome is other.outcome:
            return trial
        bounds = f"the median may be {found.low:.6g} to {found.high:.6g}"
        return not_proven(trial, "PEERS_MISSING", f"{lost}; {bounds}")

    def splits(self, peers: PeerClass, context: Mapping[str, Any]) -> bool:
        """Say whether half of the runs or more fall short, so that none of them is an outlier."""

        def falls_short(group: Group, figures: Figures) -> bool | None:
            if self.bar.key not in figures:
                return None
            return self.ask(peers, group, {**figures, **context}).outcome is Outcome.FAIL

        return peers.split(f"{self.bar.key}: {self.bar.expression}", falls_short)
