"""What launchers print when a run does not start, and the reason code of each.

Texts: OpenSSH (ssh.c, sshconnect2.c, sshd), Open MPI 4 and 5 (ORTE and PRRTE help files), Slurm,
PyTorch's c10d store and rendezvous, kubelet and scheduler event reasons.
"""

from __future__ import annotations

import re

from steps.parse.wordings import Wording, wording

_HOST = r"[\w][\w.-]{0,252}"


TABLE: tuple[Wording, ...] = (
    wording(
        "INFRA_SSH_AUTH",
        rf"(?:\b[\w.-]+@)?(?P<node>{_HOST}): Permission denied \((?:publickey|password|"
        r"keyboard-interactive|gssapi|hostbased)",
        "root@bench-worker-3.bench: Permission denied (publickey).",
        any_case=True,
    ),
    wording(
        "INFRA_SSH_AUTH",
        r"^\s*Permission denied, please try again",
        "Permission denied, please try again.",
        any_case=True,
    ),
    wording(
        "INFRA_SSH_AUTH",
        r"^\s*Permission denied \((?:publickey|password)",
        "Permission denied (publickey).",
        any_case=True,
    ),
    wording(
        "INFRA_SSH_AUTH",
        r"Host key verification failed",
        "Host key verification failed.",
        any_case=True,
    ),
    wording(
        "INFRA_SSH_AUTH",
        r"(?:REMOTE HOST IDENTIFICATION HAS CHANGED|Too many authentication failures|"
        r"No supported authentication methods|UNPROTECTED PRIVATE KEY FILE|"
        r"Authentication refused: bad ownership)",
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
        "Received disconnect from 10.4.0.9 port 22:2: Too many authentication failures",
        "@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @",
        any_case=True,
    ),
    wording(
        "INFRA_DNS",
        rf"Could not resolve hostname (?P<node>{_HOST})",
        "ssh: Could not resolve hostname bench-worker-1.bench: Name or service not known",
        any_case=True,
    ),
    wording(
        "INFRA_DNS",
        r"(?:Temporary failure in name resolution|Name or service not known|"
        r"nodename nor servname provided|no address associated with (?:host)?name|"
        r"can't resolve '|server can't find |\bgai error: -\d)",
        "getaddrinfo: Temporary failure in name resolution",
        "nslookup: can't resolve 'bench-worker-1'",
        "socket.gaierror: [Errno -5] No address associated with hostname",
        any_case=True,
    ),
    wording(
        "INFRA_SSH_CONNECT",
        rf"ssh: connect to host (?P<node>{_HOST}) port \d+: ",
        "ssh: connect to host bench-worker-0 port 2222: Connection refused",
        any_case=True,
    ),
    wording(
        "INFRA_SSH_CONNECT",
        r"(?:kex|ssh)_exchange_identification: .*(?:closed|reset)",
        "kex_exchange_identification: read: Connection reset by peer",
        "ssh_exchange_identification: Connection closed by remote host",
        any_case=True,
    ),
    wording(
        "INFRA_SSH_CONNECT",
        r"^\s*(?:Connection (?:closed|reset) by (?:UNKNOWN|authenticating user|remote host|"
        r"[0-9a-f.:]{7,}) ?.*port \d+|ssh_dispatch_run_fatal|client_loop: send disconnect)",
        "Connection closed by 10.4.0.9 port 22",
        "client_loop: send disconnect: Broken pipe",
        any_case=True,
    ),
    wording(
        "INFRA_IMAGE_NO_SSHD",
        r"\bsshd: (?:No such file or directory|(?:command )?not found|cannot open)",
        "/bin/sh: 1: /usr/sbin/sshd: not found",
        "bash: sshd: command not found",
        any_case=True,
    ),
    wording(
        "INFRA_IMAGE_NO_SSHD",
        r"exec:? \\?\"(?:/[\w/.-]*/)?sshd\\?\":? .*(?:no such file|not found)",
        'exec: "sshd": executable file not found in $PATH: unknown',
        any_case=True,
    ),
    wording(
        "INFRA_CONTAINER_CONFIG",
        r"(?:sshd: no hostkeys available|Missing privilege separation directory)",
        "sshd: no hostkeys available -- exiting.",
        "Missing privilege separation directory: /run/sshd",
        any_case=True,
    ),
    wording(
        "INFRA_BAD_ARGS",
        r"(?:There are not enough slots available in the system|not enough slots available|"
        r"requested more processes than the ppr|"
        r"All nodes which are allocated for this job are already filled)",
        "There are not enough slots available in the system to satisfy the 32",
        "Your job has requested more processes than the ppr for",
        any_case=True,
    ),
    wording(
        "INFRA_BAD_ARGS",
        r"\b(?:mpirun|mpiexec|prterun|orterun|torchrun|srun)\b.{0,80}"
        r"(?:unknown option|unrecognized (?:option|argument)|invalid option|"
        r"the following arguments are required)",
        'mpirun: Error: unknown option "--tag-outptu"',
        "torchrun: error: the following arguments are required: training_script",
        any_case=True,
    ),
    wording(
        "INFRA_BAD_ARGS",
        r"(?:mpirun has detected an attempt to run as root|prterun has detected an attempt to run "
        r"as root|Conflicting directives for (?:mapping|binding|ranking)|"
        r"Open RTE was unable to open the hostfile|PRTE was unable to open the hostfile|"
        r"unable to find the specified executable file|could not access or execute an executable|"
        r"An invalid value was (?:given|supplied) for|Invalid MCA parameter|"
        r"The following command line options and corresponding MCA parameter)",
        "mpirun has detected an attempt to run as root.",
        "Open RTE was unable to open the hostfile:",
        "mpirun was unable to find the specified executable file, and therefore",
        any_case=True,
    ),
    wording(
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
        "ORTE has lost communication with a remote daemon.",
        "PRTE was unable to reliably start one or more daemons.",
        "bash: orted: command not found",
        "It looks like MPI_INIT failed for some reason; your parallel process is",
        any_case=True,
    ),
    wording(
        "INFRA_MPI",
        rf"Remote daemon: \[[^\]]*\]\S* on node (?P<node>{_HOST})",
        "  Remote daemon: [[7121,0],4] on node bench-worker-3",
        detail=True,
        any_case=True,
    ),
    wording(
        "INFRA_WORKERS_NOT_READY",
        r"(?:RendezvousTimeoutError|RendezvousConnectionError|"
        r"The client socket has timed out|\[E.{0,60}The client socket has failed to connect|"
        r"Timed out after \d+ seconds waiting for clients|"
        r"timed out waiting for (?:the condition|workers))",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients.",
        any_case=True,
    ),
    wording(
        "INFRA_IMAGE_PULL",
        r"(?:\bErrImagePull\b|\bImagePullBackOff\b|Failed to pull image|Back-off pulling image|"
        r"\bErrImageNeverPull\b|\bInvalidImageName\b|pull access denied for|manifest unknown)",
        "Error: ImagePullBackOff",
        'Failed to pull image "registry/x:1": not found',
        any_case=True,
    ),
    wording(
        "INFRA_OOM_KILLED",
        r"(?:\bOOMKilled\b|\boom-kill:|Out of memory: Killed process|"
        r"Memory cgroup out of memory|\binvoked oom-killer|oom[_-]kill event|"
        rf"srun: error: (?P<node>{_HOST}): tasks? [\d,-]+: Out Of Memory|"
        r"\bexit(?:ed)?(?: with)?(?: status| code)?:? 137\b|\bexitCode[\"']?: ?137\b)",
        "container trainer exited with code 137",
        "python invoked oom-killer: gfp_mask=0xcc0, order=0",
        "Memory cgroup out of memory: Killed process 771 (python3) total-vm:9kB",
        any_case=True,
    ),
    wording(
        "INFRA_EVICTED",
        r"(?:The node was low on resource|Reason: +Evicted|reason[\"']?: ?[\"']?Evicted|"
        r"^Evicted\b|\bpod (?:was )?evicted|Usage of EmptyDir volume .* exceeds|"
        r"ephemeral local storage usage exceeds|TaintManagerEviction)",
        "The node was low on resource: ephemeral-storage.",
        "Reason:       Evicted",
        any_case=True,
    ),
    wording(
        "INFRA_PREEMPTED",
        r"(?:Preempted (?:by|in order)|\bPreemptionByScheduler\b|DUE TO PREEMPTION)",
        "Preempted by pod 5d3c on node w-3",
        any_case=True,
    ),
    wording(
        "JobTimedOut",
        rf"\*\*\* (?:JOB|STEP) \S+ ON (?P<node>{_HOST}) CANCELLED AT .*DUE TO TIME LIMIT",
        "*** STEP 5150.0 ON n-14 CANCELLED AT 2026-03-04T05:06:07 DUE TO TIME LIMIT ***",
        any_case=True,
    ),
    wording(
        "INFRA_NODE_GONE",
        rf"\*\*\* (?:JOB|STEP) \S+ ON (?P<node>{_HOST}) CANCELLED AT .*DUE TO NODE FAILURE",
        "*** JOB 5150 ON n-14 CANCELLED AT 2026-03-04T05:06:07 DUE TO NODE FAILURE ***",
        any_case=True,
    ),
    wording(
        "INFRA_STOPPED",
        rf"\*\*\* (?:JOB|STEP) \S+ ON (?P<node>{_HOST}) CANCELLED\b",
        "slurmstepd: error: *** JOB 5150 ON n-14 CANCELLED AT 2026-03-04T05:06:07 ***",
        any_case=True,
    ),
    wording(
        "INFRA_STOPPED",
        r"srun: (?:sending Ctrl-C to|forcing job termination)|^\s*Terminated\s*$",
        "srun: forcing job termination",
        "Terminated",
        any_case=True,
    ),
    wording(
        "INFRA_UNSCHEDULABLE",
        r"(?:\b0/\d+ nodes are available|\bFailedScheduling\b)",
        "0/12 nodes are available: 12 Insufficient nvidia.com/gpu.",
        "Warning  FailedScheduling  12s  default-scheduler",
        any_case=True,
    ),
    wording(
        "INFRA_QUOTA",
        r"\bexceeded quota:",
        'pods "bench-worker-0" is forbidden: exceeded quota: gpus, requested: 8, used: 64',
        any_case=True,
    ),
    wording(
        "INFRA_ADMISSION",
        r"\badmission webhook \S+ denied",
        'admission webhook "policy.example.com" denied the request: no label',
        any_case=True,
    ),
    wording(
        "INFRA_CONTAINER_CONFIG",
        r"(?:\bCreateContainer(?:Config)?Error\b|\bRunContainerError\b|"
        r"failed to create (?:containerd task|shim task)|OCI runtime create failed)",
        "Error: CreateContainerConfigError",
        "OCI runtime create failed: container_linux.go:380: starting container process",
        any_case=True,
    ),
)

HARMLESS = re.compile(
    r"Warning: Permanently added |Failed to add the host to the list of known hosts"
    # c10d tries IPv6 first and tries again while names are not there yet
    r"|^\[W[\d .:]*socket\.cpp",
    re.I,
)
"""What ssh and PyTorch say on the way to success."""
