"""Hardware profiles: what a machine has and how its workloads must be set up, as data.

A profile file holds *profiles* (the hardware of one instance type, or of one GPU on one platform)
and *rules* (settings that hold ``when`` certain conditions are met). Ours are in
``catalog/hardware/profiles``; a user's file has the same form and stands after ours.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catalog.hardware.conditions import When
from catalog.hardware.platforms import PlatformRule
from catalog.hardware.topology import topologies
from catalog.reading.model import Model
from catalog.reading.placeholders import placeholders


class LaunchParts(Model):
    """How the tool is started on the ranks.

    Attributes:
        binary: path of the tool; ``${binary}`` is the entry's name for it.
        mpirun: path of mpirun in the image.
        flags: mpirun flags with their value; an empty value stands for none.
        mca: Open MPI parameters.
        forward_env: variables of the image that are handed to the ranks as they are.
        unset_env: variables of the image that the ranks must not see.
        remove_paths: directories of the image that are removed before the tool starts.
        source_scripts: shell scripts of the node's software that set further environment.
    """

    binary: str | None = None
    mpirun: str | None = None
    flags: dict[str, str] = {}
    mca: dict[str, str] = {}
    forward_env: tuple[str, ...] = ()
    unset_env: tuple[str, ...] = ()
    remove_paths: tuple[str, ...] = ()
    source_scripts: tuple[str, ...] = ()


class PodParts(Model):
    """Parts of the worker pod, fragments of the Kubernetes API under their names there.

    Attributes:
        capabilities: Linux capabilities to add.
        sidecars: init containers with ``restartPolicy: Always``.
        resource_claims: the pod's ``resourceClaims``.
        claim_templates: ResourceClaimTemplates to create for a group, ``{name, spec}``.
        compute_domain: spec of the ComputeDomain to create for a group (multi-node NVLink).
        config_maps: ConfigMaps to create, file text by name and key; ``topology:NAME`` stands for
            a topology of ``topologies.yaml``.
    """

    capabilities: tuple[str, ...] = ()
    privileged: bool | None = None
    host_network: bool | None = None
    dns_policy: str | None = None
    seccomp_profile: str | None = None
    scheduler_name: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    volumes: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[dict[str, Any], ...] = ()
    init_containers: tuple[dict[str, Any], ...] = ()
    sidecars: tuple[dict[str, Any], ...] = ()
    resource_claims: tuple[dict[str, Any], ...] = ()
    claim_templates: tuple[dict[str, Any], ...] = ()
    compute_domain: dict[str, Any] | None = None
    config_maps: dict[str, dict[str, str]] = {}


class Settings(Model):
    """What a rule or a profile sets.

    Attributes:
        options: defaults of certification options, for example a shorter timeout.
        facts: facts of the entry, for example the address of DCGM; a list is for several words of
            the command.
        image: container image.
        env: environment of the ranks.
        resources: resources of one worker pod; ``limits.cpu`` and the like set one side, bare
            names set both.
        launch: how the tool is started.
        pod: parts of the worker pod.
    """

    options: dict[str, Any] = {}
    facts: dict[str, str | int | float | bool | tuple[str, ...]] = {}
    image: str | None = None
    env: dict[str, str] = {}
    resources: dict[str, str | int] = {}
    launch: LaunchParts = LaunchParts()
    pod: PodParts = PodParts()


class Rule(Model):
    """Settings that hold under conditions.

    Attributes:
        name: shown in explanations.
        source: public source; default is that of the file.
        note: why, for people.
    """

    name: str = Field(min_length=1)
    when: When = When()
    set: Settings
    source: str | None = None
    note: str | None = None


class PodNetwork(Model):
    """A pod interface and the network that it is attached to."""

    interface: str
    network: str


class Nics(Model):
    """Network devices of a machine that carry GPU traffic.

    Attributes:
        count: devices per node; None leaves it to what the nodes allocate.
        resource: extended resource to request.
        detect: names or globs of extended resources that may stand for the devices; exactly one
            that the nodes allocate is requested (NVCRE's on-prem rule).
        required: nodes without the resource cannot be tested; else nothing is requested there.
        request: units to request where that is not the number of devices (a switch such as
            ``rdma/ib: 1``).
        device_class: DRA device class, where devices are claimed.
        networks: pod networks, where devices are attached as interfaces (GKE).
        network_resources: whether each network is also requested as
            ``networking.gke.io.networks/NAME``.
        attachment: name of the Multus network that is attached once per device.
    """

    count: Annotated[int, Field(ge=0)] | None = None
    resource: str | None = None
    detect: tuple[str, ...] = ()
    required: bool = False
    request: Annotated[int, Field(ge=1)] | None = None
    device_class: str | None = None
    networks: tuple[PodNetwork, ...] = ()
    network_resources: bool = False
    attachment: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Nics:
        ways = [self.resource, self.detect, self.device_class, self.networks]
        if sum(bool(way) for way in ways) > 1:
            raise ValueError("gives more than one of resource, detect, deviceClass and networks")
        return self


class Profile(Model):
    """The hardware of one instance type, or of one GPU architecture on one platform.

    Attributes:
        name: unique, for example ``aws/p5.48xlarge``.
        platform: platform it is found on.
        instance_types: instance types (globs) it stands for; empty: any of the architecture.
        gpu: GPU architectures; empty: any.
        products: globs of GPU product names that it is limited to.
        labels: node labels that stand for an instance type where the type is not told.
        automatic: whether detection may choose it; else only the user can.
        gpus: GPUs per node; None leaves it to what the nodes allocate.
        gpu_device_class: DRA device class, where GPUs are claimed and not requested.
        nics: network devices.
        nic_gbps: nominal rate of one network device, Gb/s per direction; with the number of devices
            it tells what bandwidth to expect where nobody has published a figure.
        interconnect: the fabric, for people.
        nvlink: whether NVLink joins the GPUs of a node.
        mnnvl: whether NVLink spans nodes, and is used unless ``enableMNNVL`` says otherwise.
        topology_key: node label of the domain that groups should stay in.
        transport: network names that NCCL prints when it uses the fabric; empty: any is right.
        set: settings of this hardware alone.
        source: public source of the figures.
        note: what people should know.
    """

    name: str = Field(min_length=1)
    platform: str
    instance_types: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    automatic: bool = True
    gpus: Annotated[int, Field(ge=1)] | None = None
    gpu_device_class: str | None = None
    nics: Nics = Nics()
    nic_gbps: Annotated[float, Field(gt=0, le=10_000)] | None = None
    interconnect: str
    nvlink: bool = True
    mnnvl: bool = False
    topology_key: str | None = None
    transport: tuple[str, ...] = ()
    set: Settings = Settings()
    source: str | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _can_be_found(self) -> Profile:
        if not self.instance_types and not self.gpu:
            raise ValueError("needs instanceTypes or gpu")
        return self


KIND = "Profiles"
"""Kind of the document."""


class ProfileFile(Model):
    """A file of profiles and rules.

    Attributes:
        kind: may be left out of a file that is named as one of profiles.
        source: public source of what the file says, unless a part names its own.
        platforms: how nodes of a platform are told, tried before the rules of earlier files and
            those of ``platforms.yaml``; the first that fits wins.
    """

    kind: Literal["Profiles"] = "Profiles"
    source: str
    platforms: tuple[PlatformRule, ...] = ()
    rules: tuple[Rule, ...] = ()
    profiles: tuple[Profile, ...] = ()


PLACEHOLDERS = frozenset(
    {
        "binary",
        "entry",
        "gpusPerNode",
        "mnnvl",
        "multusNetworks",
        "nicsPerNode",
        "nodesPerJob",
        "podNetworks",
        "totalGpus",
    }
)
"""Names that ``set`` may use as ``${name}``."""


TOPOLOGY_PREFIX = "topology:"
"""Marks a ConfigMap value that stands for a topology of ``topologies.yaml``."""


def unknown_name(settings: Settings) -> str | None:
    """Say which placeholder or topology in ``settings`` is not known; None when all are."""
    data = settings.model_dump(by_alias=True)
    for name in placeholders(data):
        if name not in PLACEHOLDERS:
            return f"uses ${{{name}}}, known are {', '.join(sorted(PLACEHOLDERS))}"
    for files in settings.pod.config_maps.values():
        for text in files.values():
            name = text.removeprefix(TOPOLOGY_PREFIX)
            if text.startswith(TOPOLOGY_PREFIX) and name not in topologies():
                return f"names topology {name!r}, known are {', '.join(topologies())}"
    return None
