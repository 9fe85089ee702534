"""How long workflows may take and are kept."""

from __future__ import annotations

from datetime import timedelta

LONGEST = timedelta(days=3)
"""Deadline of a workflow whose submitter sets none. Argo takes no parameter there, so it only is
the net under the deadline that the steps keep to; `readiness submit` and `render` set their own."""

MARGIN = timedelta(hours=1)
"""Time to judge and report after the certification's own deadline."""

KEEP = timedelta(days=7)
"""How long a finished workflow is kept; its report stays."""
