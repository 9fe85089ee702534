"""Short waits, so that whole runs take a moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.hardware.health import default_rules

QUICK = {
    "READINESS_SCHEDULING_DEADLINE": "0.3",
    "READINESS_POLL_SECONDS": "0.01",
    "READINESS_SETTLE_SECONDS": "0.05",
    "READINESS_CLEANUP_SECONDS": "0.2",
    "READINESS_API_PATIENCE": "0.1",
    "READINESS_LIFE_SECONDS": "0.3",
    "READINESS_BACKOFF_SECONDS": "0.01",
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)
    rules = [replace(r, for_seconds=r.for_seconds and 0.05) for r in default_rules()]
    monkeypatch.setattr("catalog.hardware.health.default_rules", lambda: rules)
