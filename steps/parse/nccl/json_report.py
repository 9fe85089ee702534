"""Reads JSON of nccl-tests (-J, report versions 1 to 3), of its forks and of rccl-tests.

nccl-tests writes booleans as the strings "true" and "false", pads ``root`` with blanks, writes
"nan" as a string, null for values it did not check, and the whole environment of rank 0. Of that
only settings of the communication libraries are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.facts.tools import output_kind
from steps.documents import NcclRow, RankPlace
from steps.documents.measurements import Row
from steps.parse.api import ParseContext, Part
from steps.parse.findings import finding
from steps.parse.nccl import rccl
from steps.parse.nccl.conclude import Concluder
from steps.parse.nccl.header import Average, Bounds, Config, read_operation, version_name
from steps.parse.nccl.layout import Ranks
from steps.parse.nccl.runs import ToolRun
from steps.parse.nccl.structured import is_structured, structured_run
from steps.parse.nccl.table import TableRow
from steps.parse.nccl.values import as_float, as_int, as_text
from steps.parse.secrets import public_env, redact

KNOWN_VERSIONS = (1, 2, 3)
MAX_RANKS = 10_000_000

_SETTINGS = (
    "nthreads",
    "ngpus",
    "warmup_iters",
    "iterations",
    "aggregated_iterations",
    "graph",
    "blocking_collectives",
    "parallel_init",
)


def read_json(
    data: object, text: str, name: str, context: ParseContext, *, cut_off: bool = False
) -> Part | None:
    """Return what a JSON document says, or None if it is not of nccl-tests or rccl-tests.

    Args:
        data: the parsed document.
        text: the document, for the number of its lines.
        name: name of the output.
        context: what is known about the run.
        cut_off: the document was cut off and closed by the reader.
    """
    if rccl.is_record(data):
        data = [data]
    if isinstance(data, list) and data and all(rccl.is_record(item) for item in data):
        return _records(data, text, name, context, cut_off=cut_off)
    if isinstance(data, Mapping) and isinstance(data.get("results"), list) and _is_report(data):
        return _Report(data, name, context).part(text, cut_off=cut_off)
    if isinstance(data, Mapping) and is_structured(data):
        return _structured(data, text, name, context, cut_off=cut_off)
    return None


def _is_report(data: Mapping[str, Any]) -> bool:
    marks = {"average_bus_bandwidth", "out_of_bounds", "nccl_version"} & data.keys()
    rows = data["results"]
    return bool(marks) or any(
        isinstance(row, Mapping) and ("out_of_place" in row or "in_place" in row) for row in rows
    )


def _records(
    data: Sequence[Mapping[str, object]],
    text: str,
    name: str,
    context: ParseContext,
    *,
    cut_off: bool,
) -> Part:
    run = rccl.run_of(data)
    if cut_off:
        run.bounds = None
    texts = {number: json.dumps(dict(record)) for number, record in enumerate(data, 1)}
    count = rccl.rank_count(data)
    part = _concluded(run, Ranks(count=count), texts, name, context)
    part.claimed = max(text.count("\n") + 1, len(data))
    if count is not None:
        part.facts["ranks"] = str(count)
    return part


def _structured(
    data: Mapping[str, Any], text: str, name: str, context: ParseContext, *, cut_off: bool
) -> Part:
    run = structured_run(data)
    if cut_off:
        run.bounds = None
    part = _concluded(run, Ranks(), {}, name, context)
    part.claimed = text.count("\n") + 1
    version = as_text(data.get("version"))
    part.versions = {"nccl": version} if version else {}
    return part


def _concluded(
    run: ToolRun,
    ranks: Ranks,
    texts: dict[int, str],
    name: str,
    context: ParseContext,
    *,
    aborted: bool = False,
) -> Part:
    concluded = Concluder(name, context, texts, numbered=False).conclude(
        [run], aborted=aborted, ranks=ranks
    )
    return Part(
        mode=output_kind("nccl-json"),
        tool=f"{concluded.operation}_perf" if concluded.operation else "nccl-tests",
        operation=concluded.operation,
        completeness=concluded.completeness,
        figures=concluded.figures,
        rows=[_without_line(row) for row in concluded.rows],
        findings=concluded.findings,
        ranks=list(ranks.devices),
        facts=concluded.facts,
    )


def _without_line(row: Row) -> Row:
    return row.model_copy(update={"line": None})


class _Report:
    """One report of nccl-tests."""

    def __init__(self, data: Mapping[str, Any], name: str, context: ParseContext) -> None:
        self.data = data
        self.name = name
        self.context = context
        self.config = _mapping(data.get("config"))

    def part(self, text: str, *, cut_off: bool) -> Part:
        rows = [row for row in self.data["results"] if isinstance(row, Mapping)]
        if cut_off and rows and not {"out_of_place", "in_place"} <= rows[-1].keys():
            rows.pop()  # half a row
        run = ToolRun(
            document=True,
            operation=self._operation(),
            config=self._config(),
            rows=[self._row(row, number) for number, row in enumerate(rows, 1)],
            bounds=None if cut_off else self._bounds(),
            average=None if cut_off else self._average(),
        )
        errors = [str(item) for item in _list(self.data.get("errors")) if str(item).strip()]
        texts = {number: json.dumps(row)[:500] for number, row in enumerate(rows, 1)}
        part = _concluded(
            run,
            Ranks(devices=self._ranks()),
            texts,
            self.name,
            self.context,
            aborted=bool(errors) and not cut_off,
        )
        part.claimed = text.count("\n") + 1
        part.versions = self._versions()
        part.facts |= self._facts()
        version = self.data.get("version")
        if version is not None and version not in KNOWN_VERSIONS:
            part.findings.append(
                finding("SCHEMA_UNKNOWN", f"the report has version {version!r}; known are 1 to 3")
            )
        if errors and not run.complete:
            part.findings.append(
                finding("NCCL_ABORTED", f"NCCL gave up: {errors[0][:200]}", witness=True)
            )
        elif errors:
            # the library's last message stays set after failures it recovered from
            part.facts["lastError"] = redact(errors[0])[:200]
        return part

    def _operation(self) -> str | None:
        arguments = [str(item) for item in _list(self.data.get("args"))]
        return read_operation(" ".join(arguments[:50]))

    def _config(self) -> Config | None:
        minimum, maximum = (
            as_int(self.config.get(f"{end}_bytes")) for end in ("minimum", "maximum")
        )
        if minimum is None or maximum is None:
            return None
        factor, added = (as_int(self.config.get(f"step_{kind}")) for kind in ("factor", "bytes"))
        return Config(
            minimum,
            maximum,
            step=factor or added or 2,
            additive=factor is None and added is not None,
            validation=as_int(self.config.get("validation")),
            settings={key: str(self.config[key]) for key in _SETTINGS if key in self.config},
        )

    def _row(self, row: Mapping[str, Any], number: int) -> TableRow:
        out, inside = _mapping(row.get("out_of_place")), _mapping(row.get("in_place"))
        out_wrong = as_float(_any(out, "nwrong", "wrong"))
        entry = NcclRow.model_construct(
            kind="nccl",
            size_bytes=as_int(row.get("size")) or 0,
            count=as_int(row.get("count")),
            type=as_text(row.get("type")),
            redop=as_text(row.get("redop")),
            root=as_int(row.get("root")),
            out_time_us=as_float(_any(out, "time", "cpu_time")),
            out_alg_gbps=as_float(_any(out, "alg_bw", "algbw")),
            out_bus_gbps=as_float(_any(out, "bus_bw", "busbw")),
            out_wrong=out_wrong,
            in_time_us=as_float(_any(inside, "time", "cpu_time")),
            in_alg_gbps=as_float(_any(inside, "alg_bw", "algbw")),
            in_bus_gbps=as_float(_any(inside, "bus_bw", "busbw")),
            in_wrong=as_float(_any(inside, "nwrong", "wrong")),
            cycle=1,
            line=number,
        )
        return TableRow(entry, out_wrong is not None, "wrong")

    def _bounds(self) -> Bounds | None:
        bounds = _mapping(self.data.get("out_of_bounds"))
        count = as_int(bounds.get("count"))
        if count is None:
            return None
        return Bounds(count, okay=count == 0 and _truth(bounds.get("okay", True)))

    def _average(self) -> Average | None:
        average = _mapping(self.data.get("average_bus_bandwidth"))
        value = as_float(average.get("bandwidth"))
        if value is None:
            return None
        failed = str(average.get("okay")).lower() == "false"
        return Average(value, whole=True, tool_verdict="FAILED" if failed else None)

    def _ranks(self) -> list[RankPlace]:
        devices = _list(self.config.get("devices")) or _list(self.data.get("devices"))
        places = []
        for device in devices:
            entry = _mapping(device)
            rank = as_int(entry.get("rank"))
            if rank is not None and 0 <= rank < MAX_RANKS:
                bus = as_text(entry.get("device_hex"))
                places.append(
                    RankPlace(
                        rank=rank,
                        node=as_text(entry.get("hostname")),
                        gpu=as_int(entry.get("device")),
                        pci=bus if bus and ":" in bus else None,
                        product=as_text(entry.get("device_info")),
                    )
                )
        return places

    def _versions(self) -> dict[str, str]:
        code = as_int(self.data.get("nccl_version"))
        return {"nccl": version_name(code)} if code else {}

    def _facts(self) -> dict[str, str]:
        facts = {}
        for variable in _list(self.data.get("env")):
            key, _, value = str(variable).partition("=")
            shown = public_env(key, value)
            if shown is not None:
                facts[f"env.{key}"] = shown
        for key in ("start_time", "end_time"):
            if isinstance(self.data.get(key), str):
                facts[key] = self.data[key]
        return facts


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _any(values: Mapping[str, Any], *names: str) -> object:
    return next((values[name] for name in names if name in values), None)


def _truth(value: object) -> bool:
    return value is True or str(value).lower() == "true"
