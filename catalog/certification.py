"""The Certification: the document a person writes.

Field names are those of NVCRE's Certification where it has them, so that its users can bring
theirs; ``stage``, ``limits``, ``profile``, ``env``, ``isolate`` and ``nodeHealth`` are ours.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from catalog.model import Model
from catalog.quantity import parse_duration, parse_quantity, parse_size
from catalog.source import Source, read_one, validate

LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
RESERVED_LABELS = ("readiness/", "nvcre.nvidia.com/", "app.kubernetes.io/managed-by")
"""Labels that readiness itself writes; a certification may not set them."""


def _checked(reader: Any) -> AfterValidator:
    def check(text: str) -> str:
        reader(text)
        return text

    return AfterValidator(check)


Duration = Annotated[str, _checked(parse_duration)]
Size = Annotated[str, _checked(parse_size)]
Quantity = Annotated[str | int, _checked(parse_quantity)]
Count = Annotated[int, Field(ge=1, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
TestScale = Literal["full-scale", "intra-rack", "intra-node", "diagnose"]


class MatchExpression(Model):
    """One requirement on a node label, as in a Kubernetes selector."""

    key: str = Field(min_length=1)
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _values_fit(self) -> MatchExpression:
        if (self.operator in {"In", "NotIn"}) != bool(self.values):
            need = "needs values" if self.operator in {"In", "NotIn"} else "takes no values"
            raise ValueError(f"operator {self.operator} {need}")
        return self


class TaintSelector(Model):
    """A taint that target nodes carry and that the pods of the test tolerate."""

    key: str = Field(min_length=1)
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Target(Model):
    """Which nodes; all parts must hold. No part at all means every node with GPUs."""

    node_selector: dict[str, str] = {}
    match_expressions: tuple[MatchExpression, ...] = ()
    node_names: tuple[str, ...] = ()
    taint_selectors: tuple[TaintSelector, ...] = ()

    @field_validator("node_names")
    @classmethod
    def _names_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        counts = Counter(names)
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice:
            raise ValueError(f"names {twice} twice")
        return names


class ResourceList(Model):
    """CPU and memory of one worker pod."""

    cpu: Quantity | None = None
    memory: Quantity | None = None


class Resources(Model):
    """Limits and requests of one worker pod."""

    limits: ResourceList | None = None
    requests: ResourceList | None = None

    @model_validator(mode="after")
    def _request_within_limit(self) -> Resources:
        for name in ("cpu", "memory"):
            limit = getattr(self.limits, name, None)
            request = getattr(self.requests, name, None)
            if limit and request and parse_quantity(request) > parse_quantity(limit):
                raise ValueError(f"{name} request {request} is above its limit {limit}")
        return self


class SecretReference(Model):
    """Name of a Secret in the namespace of the workflow."""

    name: str = Field(min_length=1)


class WorkloadMetadata(Model):
    """Labels for the launched jobs, for example a Kueue queue name."""

    labels: dict[str, str] = Field(default={}, max_length=32)

    @field_validator("labels")
    @classmethod
    def _not_reserved(cls, labels: dict[str, str]) -> dict[str, str]:
        for key, value in labels.items():
            if key.startswith(RESERVED_LABELS):
                raise ValueError(f"label {key} is reserved")
            if len(value) > 63 or not re.match(LABEL_VALUE, value):
                raise ValueError(f"label {key} has a value that Kubernetes refuses: {value!r}")
        return labels


class GangScheduler(Model):
    """Scheduler that starts all pods of a job or none (KAI, Run:ai, Volcano)."""

    scheduler_name: str = Field(min_length=1)
    queue: str = Field(default="default-queue", pattern=LABEL_VALUE, max_length=63)
    queue_label_key: str = Field(default="kai.scheduler/queue", max_length=317)


class HealthRule(Model):
    """A CEL rule over the Node object; true means that the node failed.

    Attributes:
        name: shown in the report.
        expression: CEL over ``node`` with metadata, spec and status.
        code: reason code to report.
    """

    name: str
    expression: str = Field(min_length=1, max_length=2048)
    code: Literal["NODE_UNHEALTHY", "NODE_CORDONED", "NODE_NOT_READY"] = "NODE_UNHEALTHY"


class Options(Model):
    """What can be set for every category, or for one; None means not set.

    Attributes:
        nodes_per_job: size of a group; default all usable nodes.
        gpus_per_node: GPUs to use on each node, also the least a node must have.
        mlnx_per_node: NIC devices per node; 0 requests none.
        nic_resource_name: extended resource of the NICs.
        rdma_device_access: how ranks reach /dev/infiniband.
        enable_mnnvl: ``enableMNNVL`` outside: NVLink across nodes.
        thresholds: bars of one's own, by key; each replaces the stage's bar of that key, or all
            of them when ``replaceBars`` is true.
        env: environment variables, merged by name over the profile's.
        isolate: follow failed groups by pair runs.
        node_health: rules beside the default ones.
    """

    nodes_per_job: Count | None = None
    gpus_per_node: Count | None = None
    mlnx_per_node: Annotated[int, Field(ge=0, strict=True)] | None = None
    nic_resource_name: Annotated[str, Field(max_length=253, pattern=r"^[^/]+/.+$")] | None = None
    rdma_device_access: Literal["devicePlugin", "hostPath"] | None = None
    enable_mnnvl: Annotated[Flag | None, Field(alias="enableMNNVL")] = None
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    image_pull_secrets: tuple[SecretReference, ...] | None = None
    resources: Resources | None = None
    test_scale: TestScale | None = None
    max_bytes: Size | None = None
    num_iterations: Count | None = None
    num_cycles: Count | None = None
    thresholds: dict[str, str] | None = None
    replace_bars: Flag | None = None
    max_concurrent: Annotated[int, Field(ge=0, strict=True)] | None = None
    min_group_size: Count | None = None
    timeout_per_job: Duration | None = None
    measurement_timeout: Duration | None = None
    repeat_count: Count | None = None
    max_steps: Count | None = None
    exit_duration_mins: Count | None = None
    startup_stall_timeout_seconds: Count | None = None
    source_repo: Annotated[str, Field(pattern=r"^(https|ssh)://.+", max_length=2048)] | None = None
    workload_metadata: WorkloadMetadata | None = None
    placement: Literal["Pinned"] | None = None
    profile: str | None = None
    topology_key: str | None = None
    env: dict[str, str] | None = None
    isolate: Flag | None = None
    node_health: tuple[HealthRule, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _say_what_is_not_supported(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for name, why in NOT_SUPPORTED.items():
                if name in data:
                    raise ValueError(f"{name} is not supported: {why}")
            if data.get("placement") == "Unpinned":
                raise ValueError("placement Unpinned is not supported: only named nodes are proven")
        return data

    def given(self) -> dict[str, Any]:
        """Return the options that are set, by their outside name."""
        return {
            info.alias or name: getattr(self, name)
            for name, info in Options.model_fields.items()
            if getattr(self, name) is not None
        }


NOT_SUPPORTED = dict.fromkeys(
    (
        "enableCheckpoint",
        "maxRestarts",
        "storageClassName",
        "storageSize",
        "saveInterval",
        "saveRetainInterval",
        "saveTopK",
    ),
    "a certification run is short and starts from nothing, so it writes no checkpoints",
)
"""NVCRE's options that have no counterpart here, with the reason."""


class CategoryRequest(Model):
    """One category of a certification."""

    domain: str
    variant: str
    options: Options = Options()

    @property
    def id(self) -> str:
        """The catalog id, ``domain/variant``."""
        return f"{self.domain}/{self.variant}"


class Limits(Model):
    """Bounds of the whole certification.

    Attributes:
        node_cap: most nodes that may be used; nodes over it are excluded, by name.
        deadline: after which nothing new starts and what runs is stopped.
    """

    node_cap: Count = 1024
    deadline: Duration = "24h"


class Spec(Options):
    """What to certify; options given here are defaults for every category."""

    stage: str = "production"
    target: Target = Target()
    categories: tuple[CategoryRequest, ...] = Field(min_length=1, max_length=64)
    gang_scheduler: GangScheduler | None = None
    limits: Limits = Limits()
    parallel_categories: Flag = False

    @field_validator("categories")
    @classmethod
    def _categories_once(
        cls, categories: tuple[CategoryRequest, ...]
    ) -> tuple[CategoryRequest, ...]:
        # Documents and verdicts are kept by category, so the second would overwrite the first.
        names = [category.id for category in categories]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(f"requests {twice} twice; write a second certification for it")
        return categories


class Metadata(Model):
    """Kubernetes metadata, as far as a certification uses it."""

    name: str = Field(pattern=NAME)
    namespace: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Certification(Model):
    """The document; ``apiVersion`` may be ours or NVCRE's."""

    api_version: Literal["readiness/v1", "nvcre.nvidia.com/v1alpha1"] = "readiness/v1"
    kind: Literal["Certification"]
    metadata: Metadata
    spec: Spec


def load_certification(path: Path) -> tuple[Certification, Source]:
    """Read a certification file.

    Returns:
        The certification and its source, for errors that are found later.

    Raises:
        InputError: with file, line and field of the first problem.
    """
    source = read_one(path)
    return validate(source, Certification), source


def parse_certification(source: Source) -> Certification:
    """Validate a certification that was read elsewhere, for example from a parameter."""
    return validate(source, Certification)
