"""Reads the JSON of ``dcgmi diag`` (1.x to 4.x) and of ``dcgmi mndiag``.

The shapes differ by version:

- up to 3.x the root is ``DCGM GPU Diagnostic``; from 4.0 on ``DCGM Diagnostic``
- nvvs 1.x: one result for several GPUs, ``gpu_ids: "0,1,2"``, warnings are strings or null
- 3.x: ``gpu_id: "0"``; Deployment tests without it, or with a number
- 4.x: ``entity_group``, ``entity_id`` and a ``test_summary``; results may be absent
- mndiag: the root holds a title, the results stand beside it, with a ``host_id``
- several iterations: ``iterations`` holds one of the above each
"""

from __future__ import annotations

import bisect
import json
import re
from typing import Any

from catalog.facts.tools import output_kind
from steps.parse.api import ParseContext, Part
from steps.parse.dcgm import words
from steps.parse.dcgm.measured import to_part
from steps.parse.dcgm.results import Complaint, DiagnosticRun, TestResult

INFO_LIMIT = 16
"""DCGM 4.0 to 4.2 keep at most this many info texts of a whole run (NVIDIA/DCGM issue 215)."""

_ROOT = re.compile(r"dcgm\b.*\bdiagnostic", re.IGNORECASE)
_MOST_PROBLEMS = 20
_VERSIONS = {"version": "dcgm", "dcgm version": "dcgm", "driver version detected": "driver"}


def find_root(data: dict[str, Any]) -> str | None:
    """Return the key that marks DCGM's JSON, None when there is none."""
    return next((key for key in data if _ROOT.fullmatch(key)), None)


def read_diag(data: dict[str, Any], text: str, name: str, context: ParseContext) -> Part | None:
    """Read DCGM's JSON; None when ``data`` is none.

    Args:
        data: the parsed JSON.
        text: the same as text, for line numbers; may be empty.
        name: of the output.
        context: what is known about the run.
    """
    iterations = data.get("iterations")
    rounds: list[Any] = [data]
    if find_root(data) is None and isinstance(iterations, list):
        rounds = iterations
    roots = [item for item in rounds if isinstance(item, dict) and find_root(item)]
    if not roots:
        return None
    reader = _Reader(text, name)
    for item in rounds:
        if isinstance(item, dict):
            reader.read(item)
        else:
            reader.problem("an iteration is no object")
    reader.run.runs = len(rounds)
    reader.overall(data)
    run = reader.run
    run.claimed = max(1, text.count("\n"))
    if is_cut_off(text):
        run.truncated = Complaint(text="the JSON document is cut off")
    return to_part(run, context)


def is_cut_off(text: str) -> bool:
    """Tell whether a document was closed by the reader because its end is missing."""
    if not text.strip():
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


class _Lines:
    """Finds the line of a text inside the JSON, going forward through it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [m.start() for m in re.finditer("\n", text)]
        self._next: dict[str, int] = {}

    def find(self, value: str) -> int | None:
        if not self._ends or not value:
            return None
        # The tool may escape characters in its own way, so only the beginning is looked for.
        needle = json.dumps(value[:80], ensure_ascii=False)[1:-1]
        at = self._text.find(needle, self._next.get(needle, 0))
        if at < 0:
            return None
        self._next[needle] = at + len(needle)
        return bisect.bisect_left(self._ends, at) + 1


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self.run = DiagnosticRun(mode=output_kind("dcgm-json"), tool="dcgmi diag", file=name)
        self._lines = _Lines(text)
        self._hosts: dict[int, str] = {}
        self._infos: list[list[tuple[int | None, bool]]] = []
        self._modern = False

    def problem(self, text: str) -> None:
        """Note a part of unknown structure."""
        if len(self.run.problems) < _MOST_PROBLEMS:
            self.run.problems.append(Complaint(text=text))

    def read(self, data: dict[str, Any]) -> None:
        """Read one document with a root key."""
        key = find_root(data)
        if key is None:
            self.problem("an iteration has no DCGM result")
            return
        body = data[key]
        self.run.multi_node = isinstance(body, str) or "multi" in key.lower()
        self._modern = self._modern or "gpu" not in key.lower()
        if isinstance(body, str):
            body = data
        if not isinstance(body, dict):
            self.problem(f"{key} is no object")
            return
        if self.run.multi_node:
            self.run.tool = "dcgmi mndiag"
        self._describe(data, body)
        error = body.get("runtime_error", data.get("runtime_error"))
        if error is not None:
            said = error if isinstance(error, str) else json.dumps(error)
            self._gave_up(said)
        self._categories(body, key, given_up=error is not None)
        for item in _listed(data.get("global_errors")):
            self._global_error(item)
        self._check_infos()

    def overall(self, data: dict[str, Any]) -> None:
        """Compare the result over all iterations with the results themselves."""
        overall = data.get("Overall Result")
        if overall is None or "iterations" not in data:
            return
        status = words.read_status(overall)
        self.run.facts["overallResult"] = str(overall)
        failed = any(result.status in {"fail", "unknown"} for result in self.run.results)
        if status != "pass" and not failed and not self.run.runtime_errors:
            why = data.get("Warning")
            self._gave_up(f"the overall result is {overall}: {why}")

    def _gave_up(self, text: str) -> None:
        complaint = Complaint(text=text, line=self._lines.find(text))
        if all(other.text != text for other in self.run.runtime_errors):
            self.run.runtime_errors.append(complaint)

    def _describe(self, data: dict[str, Any], body: dict[str, Any]) -> None:
        """Read versions, hosts and the list of GPUs."""
        metadata = data.get("metadata")
        for source in (data, body, metadata):
            for key, value in source.items() if isinstance(source, dict) else ():
                version = _VERSIONS.get(key.lower())
                # nvvs 1.x gives the version of its format inside the body.
                own = source is body and body is not data and "runtime_error" not in body
                old_format = own and not self._modern
                if version and isinstance(value, str) and not old_format:
                    self.run.versions[version] = value
        for group in _listed(data.get("entity_groups")):
            if isinstance(group, dict) and group.get("entity_group") == "GPU":
                self._entities(group.get("entities"), None)
        for host in _listed(data.get("hosts")):
            if isinstance(host, dict) and isinstance(host.get("hostname"), str):
                self._host_entry(host, host["hostname"])
        if self._hosts:
            self.run.facts["hosts"] = ", ".join(self._hosts.values())
        devices = data.get("GPU Device IDs")
        if isinstance(devices, list) and devices:
            self.run.facts["gpuDeviceIds"] = ", ".join(str(device) for device in devices)

    def _host_entry(self, host: dict[str, Any], name: str) -> None:
        number = words.gpu_index(host.get("host_id"))
        if number is not None:
            self._hosts[number] = name
        self._entities(host.get("entities"), name)
        for key, version in (("dcgm_version", "dcgm"), ("driver_version", "driver")):
            if isinstance(host.get(key), str):
                self.run.versions.setdefault(version, host[key])

    def _entities(self, entities: object, host: str | None) -> None:
        for entity in _listed(entities):
            if isinstance(entity, dict) and entity.get("entity_group", "GPU") == "GPU":
                index = words.gpu_index(entity.get("entity_id"))
                if index is not None:
                    self.run.entities.add((host, index))

    def _categories(self, body: dict[str, Any], key: str, *, given_up: bool) -> None:
        categories = body.get("test_categories")
        if categories is None:
            known = {"version", "runtime_error", "metadata", "entity_groups", "hosts", "warning"}
            if not given_up and set(map(str.lower, body)) - known - {key.lower()}:
                self.problem(f"{key} has no test_categories")
            return
        if not isinstance(categories, list):
            self.problem("test_categories is no list")
            return
        for category in categories:
            if category is None:
                continue
            tests = category.get("tests") if isinstance(category, dict) else None
            if not isinstance(tests, list):
                self.problem("a test category has no list of tests")
                continue
            name = category.get("category")
            for test in tests:
                self._test(test, name if isinstance(name, str) else None)

    def _test(self, test: object, category: str | None) -> None:
        if test is None:  # 2.x leaves a hole for a test that it no longer has
            return
        if not isinstance(test, dict) or not isinstance(test.get("name"), str):
            self.problem("a test has no name")
            return
        name = words.snake(test["name"])
        results = test.get("results")
        self._infos.append([])
        found = False
        if results is not None and not isinstance(results, list):
            self.problem(f"{name}: results is no list")
        for result in _listed(results):
            if result is None:
                continue
            found = True
            self._result(result, name, category)
        error = test.get("mpi_error")
        if isinstance(error, dict):
            found = True
            said = str(error.get("warning", "no text")).removeprefix("Error: ")
            self._gave_up(f"MPI error: {said}")
        summary = test.get("test_summary")
        if summary is None and "status" in test and not found:
            summary = {"status": test["status"]}
        if isinstance(summary, dict):
            if not isinstance(error, dict):
                self._result(summary, name, category, summary=True)
        elif summary is not None:
            self.problem(f"{name}: test_summary is no object")
        elif not found:
            self.problem(f"{name}: the test has neither results nor a summary")

    def _result(
        self, result: object, test: str, category: str | None, *, summary: bool = False
    ) -> None:
        if not isinstance(result, dict) or "status" not in result:
            self.problem(f"{test}: a result has no status")
            return
        word = result["status"]
        gpus, lumped, group, device = self._about(result, test)
        deployment = category is not None and category.lower() == "deployment"
        singled_out = deployment and "gpu_id" in result
        if singled_out:
            gpus = self._hinted(result, gpus)
        infos = _texts(result.get("info"))
        self._infos[-1].extend((gpus[0] if gpus else None, True) for _ in infos)
        if gpus and not infos:
            self._infos[-1].append((gpus[0], False))
        complaints = self._complaints(result.get("warnings"), test)
        # JSON has no line of its own for a result; the first text that it holds has one.
        line = complaints[0].line if complaints else None
        if line is None and infos:
            line = self._lines.find(infos[0])
        self.run.results.append(
            TestResult(
                test=test,
                category=category,
                status=words.read_status(word),
                word=word if isinstance(word, str) else json.dumps(word)[:40],
                gpus=gpus,
                lumped=lumped,
                device=device,
                group=group,
                host=self._host(result),
                complaints=complaints,
                infos=infos,
                singled_out=singled_out,
                summary=summary,
                line=line,
            )
        )

    def _hinted(self, result: dict[str, Any], gpus: tuple[int, ...]) -> tuple[int, ...]:
        """3.x gives a Deployment test the GPU of its last error; the texts name all of them."""
        texts = [c.text for c in self._complaints(result.get("warnings"), "", quiet=True)]
        return () if any(words.gpus_named(text) for text in texts) else gpus

    def _about(
        self, result: dict[str, Any], test: str
    ) -> tuple[tuple[int, ...], bool, str | None, str | None]:
        """Return GPUs, whether they are lumped, entity group and another device."""
        if "entity_id" in result or "entity_group" in result:
            group = result.get("entity_group")
            group = group if isinstance(group, str) else "GPU"
            index = words.gpu_index(result.get("entity_id"))
            if group == "GPU":
                if index is None:
                    self.problem(f"{test}: entity_id is no GPU index")
                return (() if index is None else (index,)), False, group, None
            return (), False, group, f"{group} {result.get('entity_id')}"
        if "gpu_ids" in result:
            value = result["gpu_ids"]
            listed = value if isinstance(value, str) else ",".join(map(str, _listed(value)))
            gpus = words.gpu_list(listed)
            return gpus, len(gpus) > 1, None, None
        index = words.gpu_index(result.get("gpu_id"))
        return (() if index is None else (index,)), False, None, None

    def _host(self, result: dict[str, Any]) -> str | None:
        if "host_id" not in result:
            return None
        number = words.gpu_index(result["host_id"])
        if number is None:
            return None
        return self._hosts.get(number, f"host {number}")

    def _complaints(self, warnings: object, test: str, *, quiet: bool = False) -> list[Complaint]:
        """Read warnings: missing, null, one string, strings or objects."""
        complaints = []
        for item in [warnings] if isinstance(warnings, (str, dict)) else _listed(warnings):
            if item is None:
                continue
            if isinstance(item, str):
                complaint = Complaint(text=item)
            elif isinstance(item, dict):
                # Deployment tests of 3.x call the text "warnings" here too.
                text = item.get("warning", item.get("warnings"))
                complaint = Complaint(
                    text=text if isinstance(text, str) else json.dumps(item)[:300],
                    error_id=_integer(item.get("error_id")),
                    category=_integer(item.get("error_category")),
                    severity=_integer(item.get("error_severity")),
                )
            else:
                if not quiet:
                    self.problem(f"{test}: a warning is neither text nor object")
                continue
            if complaint.text.strip() or complaint.error_id:
                if not quiet:
                    complaint.line = self._lines.find(complaint.text)
                complaints.append(complaint)
        if not quiet and not isinstance(warnings, (str, dict, list, type(None))):
            self.problem(f"{test}: warnings is neither text nor list")
        return complaints

    def _global_error(self, item: object) -> None:
        """Read an error of mndiag that belongs to no GPU."""
        for complaint in self._complaints([item], "global_errors"):
            host = self._host(item) if isinstance(item, dict) else None
            kind = item.get("error_category") if isinstance(item, dict) else None
            if kind == "MPI" or complaint.error_id is None:
                said = complaint.text.removeprefix("Error: ")
                self._gave_up(f"MPI error: {said}" if kind == "MPI" else said)
            else:
                self.run.results.append(
                    TestResult(
                        test="mndiag",
                        status="fail",
                        word="error",
                        host=host,
                        complaints=[complaint],
                        line=complaint.line,
                    )
                )

    def _check_infos(self) -> None:
        """Notice that the tool ran out of room for its info texts (4.x)."""
        if not self._modern or self.run.infos_cut:
            return
        total = sum(present for test in self._infos for _, present in test)
        cut_within = any(_begins_only(test) for test in self._infos)
        if total == INFO_LIMIT or cut_within:
            self.run.infos_cut = (
                f"the output has {total} info texts and stops in the middle; "
                f"DCGM 4 keeps {INFO_LIMIT} of a run"
            )


def _begins_only(test: list[tuple[int | None, bool]]) -> bool:
    """Tell whether only the first GPUs of a test have info texts."""
    flags: dict[int, bool] = {}
    for gpu, present in test:
        if gpu is not None:
            flags[gpu] = flags.get(gpu, False) or present
    row = [flags[gpu] for gpu in sorted(flags)]
    return bool(row) and row[0] and not all(row) and row == sorted(row, reverse=True)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    items = [value] if isinstance(value, str) else _listed(value)
    return [item for item in items if isinstance(item, str) and item.strip()]


def _integer(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\d{1,6}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 10**6 else None
