"""The one place that pins the image of the steps.

Images of the workloads are pinned by the catalog entries and profiles.
"""

from __future__ import annotations

from importlib import metadata

STEPS_IMAGE = f"readiness-steps:{metadata.version('readiness')}"
"""Image with `python -m steps`, built from containers/steps; `readiness render --image` replaces it
by the name under which a registry serves it, best with its digest."""
