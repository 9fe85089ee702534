"""What a run covers: the level it reached, tests and GPUs without a result, skipped tests."""

from __future__ import annotations

from collections import defaultdict

from catalog.facts import dcgm
from steps.documents import Entity
from steps.parse.api import ParseContext
from steps.parse.dcgm.collect import Findings
from steps.parse.dcgm.results import DiagnosticRun, TestResult
from steps.parse.dcgm.words import canonical

Place = tuple[str | None, int]
"""Host (None where there is only one) and GPU index."""


def check_coverage(run: DiagnosticRun, findings: Findings, context: ParseContext) -> None:
    """Add findings for what the run does not prove.

    Args:
        run: what was read.
        findings: where to add.
        context: what was asked for.
    """
    if not run.results:
        return
    tests = by_test(run.results)
    all_skipped = all(r.status == "skip" for results in tests.values() for r in results)
    if all_skipped:
        findings.add("DCGM_ALL_SKIPPED", "every test was skipped")
    else:
        _skipped(run, tests, findings)
        _only_deployment(tests, findings)
    if run.truncated:
        return  # what is missing may have stood in the part that is lost
    if not run.multi_node and not all_skipped:
        _level(run, tests, findings, context)
    _gpus(run, tests, findings, context)


def places(results: list[TestResult]) -> set[Place]:
    """Return every GPU that has results of its own."""
    return {(r.host, gpu) for r in results if not r.singled_out for gpu in r.gpus}


def by_test(results: list[TestResult]) -> dict[str, list[TestResult]]:
    """Group results by canonical test name; a summary counts only where nothing else is there."""
    tests: dict[str, list[TestResult]] = defaultdict(list)
    for result in results:
        tests[canonical(result.test)].append(result)
    return {
        name: [result for result in found if not result.summary] or found
        for name, found in tests.items()
    }


def _only_deployment(tests: dict[str, list[TestResult]], findings: Findings) -> None:
    """Find runs whose every test beyond the checks of level 1 was skipped."""
    beyond = [
        result
        for name, results in tests.items()
        if (known := dcgm.tests().get(name)) is None or known.level > 1
        for result in results
    ]
    if beyond and all(result.status == "skip" for result in beyond):
        message = "every test beyond the deployment checks was skipped"
        findings.add("DCGM_ALL_SKIPPED", message, line=beyond[0].line)


def _skipped(run: DiagnosticRun, tests: dict[str, list[TestResult]], findings: Findings) -> None:
    """Name skipped tests, those with the same reason together."""
    groups: dict[tuple[bool, str], list[str]] = defaultdict(list)
    for name, results in tests.items():
        skipped = [result for result in results if result.status == "skip"]
        if not skipped:
            continue
        known = dcgm.tests().get(name)
        core = known is not None and known.core and known.level > 1
        others = any(result.status != "skip" and result.gpus for result in results)
        # Others show that the test can run here, so these GPUs are not proven.
        unproven = core and others
        told = [r for r in run.results if canonical(r.test) == name and r.status == "skip"]
        groups[unproven, _why(told)].append(name)
    for (unproven, why), names in groups.items():
        skipped = [r for name in names for r in tests[name] if r.status == "skip"]
        listed = ", ".join(names).replace("_", " ")
        where = " on some GPUs" if unproven else ""
        findings.add(
            "DCGM_TEST_SKIPPED",
            f"skipped{where}: {listed} ({why})",
            variant="some-gpus" if unproven else None,
            entities=tuple(dict.fromkeys(e for r in skipped for e in findings.entity(r))),
            text=f"{skipped[0].test}: {skipped[0].word or 'Skip'}: {why}",
            line=skipped[0].line,
        )


def _why(skipped: list[TestResult]) -> str:
    texts = [
        text
        for result in skipped
        for text in [*(complaint.text for complaint in result.complaints), *result.infos]
    ]
    return "; ".join(dict.fromkeys(texts)) or "no reason given"


def reached_level(tests: dict[str, list[TestResult]], *, skipped: bool = False) -> int:
    """Return the highest level of which, and of all below, a core test ran.

    Args:
        tests: results by canonical test name.
        skipped: count skipped tests as well, which gives the level that was asked for.
    """
    levels = set()
    for name, results in tests.items():
        known = dcgm.tests().get(name)
        ran = skipped or any(result.status != "skip" for result in results)
        if known and ran and (known.core or known.level == 1):
            levels.add(known.level)
    level = 1 if levels else 0
    while level + 1 in levels and level:
        level += 1
    return level


def _level(
    run: DiagnosticRun,
    tests: dict[str, list[TestResult]],
    findings: Findings,
    context: ParseContext,
) -> None:
    if not run.lists_all and not run.level:
        return
    reached = reached_level(tests)
    listed = reached_level(tests, skipped=True)
    asked = context.diag_level or run.level or listed
    if run.level:
        # The tool names its level; its log need not list the tests that passed.
        reached = run.level
    run.facts["level"] = str(reached)
    if reached < asked:
        findings.add(
            "DCGM_LEVEL_TOO_LOW",
            f"the run covers level {reached}, level {asked} was asked for"
            if context.diag_level
            else f"the run covers level {reached}; all tests of level {reached + 1} were skipped",
        )
        return
    if run.level:
        return
    expected = {
        test.name
        for test in {known.name: known for known in dcgm.tests().values()}.values()
        if test.core and 1 < test.level <= asked
    }
    present = {name for name, results in tests.items() if any(r.word for r in results)}
    missing = ", ".join(sorted(expected - present)).replace("_", " ")
    if missing:
        findings.add("DCGM_RESULT_MISSING", f"no result of {missing}")


def _gpus(
    run: DiagnosticRun,
    tests: dict[str, list[TestResult]],
    findings: Findings,
    context: ParseContext,
) -> None:
    """Compare the GPUs with results to those that the tool found and those of the profile."""
    seen = places(run.results)
    if run.lists_all and seen:
        _without_result(run, tests, seen, findings, context)
    # Output without GPU numbers says nothing about GPUs that are absent.
    known = seen | run.entities
    expected = context.hardware.gpus_per_node or 0
    if run.lists_all:
        for host in sorted({host for host, _ in known}, key=str) if expected else ():
            _missing(run, known, findings, context, host)
    elif 0 < len(run.entities) < expected:
        # A preflight check runs on the GPUs of its pod, which need not be all.
        message = f"the check ran on {len(run.entities)} of {expected} GPUs"
        findings.add("DCGM_RESULT_MISSING", message, variant="gpu-untested")


def _without_result(
    run: DiagnosticRun,
    tests: dict[str, list[TestResult]],
    seen: set[Place],
    findings: Findings,
    context: ParseContext,
) -> None:
    """Find GPUs that the tool lists but did not test, or not with every core test."""
    for host, gpu in sorted(run.entities - seen, key=str):
        _no_result(findings, context, host, gpu, "is listed, but has no result")
    for name, results in tests.items():
        known = dcgm.tests().get(name)
        have = places(results)
        if not have or not known or not known.core or known.level == 1:
            continue
        hosts = {host for host, _ in have}
        for host, gpu in sorted((p for p in seen - have if p[0] in hosts), key=str):
            _no_result(findings, context, host, gpu, f"has no result of {name.replace('_', ' ')}")


def _no_result(
    findings: Findings, context: ParseContext, host: str | None, gpu: int, what: str
) -> None:
    findings.add(
        "DCGM_RESULT_MISSING",
        f"GPU {gpu} {what}",
        entities=(Entity(node=host or context.node, gpu=gpu),),
        variant="gpu-untested",
    )


def _missing(
    run: DiagnosticRun,
    known: set[Place],
    findings: Findings,
    context: ParseContext,
    host: str | None,
) -> None:
    expected = context.hardware.gpus_per_node or 0
    here = {gpu for where, gpu in known if where == host}
    if len(here) >= expected:
        return
    absent = [gpu for gpu in range(expected) if gpu not in here]
    absent = absent[: expected - len(here)]
    names = ", ".join(str(gpu) for gpu in absent)
    # Where parts of the output could not be read, the GPU may stand there.
    unread = bool(run.problems or run.runtime_errors)
    findings.add(
        "DCGM_GPU_MISSING",
        f"the diagnostic saw {len(here)} of {expected} GPUs; index {names} is absent",
        variant="unread" if unread else None,
        entities=tuple(Entity(node=host or context.node, gpu=gpu) for gpu in absent)
        or findings.node_entity(host),
    )
