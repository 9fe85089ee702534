"""The Certification: the document a person writes.

Field names are those of NVCRE's Certification where it has them, so that its users can bring
theirs; ``stage``, ``limits``, ``parallelCategories``, ``profile``, ``topologyKey``, ``env``,
``isolate``, ``replaceBars``, ``nodeHealth``, ``stallTimeoutSeconds`` and ``stallMultiplier`` are
ours.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from catalog.hardware.health_rule import HealthRule
from catalog.reading.model import Model
from catalog.reading.quantity import parse_duration, parse_quantity, parse_size
from catalog.reading.source import Source, read_one, validate

LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
RESERVED_LABELS = ("readiness/", "nvcre.nvidia.com/", "app.kubernetes.io/managed-by")
"""Labels that readiness itself writes; a certification may not set them."""


def _checked(reader: Any) -> AfterValidator:
    def check(text: str) -> str:
        reader(text)
        return text

    return AfterValidator(check)


def _says(text: str) -> Any:
    return Field(description=text)


def _bytes(value: Any) -> Any:
    """Read a plain number as bytes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _size(text: str) -> str:
    if not FEWEST_BYTES <= parse_size(text) <= MOST_BYTES:
        raise ValueError(f"must be from 8 bytes, where sweeps begin, to 1T, not {text!r}")
    return text


def _image(text: str) -> str:
    if not text.isprintable() or any(char.isspace() for char in text):
        raise ValueError(f"must be an image reference without blanks, not {text!r}")
    return text


def _threshold(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"must be an expression: write value >= {value}")
    return value


MOST_NODES = 100_000
"""More nodes than any cluster has."""
FEWEST_BYTES, MOST_BYTES = 8, 2**40
"""Bounds of a message: sweeps begin at 8 bytes, and no GPU has the memory for more than 1T."""

Duration = Annotated[str, _checked(parse_duration)]
Size = Annotated[
    str, BeforeValidator(_bytes, json_schema_input_type=str | int), AfterValidator(_size)
]
Image = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_image)]
Threshold = Annotated[str, BeforeValidator(_threshold)]
Quantity = Annotated[str | int, _checked(parse_quantity)]
Nodes = Annotated[int, Field(ge=1, le=MOST_NODES, strict=True)]
Devices = Annotated[int, Field(ge=1, le=128, strict=True)]
Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
Wait = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
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


class Options(Model):
    """What can be set for every category, or for one; None means not set."""

    nodes_per_job: Annotated[
        Nodes | None, _says("nodes of a group; lowered to what is there; default all usable nodes")
    ] = None
    gpus_per_node: Annotated[
        Devices | None, _says("GPUs to use on each node, also the fewest that a node must have")
    ] = None
    mlnx_per_node: Annotated[
        int | None,
        Field(ge=0, le=128, strict=True),
        _says("network devices to request for each node; 0 requests none"),
    ] = None
    nic_resource_name: Annotated[
        str | None,
        Field(max_length=253, pattern=r"^[^/]+/.+$"),
        _says("extended resource of the network devices"),
    ] = None
    rdma_device_access: Annotated[
        Literal["devicePlugin", "hostPath"] | None, _says("how ranks reach /dev/infiniband")
    ] = None
    enable_mnnvl: Annotated[
        Flag | None, Field(alias="enableMNNVL"), _says("use NVLink across nodes")
    ] = None
    image: Annotated[Image | None, _says("image of the test")] = None
    image_pull_secrets: Annotated[
        tuple[SecretReference, ...] | None, _says("Secrets for pulling the image")
    ] = None
    resources: Annotated[
        Resources | None, _says("CPU and memory limits and requests of a worker pod")
    ] = None
    test_scale: Annotated[
        TestScale | None, _says("which nodes form a group; diagnose screens in small groups")
    ] = None
    max_bytes: Annotated[Size | None, _says("largest message of the sweep: 16G, or bytes")] = None
    num_iterations: Annotated[Count | None, _says("timed operations for each message size")] = None
    num_cycles: Annotated[Count | None, _says("times that the sweep is run")] = None
    thresholds: Annotated[
        dict[str, Threshold] | None,
        _says("bars of your own by key, CEL; each replaces the bar of its key"),
    ] = None
    replace_bars: Annotated[
        Flag | None, _says("true: thresholds replace all bars of the stage")
    ] = None
    max_concurrent: Annotated[
        int | None, Field(ge=0, le=MOST_NODES, strict=True), _says("groups at once; 0 is no bound")
    ] = None
    min_group_size: Annotated[Nodes | None, _says("smallest group of testScale diagnose")] = None
    timeout_per_job: Annotated[Duration | None, _says("after which a job is stopped")] = None
    measurement_timeout: Annotated[
        Duration | None, _says("how long to wait for the measurement of a job that has ended")
    ] = None
    repeat_count: Annotated[
        int | None, Field(ge=1, le=100, strict=True), _says("times that every group is run")
    ] = None
    max_steps: Annotated[Count | None, _says("training steps")] = None
    exit_duration_mins: Annotated[
        Count | None, _says("minutes after which training ends itself")
    ] = None
    startup_stall_timeout_seconds: Annotated[
        Wait | None,
        _says("seconds without a first row or training step until a run is stalled; 0 is off"),
    ] = None
    stall_timeout_seconds: Annotated[
        Wait | None,
        _says(
            "seconds without a new row or training step, at least, until a run is stalled; 0 is off"
        ),
    ] = None
    stall_multiplier: Annotated[
        float | None,
        Field(ge=1, le=1000),
        _says("times the usual wait for a row or training step until a run is stalled"),
    ] = None
    source_repo: Annotated[
        str | None,
        Field(pattern=r"^(https|ssh)://.+", max_length=2048),
        _says("repository of the training code"),
    ] = None
    workload_metadata: Annotated[
        WorkloadMetadata | None, _says("labels for the jobs, for example a Kueue queue")
    ] = None
    placement: Annotated[Literal["Pinned"] | None, _says("jobs run on the planned nodes")] = None
    profile: Annotated[str | None, _says("hardware profile, instead of the detected one")] = None
    topology_key: Annotated[str | None, _says("node label by which groups stay together")] = None
    env: Annotated[
        dict[str, str] | None, _says("environment variables, merged by name over the profile's")
    ] = None
    isolate: Annotated[Flag | None, _says("follow failed groups by pair runs")] = None
    node_health: Annotated[
        tuple[HealthRule, ...] | None,
        _says("health rules over nodes and events, beside the default ones"),
    ] = None

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

    node_cap: Nodes = 1024
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
