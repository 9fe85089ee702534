"""Container templates: one function for each program of the steps image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hera.workflows import (
    Artifact,
    Container,
    EmptyDirVolume,
    NoneArchiveStrategy,
    Parameter,
    Resources,
    RetryStrategy,
)
from hera.workflows import models as m

from pipelines.templates.images import STEPS_IMAGE
from pipelines.templates.names import (
    FINISH,
    LABELS,
    RUNNER_ACCOUNT,
    STEPS_ACCOUNT,
    input_parameter,
    parameter,
)
from pipelines.templates.parameters import CERTIFICATION_TEXT, DEADLINE
from steps.jobs.retry import MAX_MOVES

OUTPUTS = "/tmp/outputs"  # noqa: S108  (a volume of the pod, not of this machine)

STEP_TIMEOUT = "30m"
"""Longest time of a step that only reads and writes documents, waiting for a node included."""

RUN_GRACE_SECONDS = 120
"""From SIGTERM to SIGKILL of the run step: it deletes its jobs and writes its record meanwhile."""

USER = 65532
"""User and group of the steps image (`containers/steps/Containerfile`)."""

NO_GROUPS = "[]"

REPORT_OUTPUTS = {
    "result": "INCONCLUSIVE",
    "verdict": "",
    "ready": "0",
    "failed": "0",
    "not-proven": "0",
    "excluded": "0",
    "report": "",
}
"""Output parameters of the steps that report, with what they are when the step wrote none."""

STORE = "--store=configmap:{{workflow.namespace}}/{{workflow.name}}/{{workflow.uid}}"
"""Documents belong to a run by its uid: names are cut when they are long, and used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a rendering may change in every container.

    Attributes:
        image: the steps image.
        artifacts: keep raw logs and report.html as artifacts; needs an artifact repository.
    """

    image: str = STEPS_IMAGE
    artifacts: bool = False


def detect(
    options: Options, flags: Sequence[str], outputs: Sequence[tuple[str, str]] = ()
) -> Container:
    """Plan the certification; the only step that reads its text.

    Args:
        options: of the rendering.
        flags: single parameters that replace parts of the text.
        outputs: names of output parameters, each with its default.
    """
    return _container(
        options,
        "detect",
        flags,
        account=RUNNER_ACCOUNT,
        env={"READINESS_CERTIFICATION": parameter(CERTIFICATION_TEXT.name)},
        outputs=[_output(name, default) for name, default in outputs],
        retry=_unless_exit("2", "3"),
    )


def groups(options: Options, category: str) -> Container:
    """Hand on the groups of a category from the plan, which is there before a category starts."""
    return _container(
        options,
        "detect",
        [f"--category={category}"],
        name="groups",
        outputs=[_output("groups", NO_GROUPS)],
        retry=_unless_exit("2", "3"),
    )


def run(options: Options, category: str) -> Container:
    """Run one group.

    The step itself tries again what can heal; a second try by Argo would hide hardware that fails
    now and then. Argo starts it again where it stands on a node of its own group, on another, and
    where it was lost: the next one finds what became of the nodes that it watched.
    """
    return _container(
        options,
        "run",
        [f"--category={category}", f"--group={input_parameter('group')}", "--starts={{retries}}"],
        account=RUNNER_ACCOUNT,
        retry=RetryStrategy(
            limit=MAX_MOVES,
            retry_policy="Always",
            expression="lastRetry.exitCode in ['75', '-1']",
            affinity=m.RetryAffinity(node_anti_affinity={}),
        ),
        inputs=["group"],
        timeout=parameter(DEADLINE.name),
        # Autoscalers must not move it away while a job runs.
        annotations={
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "karpenter.sh/do-not-disrupt": "true",
        },
        artifacts=[_artifact("logs", "logs")] if options.artifacts else [],
        # Hera and Argo have no field for the grace period.
        pod_spec_patch=f'{{"terminationGracePeriodSeconds": {RUN_GRACE_SECONDS}}}',
    )


def parse(options: Options, category: str) -> Container:
    """Read the outputs of all runs that were not read yet."""
    return _container(
        options,
        "parse",
        [f"--category={category}"],
        memory_limit="2Gi",
        retry=_unless_exit("2", "3"),
    )


def pairs(options: Options, category: str) -> Container:
    """Plan the pair runs of one isolation round."""
    return _container(
        options,
        "isolate",
        [f"--category={category}", f"--round={input_parameter('round')}"],
        name="pairs",
        inputs=["round"],
        outputs=[_output("groups", NO_GROUPS)],
        retry=_unless_exit("2", "3"),
    )


def evaluate(options: Options, category: str) -> Container:
    """Judge a category by all that is in the store."""
    return _container(
        options,
        "evaluate",
        [f"--category={category}"],
        outputs=[_output("result", "INCONCLUSIVE"), _output("verdict", "")],
        memory_limit="2Gi",
        retry=_unless_exit("2", "3"),
    )


def aggregate(options: Options) -> Container:
    """Write the report and exit by its result; the only step whose exit code is a verdict.

    Argo never tries it again. With an expression Argo would show that instead of the verdict as the
    message of the step; and `argo retry` keeps the node of a step with retries and runs it at once,
    before what it waits for. The step is patient with an API server that is away, and where its pod
    is lost the exit handler reports.
    """
    return _container(
        options,
        "aggregate",
        [],
        outputs=_of_report(),
        artifacts=[_artifact("report", "report.html")] if options.artifacts else [],
        memory_limit="2Gi",
    )


def finish(options: Options, flags: Sequence[str]) -> Container:
    """Delete what runs left behind, check that the GPUs are free, and report what has no report.

    One pod, since it comes after every workflow; it is the exit handler of all. It has what detect
    has, to plan again where the plan is lost.

    Args:
        options: of the rendering.
        flags: single parameters that replace parts of the text.
    """
    return _container(
        options,
        "finish",
        ["--status={{workflow.status}}", *flags],
        name=FINISH,
        account=RUNNER_ACCOUNT,
        env={"READINESS_CERTIFICATION": parameter(CERTIFICATION_TEXT.name)},
        outputs=_of_report(),
        artifacts=[_artifact("report", "report.html")] if options.artifacts else [],
        memory_limit="2Gi",
        retry=_unless_exit("2", "3"),
    )


def _of_report() -> list[Parameter]:
    """Return what a report says in short; by their global names the whole workflow shows it."""
    return [_output(name, default, share=True) for name, default in REPORT_OUTPUTS.items()]


def _container(
    options: Options,
    program: str,
    flags: Sequence[str],
    *,
    name: str | None = None,
    account: str = STEPS_ACCOUNT,
    env: dict[str, str] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[Parameter] = (),
    artifacts: Sequence[Artifact] = (),
    annotations: dict[str, str] | None = None,
    timeout: str = STEP_TIMEOUT,
    memory_limit: str = "1Gi",
    retry: RetryStrategy | None = None,
    pod_spec_patch: str | None = None,
) -> Container:
    # Everything the pod needs stands in the template and nothing in the workflow's spec, because
    # a template that another workflow refers to takes nothing of the spec along.
    return Container(
        name=name or program,
        image=options.image,
        image_pull_policy="IfNotPresent",
        command=["python", "-m", "steps"],
        args=[program, STORE, *flags],
        env=[
            *(m.EnvVar(name=key, value=value) for key, value in (env or {}).items()),
            *(_downward(key, path) for key, path in _DOWNWARD.items()),
        ],
        inputs=[Parameter(name=item) for item in inputs],
        outputs=[*outputs, *artifacts],
        labels={**LABELS, "app.kubernetes.io/component": program},
        annotations=annotations,
        service_account_name=account,
        timeout=timeout,
        retry_strategy=retry,
        pod_spec_patch=pod_spec_patch,
        resources=Resources(
            cpu_request="50m", memory_request="128Mi", cpu_limit="1", memory_limit=memory_limit
        ),
        volumes=[EmptyDirVolume(name="tmp", mount_path="/tmp", size_limit=m.Quantity("4Gi"))],  # noqa: S108
        pod_security_context=m.PodSecurityContext(
            run_as_non_root=True,
            run_as_user=USER,
            run_as_group=USER,
            seccomp_profile=m.SeccompProfile(type="RuntimeDefault"),
        ),
        security_context=m.SecurityContext(
            allow_privilege_escalation=False,
            capabilities=m.Capabilities(drop=["ALL"]),
            read_only_root_filesystem=True,
        ),
        affinity=_away_from_gpus(),
        tolerations=[m.Toleration(key="nvidia.com/gpu", operator="Exists")],
    )


_DOWNWARD = {
    "POD_NAME": "metadata.name",
    "POD_NAMESPACE": "metadata.namespace",
    "NODE_NAME": "spec.nodeName",
}


def _downward(name: str, path: str) -> m.EnvVar:
    source = m.EnvVarSource(field_ref=m.ObjectFieldSelector(field_path=path))
    return m.EnvVar(name=name, value_from=source)


def _output(name: str, default: str, *, share: bool = False) -> Parameter:
    # Without a default a missing file makes the node an error instead of a missing result.
    source = m.ValueFrom(path=f"{OUTPUTS}/{name}", default=default)
    return Parameter(name=name, value_from=source, global_name=name if share else None)


def _artifact(name: str, file: str) -> Artifact:
    # No archive, so that the Argo UI shows it; optional, since a killed step may not have it.
    return Artifact(
        name=name,
        path=f"{OUTPUTS}/{file}",
        archive=NoneArchiveStrategy(),
        optional=True,
    )


def _unless_exit(*codes: str) -> RetryStrategy:
    """Try again after what happened to the pod (eviction, lost node), not after a plain answer.

    ``lastRetry.exitCode`` is a text, -1 where the pod left no exit code.
    """
    listed = ", ".join(f"'{code}'" for code in codes)
    return RetryStrategy(
        limit=2,
        retry_policy="Always",
        expression=f"lastRetry.exitCode not in [{listed}]",
        backoff=m.Backoff(duration="5s", factor=2),
    )


_GPU_LABELS = (
    "nvidia.com/gpu.present",
    "cloud.google.com/gke-accelerator",
    "kubernetes.azure.com/accelerator",
)
"""Labels that nodes with GPUs have, by NVIDIA's feature discovery and by providers without it."""


def _away_from_gpus() -> m.Affinity:
    """Prefer nodes without GPUs: a node under test may crash, and must not take a step along."""
    no_gpus = [m.NodeSelectorRequirement(key=key, operator="DoesNotExist") for key in _GPU_LABELS]
    term = m.PreferredSchedulingTerm(
        weight=100, preference=m.NodeSelectorTerm(match_expressions=no_gpus)
    )
    return m.Affinity(
        node_affinity=m.NodeAffinity(preferred_during_scheduling_ignored_during_execution=[term])
    )
