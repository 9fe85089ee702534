from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts.reasons import BLAMING_KINDS, Effect, reason
from steps.documents import Completeness
from steps.parse.api import ParseContext
from steps.parse.launcher import LauncherScanner
from tests.feeding import said, scan, show

_BOX = "-" * 74 + "\n"

CASES: dict[str, tuple[str, list[str]]] = {
    "public key refused": (
        "Warning: Permanently added 'bench-worker-3.bench' (ED25519) to the list of known hosts.\n"
        "Permission denied, please try again.\n"
        "root@bench-worker-3.bench: Permission denied (publickey).\n"
        "ORTE was unable to reliably start one or more daemons.\n",
        [
            "INFRA_SSH_AUTH inconclusive [bench-worker-3.bench] x2 witness",
            "INFRA_MPI inconclusive [] <INFRA_SSH_AUTH witness",
        ],
    ),
    "host key": (
        "Host key verification failed.\n",
        ["INFRA_SSH_AUTH inconclusive [] witness"],
    ),
    "connection refused": (
        "ssh: connect to host bench-worker-0 port 2222: Connection refused\n",
        ["INFRA_SSH_CONNECT inconclusive [bench-worker-0] witness"],
    ),
    "connection timed out, twice": (
        "ssh: connect to host 10.4.0.9 port 22: Connection timed out\n" * 2,
        ["INFRA_SSH_CONNECT inconclusive [10.4.0.9] x2 witness"],
    ),
    "key exchange": (
        "kex_exchange_identification: read: Connection reset by peer\n",
        ["INFRA_SSH_CONNECT inconclusive [] witness"],
    ),
    "name does not resolve": (
        "ssh: Could not resolve hostname bench-worker-1.bench: Name or service not known\n"
        "ssh: Could not resolve hostname w-2.bench: Temporary failure in name resolution\n",
        ["INFRA_DNS inconclusive [bench-worker-1.bench, w-2.bench] x2 witness"],
    ),
    "the cause wins over an echo before it": (
        "A process or daemon was unable to complete a TCP connection\n"
        "ssh: Could not resolve hostname w-1: Name or service not known\n",
        [
            "INFRA_DNS inconclusive [w-1] witness",
            "INFRA_MPI inconclusive [] <INFRA_DNS witness",
        ],
    ),
    "no sshd, by a shell": (
        "/bin/sh: 1: /usr/sbin/sshd: not found\n",
        ["INFRA_IMAGE_NO_SSHD inconclusive [] witness"],
    ),
    "no sshd, by the runtime": (
        'Error: failed to create containerd task: exec: "/usr/sbin/sshd": stat /usr/sbin/sshd: no '
        "such file or directory: unknown\n",
        ["INFRA_IMAGE_NO_SSHD inconclusive [] witness"],
    ),
    "not enough slots": (
        _BOX + "There are not enough slots available in the system to satisfy the 32\n"
        "slots that were requested by the application:\n\n  /opt/bench/all_gather_perf\n" + _BOX,
        ["INFRA_BAD_ARGS inconclusive [] witness"],
    ),
    "ppr": (
        _BOX + "Your job has requested more processes than the ppr for\n"
        "this topology can support:\n\n  App: /opt/bench/x\n  PPR: 4:node\n" + _BOX,
        ["INFRA_BAD_ARGS inconclusive [] witness"],
    ),
    "unknown option": (
        'mpirun: Error: unknown option "--tag-outptu"\n',
        ["INFRA_BAD_ARGS inconclusive [] witness"],
    ),
    "lost a daemon": (
        _BOX + "ORTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [[7121,0],0] on node bench-launcher\n"
        "  Remote daemon: [[7121,0],4] on node bench-worker-3\n\n"
        "This is usually due to either a failure of the TCP network\n" + _BOX,
        ["INFRA_MPI inconclusive [bench-worker-3] witness"],
    ),
    "prrte": (
        "PRTE has lost communication with a remote daemon.\n",
        ["INFRA_MPI inconclusive [] witness"],
    ),
    "image": (
        'Failed to pull image "registry/x:1": manifest unknown\nError: ImagePullBackOff\n',
        ["INFRA_IMAGE_PULL inconclusive [] x2 witness"],
    ),
    "host memory": (
        "node-k kernel: Memory cgroup out of memory: Killed process 771 (python3) total-vm:9kB\n",
        ["INFRA_OOM_KILLED inconclusive [] witness"],
    ),
    "exit 137": (
        "container trainer exited with code 137\n",
        ["INFRA_OOM_KILLED inconclusive [] witness"],
    ),
    "evicted": (
        "The node was low on resource: ephemeral-storage.\n",
        ["INFRA_EVICTED inconclusive [] witness"],
    ),
    "rendezvous": (
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n",
        ["INFRA_WORKERS_NOT_READY inconclusive [] witness"],
    ),
    "first process to exit": (
        _BOX + "mpirun detected that one or more processes exited with non-zero status, thus "
        "causing\nthe job to be terminated. The first process to do so was:\n\n"
        "  Process name: [[9911,1],6]\n  Exit code:    2\n" + _BOX,
        ["EXIT_CODE_NONZERO inconclusive [rank 6] witness"],
    ),
    "killed by a signal": (
        "mpirun noticed that process rank 3 with PID 551 on node w-2 exited on signal 7 (Bus "
        "error).\n",
        ["WorkloadFailed inconclusive [w-2 rank 3] witness"],
    ),
    "killed by a signal, without process id": (
        "prterun noticed that process rank 12 on node w-5 exited on signal 9 (Killed).\n",
        ["WorkloadFailed inconclusive [w-5 rank 12] witness"],
    ),
    "killed, by srun": (
        "srun: error: n-14: tasks 8-9: Killed\nsrun: error: n-15: task 16: Terminated\n",
        ["WorkloadFailed inconclusive [n-14] x2 witness"],
    ),
    "out of memory, by srun": (
        "srun: error: n-14: task 3: Out Of Memory\n",
        ["INFRA_OOM_KILLED inconclusive [n-14] witness"],
    ),
    "out of memory, by slurmstepd": (
        "slurmstepd: error: Detected 2 oom_kill events in StepId=88.0. Some of the step tasks "
        "have been OOM Killed.\nsrun: error: n-14: task 3: Out Of Memory\n",
        ["INFRA_OOM_KILLED inconclusive [n-14] x2 witness"],
    ),
    "cancelled": (
        "slurmstepd: error: *** JOB 5150 ON n-14 CANCELLED AT 2026-03-04T05:06:07 ***\n",
        ["INFRA_STOPPED inconclusive [n-14] witness"],
    ),
    "cancelled for its time limit": (
        "slurmstepd: error: *** JOB 5150 ON n-14 CANCELLED AT 2026-03-04T05:06:07 "
        "DUE TO TIME LIMIT ***\n",
        ["JobTimedOut inconclusive [n-14] witness"],
    ),
    "cancelled because a node failed": (
        "slurmstepd: error: *** STEP 5150.0 ON n-14 CANCELLED AT 2026-03-04T05:06:07 DUE TO NODE "
        "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
        ["INFRA_NODE_GONE inconclusive [n-14] witness"],
    ),
    "cancelled because one task had failed": (
        "srun: error: n-15: task 9: Exited with exit code 1\n"
        "slurmstepd: error: *** STEP 5150.0 ON n-14 CANCELLED AT 2026-03-04T05:06:07 ***\n"
        "srun: error: n-14: tasks 0-7: Terminated\n",
        [
            "EXIT_CODE_NONZERO inconclusive [n-15 rank 9] x2 witness",
            "INFRA_STOPPED inconclusive [n-14] <EXIT_CODE_NONZERO witness",
        ],
    ),
    "a shell's word for it": (
        "Segmentation fault (core dumped)\n",
        ["WorkloadFailed inconclusive [] witness"],
    ),
    "a shell's line for it, tagged": (
        "[1,5]<stderr>:run.sh: line 31:  7411 Killed                  python train.py\n",
        ["WorkloadFailed inconclusive [rank 5] witness"],
    ),
    "a job of a shell": (
        "bash: line 1: 7411 Bus error               (core dumped) ./all_gather_perf -g 8\n",
        ["WorkloadFailed inconclusive [] witness"],
    ),
    "just killed": ("Killed\n", ["WorkloadFailed inconclusive [] witness"]),
    "Open MPI's signal handler": (
        "[w-2:07411] *** Process received signal ***\n"
        "[w-2:07411] Signal: Segmentation fault (11)\n",
        ["WorkloadFailed inconclusive [] witness"],
    ),
    "srun": (
        "srun: error: n-14: task 3: Exited with exit code 1\n",
        ["EXIT_CODE_NONZERO inconclusive [n-14 rank 3] witness"],
    ),
    "harmless on the way": (
        "Warning: Permanently added '[w-0]:22' (ECDSA) to the list of known hosts.\n"
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [localhost]:29500 "
        "(errno: 97 - Address family not supported by protocol).\n"
        "cache: 12 entries evicted\n"
        "watch.sh: line 9:  7002 Terminated              nvidia-smi dmon\n"
        "Killed workers are started again up to 3 times\n",
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_reads_launcher_lines(name: str) -> None:
    text, expected = CASES[name]
    part = scan(LauncherScanner, text)
    show(name, expected, said(part))
    assert said(part) == expected
    assert part.completeness is (Completeness.ABORTED if expected else None)


def test_exit_code_is_a_fact() -> None:
    part = scan(LauncherScanner, CASES["first process to exit"][0])
    assert part.facts == {"exitCode": "2", "firstExit": "rank 6 exit code 2"}


def test_hiccups_of_a_run_that_ended_well_are_notes() -> None:
    text = "kex_exchange_identification: Connection closed by remote host\n"
    part = scan(LauncherScanner, text, ParseContext(exit_code=0))
    assert [f.effect for f in part.findings] == [Effect.NOTE]
    assert part.completeness is None


@pytest.mark.parametrize(
    "name",
    ["killed by a signal", "out of memory, by srun", "cancelled", "just killed", "host memory"],
)
def test_no_exit_code_makes_up_for_a_process_that_was_killed(name: str) -> None:
    part = scan(LauncherScanner, CASES[name][0], ParseContext(exit_code=0))
    assert [f.effect for f in part.findings] == [Effect.INCONCLUSIVE]


def test_a_killed_process_of_a_training_is_a_crash_of_the_training() -> None:
    (finding,) = scan(LauncherScanner, "Killed\n", ParseContext(tool="training")).findings
    assert finding.code == "TRAIN_CRASHED"
    assert finding.message.startswith("a process was the first to end: killed")


def test_message_names_the_place() -> None:
    part = scan(LauncherScanner, CASES["public key refused"][0])
    assert "bench-worker-3.bench" in part.findings[0].message


@given(st.lists(st.sampled_from([text for text, _ in CASES.values()]), max_size=5).map("".join))
def test_launch_failures_blame_nobody(text: str) -> None:
    for finding in scan(LauncherScanner, text).findings:
        assert finding.effect is not Effect.FAIL
        assert finding.witness or reason(finding.code).kind not in BLAMING_KINDS


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["Exit code: ", "Process name: [[1,1],", "first process to do so was:\n"]
            ),
            st.sampled_from(
                ["ssh: connect to host ", " port 22: ", "srun: error: ", "sshd: ", "\n"]
            ),
            st.text(max_size=10),
        ),
        max_size=50,
    ).map("".join)
)
def test_any_text_is_read_without_raising(text: str) -> None:
    assert all(reason(finding.code) for finding in scan(LauncherScanner, text).findings)
