"""The command line as a person uses it: output, exit codes, one line for every mistake."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

TABLE = """\
# nThread 1 nGpus 1 minBytes 8589934592 maxBytes 17179869184 step: 2(factor) warmup iters: 5 \
iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on     hgx-31 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4712 on     hgx-32 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       \
in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   \
algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  \
(GB/s)  (GB/s)
  8589934592    2147483648     float     sum      -1    19089  450.00  450.00      0    19131  \
449.00  449.00      0
 17179869184    4294967296     float     sum      -1    37755  455.04  455.04      0    37819  \
454.27  454.27      0
"""
PROVEN = "".join(
    f"hgx-3{node}:47{gpu}1:47{gpu}2 [{gpu}] NCCL INFO Using network AWS Libfabric\n"
    for node in (1, 2)
    for gpu in range(8)
)
"""What production asks for besides one sweep: the network that was used, and a second sweep."""
FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 452.078\n#\n"


def readiness(
    *arguments: str | Path, stdin: str = "", cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "all-reduce.log"
    path.write_text(TABLE + FOOTER, encoding="utf-8")
    return path


@pytest.fixture
def repeated(log: Path) -> Path:
    """Two p5 nodes of eight GPUs each, swept twice, with the network that they used."""
    head = on_every_gpu(TABLE[: TABLE.index("  8589934592")])
    first, last = head[: head.index("#  Rank  0")], head[head.index("#  Rank  0") :]
    sweeps = [row(2**33, 450.0), row(2**34, 455.1), row(2**33, 451.2), row(2**34, 454.98)]
    log.write_text(first + PROVEN + last + "".join(sweeps) + FOOTER, encoding="utf-8")
    return log


def on_every_gpu(table: str) -> str:
    """List eight ranks on each of the two hosts, in place of one."""
    ranks = "".join(
        f"#  Rank {8 * node + gpu:2} Group  0 Pid   {4711 + gpu} on     hgx-3{node + 1} "
        f"device  {gpu} [0000:1b:00] NVIDIA H100 80GB HBM3\n"
        for node in (0, 1)
        for gpu in range(8)
    )
    return re.sub(r"(#  Rank .*\n)+", lambda _: ranks, table)


def row(size: int, bus: float) -> str:
    """Write the row of an all-reduce over 16 ranks."""
    cells = f"{size * 1.875 / bus / 1e3:8.0f}  {bus / 1.875:6.2f}  {bus:6.2f}      0"
    return f"{size:>12}    {size // 4:>10}     float     sum      -1 {cells} {cells}\n"


def test_example_names_the_two_bad_nodes_and_no_other(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = readiness(
        "certify",
        EXAMPLES / "certification.yaml",
        "--fleet",
        EXAMPLES / "fleet.yaml",
        "--out",
        out,
    )
    assert done.returncode == 1, done.stderr
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    failed = {n["node"]: n["reason"] for n in report["nodes"] if n["status"] == "failed"}
    assert failed == {
        "gpu-node-07": "ThresholdViolation",
        "gpu-node-12": "HardwareFailureDetected",
    }
    assert report["categories"][0]["durationSeconds"] == 42 * 60 + 18
    assert report["source"] == "simulated"
    assert "42m18s" in done.stdout
    assert "SIMULATED" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert {path.name for path in out.iterdir()} >= {
        "plan.json",
        "records",
        "measurements",
        "verdicts",
        "logs",
        "report.json",
        "report.html",
        "report.xml",
    }
    ElementTree.fromstring((out / "report.xml").read_text(encoding="utf-8"))
    by_itself = next(n for n in report["categories"][0]["nodes"] if n["node"] == "gpu-node-07")
    assert by_itself["decidedBy"].startswith("pair-")


def test_certify_is_reproducible(tmp_path: Path) -> None:
    reports = []
    for name in ("one", "two"):
        out = tmp_path / name
        readiness(
            "certify",
            EXAMPLES / "certification.yaml",
            "--fleet",
            EXAMPLES / "fleet.yaml",
            "--out",
            out,
            "-q",
        )
        reports.append((out / "report.json").read_bytes())
    assert reports[0] == reports[1]


def test_certify_leaves_a_directory_that_is_not_empty_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine", encoding="utf-8")
    done = readiness(
        "certify",
        EXAMPLES / "certification.yaml",
        "--fleet",
        EXAMPLES / "fleet.yaml",
        "--out",
        tmp_path,
    )
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_plan_changes_nothing_and_says_why(tmp_path: Path) -> None:
    done = readiness(
        "plan",
        EXAMPLES / "certification.yaml",
        "--fleet",
        EXAMPLES / "fleet.yaml",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "full-scale-0: gpu-node-[05-12]" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_plan_takes_the_nodes_that_kubectl_prints() -> None:
    recorded = EXAMPLES / "recorded"
    done = readiness("plan", recorded / "certification.yaml", "--nodes", recorded / "nodes.yaml")
    assert done.returncode == 0, done.stderr
    assert "onprem-h100: 2 nodes" in done.stdout
    assert "timeout: 30m0s" in done.stdout
    assert "bar, 1 node: hostToDeviceMinGBps: value >= fraction * expected" in done.stdout


def test_plan_without_nodes_says_how_to_give_them() -> None:
    done = readiness("plan", EXAMPLES / "certification.yaml")
    assert done.returncode == 2
    assert "one of --nodes and --fleet" in done.stderr


def test_parse_reads_a_table_from_stdin() -> None:
    done = readiness("parse", "-", "--output", "json", stdin=TABLE + FOOTER)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["completeness"] == "complete"
    assert document["figures"]["busBandwidthGBps"]["value"] == 455.04


def test_parse_reads_gzip_and_directories(tmp_path: Path, log: Path) -> None:
    (tmp_path / "again.log.gz").write_bytes(gzip.compress(log.read_bytes()))
    done = readiness("parse", tmp_path, "--output", "json")
    values = [d["figures"]["busBandwidthGBps"]["value"] for d in json.loads(done.stdout)]
    assert values == [455.04, 455.04]


def test_parse_prints_the_document_of_damaged_output_too() -> None:
    done = readiness("parse", "-", stdin=TABLE[: len(TABLE) - 60])
    assert done.returncode == 0
    assert "cut-off" in done.stdout
    assert "LOG_TRUNCATED" in done.stdout


@pytest.mark.parametrize("text", ["", "\n\n", "hello\nworld\n", "\x00\x01\x02"])
def test_parse_of_what_says_nothing_exits_with_3(text: str) -> None:
    assert readiness("parse", "-", stdin=text).returncode == 3


def test_judge_by_the_stage_depends_on_the_stage(repeated: Path) -> None:
    def judge(stage: str) -> subprocess.CompletedProcess[str]:
        return readiness("judge", repeated, "--platform", "aws", "--stage", stage)

    strict, mild = judge("production"), judge("burn-in")
    assert (strict.returncode, mild.returncode) == (0, 0), strict.stdout + mild.stdout
    text = repeated.read_text(encoding="utf-8")
    for good, low in ((455.1, 410.1), (454.98, 409.98)):
        text = text.replace(row(2**34, good), row(2**34, low))
    repeated.write_text(text, encoding="utf-8")
    strict, mild = judge("production"), judge("burn-in")
    assert (strict.returncode, mild.returncode) == (1, 0)
    assert "410.04 >= 0.92 * 487.1" in strict.stdout


def test_how_somebody_else_ran_is_noted_and_no_doubt(repeated: Path) -> None:
    text = repeated.read_text(encoding="utf-8").replace(PROVEN, "")
    for size, bus in ((2**33, 451.2), (2**34, 454.98)):
        text = text.replace(row(size, bus), "")
    repeated.write_text(text, encoding="utf-8")
    done = readiness("judge", repeated, "--platform", "aws")
    assert done.returncode == 0, done.stdout
    assert "BAR_LEFT_OUT (note): cycleSpread" in done.stdout
    assert "BAR_LEFT_OUT (note): fabricHostCount" in done.stdout


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("busBandwidthGBps: value >= 300", 0),
        ("busBandwidthGBps: value >= 460", 1),
        ('busBandwidthAtGBps["8G"] >= 400.0', 0),
        ('busBandwidthAtGBps["32G"] >= 1.0', 3),
        ("busBandwidthGBps: value >= 0", 2),
        ("busBandwidthGBps: value >=", 2),
        ("busBandwith: value >= 1", 2),
        ("value >= 1", 2),
        ("busBandwidthGBps", 2),
        ("busBandwidthGBps + 1.0", 2),
    ],
)
def test_judge_by_expression(log: Path, expression: str, code: int) -> None:
    done = readiness("judge", log, "--expr", expression)
    assert done.returncode == code, done.stdout + done.stderr
    if code == 2:
        assert done.stderr.startswith("readiness: --expr: ")
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout == ""


def test_expression_does_not_replace_the_fail_closed_rules(log: Path) -> None:
    log.write_text(TABLE, encoding="utf-8")
    done = readiness("judge", log, "--expr", "busBandwidthGBps >= 1.0", "--output", "json")
    assert done.returncode == 3
    data = json.loads(done.stdout)
    assert data["verdict"] == "INCONCLUSIVE"
    assert "LOG_TRUNCATED" in data["reasonCodes"]
    assert data["expressions"][0]["outcome"] == "PASS"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["judge", "-", "--stage", "burnin"], "did you mean 'burn-in'"),
        (["judge", "-", "--platform", "asw"], "did you mean 'aws'"),
        (["judge", "-", "--gpu", "h10"], "GPU 'h10' is not known"),
        (["judge", "-", "--entry", "communication/nccl-allreduce"], "did you mean"),
        (["parse", "no-such-file"], "no-such-file: does not exist"),
        (["catalog", "show", "nccl"], "there is no catalog entry"),
        (["schema", "Plam"], "did you mean 'Plan'"),
        (["plan", "none.yaml", "--fleet", "none.yaml"], "none.yaml: cannot be read"),
    ],
)
def test_wrong_names_get_one_line_and_exit_2(arguments: list[str], says: str) -> None:
    done = readiness(*arguments, stdin=TABLE)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_has_examples_and_needs_no_terminal() -> None:
    for command in ("certify", "plan", "parse", "judge", "explain", "detect"):
        done = readiness(command, "--help")
        assert done.returncode == 0
        assert f"readiness {command}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told", "seen"),
    [
        (["--nodes", "8"], "--nodes 8", "names 2: hgx-31, hgx-32"),
        (["--gpu", "b200"], "--gpu b200", "NVIDIA H100 80GB HBM3"),
        (["--platform", "p6-b200.48xlarge"], "which has b200", "NVIDIA H100 80GB HBM3"),
        (["--gpu", "b200", "--expr", "busBandwidthGBps > 9000.0"], "--gpu b200", "NVIDIA H100"),
    ],
)
def test_what_is_told_never_overrules_the_output(
    log: Path, arguments: list[str], told: str, seen: str
) -> None:
    done = readiness("judge", log, "--platform", "aws", *arguments, "--output", "json")
    assert done.returncode == 3, done.stdout + done.stderr
    data = json.loads(done.stdout)
    message = next(r["message"] for r in data["reasons"] if r["code"] == "ASKED_DIFFERS")
    assert told in message
    assert seen in message


@pytest.mark.parametrize("arguments", [[], ["--gpu", "h100"]])
def test_run_on_one_gpu_of_each_node_is_no_proof_of_the_nodes(
    log: Path, arguments: list[str]
) -> None:
    done = readiness("judge", log, "--platform", "onprem", *arguments, "--output", "json")
    assert done.returncode == 3, done.stdout + done.stderr
    data = json.loads(done.stdout)
    assert "INFRA_BAD_ARGS" in data["reasonCodes"]
    assert not any(reason["effect"] == "fail" for reason in data["reasons"])


@pytest.mark.parametrize(
    "arguments",
    [["--nodes", "2"], ["--gpu", "h100"], ["--gpu", "NVIDIA-H100-80GB-HBM3"]],
)
def test_what_is_told_may_repeat_the_output(repeated: Path, arguments: list[str]) -> None:
    done = readiness("judge", repeated, "--platform", "aws", *arguments)
    assert done.returncode == 0, done.stdout


def test_platform_and_gpu_that_exclude_each_other_are_wrong_use(log: Path) -> None:
    done = readiness("judge", log, "--platform", "p5.48xlarge", "--gpu", "b200")
    assert done.returncode == 2
    assert "'b200' does not fit --platform p5.48xlarge (which has h100)" in done.stderr


@pytest.mark.parametrize(
    ("expression", "code", "reason"),
    [
        ('"32G" in busBandwidthAtGBps', 3, "FIGURE_MISSING"),
        ("busBandwidthGBps / 0.0 > 1.0", 3, "EXPRESSION_ERROR"),
        ("rankCount: value == 3", 1, "ThresholdViolation"),
    ],
)
def test_expression_gives_the_code_of_what_it_tests(
    log: Path, expression: str, code: int, reason: str
) -> None:
    done = readiness("judge", log, "--expr", expression, "--output", "json")
    assert done.returncode == code, done.stdout + done.stderr
    assert json.loads(done.stdout)["reasonCodes"] == [reason]


@pytest.mark.parametrize("output", ["table", "json"])
def test_reader_that_goes_away_is_no_verdict(tmp_path: Path, output: str) -> None:
    for number in range(60):
        (tmp_path / f"{number}.log").write_text(TABLE + FOOTER, encoding="utf-8")
    command = f"parse {tmp_path} --output {output} | head -1"
    assert shell(command, "echo ${PIPESTATUS[0]} >&2").stderr.split() == ["141"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("parse - <&-", "-: standard input is closed"),
        ("catalog list > /dev/full", "the output cannot be written: No space left on device"),
        ("schema > /dev/full", "the output cannot be written: No space left on device"),
        ("parse /dev/zero", "/dev/zero: is no regular file"),
        ("judge", "judge: Missing argument 'FILE'"),
        ("judge x --foo", "judge: No such option: --foo"),
        ("jugde x", "No such command 'jugde'"),
        ("detect --nodes /dev/null", "/dev/null: is no regular file"),
    ],
)
def test_every_mistake_is_one_line_and_exit_2(command: str, says: str) -> None:
    done = shell(command)
    assert done.returncode == 2
    assert done.stderr.startswith(f"readiness: {says}")
    assert len(done.stderr.splitlines()) == 1


def test_very_long_name_is_cut_in_the_error() -> None:
    done = readiness("catalog", "show", "x" * 5000)
    assert "x" * 70 in done.stderr
    assert "x" * 90 not in done.stderr


@pytest.mark.parametrize("out", ["file/below", "/proc/none", "x" * 300])
def test_directory_that_cannot_be_written_is_found_before_anything_runs(
    tmp_path: Path, out: str
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    example: list[str | Path] = [
        EXAMPLES / "certification.yaml",
        "--fleet",
        EXAMPLES / "fleet.yaml",
    ]
    done = readiness("certify", *example, "--out", out, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("readiness: --out: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_tables_keep_to_the_width_and_cut_no_name(columns: int) -> None:
    listed = shell("catalog list", columns=columns).stdout
    assert max(map(len, listed.splitlines())) <= columns
    shown = shell("catalog show training/nemotron5-56b", columns=columns).stdout
    assert max(map(len, shown.splitlines())) <= columns
    assert "…" not in listed + shown
    if columns >= 80:
        assert "communication/nccl-loopback-nvswitch" in listed
        assert "startupStallTimeoutSeconds" in shown


def test_catalog_shows_what_a_stage_puts_in_and_what_an_option_means() -> None:
    shown = " ".join(readiness("catalog", "show", "communication/nccl-all-reduce").stdout.split())
    assert "bring-up 0.6, burn-in 0.8, preproduction 0.88, production 0.92" in shown
    assert "maxBytes text or number 16G largest message of the sweep" in shown


def test_long_lines_of_a_verdict_are_indented(log: Path) -> None:
    done = readiness("judge", log, "--platform", "p6-b200.48xlarge")
    lines = done.stdout.splitlines()
    assert all(line.startswith("  ") for line in lines[1:])
    assert any(line.startswith("    ") for line in lines[1:])


def shell(command: str, then: str = "", columns: int = 100) -> subprocess.CompletedProcess[str]:
    """Run a command of ours by bash, where redirections and pipes are at hand."""
    line = f"{sys.executable} -m pipelines.cli {command}"
    return subprocess.run(
        ["/bin/bash", "-c", f"{line}; {then}" if then else line],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": str(columns)},
    )
