"""Names and labels of what one attempt of one group creates."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from steps.cluster.api.labels import LABEL_CATEGORY, LABEL_GROUP, LABEL_ROLE, label_value
from steps.cluster.api.owner import WorkflowRun

Role = Literal["worker", "launcher"]


@dataclass(frozen=True, slots=True)
class GroupNames:
    """Names of one attempt.

    Attributes:
        workflow: the run that they belong to.
        category: category id.
        group: group id, unique in the category.
        attempt: 1-based.
    """

    workflow: WorkflowRun
    category: str
    group: str
    attempt: int = 1

    @property
    def selector(self) -> str:
        """Return the label selector of everything of the group, of all attempts."""
        return ",".join(f"{name}={value}" for name, value in self.labels().items())

    def labels(self, role: Role | None = None) -> dict[str, str]:
        """Return the labels of an object."""
        labels = {
            **self.workflow.labels,
            LABEL_CATEGORY: label_value(self.category),
            LABEL_GROUP: label_value(self.group),
        }
        return labels | ({LABEL_ROLE: role} if role else {})

    def object(self, part: str) -> str:
        """Return the name of an object.

        At most 46 characters, so that the host names of an Indexed Job's pods still fit into 63.
        """
        run, attempt = self.workflow, str(self.attempt)
        key = "\0".join((run.uid, run.name, self.category, self.group, attempt, part))
        digest = hashlib.sha256(key.encode()).hexdigest()[:10]
        return "-".join(
            piece
            for piece in (_word(run.name, 12), _word(self.group, 12), _word(part, 8), digest)
            if piece
        )


def _word(text: str, length: int) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:length].strip("-")
