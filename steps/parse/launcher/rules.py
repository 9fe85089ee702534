"""What launchers print when a run does not start, and the reason code of each.

Texts: OpenSSH (ssh.c, sshconnect2.c, sshd), Open MPI 4 and 5 (ORTE and PRRTE help files), Slurm,
PyTorch's c10d store and rendezvous, kubelet and scheduler event reasons.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Rule(NamedTuple):
    """One wording.

    Attributes:
        pattern: a group ``place`` names the machine or pod that it happened on or to.
        detail: the line only adds to a failure that another line reports.
    """

    code: str
    pattern: re.Pattern[str]
    detail: bool = False


_HOST = r"[\w][\w.-]{0,252}"


def _rule(code: str, pattern: str, *, detail: bool = False) -> Rule:
    return Rule(code, re.compile(pattern, re.I), detail)


RULES: tuple[Rule, ...] = (
    _rule(
        "INFRA_SSH_AUTH",
        rf"(?:\b[\w.-]+@)?(?P<place>{_HOST}): Permission denied \((?:publickey|password|"
        r"keyboard-interactive|gssapi|hostbased)",
    ),
    _rule("INFRA_SSH_AUTH", r"^\s*Permission denied, please try again"),
    _rule("INFRA_SSH_AUTH", r"^\s*Permission denied \((?:publickey|password)"),
    _rule("INFRA_SSH_AUTH", r"Host key verification failed"),
    _rule(
        "INFRA_SSH_AUTH",
        r"(?:REMOTE HOST IDENTIFICATION HAS CHANGED|Too many authentication failures|"
        r"No supported authentication methods|UNPROTECTED PRIVATE KEY FILE|"
        r"Authentication refused: bad ownership)",
    ),
    _rule(
        "INFRA_DNS",
        rf"Could not resolve hostname (?P<place>{_HOST})",
    ),
    _rule(
        "INFRA_DNS",
        r"(?:Temporary failure in name resolution|Name or service not known|"
        r"nodename nor servname provided|no address associated with (?:host)?name|"
        r"can't resolve '|server can't find |\bgai error: -\d)",
    ),
    _rule(
        "INFRA_SSH_CONNECT",
        rf"ssh: connect to host (?P<place>{_HOST}) port \d+: ",
    ),
    _rule(
        "INFRA_SSH_CONNECT",
        r"(?:kex|ssh)_exchange_identification: .*(?:closed|reset)",
    ),
    _rule(
        "INFRA_SSH_CONNECT",
        r"^\s*(?:Connection (?:closed|reset) by (?:UNKNOWN|authenticating user|remote host|"
        r"[0-9a-f.:]{7,}) ?.*port \d+|ssh_dispatch_run_fatal|client_loop: send disconnect)",
    ),
    _rule(
        "INFRA_IMAGE_NO_SSHD",
        r"\bsshd: (?:No such file or directory|(?:command )?not found|cannot open)",
    ),
    _rule(
        "INFRA_IMAGE_NO_SSHD",
        r"exec:? \\?\"(?:/[\w/.-]*/)?sshd\\?\":? .*(?:no such file|not found)",
    ),
    _rule(
        "INFRA_CONTAINER_CONFIG",
        r"(?:sshd: no hostkeys available|Missing privilege separation directory)",
    ),
    _rule(
        "INFRA_BAD_ARGS",
        r"(?:There are not enough slots available in the system|not enough slots available|"
        r"requested more processes than the ppr|"
        r"All nodes which are allocated for this job are already filled)",
    ),
    _rule(
        "INFRA_BAD_ARGS",
        r"\b(?:mpirun|mpiexec|prterun|orterun|torchrun|srun)\b.{0,80}"
        r"(?:unknown option|unrecognized (?:option|argument)|invalid option|"
        r"the following arguments are required)",
    ),
    _rule(
        "INFRA_BAD_ARGS",
        r"(?:mpirun has detected an attempt to run as root|prterun has detected an attempt to run "
        r"as root|Conflicting directives for (?:mapping|binding|ranking)|"
        r"Open RTE was unable to open the hostfile|PRTE was unable to open the hostfile|"
        r"unable to find the specified executable file|could not access or execute an executable|"
        r"An invalid value was (?:given|supplied) for|Invalid MCA parameter|"
        r"The following command line options and corresponding MCA parameter)",
    ),
    _rule(
        "INFRA_MPI",
        r"(?:(?:ORTE|PRTE|PRRTE) has lost communication with a remote daemon|"
        r"(?:ORTE|PRTE) was unable to reliably start one or more daemons|"
        r"An? (?:ORTE|PRTE) daemon has unexpectedly failed after launch|"
        r"(?:ORTE|PRTE) does not know how to route a message|"
        r"An internal error has occurred in (?:ORTE|PRTE)|"
        r"A process or daemon was unable to complete a TCP connection|"
        r"(?:mpirun|prterun|mpiexec|orterun) was unable to (?:launch|start|cleanly)|"
        r"orted: command not found|prted: command not found|"
        r"The rsh/ssh agent|unable to find the rsh|could not find an? (?:ssh|rsh)|"
        r"It looks like (?:orte_init|MPI_INIT|prte_init) failed)",
    ),
    _rule("INFRA_MPI", rf"Remote daemon: \[[^\]]*\]\S* on node (?P<place>{_HOST})", detail=True),
    _rule(
        "INFRA_WORKERS_NOT_READY",
        r"(?:RendezvousTimeoutError|RendezvousConnectionError|"
        r"The client socket has timed out|\[E.{0,60}The client socket has failed to connect|"
        r"Timed out after \d+ seconds waiting for clients|"
        r"timed out waiting for (?:the condition|workers))",
    ),
    _rule(
        "INFRA_IMAGE_PULL",
        r"(?:\bErrImagePull\b|\bImagePullBackOff\b|Failed to pull image|Back-off pulling image|"
        r"\bErrImageNeverPull\b|\bInvalidImageName\b|pull access denied for|manifest unknown)",
    ),
    _rule(
        "INFRA_OOM_KILLED",
        r"(?:\bOOMKilled\b|\boom-kill:|Out of memory: Killed process|"
        r"Memory cgroup out of memory|\binvoked oom-killer|oom[_-]kill event|"
        rf"srun: error: (?P<place>{_HOST}): tasks? [\d,-]+: Out Of Memory|"
        r"\bexit(?:ed)?(?: with)?(?: status| code)?:? 137\b|\bexitCode[\"']?: ?137\b)",
    ),
    _rule(
        "INFRA_EVICTED",
        r"(?:The node was low on resource|Reason: +Evicted|reason[\"']?: ?[\"']?Evicted|"
        r"^Evicted\b|\bpod (?:was )?evicted|Usage of EmptyDir volume .* exceeds|"
        r"ephemeral local storage usage exceeds|TaintManagerEviction)",
    ),
    _rule(
        "INFRA_PREEMPTED",
        r"(?:Preempted (?:by|in order)|\bPreemptionByScheduler\b|DUE TO PREEMPTION)",
    ),
    _rule(
        "JobTimedOut",
        rf"\*\*\* (?:JOB|STEP) \S+ ON (?P<place>{_HOST}) CANCELLED AT .*DUE TO TIME LIMIT",
    ),
    _rule(
        "INFRA_NODE_GONE",
        rf"\*\*\* (?:JOB|STEP) \S+ ON (?P<place>{_HOST}) CANCELLED AT .*DUE TO NODE FAILURE",
    ),
    _rule(
        "INFRA_STOPPED",
        rf"\*\*\* (?:JOB|STEP) \S+ ON (?P<place>{_HOST}) CANCELLED\b",
    ),
    _rule(
        "INFRA_STOPPED",
        r"srun: (?:sending Ctrl-C to|forcing job termination)|^\s*Terminated\s*$",
    ),
    _rule("INFRA_UNSCHEDULABLE", r"(?:\b0/\d+ nodes are available|\bFailedScheduling\b)"),
    _rule("INFRA_QUOTA", r"\bexceeded quota:"),
    _rule("INFRA_ADMISSION", r"\badmission webhook \S+ denied"),
    _rule(
        "INFRA_CONTAINER_CONFIG",
        r"(?:\bCreateContainer(?:Config)?Error\b|\bRunContainerError\b|"
        r"failed to create (?:containerd task|shim task)|OCI runtime create failed)",
    ),
)

HARMLESS = re.compile(
    r"Warning: Permanently added |Failed to add the host to the list of known hosts"
    # c10d tries IPv6 first and tries again while names are not there yet
    r"|^\[W[\d .:]*socket\.cpp",
    re.I,
)
"""What ssh and PyTorch say on the way to success."""

ENDS_RUN = frozenset({"INFRA_OOM_KILLED", "INFRA_STOPPED", "INFRA_NODE_GONE", "JobTimedOut"})
"""What no run gets over, whatever the exit code: a pipe or a script can hide the right one."""

FOLLOWS: dict[str, frozenset[str]] = {
    "INFRA_MPI": frozenset(
        {
            "INFRA_SSH_AUTH",
            "INFRA_SSH_CONNECT",
            "INFRA_DNS",
            "INFRA_IMAGE_NO_SSHD",
            "INFRA_BAD_ARGS",
            "INFRA_OOM_KILLED",
            "INFRA_EVICTED",
            "INFRA_PREEMPTED",
        }
    ),
    "INFRA_SSH_CONNECT": frozenset({"INFRA_IMAGE_NO_SSHD", "INFRA_CONTAINER_CONFIG", "INFRA_DNS"}),
    "INFRA_WORKERS_NOT_READY": frozenset(
        {"INFRA_DNS", "INFRA_OOM_KILLED", "INFRA_EVICTED", "INFRA_IMAGE_PULL"}
    ),
}
"""What each failure can follow from, wherever the causes stand in the output."""
