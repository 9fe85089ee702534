"""Exit codes of the commands."""

from __future__ import annotations

from enum import IntEnum

from steps.documents import Outcome, Result


class Exit(IntEnum):
    """Exit codes of every command; the last two are those of a shell for a signal."""

    PASS = 0
    FAIL = 1
    BAD_INPUT = 2
    INCONCLUSIVE = 3
    INCOMPLETE = 4
    INTERRUPTED = 130
    BROKEN_PIPE = 141


EXIT_HELP = (
    "Exit codes: 0 PASS, 1 FAIL, 2 wrong use or bad input, 3 INCONCLUSIVE, "
    "4 INCOMPLETE (nothing failed, but targeted nodes were not covered)."
)


def exit_of(outcome: Outcome | Result) -> Exit:
    """Return the exit code of an outcome."""
    return Exit[outcome.value]
