"""How long things may take while a group runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from catalog.errors import InputError, Place
from steps.cluster.api.store import OUTAGE_SECONDS
from steps.jobs.retry import FIRST_BACKOFF

_VARIABLES = {
    "scheduling": "READINESS_SCHEDULING_DEADLINE",
    "poll": "READINESS_POLL_SECONDS",
    "settle": "READINESS_SETTLE_SECONDS",
    "cleanup": "READINESS_CLEANUP_SECONDS",
    "life": "READINESS_LIFE_SECONDS",
    "outage": "READINESS_API_PATIENCE",
    "last_words": "READINESS_LAST_WORDS_SECONDS",
    "backoff": "READINESS_BACKOFF_SECONDS",
}


@dataclass(frozen=True, slots=True)
class Times:
    """Waits in seconds; each can be set by an environment variable of the run step.

    Attributes:
        scheduling: for the whole gang to become Ready; time in a queue does not count.
        poll: between two looks at pods and nodes.
        settle: how long a gang's failure is watched for a cause that shows later than its echo;
            Kubernetes calls a dead node NotReady after up to 50 s (node-monitor-grace-period).
        cleanup: for deleted pods to be gone.
        stopped_cleanup: the same when the step was told to stop, which leaves it 30 s in all.
        life: for a sign of life of every node after the run, and for what is wrong with one to
            pass or to last; longer than Kubernetes takes to call a dead node NotReady, and than
            that must last to count.
        outage: how long the API may be away while a job runs.
        last_words: for run steps that were told to stop, before others clean up after them.
        backoff: before the second attempt.
    """

    scheduling: float = 600.0
    poll: float = 3.0
    settle: float = 55.0
    cleanup: float = 90.0
    stopped_cleanup: float = 15.0
    life: float = 150.0
    outage: float = OUTAGE_SECONDS
    last_words: float = 120.0
    backoff: float = FIRST_BACKOFF.total_seconds()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Times:
        """Read the times.

        Raises:
            InputError: a variable is no positive number of seconds.
        """
        found: dict[str, Any] = {}
        for name, variable in _VARIABLES.items():
            text = environment.get(variable)
            if text is None:
                continue
            try:
                found[name] = float(text)
            except ValueError:
                found[name] = -1.0
            if not 0 < found[name] < timedelta(days=365).total_seconds():
                raise InputError(f"must be a number of seconds, not {text!r}", Place(variable))
        return cls(**found)
