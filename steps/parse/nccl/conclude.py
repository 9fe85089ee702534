"""What the runs of one output come to: which one counts, how whole it is, what its rows prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from steps.documents import Completeness, Evidence, Figure, Finding, NcclRow
from steps.documents.measurements import Row
from steps.parse.api import Line, ParseContext
from steps.parse.findings import finding
from steps.parse.nccl.figures import MAX_GBPS, by_size, compute, greatest_dip, without_nonsense
from steps.parse.nccl.layout import Ranks, check_ranks
from steps.parse.nccl.operation import NO_IN_PLACE, bus_factor, from_columns, of_category
from steps.parse.nccl.runs import ToolRun, missing_sizes, number_cycles
from steps.parse.nccl.sizes import reaches, size_name
from steps.parse.nccl.table import TableRow
from steps.parse.sightings import evidence

DIP = 0.5
"""A bandwidth that halves while the message grows is worth a warning."""
AVERAGE_TOLERANCE = 0.005
"""Part by which the printed average may differ from that of the rows, beside their rounding."""
AVERAGE_ROUNDING_GBPS = 0.01
"""Rows are printed with two decimals."""
FACTOR_TOLERANCE = 0.02
"""Part by which busbw may differ from algbw times the factor of the operation, beside rounding."""
SHOWN_HOLES = 4


@dataclass(slots=True)
class Conclusion:
    """What the runs of an output come to.

    Attributes:
        start: first line of the run that counts.
    """

    completeness: Completeness
    start: int = 0
    operation: str | None = None
    figures: dict[str, Figure] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


class Concluder:
    """Draws a conclusion from runs.

    Args:
        file: name of the output.
        context: what is known about the run.
        texts: lines by number, as far as they are kept, for evidence.
        numbered: whether those numbers are line numbers; in JSON they only count the rows.
    """

    def __init__(
        self, file: str, context: ParseContext, texts: dict[int, str], *, numbered: bool = True
    ) -> None:
        self.file = file
        self.context = context
        self.texts = texts
        self.numbered = numbered

    def conclude(self, runs: Sequence[ToolRun], *, aborted: bool, ranks: Ranks) -> Conclusion:
        """Choose the run that counts and say what it comes to."""
        run, note = self._choose(runs)
        completeness = self._completeness(runs, run, aborted=aborted)
        result = Conclusion(completeness)
        if note:
            result.findings.append(note)
        if run is None:
            result.findings.append(finding("NO_RESULT_ROWS", "the output has no result rows"))
            return result
        result.start = run.start
        self._rows(run, result)
        self._closing(runs, run, result)
        if run.rows:
            self._validation(run, result)
            self._average(run, result)
            self._dip(run, result)
            self._factor(run, ranks, result)
            self._holes(run, result)
            result.findings += check_ranks(ranks, self.context)
        if ranks.size is not None:
            result.figures["rankCount"] = Figure(value=ranks.size, unit="count")
        self._facts(run, result)
        return result

    def _choose(self, runs: Sequence[ToolRun]) -> tuple[ToolRun | None, Finding | None]:
        """Return the run that counts: the slowest complete one, else the last.

        A complete run after one that was cut off is a second attempt that worked, as retries are
        logged; it counts, with a warning. A run that is cut off after a complete one is the other
        way round the end of an output in the middle of something: see `_completeness`.
        """
        if not runs:
            return None, None
        if len(runs) == 1:
            return runs[0], None
        wanted = of_category(self.context.category) or runs[-1].operation
        same = [run for run in runs if not wanted or run.operation in {wanted, None}] or list(runs)
        complete = [run for run in same if run.complete]
        chosen = min(complete, key=_speed) if complete else runs[-1]
        position = list(runs).index(chosen) + 1
        which = (
            f"of {len(complete)} complete ones the slowest, number {position}, counts"
            if complete
            else "none is complete; the last is shown"
        )
        proof = [self._proof(run.rows[0].row.line) for run in runs if run.rows]
        retried = bool(complete) and any(not run.complete for run in runs[: position - 1])
        if retried:
            which += "; an earlier one did not complete"
        return chosen, finding(
            "MULTIPLE_RUNS",
            f"the output holds {len(runs)} runs; {which}",
            variant="retried" if retried else None,
            proof=proof,
            count=len(runs),
        )

    @staticmethod
    def _completeness(
        runs: Sequence[ToolRun], run: ToolRun | None, *, aborted: bool
    ) -> Completeness:
        # the last run of every process must be whole, or the output ends in the middle of something
        last = {item.writer: item for item in runs}
        if run and run.complete and all(item.complete for item in last.values()):
            return Completeness.COMPLETE
        return Completeness.ABORTED if aborted else Completeness.CUT_OFF

    def _rows(self, run: ToolRun, result: Conclusion) -> None:
        sweeps = number_cycles(run)
        rows: list[NcclRow] = []
        bad: list[tuple[NcclRow, list[str]]] = []
        kept: list[TableRow] = []
        for entry in sweeps.rows:
            row, fields = without_nonsense(entry.row)
            rows.append(NcclRow.model_validate(row.model_dump()))
            kept.append(entry._replace(row=row))
            if fields:
                bad.append((row, fields))
        run.rows = kept
        result.rows = list(rows)
        result.figures = compute(rows)
        result.operation = run.operation or of_category(self.context.category) or from_columns(kept)
        if bad:
            names = sorted({name for _, fields in bad for name in fields})
            result.findings.append(
                finding(
                    "FIGURE_INVALID",
                    f"{len(bad)} rows have impossible values ({', '.join(names)})",
                    proof=[self._proof(row.line) for row, _ in bad],
                    count=len(bad),
                )
            )
        if sweeps.disordered:
            result.findings.append(
                finding(
                    "FIGURE_INVALID",
                    "the message size goes down without a new sweep",
                    proof=[self._proof(line) for line in sweeps.disordered],
                    count=len(sweeps.disordered),
                )
            )
        if sweeps.repeated:
            result.findings.append(
                finding(
                    "DUPLICATE_ROW",
                    f"{len(sweeps.repeated)} rows stand in the output twice; each counts once",
                    proof=[self._proof(line) for line in sweeps.repeated],
                    count=len(sweeps.repeated),
                )
            )

    def _closing(self, runs: Sequence[ToolRun], run: ToolRun, result: Conclusion) -> None:
        if not run.rows:
            result.findings.append(finding("NO_RESULT_ROWS", "the output has no result rows"))
        wanted = of_category(self.context.category)
        if run.rows and wanted and run.operation not in {wanted, None}:
            result.findings.append(
                finding(
                    "NO_RESULT_ROWS",
                    f"the output has results of {run.operation}, none of {wanted}",
                    proof=self._lines_with(f"{run.operation}_perf"),
                )
            )
        largest = max((entry.row.size_bytes for entry in run.rows), default=0)
        asked = self.context.max_bytes
        if asked and run.rows and not reaches(largest, asked):
            result.findings.append(
                finding(
                    "SIZE_MISSING",
                    f"no row has {size_name(asked)}, which was asked for; "
                    f"the largest is {size_name(largest)}",
                    proof=[self._proof(run.rows[-1].row.line)],
                )
            )
        if result.completeness is not Completeness.CUT_OFF:
            return
        reasons = []
        if run.bounds is None:
            reasons.append("there is no 'Out of bounds values' line")
        elif not run.closed:
            reasons.append("the 'Avg bus bandwidth' line is missing or cut")
        if run.rows and run.config and not run.sweep_done:
            reasons.append(
                f"the largest size is {size_name(largest)} of {size_name(run.config.max_bytes)}"
            )
        if not reasons and any(not item.complete for item in runs):
            reasons.append("the last run is not complete")
        result.findings.append(
            finding(
                "LOG_TRUNCATED",
                "the output is cut off: " + " and ".join(reasons or ["it has no rows"]),
                proof=[self._proof(run.rows[-1].row.line)] if run.rows else [],
            )
        )

    def _validation(self, run: ToolRun, result: Conclusion) -> None:
        failed = bool(run.bounds and not run.bounds.okay)
        switched_off = bool(run.config and run.config.validation == 0)
        if switched_off or not any(entry.checked for entry in run.rows):
            reason = "validation: 0" if switched_off else "no row has a check value"
            result.findings.append(
                finding(
                    "VALIDATION_OFF",
                    f"the tool did not check the data ({reason})",
                    proof=self._lines_with("validation:", "minBytes"),
                )
            )
            if not failed:
                return
        wrong, bad = self._wrong(run, result.operation)
        if failed and result.operation in NO_IN_PLACE and not bad and _in_place_marked(run.rows):
            failed = False  # the tool counted in-place values, which mean nothing here
        if failed and run.bounds:
            wrong = max(wrong, run.bounds.wrong)
        result.figures["wrongCount"] = Figure(value=wrong, unit="count", printed=True)
        if bad or failed:
            sizes = ", ".join(dict.fromkeys(size_name(entry.row.size_bytes) for entry in bad))
            where = f" at {sizes}" if sizes else ""
            result.findings.append(
                finding(
                    "NCCL_DATA_CORRUPTION",
                    f"the collective returned {wrong} wrong values{where}",
                    proof=[self._proof(entry.row.line) for entry in bad]
                    or self._lines_with("Out of bounds"),
                    count=max(wrong, 1),
                )
            )

    @staticmethod
    def _wrong(run: ToolRun, operation: str | None) -> tuple[int, list[TableRow]]:
        """Return the number of wrong values and the rows that have some."""
        total = 0
        bad = []
        for entry in run.rows:
            row = entry.row
            if entry.check == "error":
                # a rounding error, unless the tool itself marks it
                count = int(entry.starred and not (operation in NO_IN_PLACE and not row.out_wrong))
            else:
                count = int(row.out_wrong or 0)
                # in place an operation that may be alltoall proves nothing
                if operation is not None and operation not in NO_IN_PLACE:
                    count += int(row.in_wrong or 0)
            total += count
            if count:
                bad.append(entry)
        return total, bad

    def _average(self, run: ToolRun, result: Conclusion) -> None:
        recomputed = result.figures.get("recomputedAvgBusBandwidthGBps")
        printed = run.average
        if (
            not printed
            or not isinstance(recomputed, Figure)
            or not isinstance(recomputed.value, float)
        ):
            return
        if not 0 <= printed.gbps <= MAX_GBPS:
            result.findings.append(
                finding(
                    "FIGURE_INVALID",
                    f"the tool printed an average of {printed.gbps:g} GB/s",
                    proof=self._lines_with("Avg bus bandwidth"),
                )
            )
            return
        differs = (
            abs(printed.gbps - recomputed.value)
            > AVERAGE_TOLERANCE * recomputed.value + AVERAGE_ROUNDING_GBPS
        )
        if not run.average_whole:
            return  # digits are missing
        result.figures["avgBusBandwidthGBps"] = Figure(
            value=printed.gbps, unit="GB/s", printed=True
        )
        if printed.tool_verdict == "FAILED":
            result.facts["toolVerdict"] = "NCCL_TESTS_MIN_BW not met"
        if differs:
            result.findings.append(
                finding(
                    "AVG_MISMATCH",
                    f"the tool printed an average of {printed.gbps:g} GB/s, the rows that are here "
                    f"have {recomputed.value:.2f} GB/s",
                    proof=self._lines_with("Avg bus bandwidth"),
                )
            )

    def _dip(self, run: ToolRun, result: Conclusion) -> None:
        rows = [entry.row for entry in run.rows]
        dip = greatest_dip(by_size(rows, lambda row: row.out_bus_gbps, slowest=min))
        if dip.part >= DIP:
            proof = [self._proof(row.line) for row in rows if row.size_bytes in dip.sizes]
            result.findings.append(
                finding(
                    "NCCL_BANDWIDTH_DIP",
                    f"bus bandwidth falls {dip.says} ({dip.part:.0%})",
                    proof=proof,
                )
            )

    def _factor(self, run: ToolRun, ranks: Ranks, result: Conclusion) -> None:
        """Find rows whose busbw is not what algbw and the number of ranks make of it."""
        factor = bus_factor(result.operation, ranks.sure_size)
        if factor is None:
            return
        bad = [
            entry.row
            for entry in run.rows
            if _contradicts(entry.row.out_alg_gbps, entry.row.out_bus_gbps, factor)
            or _contradicts(entry.row.in_alg_gbps, entry.row.in_bus_gbps, factor)
        ]
        if bad:
            result.findings.append(
                finding(
                    "FIGURE_INVALID",
                    f"{len(bad)} rows have a busbw that is not {factor:.4g} times their algbw, "
                    f"as {result.operation} on {ranks.sure_size} ranks has",
                    proof=[self._proof(row.line) for row in bad],
                    count=len(bad),
                )
            )

    def _holes(self, run: ToolRun, result: Conclusion) -> None:
        if run.left_out or not (missing := missing_sizes(run)):
            return
        says = "; ".join(
            f"after {size_name(hole.after)}" if hole.after else f"before {size_name(hole.before)}"
            for hole in missing[:SHOWN_HOLES]
        )
        result.findings.append(
            finding(
                "SIZE_MISSING",
                f"rows of the sweep are not here: {says}",
                variant="in-the-middle",
                count=len(missing),
            )
        )

    def _facts(self, run: ToolRun, result: Conclusion) -> None:
        if run.config:
            result.facts["minBytes"] = str(run.config.min_bytes)
            result.facts["maxBytes"] = str(run.config.max_bytes)
            step = "+" if run.config.additive else "x"
            result.facts["step"] = f"{step}{run.config.step}"
            if run.config.validation is not None:
                result.facts["validation"] = str(run.config.validation)
            result.facts.update(run.config.settings)

    def _proof(self, line: int | None) -> Evidence:
        text = self.texts.get(line or 0, "")
        number = line if self.numbered and line else None
        return evidence(self.file, Line(line or 0, text)).model_copy(update={"line": number})

    def _lines_with(self, *words: str) -> list[Evidence]:
        """Return the last line that holds all these words."""
        found = [
            number for number, text in self.texts.items() if all(word in text for word in words)
        ]
        return [self._proof(number) for number in found[-1:]]


def _speed(run: ToolRun) -> float:
    """Return what makes a run slow: its bandwidth at the largest size."""
    largest = max(entry.row.size_bytes for entry in run.rows)
    speeds = [
        speed
        for entry in run.rows
        if entry.row.size_bytes == largest
        for speed in (entry.row.out_bus_gbps, entry.row.in_bus_gbps)
        if speed is not None
    ]
    return min(speeds, default=0.0)


def _in_place_marked(entries: Sequence[TableRow]) -> bool:
    return any(entry.row.in_wrong for entry in entries)


def _contradicts(alg_gbps: float | None, bus_gbps: float | None, factor: float) -> bool:
    """Whether two speeds of a half row do not belong together; both are rounded to 0.01."""
    if alg_gbps is None or bus_gbps is None:
        return False
    wanted = alg_gbps * factor
    return abs(bus_gbps - wanted) > FACTOR_TOLERANCE * wanted + 2 * AVERAGE_ROUNDING_GBPS
