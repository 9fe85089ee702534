from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.entries.entry import find_entry
from steps.documents import Entity, Group, Measurements, RunOutcome, RunRecord
from steps.fleets.fleet import Fleet, Job, JobResult
from steps.parse.measure import measure
from tests.fleets.jobs import ALL_REDUCE, START, make_job, simulated

TRAINING = "training/nemotron5-8b"
EIGHT = tuple(f"n-{number}" for number in range(1, 9))


def fault(kind: str, **fields: object) -> str:
    more = "".join(f", {name}: {value}" for name, value in fields.items())
    return f"  - {{kind: {kind}, node: n-2{more}}}\n"


def text_of(result: JobResult) -> str:
    output = next(log for log in result.record.logs if log.role == "output")
    return result.logs[output.name].decode()


def read(job: Job, result: JobResult) -> Measurements:
    entry = find_entry(job.category)
    return measure(entry, job.workload, result.record, lambda name: result.logs[name])


def rows_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if re.match(r" +\d+ +\d+ +\w+ ", line)]


def seconds(record: RunRecord) -> float:
    return (record.ended - record.started).total_seconds()


def test_the_same_job_gives_the_same_bytes_whatever_ran_before(tmp_path: Path) -> None:
    faults = fault("slow-link", factor=0.5) + fault("xid", number=79, at="1m")
    jobs = [
        make_job(nodes=("n-1", "n-2")),
        make_job(nodes=("n-3", "n-4"), group=Group(id="g-1", nodes=("n-3", "n-4"))),
        make_job("diagnostics/dcgm-level3", ("n-2",)),
        make_job(TRAINING, ("n-5", "n-6")),
    ]
    forth, back = simulated(tmp_path, faults), simulated(tmp_path, faults)
    first = [forth.run(job) for job in jobs]
    second = [back.run(job) for job in reversed(jobs)][::-1]
    assert first == second
    assert [forth.run(job) for job in jobs] == first


def test_seed_group_and_iteration_change_the_noise_but_little_else(tmp_path: Path) -> None:
    fleet = simulated(tmp_path)
    pair = ("n-1", "n-2")
    texts = {
        text_of(fleet.run(make_job(group=Group(id=name, nodes=pair, iteration=number))))
        for name, number in [("a", 1), ("a", 2), ("b", 1)]
    }
    assert len(texts) == 3


@pytest.mark.parametrize(
    ("category", "nodes", "complete_with"),
    [
        (ALL_REDUCE, EIGHT, {"rowCount": 320, "cycleCount": 10, "rankCount": 64}),
        ("communication/nccl-all-gather", EIGHT[:2], {"rowCount": 320, "cycleCount": 10}),
        ("communication/nccl-alltoall", EIGHT[:3], {"rowCount": 320, "cycleCount": 10}),
        ("communication/nccl-loopback", EIGHT[:1], {"rowCount": 64, "cycleCount": 2}),
        ("communication/nccl-loopback-nvswitch", EIGHT[:1], {"rowCount": 320, "rankCount": 8}),
        ("diagnostics/dcgm-level1", EIGHT[:1], {"testsPassed": 1, "gpusSeen": 8}),
        ("diagnostics/dcgm-level2", EIGHT[:1], {"testsPassed": 3, "gpusSeen": 8}),
        ("diagnostics/dcgm-level3", EIGHT[:1], {"testsPassed": 8, "gpusSeen": 8}),
        ("diagnostics/dcgm-level4", EIGHT[:1], {"testsPassed": 10, "testsSkipped": 1}),
        (TRAINING, EIGHT[:2], {"stepCount": 40, "nanStepCount": 0}),
    ],
)
def test_a_healthy_run_is_complete(
    tmp_path: Path, category: str, nodes: tuple[str, ...], complete_with: dict[str, int]
) -> None:
    job = make_job(category, nodes)
    result = simulated(tmp_path).run(job)
    record = result.record
    assert (record.outcome, record.exit_code, record.failures, record.events) == (
        RunOutcome.COMPLETED,
        0,
        (),
        (),
    )
    assert record.started == START
    assert 0 < seconds(record) < job.workload.timeout_seconds.value
    assert tuple(record.placements.values()) == nodes
    assert record.versions["image"] == job.workload.image.value
    assert {log.name: log.bytes for log in record.logs} == {
        name: len(data) for name, data in result.logs.items()
    }
    measured = read(job, result)
    assert measured.completeness == "complete"
    assert {name: measured.figures[name].value for name in complete_with} == complete_with
    assert [f.code for f in measured.findings if f.effect in {"fail", "inconclusive"}] == []


def test_header_names_every_rank_with_its_node_and_gpu(tmp_path: Path) -> None:
    text = text_of(simulated(tmp_path).run(make_job(nodes=("n-2", "n-1"))))
    ranks = re.findall(r"# +Rank +(\d+) Group +0 Pid +\d+ on +(\S+) device +(\d) \[0000:", text)
    assert [(int(r), n, int(g)) for r, n, g in ranks] == [
        (rank, "n-2" if rank < 8 else "n-1", rank % 8) for rank in range(16)
    ]
    assert text.count("NCCL INFO Using network IB\n") == 16


FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "corrupt data": (
        fault("corrupt-data", wrong=3),
        {
            "outcome": "failed",
            "exit": 1,
            "codes": ["WorkloadFailed"],
            "finding": "NCCL_DATA_CORRUPTION",
        },
    ),
    "crash": (
        fault("crash", after=5),
        {
            "outcome": "failed",
            "exit": 134,
            "codes": ["WorkloadFailed"],
            "finding": "NCCL_REMOTE_ERROR",
        },
    ),
    "hang": (
        fault("hang", after=5),
        {"outcome": "stalled", "codes": ["WorkloadStalled"], "finding": "LOG_TRUNCATED"},
    ),
    "socket fallback": (
        fault("socket-fallback"),
        {
            "outcome": "timed-out",
            "seconds": 3600,
            "finding": "NCCL_TRANSPORT_FALLBACK",
        },
    ),
    "empty output": (
        fault("no-output"),
        {"outcome": "completed", "exit": 0, "finding": "LOG_EMPTY"},
    ),
    "truncated output": (
        fault("truncate-output", keep=0.5),
        {"outcome": "completed", "exit": 0, "finding": "LOG_TRUNCATED"},
    ),
    "lost GPU": (
        fault("lost-gpu", gpu=3, at="90s"),
        {
            "outcome": "hardware",
            "seconds": 90,
            "codes": ["HardwareFailureDetected"],
            "events": ["XID_79"],
            "finding": "XID_79",
        },
    ),
    "fatal Xid": (
        fault("xid", number=95, at="1m"),
        {"outcome": "hardware", "seconds": 60, "events": ["XID_95"], "finding": "XID_95"},
    ),
    "Xid of the application": (
        fault("xid", number=31, at="1m"),
        {"outcome": "completed", "exit": 0, "events": [], "finding": "XID_31"},
    ),
    "Xid that nobody acts on": (
        fault("xid", number=95, at="1m", endsRun="false"),
        {"outcome": "completed", "exit": 0, "events": [], "finding": "XID_95"},
    ),
    "Xid of the application that an agent acts on": (
        fault("xid", number=31, at="1m", endsRun="true"),
        {"outcome": "hardware", "seconds": 60, "events": ["XID_31"], "finding": "XID_31"},
    ),
    "cordon": (
        fault("cordon", at="42s"),
        {"outcome": "hardware", "seconds": 42, "events": ["NODE_CORDONED"]},
    ),
    "unhealthy condition": (
        fault("cordon", at="42s", code="NODE_UNHEALTHY"),
        {"outcome": "hardware", "seconds": 42, "events": ["NODE_UNHEALTHY"]},
    ),
    "not ready": (
        fault("not-ready", at="1m30s"),
        {"outcome": "hardware", "seconds": 90, "events": ["NODE_NOT_READY"]},
    ),
    "event after the end": (
        fault("cordon", at="2h"),
        {"outcome": "completed", "exit": 0, "events": []},
    ),
    "infrastructure": (
        fault("infrastructure", code="INFRA_IMAGE_PULL", message="ErrImagePull", lasts="2m"),
        {"outcome": "infrastructure", "seconds": 120, "codes": ["INFRA_IMAGE_PULL"], "logs": 0},
    ),
    "too few GPUs": (
        fault("lost-gpu", gpu=0),
        {"outcome": "infrastructure", "codes": ["INFRA_UNSCHEDULABLE"], "logs": 0},
    ),
    "cordoned before": (
        fault("cordon"),
        {"outcome": "infrastructure", "codes": ["INFRA_UNSCHEDULABLE"], "logs": 0},
    ),
    "not ready before": (
        fault("not-ready"),
        {"outcome": "infrastructure", "codes": ["INFRA_UNSCHEDULABLE"], "logs": 0},
    ),
}


@pytest.mark.parametrize(("faults", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_shows_as_it_does_in_a_cluster(
    tmp_path: Path, faults: str, expected: dict[str, Any]
) -> None:
    job = make_job(nodes=("n-1", "n-2"))
    result = simulated(tmp_path, faults).run(job)
    record = result.record
    assert record.outcome == expected["outcome"]
    assert record.exit_code == expected.get("exit")
    assert [event.code for event in record.events] == expected.get("events", [])
    assert {event.node for event in record.events} <= {"n-2"}
    if "codes" in expected:
        assert [failure.code for failure in record.failures] == expected["codes"]
    if "seconds" in expected:
        assert seconds(record) == expected["seconds"]
    if "logs" in expected:
        assert len(result.logs) == expected["logs"]
    if "finding" in expected:
        assert expected["finding"] in {finding.code for finding in read(job, result).findings}


@pytest.mark.parametrize("name", FAULTS)
def test_the_other_nodes_are_as_fast_as_ever(tmp_path: Path, name: str) -> None:
    job = make_job(nodes=("n-1", "n-3"))
    assert simulated(tmp_path, FAULTS[name][0]).run(job) == simulated(tmp_path).run(job)


def test_a_fault_shows_only_in_its_category(tmp_path: Path) -> None:
    fleet = simulated(tmp_path, fault("hang", category="communication/nccl-all-gather"))
    assert fleet.run(make_job()).record.outcome is RunOutcome.COMPLETED
    gather = make_job("communication/nccl-all-gather")
    assert fleet.run(gather).record.outcome is RunOutcome.STALLED


def test_infrastructure_heals_after_the_given_attempts(tmp_path: Path) -> None:
    fleet = simulated(
        tmp_path, fault("infrastructure", code="INFRA_DNS", message="no such host", healsAfter=2)
    )
    outcomes = [fleet.run(make_job(attempt=attempt)).record.outcome for attempt in (1, 2, 3)]
    assert outcomes == [
        RunOutcome.INFRASTRUCTURE,
        RunOutcome.INFRASTRUCTURE,
        RunOutcome.COMPLETED,
    ]


def test_isolation_finds_a_node_out_of_service_that_was_taken_out(tmp_path: Path) -> None:
    fleet = simulated(tmp_path, fault("cordon", at="1m"))
    pair = Group(id="pair-1-0", nodes=("n-1", "n-2"), purpose="isolate")
    record = fleet.run(make_job(group=pair)).record
    assert [failure.code for failure in record.failures] == ["INFRA_UNSCHEDULABLE"]
    assert "0/8 nodes are available: 1 node(s) were unschedulable, 7" in record.failures[0].message
    assert record.events == ()


def test_a_node_that_left_the_fleet_is_infrastructure(tmp_path: Path) -> None:
    record = simulated(tmp_path).run(make_job(nodes=("n-1", "n-99"))).record
    assert [failure.code for failure in record.failures] == ["INFRA_NODE_GONE"]


def test_events_of_one_moment_all_count_and_a_later_one_does_not(tmp_path: Path) -> None:
    faults = (
        fault("cordon", at="1m", message="drain")
        + fault("lost-gpu", gpu=1, at="1m")
        + fault("not-ready", at="61s")
    )
    record = simulated(tmp_path, faults).run(make_job()).record
    assert [event.code for event in record.events] == ["NODE_CORDONED", "XID_79"]
    assert {event.at for event in record.events} == {START + timedelta(minutes=1)}
    assert [failure.entity.node for failure in record.failures if failure.entity] == ["n-2", "n-2"]


def test_a_stopped_run_shows_the_rows_that_were_done_by_then(tmp_path: Path) -> None:
    whole = text_of(simulated(tmp_path).run(make_job())).splitlines()
    part = text_of(simulated(tmp_path, fault("cordon", at="2m")).run(make_job())).splitlines()
    assert part == whole[: len(part)]
    assert 0 < len(rows_of("\n".join(part))) < 320
    assert "Out of bounds" not in part[-1]


def test_kernel_lines_carry_time_address_and_number(tmp_path: Path) -> None:
    result = simulated(tmp_path, fault("lost-gpu", gpu=3, at="90s")).run(make_job())
    kernel = next(log for log in result.record.logs if log.role == "kernel")
    assert kernel.node == "n-2"
    assert (
        result.logs[kernel.name]
        .decode()
        .splitlines()[0]
        .startswith("[Mon May  4 06:31:30 2026] NVRM: Xid (PCI:0000:5d:00): 79,")
    )


@pytest.mark.parametrize(
    ("test", "error", "exit_code", "finding"),
    [
        ("memtest", 52, 205, "DCGM_FAIL_MEMTEST/52"),
        ("pcie", 30, 226, "DCGM_FAIL_PCIE/30"),
        ("software", 29, 226, "DCGM_CONFIG"),
        ("targeted_power", 63, 0, "DCGM_WARN_TARGETED_POWER/63"),
    ],
)
def test_a_dcgm_failure_names_its_gpu_only(
    tmp_path: Path, test: str, error: int, exit_code: int, finding: str
) -> None:
    status = "Fail" if exit_code else "Warn"
    faults = fault("dcgm-failure", test=test, errorId=error, gpu=4, status=status)
    job = make_job("diagnostics/dcgm-level4", ("n-2",))
    result = simulated(tmp_path, faults).run(job)
    assert result.record.exit_code == exit_code
    found = next(item for item in read(job, result).findings if item.code == finding)
    assert {entity.gpu for entity in found.entities} == {4}
    document = json.loads(text_of(result))
    tests = [t for c in document["DCGM Diagnostic"]["test_categories"] for t in c["tests"]]
    assert {t["name"] for t in tests if t["test_summary"]["status"] == status} == {test}


def test_a_dcgm_run_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    job = make_job("diagnostics/dcgm-level3", ("n-2",))
    result = simulated(tmp_path, fault("not-ready", at="1m")).run(job)
    assert text_of(result) == ""
    hung = simulated(tmp_path, fault("hang")).run(job)
    assert (hung.record.outcome, text_of(hung)) == (RunOutcome.TIMED_OUT, "")
    (failure,) = hung.record.failures
    assert (failure.code, failure.entity) == ("DCGM_TIMEOUT", Entity(node="n-2"))
    dead = simulated(tmp_path, fault("crash")).run(job)
    assert read(job, dead).findings[0].code == "DCGM_DID_NOT_RUN"


@pytest.mark.parametrize(
    ("faults", "code", "nodes"),
    [
        (fault("crash", after=12, gpu=3), "TRAIN_CRASHED", {"n-2"}),
        (fault("nan-loss", step=17, gpu=5), "TRAIN_NAN", {"n-2"}),
        (fault("hang", after=20), "TRAIN_HANG_WATCHDOG", {"n-2"}),
    ],
    ids=["crash", "nan", "hang"],
)
def test_a_training_fault_is_printed_as_megatron_and_torchrun_do(
    tmp_path: Path, faults: str, code: str, nodes: set[str]
) -> None:
    # The watchdog of PyTorch needs an hour; a stall rule would end the run before.
    job = make_job(TRAINING, ("n-1", "n-2"), options={"stallTimeoutSeconds": 0})
    result = simulated(tmp_path, faults).run(job)
    assert (result.record.outcome, result.record.exit_code) == (RunOutcome.FAILED, 1)
    found = next(item for item in read(job, result).findings if item.code == code)
    assert {entity.node for entity in found.entities} == nodes


def test_all_wait_for_a_slow_node(tmp_path: Path) -> None:
    job = make_job(TRAINING, ("n-1", "n-2"))
    figures = [
        read(job, fleet.run(job)).figures["avgTFLOPsPerGPU"].value
        for fleet in (simulated(tmp_path), simulated(tmp_path, fault("slow-training", factor=0.5)))
    ]
    assert isinstance(figures[0], float)
    assert isinstance(figures[1], float)
    assert figures[1] / figures[0] == pytest.approx(0.5, rel=0.01)


def test_training_ends_at_its_exit_duration(tmp_path: Path) -> None:
    options = {"maxSteps": 5000, "exitDurationMins": 10}
    result = simulated(tmp_path).run(make_job(TRAINING, ("n-1", "n-2"), options=options))
    assert "[exiting program after 10." in text_of(result)
    assert 600 < seconds(result.record) < 640


def test_a_hang_lasts_until_the_timeout_that_was_set(tmp_path: Path) -> None:
    job = make_job(timeout="7m")
    record = simulated(tmp_path, fault("hang", after=0)).run(job).record
    assert (record.outcome, seconds(record)) == (RunOutcome.TIMED_OUT, 420)


def stalling(category: str = ALL_REDUCE, **options: int) -> Job:
    return make_job(category, ("n-1", "n-2"), options=options)


@pytest.mark.parametrize(
    ("job", "after", "limit", "says"),
    [
        (stalling(), 5, 600, "no row since 128, 10m0s ago; 10m0s are allowed"),
        (stalling(stallTimeoutSeconds=90), 5, 90, "no row since 128, 1m30s ago"),
        (
            stalling(startupStallTimeoutSeconds=120),
            0,
            120,
            "no row within 2m0s of the start; its last line is: #",
        ),
        (stalling(TRAINING), 20, 600, "no training step since 20 of 50, 10m0s ago"),
        (
            stalling(TRAINING),
            0,
            1200,
            "no training step within 20m0s of the start; its last line is: ",
        ),
    ],
    ids=["row", "row-own-limit", "first-row", "step", "first-step"],
)
def test_a_hang_ends_at_the_stall_rule(
    tmp_path: Path, job: Job, after: int, limit: int, says: str
) -> None:
    healthy = simulated(tmp_path).run(job)
    result = simulated(tmp_path, fault("hang", after=after)).run(job)
    record = result.record
    assert (record.outcome, record.exit_code, record.events) == (RunOutcome.STALLED, None, ())
    (failure,) = record.failures
    assert (failure.code, failure.entity) == ("WorkloadStalled", None)
    assert says in failure.message
    assert text_of(healthy).startswith(text_of(result))
    assert seconds(record) >= limit
    assert seconds(record) < limit + seconds(healthy.record)


def test_a_hang_lasts_until_the_timeout_where_the_stall_rules_are_off(tmp_path: Path) -> None:
    off = {"stallTimeoutSeconds": 0, "startupStallTimeoutSeconds": 0}
    for after in (0, 5):
        record = simulated(tmp_path, fault("hang", after=after)).run(make_job(options=off)).record
        assert (record.outcome, seconds(record)) == (RunOutcome.TIMED_OUT, 3600)


def test_a_run_that_becomes_slow_does_not_stall(tmp_path: Path) -> None:
    """The last rows of this run take longer than ten minutes each."""
    job = make_job(timeout="12h")
    record = simulated(tmp_path, fault("slow-link", factor=0.002)).run(job).record
    assert seconds(record) > 3600
    assert record.outcome is not RunOutcome.STALLED


def test_a_node_is_in_service_again_after_an_xid_of_the_application(tmp_path: Path) -> None:
    again = Group(id="pair-1-0", nodes=("n-1", "n-2"), purpose="isolate")
    outcomes = [
        simulated(tmp_path, fault("xid", number=number, at="1m")).run(make_job(group=again)).record
        for number in (13, 79)
    ]
    assert [record.outcome for record in outcomes] == [
        RunOutcome.COMPLETED,
        RunOutcome.INFRASTRUCTURE,
    ]


def test_a_report_can_say_that_nothing_was_measured(tmp_path: Path) -> None:
    fleet: Fleet = simulated(tmp_path)
    assert (fleet.source, fleet.note) == (
        "simulated",
        "seed 11",
    )
    assert (fleet.start, fleet.unused()) == (START, [])


def test_an_unknown_exit_code_is_noted_beside_a_good_result(tmp_path: Path) -> None:
    job = make_job()
    result = simulated(tmp_path).run(job)
    assert [f.code for f in read(job, result).findings] == []
    record = result.record.model_copy(update={"exit_code": None})
    (found,) = read(job, JobResult(record, result.logs)).findings
    assert (found.code, found.effect) == ("EXIT_CODE_UNKNOWN", "note")
