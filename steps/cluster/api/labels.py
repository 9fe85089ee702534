"""Labels of everything that a workflow makes: to be found by, and to be read by people."""

from __future__ import annotations

import hashlib
import re

LABEL_UID = "readiness/uid"
"""The uid of the Workflow, by which everything is selected: names are long, and come back."""

LABEL_WORKFLOW = "readiness/workflow"
"""The name of the Workflow, for people; a long one is cut."""

LABEL_KIND = "readiness/kind"
LABEL_CATEGORY = "readiness/category"
LABEL_GROUP = "readiness/group"
LABEL_ROLE = "readiness/role"
LABEL_LEASE = "readiness/lease"

LONGEST_VALUE = 63


def label_value(text: str) -> str:
    """Turn any text into a label value; long ones keep their start and get a digest."""
    value = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "x"
    if len(value) <= LONGEST_VALUE:
        return value
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{value[: LONGEST_VALUE - 11].rstrip('-._')}-{digest}"
