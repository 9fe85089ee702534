"""Figures, rows, texts, exit codes and the data behind them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catalog.facts import dcgm
from catalog.facts.dcgm import Reading
from catalog.facts.reasons import Effect, reason
from catalog.hardware.hardware import Hardware
from steps.documents import Completeness, DiagnosticRow
from steps.parse.api import ParseContext, Part
from steps.parse.dcgm import DcgmTextScanner, words
from tests.parse.dcgm.conftest import FIXTURES, Read, context, read_json, read_text, scan


def figures(part: Part) -> dict[str, Any]:
    return {name: figure.value for name, figure in part.figures.items()}


def rows(part: Part) -> list[DiagnosticRow]:
    return [row for row in part.rows if isinstance(row, DiagnosticRow)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "v4-level4-pass.json",
            {"testsPassed": 8, "testsFailed": 0, "testsWarned": 0, "gpusSeen": 8, "gpusFailed": 0},
        ),
        (
            "v4-hardware-fails.json",
            {"testsPassed": 5, "testsFailed": 2, "testsWarned": 1, "gpusFailed": 2},
        ),
        ("v4-persistence-all.json", {"testsFailed": 1, "gpusFailed": 0, "gpusSeen": 4}),
        ("v4-thermal-zero.json", {"testsFailed": 0, "testsWarned": 1, "testsPassed": 7}),
        ("v4-info-truncated.json", {"hostToDeviceMinGBps": 53.4, "deviceToHostMinGBps": 52.1}),
        ("v3-per-gpu-fail.json", {"testsPassed": 14, "testsFailed": 1, "testsSkipped": 1}),
        (
            "nvbandwidth-pass.json",
            {
                "hostToDeviceMinGBps": 41.02,
                "deviceToHostMinGBps": 54.97,
                "deviceToDeviceMinGBps": 388.6,
                "gpusSeen": 4,
            },
        ),
        ("nvbandwidth.txt", {"hostToDeviceMinGBps": 38.64, "deviceToDeviceMinGBps": 366.2}),
        ("preflight-pass.jsonl", {"testsPassed": 11, "testsSkipped": 1, "testsFailed": 0}),
        ("text-v3-two-statuses.txt", {"testsPassed": 12, "testsFailed": 1, "gpusFailed": 1}),
        ("mndiag-one-gpu-fails.json", {"gpusSeen": 4, "gpusFailed": 1}),
    ],
)
def test_figures(read: Read, name: str, expected: dict[str, Any]) -> None:
    got = figures(read(name))
    assert {key: got.get(key) for key in expected} == expected


def test_no_figure_exists_without_a_result(read: Read) -> None:
    assert figures(read("v4-runtime-in-use.json")) == {}
    assert figures(read("condition-imex.txt")) == {}


def test_versions(read: Read) -> None:
    assert read("v4-level4-pass.json").versions == {"dcgm": "4.4.2", "driver": "575.57.08"}
    assert read("v3-per-gpu-fail.json").versions == {"dcgm": "3.3.6", "driver": "535.183.01"}
    assert read("text-v4-per-gpu.txt").versions == {"dcgm": "4.3.1", "driver": "550.90.12"}
    assert "dcgm" not in read("v1-lumped.json").versions  # 1.4 is the version of the format


def test_rows_carry_numbers_only_where_the_tool_prints_them(read: Read) -> None:
    printed = next(r for r in rows(read("v4-hardware-fails.json")) if r.error_id == 30)
    assert (printed.gpu, printed.error_severity, printed.error_category) == (6, 4, 13)
    assert (printed.value, printed.unit, printed.status) == (19.84, "GB/s", "fail")
    old = next(r for r in rows(read("v1-lumped.json")) if r.status == "fail")
    assert (old.gpu, old.error_id, old.error_severity) == (1, None, None)


def test_an_excused_fail_is_a_warning_that_keeps_its_word(read: Read) -> None:
    row = next(r for r in rows(read("v4-thermal-zero.json")) if r.gpu == 2 and r.text)
    assert row.status == "warn"
    assert row.text
    assert row.text.startswith("Fail; Thermal violations totaling 0.0")


def test_evidence_names_the_line_of_the_json(read: Read) -> None:
    text = (FIXTURES / "v4-hardware-fails.json").read_text().split("\n")
    for finding in read("v4-hardware-fails.json").findings:
        (proof,) = finding.evidence
        assert proof.line is not None
        assert proof.text[:40] in text[proof.line - 1]


def test_wrapped_cells_are_joined_without_a_blank(read: Read) -> None:
    finding = next(f for f in read("text-v3-two-statuses.txt").findings if f.effect is Effect.FAIL)
    assert finding.evidence[0].text == (
        "GPU 2 Found 41 faulty memory elements on GPU 2 Run a field diagnostic on the GPU."
    )
    note = read("text-v4-per-gpu.txt").findings
    clocks = next(f for f in note if f.code == "DCGM_WARN_DIAGNOSTIC")
    assert clocks.evidence[0].text.endswith("starting 4.0 seconds into the test.")


def test_repeated_errors_of_one_gpu_are_one_finding_with_a_count() -> None:
    down = [
        {"warning": f"GPU 0's NvLink link {link} is currently down", "error_id": 14}
        for link in range(12)
    ]
    data = one_test("pcie", {"entity_group": "GPU", "entity_id": 0, "status": "Fail"}, down)
    part = read_json(data, "", "diag.json", ParseContext())
    assert part
    assert [(f.code, f.count) for f in part.findings if f.effect is Effect.FAIL] == [
        ("DCGM_FAIL_PCIE/14", 12),
        ("NVLINK_DOWN", 12),
    ]
    assert all(len(f.evidence) <= 5 for f in part.findings)


def one_test(name: str, result: dict[str, Any], warnings: object = None) -> dict[str, Any]:
    full = result if warnings is None else {**result, "warnings": warnings}
    test = {"name": name, "results": [full]}
    return {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [test]}]}}


def effects(data: object, **known: Any) -> list[tuple[str, Effect]]:
    part = read_json(data, "", "diag.json", context(**known))
    assert part is not None
    return [(f.code, f.effect) for f in part.findings if f.code != "DCGM_RESULT_MISSING"]


@pytest.mark.parametrize("warnings", [None, [], "text", ["text"], [{"warning": "text"}], [None]])
def test_warnings_come_in_many_shapes(warnings: object) -> None:
    data = one_test("memory", {"gpu_id": "1", "status": "FAIL"}, warnings)
    assert effects(data) == [("DCGM_FAIL_MEMORY", Effect.FAIL)]


@pytest.mark.parametrize("word", ["Pass", "PASS", "pass", "passed"])
def test_status_in_any_case(word: str) -> None:
    assert effects(one_test("memory", {"gpu_id": 0, "status": word})) == []


@pytest.mark.parametrize(
    "result",
    [
        {"gpu_id": "2"},
        {"gpu_id": 2},
        {"gpu_ids": "2"},
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 2},
    ],
    ids=["3.x", "number", "1.x", "4.x"],
)
def test_the_gpu_is_found_in_every_version(result: dict[str, Any]) -> None:
    data = one_test("memory", {**result, "status": "Fail"})
    part = read_json(data, "", "diag.json", ParseContext())
    assert part
    assert [entity.gpu for entity in part.findings[0].entities] == [2]


@pytest.mark.parametrize("blank", [9223372036854775794, 2147483632, -1, "x", None, True, 1.5])
def test_a_blank_is_no_gpu(blank: object) -> None:
    data = one_test("memory", {"gpu_id": blank, "status": "Fail"})
    part = read_json(data, "", "diag.json", ParseContext(node="n1"))
    assert part
    assert [entity.gpu for entity in part.findings[0].entities] == [None]


@pytest.mark.parametrize("value", [9223372036854775794, 2147483632, 140737488355328.0])
def test_blank_values_are_no_numbers(value: float) -> None:
    assert words.number(value) is None
    assert words.number(str(value)) is None


@pytest.mark.parametrize(
    ("error", "context", "expected"),
    [
        ((29, 8, 5), {}, [("DCGM_CONFIG", Effect.INCONCLUSIVE)]),
        ((20, 8, 5), {}, [("DCGM_CONFIG", Effect.INCONCLUSIVE)]),
        ((68, 3, 5), {}, [("DCGM_CONFIG", Effect.INCONCLUSIVE)]),
        ((108, 6, 1), {}, [("DCGM_CONFIG", Effect.INCONCLUSIVE)]),
        ((47, 8, 5), {}, [("DCGM_DID_NOT_RUN", Effect.INCONCLUSIVE)]),
        ((44, 16, 4), {}, [("DCGM_FAIL_DIAGNOSTIC/44", Effect.INCONCLUSIVE)]),
        ((110, 2, 4), {}, [("DCGM_FAIL_DIAGNOSTIC/110", Effect.FAIL)]),
        ((95, 7, 2), {}, [("DCGM_FAIL_DIAGNOSTIC/95", Effect.FAIL)]),
        # ids of a version to come: its printed category decides
        ((900, 10, 2), {}, [("DCGM_FAIL_DIAGNOSTIC/900", Effect.FAIL)]),
        ((900, 8, 4), {}, [("DCGM_FAIL_DIAGNOSTIC/900", Effect.INCONCLUSIVE)]),
        ((900, 3, 5), {}, [("DCGM_CONFIG", Effect.INCONCLUSIVE)]),
        ((1, 15, 4), {}, [("DCGM_FAIL_DIAGNOSTIC/1", Effect.FAIL)]),
    ],
)
def test_only_hardware_errors_blame(
    error: tuple[int, int, int], context: dict[str, Any], expected: list[tuple[str, Effect]]
) -> None:
    number, category, severity = error
    warning = {
        "warning": "what it says",
        "error_id": number,
        "error_category": category,
        "error_severity": severity,
    }
    result = {"entity_group": "GPU", "entity_id": 0, "status": "Fail"}
    assert (
        effects(one_test("diagnostic", result, [warning]), **context)[: len(expected)] == expected
    )


def test_a_software_error_that_quotes_a_broken_memory_blames() -> None:
    text = "Error using CUDA API cudaEventSynchronize: uncorrectable ECC error encountered on GPU 0"
    warning = {"warning": text, "error_id": 51, "error_category": 6, "error_severity": 1}
    result = {"entity_group": "GPU", "entity_id": 0, "status": "Fail"}
    assert ("DCGM_FAIL_DIAGNOSTIC/51", Effect.FAIL) in effects(
        one_test("diagnostic", result, [warning])
    )


@pytest.mark.parametrize(
    ("exit_code", "status", "code"),
    [
        (0, "Pass", None),
        (None, "Pass", None),
        (205, "Pass", "DCGM_INCONSISTENT"),
        (226, "Pass", "DCGM_INCONSISTENT"),
        (205, "Fail", "DCGM_FAIL_MEMORY"),
    ],
)
def test_the_exit_code_may_not_contradict_the_results(
    exit_code: int | None, status: str, code: str | None
) -> None:
    data = one_test("memory", {"gpu_id": "0", "status": status})
    got = [name for name, _ in effects(data, exit_code=exit_code)]
    assert got == ([code] if code else [])


@pytest.mark.parametrize(
    ("exit_code", "code", "says"),
    [
        (226, "DCGM_DID_NOT_RUN", "NVVS_ERROR"),
        (205, "DCGM_DID_NOT_RUN", "draining"),
        (222, "DCGM_BUSY", "in use"),
        (217, "DCGM_BUSY", "another diagnostic"),
        (245, "DCGM_TIMEOUT", "TIMEOUT"),
    ],
)
def test_an_exit_code_without_output_is_explained(exit_code: int, code: str, says: str) -> None:
    part = scan(DcgmTextScanner, "", ParseContext(tool="dcgm", exit_code=exit_code))
    assert [f.code for f in part.findings] == [code]
    assert says in part.findings[0].message
    assert part.completeness is Completeness.ABORTED


def test_other_output_is_not_claimed() -> None:
    text = (
        "iteration 43/ 100 | consumed samples: 11008 | elapsed time per iteration (ms): 5444.9 |\n"
        "+------+------+\n| name | rank |\n|  a   |  1   |\n+------+------+\n"
        "NCCL INFO Connected all rings\n"
    )
    assert read_text(text, ParseContext(tool="training")).claimed == 0
    assert read_json({"config": {}, "results": []}, "", "x.json", ParseContext()) is None
    assert read_json([1, 2], "", "x.json", ParseContext()) is None


def test_tables_of_several_hosts_keep_their_hosts() -> None:
    text = (FIXTURES / "text-error-row.txt").read_text()
    scanner = DcgmTextScanner("out.txt")
    from steps.parse.api import Line  # noqa: PLC0415

    for number, line in enumerate(text.splitlines(), 1):
        scanner.feed(Line(number, line, host="node-a"))
        scanner.feed(Line(number, line.replace("GPU 6", "GPU 2"), host="node-b"))
    found = [f for f in scanner.finish(ParseContext()).findings if f.effect is Effect.FAIL]
    assert [str(f.entities[0]) for f in found] == ["node-a GPU 6", "node-b GPU 2"]


def test_a_level_1_run_with_one_error_does_not_miss_the_other_gpus() -> None:
    deployment = {
        "category": "Deployment",
        "tests": [
            {
                "name": "Persistence Mode",
                "results": [
                    {
                        "gpu_id": 5,
                        "status": "Fail",
                        "warnings": [{"warnings": "Persistence mode for GPU 5 is disabled."}],
                    }
                ],
            }
        ],
    }
    data = {"DCGM GPU Diagnostic": {"test_categories": [deployment]}}
    assert effects(data, gpus_per_node=8) == [("DCGM_CONFIG", Effect.INCONCLUSIVE)]


@pytest.mark.parametrize(
    ("broken", "completeness"),
    [
        ({"DCGM Diagnostic": []}, Completeness.UNKNOWN_SCHEMA),
        ({"DCGM Diagnostic": {"test_categories": {}}}, Completeness.UNKNOWN_SCHEMA),
        ({"DCGM Diagnostic": {"categories": []}}, Completeness.UNKNOWN_SCHEMA),
        ({"DCGM Diagnostic": {"test_categories": [{"tests": 1}]}}, Completeness.UNKNOWN_SCHEMA),
        ({"DCGM Diagnostic": {"test_categories": []}}, Completeness.EMPTY),
        ({"DCGM GPU Diagnostic": {}}, Completeness.EMPTY),
        ({"nvbandwidth": {"testcases": "none"}}, Completeness.UNKNOWN_SCHEMA),
        ({"nvbandwidth": {"testcases": []}}, Completeness.EMPTY),
    ],
)
def test_an_unknown_structure_is_never_a_pass(broken: object, completeness: Completeness) -> None:
    part = read_json(broken, "", "x.json", ParseContext())
    assert part
    assert part.completeness is completeness
    assert any(f.effect is Effect.INCONCLUSIVE for f in part.findings)


def test_a_cut_off_document_blames_nobody_for_what_is_lost() -> None:
    text = (FIXTURES / "v4-level4-pass.json").read_text()
    data = json.loads(text)
    del data["entity_groups"]
    for category in data["DCGM Diagnostic"]["test_categories"]:
        for test in category["tests"]:
            del test["results"][3:]
    part = read_json(
        data, text[: len(text) // 2], "x.json", ParseContext(hardware=Hardware(gpus_per_node=8))
    )
    assert part
    assert part.completeness is Completeness.CUT_OFF
    assert [(f.code, f.effect) for f in part.findings] == [("LOG_TRUNCATED", Effect.INCONCLUSIVE)]


def test_secrets_do_not_reach_findings_or_rows() -> None:
    text = "EUD failed: --auth-token=abcdef0123456789abcdef on GPU 0"
    data = one_test("eud", {"gpu_id": "0", "status": "Fail"}, [text])
    part = read_json(data, "", "x.json", ParseContext())
    assert part
    assert "abcdef0123456789" not in repr(part)


class TestCatalog:
    def test_every_error_is_complete(self) -> None:
        assert sorted(dcgm.errors()) == list(range(133))
        for error in dcgm.errors().values():
            assert error.severity in {dcgm.severity_name(n) for n in range(7)}
            assert error.category in {dcgm.category_name(n) for n in range(17)}
            if error.detail:
                assert reason(error.detail)

    def test_settings_never_read_as_hardware(self) -> None:
        blaming = {Reading.HARDWARE, Reading.NVLINK, Reading.THERMAL, Reading.XID}
        for error in dcgm.errors().values():
            assert error.severity != "CONFIG" or error.reading not in blaming, error.name

    def test_a_severity_may_depend_on_the_version(self) -> None:
        error = dcgm.errors()[80]
        assert error.severity_in("3.3.9") == "ISOLATE"
        assert error.severity_in("4.6.0") == error.severity_in(None) == "RESET"

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("GPU 3's NvLink link 7 is currently down", "NVLINK_DOWN"),
            ("Persistence mode for GPU 2 is disabled.", "PERSISTENCE_MODE"),
            ("GPU 4 had memory errors and row remappings are pending", "PENDING_ROW_REMAP"),
            ("Detected XID 63 for GPU 1", "XID_ERROR"),
            ("Found CUDA performance-limiting environment variable 'X'.", "BAD_CUDA_ENV"),
        ],
    )
    def test_messages_are_recognised_without_an_id(self, text: str, name: str) -> None:
        error = dcgm.recognise(text)
        assert error
        assert error.name == name

    @pytest.mark.parametrize(("byte", "code"), [(205, -51), (226, -30), (222, -34)])
    def test_exit_bytes_are_negative_statuses(self, byte: int, code: int) -> None:
        known = dcgm.return_code(byte)
        assert known
        assert known.code == code
        assert dcgm.return_code(0) is None
        assert dcgm.return_code(1) is None
