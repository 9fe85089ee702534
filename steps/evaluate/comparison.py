"""Two runs of the same nodes that came out differently: what else differs between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steps.documents import GroupVerdict, Outcome

_SETTINGS = ("transport", "nicsPerNode", "gpuDirectRdma", "channelsVia")
"""Facts that settle how fast a run is, beside the environment of NCCL."""
MOST_DIFFERENCES = 6


def flips(runs: Iterable[tuple[str, GroupVerdict]]) -> list[str]:
    """Say what differs in settings where the same nodes passed in one run and failed in another.

    A good node with a bad setting looks like a bad node; the setting stands beside the flip then.

    Args:
        runs: name and verdict of each run.

    Returns:
        One line for each node set that flips and whose settings differ.
    """
    by_nodes: dict[tuple[str, ...], dict[Outcome, tuple[str, GroupVerdict]]] = {}
    for name, verdict in runs:
        by_nodes.setdefault(verdict.group.nodes, {}).setdefault(verdict.outcome, (name, verdict))
    lines = []
    for found in by_nodes.values():
        if Outcome.PASS in found and Outcome.FAIL in found:
            (good, passed), (bad, failed) = found[Outcome.PASS], found[Outcome.FAIL]
            differences = _differences(failed.facts, passed.facts)
            if differences:
                lines.append(f"{bad} failed and {good} passed; {'; '.join(differences)}")
    return lines


def _differences(failed: Mapping[str, str], passed: Mapping[str, str]) -> list[str]:
    names = sorted(
        name
        for name in {*failed, *passed}
        if (name in _SETTINGS or name.startswith("env.")) and failed.get(name) != passed.get(name)
    )
    return [
        f"{name.removeprefix('env.')} was {_shown(failed, name)} where it failed "
        f"and {_shown(passed, name)} where it passed"
        for name in names[:MOST_DIFFERENCES]
    ]


def _shown(facts: Mapping[str, str], name: str) -> str:
    value = facts.get(name)
    return "not set" if value is None else value or "empty"
