"""Names and labels of what one attempt of one group creates."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from steps.cluster.api.store import LABEL_CATEGORY, LABEL_WORKFLOW
from steps.store.store import slug

LABEL_GROUP = "readiness/group"
LABEL_ROLE = "readiness/role"

Role = Literal["worker", "launcher"]

_LONGEST = 63


@dataclass(frozen=True, slots=True)
class GroupNames:
    """Names of one attempt.

    Attributes:
        workflow: name of the Workflow.
        category: category id.
        group: group id, unique in the category.
        attempt: 1-based.
    """

    workflow: str
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
            LABEL_WORKFLOW: self.workflow,
            LABEL_CATEGORY: label_value(self.category),
            LABEL_GROUP: label_value(self.group),
        }
        return labels | ({LABEL_ROLE: role} if role else {})

    def object(self, part: str) -> str:
        """Return the name of an object.

        At most 46 characters, so that the host names of an Indexed Job's pods still fit into 63.
        """
        key = "\0".join((self.workflow, self.category, self.group, str(self.attempt), part))
        digest = hashlib.sha256(key.encode()).hexdigest()[:10]
        return "-".join(
            piece
            for piece in (_word(self.workflow, 12), _word(self.group, 12), _word(part, 8), digest)
            if piece
        )


def label_value(text: str) -> str:
    """Turn any text into a label value; long ones keep their start and get a digest."""
    value = slug(text).strip("-._") or "x"
    if len(value) <= _LONGEST:
        return value
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{value[: _LONGEST - 11].rstrip('-._')}-{digest}"


def _word(text: str, length: int) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:length].strip("-")
