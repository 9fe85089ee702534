"""Puts what several readers, or several outputs of one run, said into one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from catalog.facts.reasons import reason
from catalog.facts.tools import output_kinds
from steps.documents import (
    Completeness,
    Entity,
    Finding,
    Measurements,
    RankPlace,
)
from steps.parse.api import ParseContext, Part
from steps.parse.findings import finding, made_up_for
from steps.parse.hosts import check_hosts, node_names
from steps.parse.sightings import node_of_rank

MAX_FINDINGS = 500


def from_parts(parts: Sequence[Part], name: str, context: ParseContext) -> Measurements:
    """Return the document of one output.

    Args:
        parts: what the readers found, the main one first; at least one.
        name: of the output.
        context: what is known about the run.
    """
    main, *others = parts
    printed = _merged_ranks(part.ranks for part in parts)
    names = node_names(printed, context)
    ranks = tuple(
        place.model_copy(update={"node": names[place.node]}) if place.node in names else place
        for place in printed
    )
    findings = list(main.findings)
    for part in others:
        findings += [
            made_up_for(item, main.start) if part.mode.of_attempts else item
            for item in part.findings
            if _joins(item, main)
        ]
    findings += check_hosts(printed, context)
    return Measurements(
        category=context.category,
        mode=main.mode,
        files=(name,),
        tool=main.tool,
        operation=main.operation,
        completeness=main.completeness or _without_result(main),
        figures=main.figures,
        rows=tuple(main.rows),
        findings=_tidy(findings, ranks, context, names),
        ranks=ranks,
        versions=_merged(part.versions for part in parts),
        exit_code=context.exit_code,
        facts=_merged(part.facts for part in parts),
    )


def _joins(item: Finding, main: Part) -> bool:
    """Whether a finding of another reader is one of the whole output.

    A process that a launcher saw end badly spoils a result that is complete by itself. dcgmi ends
    with an error code after every Fail; its reader has weighed the two.
    """
    if item.code == "EXIT_CODE_NONZERO" and not main.mode.weighs_exit:
        return main.completeness in {None, Completeness.COMPLETE}
    return not reason(item.code).about_output


def _without_result(part: Part) -> Completeness:
    """Return the completeness of an output whose reader cannot tell, such as a kernel log."""
    if part.mode.of_attempts:
        return Completeness.ABORTED
    return Completeness.COMPLETE


def combine(measurements: Sequence[Measurements]) -> Measurements:
    """Return one document for several outputs of one run, for example a tool's and a kernel log.

    Figures and rows are those of the output that holds the result; findings, versions and facts of
    all outputs are kept. A bystander, such as a kernel log, never makes up for a missing result.

    Raises:
        ValueError: no measurements are given.
    """
    if not measurements:
        raise ValueError("nothing to combine")
    if len(measurements) == 1:
        return measurements[0]
    main = min(measurements, key=_result_rank)
    rivals = [
        item
        for item in measurements
        if item is not main and item.figures and item.mode == main.mode
    ]
    others = [item for item in measurements if item is not main]
    completeness = main.completeness
    # rivals are results as well; without any result, what is missing anywhere counts
    counting = rivals if main.figures else others
    if completeness is Completeness.COMPLETE:
        lacking = (item.completeness for item in counting)
        completeness = next(
            (each for each in lacking if each is not Completeness.COMPLETE), completeness
        )
    findings = list(main.findings)
    for item in others:
        findings += [
            one for one in item.findings if item in counting or not reason(one.code).about_output
        ]
    if rivals:
        findings.append(
            finding(
                "MULTIPLE_RUNS",
                f"{len(rivals) + 1} outputs hold results; the figures are those of {main.files[0]}",
            )
        )
    ranks = _merged_ranks(item.ranks for item in (main, *measurements))
    return main.model_copy(
        update={
            # The output that the figures and rows are of stands first.
            "files": tuple(
                dict.fromkeys(file for item in (main, *measurements) for file in item.files)
            ),
            "completeness": completeness,
            "findings": _tidy(findings, ranks, ParseContext()),
            "ranks": ranks,
            "versions": _merged(item.versions for item in (main, *measurements)),
            "facts": _merged(item.facts for item in (main, *measurements)),
            "exit_code": next(
                (item.exit_code for item in (main, *measurements) if item.exit_code is not None),
                None,
            ),
        }
    )


def _result_rank(item: Measurements) -> tuple[object, ...]:
    return (
        item.mode.tool is None,
        not item.figures,
        item.completeness is not Completeness.COMPLETE,
        output_kinds().index(item.mode),
        item.completeness is Completeness.EMPTY,
    )


def _merged(maps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for one in maps:
        merged = {**one, **merged}
    return merged


def _merged_ranks(sources: Iterable[Sequence[RankPlace]]) -> tuple[RankPlace, ...]:
    places: dict[int, RankPlace] = {}
    for source in sources:
        for place in source:
            known = places.get(place.rank)
            places[place.rank] = (
                place
                if known is None
                else known.model_copy(
                    update={
                        name: getattr(known, name) if getattr(known, name) is not None else value
                        for name, value in place
                    }
                )
            )
    return tuple(places[rank] for rank in sorted(places))


def _tidy(
    findings: Iterable[Finding],
    ranks: Sequence[RankPlace],
    context: ParseContext,
    names: Mapping[str | None, str] | None = None,
) -> tuple[Finding, ...]:
    """Name the nodes of ranks, drop what is said twice, put the most serious first."""
    nodes = {place.rank: place.node for place in ranks if place.node}
    names = names or {}
    kept: dict[tuple[object, ...], Finding] = {}
    for item in findings:
        entities = tuple(
            dict.fromkeys(_placed(entity, nodes, names, context) for entity in item.entities)
        )
        placed = (
            item if entities == item.entities else item.model_copy(update={"entities": entities})
        )
        key = (placed.code, placed.effect, placed.entities, placed.message)
        kept.setdefault(key, placed)
    ordered = sorted(kept.values(), key=lambda item: item.effect.rank)
    return tuple(ordered[:MAX_FINDINGS])


def _placed(
    entity: Entity,
    nodes: Mapping[int, str | None],
    names: Mapping[str | None, str],
    context: ParseContext,
) -> Entity:
    if entity.node:
        name = names.get(entity.node, entity.node)
        return entity if name == entity.node else entity.model_copy(update={"node": name})
    if entity.rank is None:
        return entity
    node = nodes.get(entity.rank) or node_of_rank(entity.rank, context)
    return entity.model_copy(update={"node": node}) if node else entity
