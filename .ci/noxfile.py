"""Tests on every Python that is supported: ``uv run nox -f .ci/noxfile.py``.

Each session gets the locked packages, whatever Python the checkout itself uses. What stands after
``--`` is handed to pytest: ``uv run nox -f .ci/noxfile.py -s tests-3.13 -- tests/language``.
"""

from __future__ import annotations

import nox

PYTHONS = ("3.11", "3.12", "3.13")

nox.options.default_venv_backend = "uv"
nox.options.sessions = ["tests"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests that need no cluster."""
    session.chdir("..")
    session.run_install(
        "uv",
        "sync",
        "--frozen",
        "--all-extras",
        f"--python={session.virtualenv.location}",
        env={"UV_PROJECT_ENVIRONMENT": session.virtualenv.location},
    )
    session.run("python", "-m", "pytest", "-q", *session.posargs)
