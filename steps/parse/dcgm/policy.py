"""What one result says about the node: the policy that turns DCGM's errors into findings.

A Fail blames a GPU only when its error speaks of hardware. A setting, another process, an Xid that
only follows another one, or the diagnostic's own software error leave the node unproven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.facts import dcgm
from catalog.facts.dcgm import DcgmError, Reading
from catalog.facts.reasons import Effect, reason
from catalog.facts.xids import find_xid
from steps.parse.api import ParseContext
from steps.parse.dcgm import words
from steps.parse.dcgm.collect import Findings
from steps.parse.dcgm.results import Complaint, TestResult

_UNINFORMATIVE = frozenset({0, 1, 2})
"""Error ids that say nothing, so that the printed category decides."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a complaint means.

    Attributes:
        error: the entry of the table, where the complaint is known.
        zero: a thermal violation of 0.0 seconds.
        xids: Xid numbers that it names.
    """

    reading: Reading
    error: DcgmError | None = None
    severity: str | None = None
    zero: bool = False
    xids: tuple[int, ...] = ()

    @property
    def proving_xids(self) -> tuple[int, ...]:
        """The Xids that alone prove a fault; not those of the application or that follow others."""
        known = ((number, find_xid(number)) for number in self.xids)
        return tuple(number for number, xid in known if xid and xid.effect is Effect.FAIL)

    @property
    def detail(self) -> str | None:
        """Reason code that names the cause."""
        if self.reading is Reading.XID and self.xids:
            return f"XID_{(self.proving_xids or self.xids)[0]}"
        return self.error.detail if self.error else None


def read(complaint: Complaint, version: str | None = None) -> Meaning:
    """Classify a complaint by its id, else by its wording."""
    error = dcgm.errors().get(complaint.error_id) if complaint.error_id is not None else None
    if error is None or error.id in _UNINFORMATIVE:
        error = dcgm.recognise(complaint.text) if complaint.error_id is None else error
    reading = _reading(complaint, error)
    hardware = reading in {Reading.HARDWARE, Reading.NVLINK, Reading.THERMAL, Reading.XID}
    if not hardware and words.speaks_of_busy(complaint.text):
        reading = Reading.BUSY
    elif reading is Reading.SOFTWARE and words.speaks_of_broken(complaint.text):
        reading = Reading.HARDWARE
    severity = dcgm.severity_name(complaint.severity)
    if severity is None and error:
        severity = error.severity_in(version)
    zero = words.lasts_zero_seconds(complaint.text)
    return Meaning(
        reading=Reading.THERMAL if zero else reading,
        error=error,
        severity=severity,
        zero=zero,
        xids=words.xids_named(complaint.text),
    )


def _reading(complaint: Complaint, error: DcgmError | None) -> Reading:
    if error and error.given:
        return error.given
    category = dcgm.category_name(complaint.category)
    if dcgm.severity_name(complaint.severity) == "CONFIG":
        return Reading.CONFIGURATION
    if category and category != "NONE":
        if category.startswith(("HARDWARE_", "PERF_")):
            return Reading.HARDWARE
        return Reading.XID if category == "SOFTWARE_XID" else Reading.SOFTWARE
    # A Fail in words that nobody knows is still a Fail of this GPU.
    return error.reading if error and error.id not in _UNINFORMATIVE else Reading.HARDWARE


def distribute(result: TestResult) -> list[TestResult]:
    """Split a result into one per GPU, so that each error stands with the GPU it names.

    A lumped result says only that some of its GPUs are bad: those that its errors name. Without
    a name it stays one result of the node.
    """
    if len(result.gpus) == 1 and not result.lumped:
        return [result]
    named: dict[int, list[Complaint]] = {}
    common: list[Complaint] = []
    for complaint in result.complaints:
        gpus = words.gpus_named(complaint.text)
        if result.gpus:
            gpus = tuple(gpu for gpu in gpus if gpu in result.gpus)
        for gpu in gpus:
            named.setdefault(gpu, []).append(_about(complaint, gpu))
        if not gpus:
            common.append(complaint)
    if result.status in {"pass", "skip"} or not (result.lumped or not result.gpus):
        return _each(result, named, common)
    parts = [_of_gpu(result, gpu, complaints) for gpu, complaints in sorted(named.items())]
    if common or not parts:
        parts.append(replace(result, gpus=(), lumped=False, complaints=common))
    return parts


def _each(
    result: TestResult, named: dict[int, list[Complaint]], common: list[Complaint]
) -> list[TestResult]:
    """Give every GPU of a result that holds for each of them its own errors."""
    if not result.gpus:
        parts = [_of_gpu(result, gpu, found) for gpu, found in sorted(named.items())]
        whole = replace(result, complaints=common)
        return [whole, *parts] if common or not parts else parts
    return [_of_gpu(result, gpu, [*named.get(gpu, []), *common]) for gpu in result.gpus]


def _of_gpu(result: TestResult, gpu: int, complaints: list[Complaint]) -> TestResult:
    infos = [info for info in result.infos if gpu in words.gpus_named(info)]
    return replace(result, gpus=(gpu,), lumped=False, complaints=complaints, infos=infos)


def _about(complaint: Complaint, gpu: int) -> Complaint:
    """Cut a message that joins the errors of several GPUs down to one of them."""
    pieces = complaint.text.split("., ")
    if len(pieces) < 2 or len(words.gpus_named(complaint.text)) < 2:
        return complaint
    own = [piece for piece in pieces if gpu in words.gpus_named(piece)]
    return replace(complaint, text="., ".join(own) or complaint.text)


class Policy:
    """Turns results into findings.

    Attributes:
        failed_gpus: pairs of host and GPU that are blamed.
    """

    def __init__(self, findings: Findings, context: ParseContext, version: str | None) -> None:
        self.failed_gpus: set[tuple[str | None, int]] = set()
        self._out = findings
        self._context = context
        self._version = version
        self._gravest = Effect.NOTE

    def weigh(self, result: TestResult) -> Effect:
        """Add what a result of one GPU, or of the node, says; return the gravest effect of it.

        A Fail whose gravest effect is a note or a warning is excused: it speaks of nothing that
        matters here, such as thermal violations of 0.0 seconds.
        """
        self._gravest = Effect.NOTE
        match result.status:
            case "pass":
                for complaint in result.complaints:
                    self._passed(result, complaint)
            case "fail" | "warn":
                for complaint in result.complaints:
                    self._complained(result, complaint)
                if not result.complaints:
                    self._without_text(result)
            case "skip":
                for complaint in result.complaints:
                    self._skipped(result, complaint)
            case "unknown":
                self._gravest = Effect.INCONCLUSIVE
        return self._gravest

    def _without_text(self, result: TestResult) -> None:
        test = dcgm.tests().get(result.test)
        reading = (test.reading if test else None) or Reading.HARDWARE
        text = f"{result.test}: {result.word or result.status}"
        self._by_reading(result, Complaint(text=text, line=result.line), Meaning(reading))

    def _complained(self, result: TestResult, complaint: Complaint) -> None:
        self._by_reading(result, complaint, read(complaint, self._version))

    def _by_reading(self, result: TestResult, complaint: Complaint, meaning: Meaning) -> None:
        """Weigh one error of a Fail or a Warn."""
        settings = Effect.INCONCLUSIVE if result.status == "fail" else Effect.WARN
        match meaning.reading:
            case Reading.CONFIGURATION:
                self._add(result, complaint, "DCGM_CONFIG", settings)
            case Reading.BUSY:
                self._busy(result, complaint)
            case Reading.ABORTED | Reading.TIMEOUT:
                code = "DCGM_TIMEOUT" if meaning.reading is Reading.TIMEOUT else "DCGM_DID_NOT_RUN"
                self._add(result, complaint, code, Effect.INCONCLUSIVE)
            case Reading.IMEX if not self._context.hardware.mnnvl:
                # Without NVLink across nodes nothing uses IMEX, and it stays idle.
                self._add(result, complaint, "DCGM_CONFIG", Effect.NOTE)
            case Reading.NVLINK if self._context.hardware.nvlink is False:
                self._add(result, complaint, "DCGM_CONFIG", Effect.WARN)
            case Reading.THERMAL if meaning.zero:
                self._named(result, complaint, meaning, Effect.NOTE, prefix="DCGM_WARN_")
            case Reading.XID if not meaning.proving_xids:
                self._named(result, complaint, meaning, Effect.INCONCLUSIVE)
            case Reading.SOFTWARE:
                self._named(result, complaint, meaning, Effect.INCONCLUSIVE)
            case _:
                self._named(result, complaint, meaning, Effect.FAIL)

    def _busy(self, result: TestResult, complaint: Complaint) -> None:
        test = dcgm.tests().get(result.test)
        if result.status == "fail" and not (test and test.level == 1):
            code = self._code("DCGM_FAIL_", result, complaint)
            self._add(result, complaint, code, Effect.INCONCLUSIVE, cause="DCGM_BUSY")
        self._add(result, complaint, "DCGM_BUSY", Effect.INCONCLUSIVE)

    def _named(
        self,
        result: TestResult,
        complaint: Complaint,
        meaning: Meaning,
        effect: Effect,
        prefix: str = "DCGM_FAIL_",
    ) -> None:
        """Add the finding that carries the name of the test, and its cause beside it."""
        if result.status == "warn":
            prefix = "DCGM_WARN_"
            effect = Effect.NOTE if effect is Effect.NOTE else Effect.WARN
        cause = meaning.detail if effect is not Effect.NOTE else None
        self._add(result, complaint, self._code(prefix, result, complaint), effect, cause=cause)
        if cause:
            self._add(result, complaint, cause, _milder(reason(cause).effect, effect))
        if effect is Effect.FAIL:
            self.failed_gpus.update((result.host, gpu) for gpu in result.gpus)

    def _passed(self, result: TestResult, complaint: Complaint) -> None:
        meaning = read(complaint, self._version)
        idle_imex = meaning.reading is Reading.IMEX and not self._context.hardware.mnnvl
        no_nvlink = meaning.reading is Reading.NVLINK and self._context.hardware.nvlink is False
        hardware = meaning.reading in {Reading.HARDWARE, Reading.THERMAL, Reading.NVLINK}
        if meaning.reading is Reading.CONFIGURATION or idle_imex or no_nvlink:
            self._add(result, complaint, "DCGM_CONFIG", Effect.NOTE)
        elif meaning.zero or (hardware and meaning.severity == "MONITOR"):
            effect = Effect.NOTE if meaning.zero else Effect.WARN
            self._add(result, complaint, self._code("DCGM_WARN_", result, complaint), effect)
        else:
            self._add(
                result, complaint, "DCGM_INCONSISTENT", Effect.INCONCLUSIVE, cause=meaning.detail
            )

    def _skipped(self, result: TestResult, complaint: Complaint) -> None:
        meaning = read(complaint, self._version)
        if meaning.reading is Reading.BUSY:
            self._add(result, complaint, "DCGM_BUSY", Effect.INCONCLUSIVE)
        elif (
            meaning.error
            and meaning.reading in {Reading.HARDWARE, Reading.XID}
            and not meaning.zero
        ):
            self._add(
                result, complaint, "DCGM_INCONSISTENT", Effect.INCONCLUSIVE, cause=meaning.detail
            )

    def _code(self, prefix: str, result: TestResult, complaint: Complaint) -> str:
        code = prefix + words.canonical(result.test).upper()
        return code if not complaint.error_id else f"{code}/{complaint.error_id}"

    def _add(
        self,
        result: TestResult,
        complaint: Complaint,
        code: str,
        effect: Effect,
        cause: str | None = None,
    ) -> None:
        name = words.canonical(result.test).replace("_", " ")
        self._gravest = max(self._gravest, effect, key=lambda each: -each.rank)
        self._out.add(
            code,
            f"{name}: {result.status}: {complaint.text}",
            effect=effect,
            result=result,
            text=complaint.text,
            line=complaint.line or result.line,
            cause=cause,
        )


def _milder(one: Effect, other: Effect) -> Effect:
    return max(one, other, key=lambda each: each.rank)
