"""Builds the Part: rows, figures and findings of one run of the diagnostics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from catalog.facts import dcgm
from catalog.facts.reasons import Effect
from steps.documents import Completeness, DiagnosticRow, Entity, Figure
from steps.parse.api import ParseContext, Part
from steps.parse.dcgm import words
from steps.parse.dcgm.collect import Findings
from steps.parse.dcgm.coverage import check_coverage, places
from steps.parse.dcgm.policy import Policy, distribute
from steps.parse.dcgm.results import Complaint, DiagnosticRun, TestResult
from steps.parse.secrets import redact
from steps.parse.sightings import MAX_TEXT

BANDWIDTHS = {
    "hostToDeviceMinGBps": "Host to GPU bandwidth",
    "deviceToHostMinGBps": "GPU to Host bandwidth",
}


@dataclass(slots=True)
class _Weighed:
    """One result of one GPU, with what it does to a verdict."""

    result: TestResult
    effect: Effect

    @property
    def status(self) -> str:
        """The status; an excused Fail is a warning, its own word stays in the text."""
        excused = not self.effect.blocks
        return "warn" if self.result.status == "fail" and excused else self.result.status


def to_part(run: DiagnosticRun, context: ParseContext) -> Part:
    """Weigh everything that was read of one output."""
    findings = Findings(run.file, context.node)
    policy = Policy(findings, context, run.versions.get("dcgm"))
    weighed = [
        _Weighed(single, policy.weigh(single))
        for result in _without_summaries(run.results)
        for single in distribute(result)
    ]
    _summaries(run.results, weighed, findings)
    _schema(run, findings)
    _gave_up(run, findings)
    _links(run, findings, context)
    if run.whole_run:
        check_coverage(run, findings, context)
    if run.infos_cut:
        findings.add("DCGM_INFO_TRUNCATED", run.infos_cut)
    if run.runs > 1:
        findings.add("MULTIPLE_RUNS", f"the output holds {run.runs} runs")
    _exit_code(run, weighed, findings, context)
    return Part(
        mode=run.mode,
        claimed=run.claimed,
        tool=run.tool,
        operation="mndiag" if run.multi_node else "diag",
        completeness=_completeness(run),
        figures=_figures(run, weighed, policy),
        rows=[_row(item) for item in weighed],
        findings=findings.finish(),
        versions=run.versions,
        facts=run.facts,
    )


def _without_summaries(results: list[TestResult]) -> list[TestResult]:
    """Leave the status of a whole test out where its GPUs have their own, unless it complains."""
    own = {words.canonical(result.test) for result in results if not result.summary}
    return [
        result
        for result in results
        if not result.summary or result.complaints or words.canonical(result.test) not in own
    ]


def _links(run: DiagnosticRun, findings: Findings, context: ParseContext) -> None:
    """Find links that ``dcgmi nvlink --link-status`` shows as down."""
    for gpu, (states, line) in sorted(run.links.items()):
        down = states.count("D")
        if down == 0:
            continue
        code, variant = "NVLINK_DOWN", None
        if context.hardware.nvlink is False:
            code, variant = "DCGM_CONFIG", "links-unexpected"
        which = "all" if down == len(states) else str(down)
        findings.add(
            code,
            f"{which} of {len(states)} NVLinks of GPU {gpu} are down",
            entities=(Entity(node=context.node, gpu=gpu),),
            variant=variant,
            text=f"gpuId {gpu}: {' '.join(states)}",
            line=line,
        )


def _summaries(results: list[TestResult], weighed: list[_Weighed], findings: Findings) -> None:
    """Find tests that fail as a whole although none of their results does."""
    own: dict[str, set[str]] = defaultdict(set)
    for item in weighed:
        own[words.canonical(item.result.test)].add(item.result.status)
    for result in results:
        name = words.canonical(result.test)
        if result.summary and result.status == "fail" and own[name] <= {"pass", "skip"}:
            findings.add(
                "DCGM_INCONSISTENT",
                f"{name.replace('_', ' ')} fails as a whole, but no GPU fails",
                text=f"{result.test}: {result.word}",
                line=result.line,
            )


def _schema(run: DiagnosticRun, findings: Findings) -> None:
    unknown = [
        Complaint(text=f"{result.test}: unknown status {result.word!r}", line=result.line)
        for result in run.results
        if result.status == "unknown"
    ]
    for problem in [*run.problems, *unknown]:
        findings.add(
            "SCHEMA_UNKNOWN",
            problem.text,
            text=problem.text,
            line=problem.line,
        )


def _gave_up(run: DiagnosticRun, findings: Findings) -> None:
    """Say why the tool ended without results, and whether the output is cut off."""
    for error in run.runtime_errors:
        code = runtime_code(error.text)
        text = error.text
        if run.multi_node and "mpi" in text.lower() and code == "DCGM_DID_NOT_RUN":
            findings.add("INFRA_MPI", text, text=text, line=error.line)
            findings.add(code, text, text=text, line=error.line, cause="INFRA_MPI")
            continue
        findings.add(code, text, text=text, line=error.line)
    if run.truncated:
        findings.add(
            "LOG_TRUNCATED",
            run.truncated.text,
            text=run.truncated.text,
            line=run.truncated.line,
        )
    elif run.whole_run and not (run.results or run.runtime_errors or run.problems):
        findings.add("NO_RESULT_ROWS", "the output has no test results")


def runtime_code(text: str) -> str:
    """Return the reason code for a diagnostic that gave up with this message."""
    known = next(
        (c for c in dcgm.return_codes() if f"({c.code})" in text or f"DCGM_ST_{c.name}" in text),
        None,
    )
    if words.speaks_of_busy(text) or (known and known.reading is dcgm.Reading.BUSY):
        return "DCGM_BUSY"
    timed_out = known and known.reading is dcgm.Reading.TIMEOUT
    if timed_out or "timed out" in text.lower() or "timeout" in text.lower():
        return "DCGM_TIMEOUT"
    if known and known.reading is dcgm.Reading.CONFIGURATION:
        return "DCGM_CONFIG"
    return "DCGM_DID_NOT_RUN"


def _exit_code(
    run: DiagnosticRun, weighed: list[_Weighed], findings: Findings, context: ParseContext
) -> None:
    """Compare the exit code with the results: neither may hide what the other says."""
    code = dcgm.return_code(context.exit_code)
    if code is None:
        return
    says = f"exit code {context.exit_code} is DCGM status {code.code} ({code.name}): {code.says}"
    run.facts["exitCode"] = says
    if not any(item.result.status in {"fail", "unknown"} for item in weighed) and run.results:
        findings.add("DCGM_INCONSISTENT", f"no result fails, but {says}")


def _completeness(run: DiagnosticRun) -> Completeness | None:
    if not run.whole_run:
        return None
    if run.truncated:
        return Completeness.CUT_OFF
    if run.problems or any(result.status == "unknown" for result in run.results):
        return Completeness.UNKNOWN_SCHEMA
    if run.runtime_errors:
        return Completeness.ABORTED
    return Completeness.COMPLETE if run.results else Completeness.EMPTY


def _row(item: _Weighed) -> DiagnosticRow:
    result = item.result
    texts = [*(complaint.text for complaint in result.complaints), *result.infos]
    if result.host:
        texts.insert(0, result.host)
    if item.status != result.status:
        texts.insert(0, result.word)
    first = next((c for c in result.complaints if c.error_id is not None), None)
    value = next((found for text in texts if (found := words.measured(text))), (None, None))
    return DiagnosticRow.model_validate(
        {
            "test": result.test,
            "category": result.category,
            "status": item.status,
            "entity_group": result.group or (result.device or None),
            "gpu": result.gpus[0] if result.gpus else None,
            "error_id": first.error_id if first else None,
            "error_category": first.category if first else None,
            "error_severity": first.severity if first else None,
            "value": value[0],
            "unit": value[1],
            "text": redact(" ".join("; ".join(texts).split())[:MAX_TEXT]) or None,
            "line": result.line,
        }
    )


def count(name: str, number: int, says: str) -> dict[str, Figure]:
    """Return a figure that counts something."""
    return {name: Figure(value=number, unit="count", says=says)}


def _figures(run: DiagnosticRun, weighed: list[_Weighed], policy: Policy) -> dict[str, Figure]:
    if not weighed or not run.whole_run:
        return {}
    statuses: dict[str, set[str]] = defaultdict(set)
    for item in weighed:
        statuses[words.canonical(item.result.test)].add(item.status)
    figures = count_tests(statuses.values())
    seen = places(run.results) | run.entities
    if seen and run.lists_all:
        figures |= count("gpusSeen", len(seen), "GPUs with a result or in the list of the tool")
    figures |= count("gpusFailed", len(policy.failed_gpus), "GPUs that a Fail blames")
    for name, words_ in BANDWIDTHS.items():
        values = [
            value
            for result in run.results
            for info in result.infos
            for value in bandwidths(info, words_)
        ]
        if values:
            figures[name] = Figure(value=min(values), unit="GB/s", printed=True)
    return figures


def count_tests(tests: Iterable[set[str]]) -> dict[str, Figure]:
    """Count tests by their worst status.

    Args:
        tests: the statuses of each test.
    """
    worst = {"fail": 0, "warn": 0, "pass": 0, "skip": 0}
    for statuses in tests:
        for status in worst:
            if status in statuses:
                worst[status] += 1
                break
    return {
        **count("testsPassed", worst["pass"], "tests with a Pass and nothing worse"),
        **count("testsFailed", worst["fail"], "tests with a Fail"),
        **count("testsWarned", worst["warn"], "tests with a Warn, or a Fail that is excused"),
        **count("testsSkipped", worst["skip"], "tests with nothing but Skip"),
    }


def bandwidths(info: str, name: str) -> list[float]:
    """Return the figures that stand behind a name, in GB/s, in DCGM's info texts."""
    values = []
    for piece in info.split(name)[1:]:
        figure = piece.lstrip(": \t").split(" ")[0].split("\t")[0]
        value = words.number(figure)
        if value is not None and value > 0:
            values.append(value)
    return values
