"""Prints the JSON of ``dcgmi diag`` 4.5, as in NVIDIA/DCGM's DcgmDiagResponse output.

The tool prints everything at its end, so a run that is stopped leaves nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from catalog.facts import dcgm
from steps.simulator.clock import Script
from steps.simulator.faults import Crash, DcgmFailure, Hang, of_kind
from steps.simulator.machine import DRIVER, Machine, SimulatedRun

VERSIONS = {"dcgm": "4.5.2"}

_TESTS = (
    ("Deployment", "software"),
    ("Hardware", "memory"),
    ("Hardware", "diagnostic"),
    ("Hardware", "eud"),
    ("Hardware", "nvbandwidth"),
    ("Hardware", "pulse_test"),
    ("Integration", "pcie"),
    ("Stress", "memory_bandwidth"),
    ("Stress", "memtest"),
    ("Stress", "targeted_stress"),
    ("Stress", "targeted_power"),
)
"""The tests of DCGM 4 with the heading they stand under, in the order of the output."""

_SECONDS = {1: 6.0, 2: 130.0, 3: 1320.0, 4: 2700.0}
"""How long each level takes on eight GPUs, without the tests whose duration can be set."""

_NOT_INSTALLED = "EUD is not installed"
_PCIE_GBPS = {"h100": 55.4, "h200": 55.4, "a100": 25.6}
"""Host to GPU bandwidth; 56 GB/s for PCIe 5, and Grace has NVLink-C2C instead."""

_CONNECTION_NOT_VALID = -21
_NVVS_ERROR = -30
_NVVS_ISOLATE_ERROR = -51


def dcgm_script(run: SimulatedRun) -> Script:
    """Return everything that the diagnostic prints when nothing from outside stops it."""
    script = Script("output.json")
    if of_kind(run.faults, Hang):
        script.now = math.inf
        return script
    if of_kind(run.faults, Crash):
        status = _CONNECTION_NOT_VALID
        script.say(
            "Error: Unable to complete diagnostic for group 2147483647. "
            f"Return: ({status}) : The connection to the host engine is not valid any longer",
            after=20.0,
        )
        script.fail(status % 256, "dcgmi lost its host engine")
        return script
    level = _level(run)
    machine = run.machines[0]
    failures = of_kind(run.faults, DcgmFailure)
    shown = [(heading, name) for heading, name in _TESTS if dcgm.tests()[name].level <= level]
    script.now = _duration(run, level)
    document = _document(run, machine, shown, failures)
    script.say(*json.dumps(document, indent="\t", separators=(",", " : ")).split("\n"))
    names = {name for _, name in shown}
    failed = [fault for fault in failures if fault.test in names and fault.status == "Fail"]
    if failed:
        isolate = any(dcgm.errors()[fault.error_id].severity == "ISOLATE" for fault in failed)
        status = _NVVS_ISOLATE_ERROR if isolate else _NVVS_ERROR
        script.fail(status % 256, f"dcgmi ended with exit code {status % 256}: a test failed")
    return script


def _level(run: SimulatedRun) -> int:
    asked = run.argv.get("--run") or run.argv.get("-r") or str(run.entry.diag_level or 1)
    return int(asked) if asked in {"1", "2", "3", "4"} else run.entry.diag_level or 1


def _duration(run: SimulatedRun, level: int) -> float:
    set_by_hand = re.findall(r"test_duration=(\d+)", run.argv.get("-p", ""))
    noise = 1 + run.random("duration").uniform(-0.02, 0.02)
    return _SECONDS[level] * noise + sum(float(seconds) for seconds in set_by_hand)


def _document(
    run: SimulatedRun, machine: Machine, shown: list[tuple[str, str]], failures: list[DcgmFailure]
) -> dict[str, Any]:
    headings: dict[str, list[dict[str, Any]]] = {}
    for heading, name in shown:
        faults = [fault for fault in failures if fault.test == name]
        headings.setdefault(heading, []).append(_test(run, machine, name, faults))
    serial = run.random(f"serial {machine.name}").randrange(10**12, 2 * 10**12)
    return {
        "DCGM Diagnostic": {
            "test_categories": [
                {"category": heading, "tests": tests} for heading, tests in headings.items()
            ]
        },
        "entity_groups": [
            {
                "entities": [
                    {"device_id": "2330", "entity_id": gpu, "serial_num": str(serial + gpu)}
                    for gpu in machine.present
                ],
                "entity_group": "GPU",
                "entity_group_id": 1,
            }
        ],
        "metadata": {"Driver Version Detected": DRIVER, "version": VERSIONS["dcgm"]},
    }


def _test(
    run: SimulatedRun, machine: Machine, name: str, faults: list[DcgmFailure]
) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    noise = run.random(name)
    for gpu in machine.present:
        result: dict[str, Any] = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu}
        if name == "pcie":
            rate = _PCIE_GBPS.get(machine.architecture, 56.0)
            # One line of the several that DCGM has, since it keeps no more than 16 in all.
            achieved = rate * noise.uniform(0.99, 1.0)
            result["info"] = [f"GPU {gpu} Host to GPU bandwidth:\t\t{achieved:.2f} GB/s"]
        mine = [fault for fault in faults if fault.gpu == gpu]
        worst = _worst(fault.status for fault in mine)
        result["status"] = "Skip" if name == "eud" and not mine else worst
        if mine:
            result["warnings"] = [_warning(fault) for fault in mine]
        results.append(result)
    if all(result["status"] == "Skip" for result in results):
        summary: dict[str, Any] = {"info": [_NOT_INSTALLED], "status": "Skip"}
    else:
        summary = {"status": _worst(result["status"] for result in results)}
    return {"name": name, "results": results, "test_summary": summary}


def _worst(statuses: Iterable[str]) -> str:
    found = set(statuses)
    return next((status for status in ("Fail", "Warn") if status in found), "Pass")


def _warning(fault: DcgmFailure) -> dict[str, Any]:
    error = dcgm.errors()[fault.error_id]
    severity = next(n for n in range(7) if dcgm.severity_name(n) == error.severity)
    category = next(n for n in range(17) if dcgm.category_name(n) == error.category)
    words = error.name.replace("_", " ").lower()
    return {
        "error_category": category,
        "error_id": fault.error_id,
        "error_severity": severity,
        "warning": fault.text or f"Error {fault.error_id} ({words}) on GPU {fault.gpu}",
    }
