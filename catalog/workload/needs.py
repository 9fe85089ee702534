"""How many GPUs and network devices a workload asks of a node, and by which resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from catalog.entries.entry import Entry
from catalog.hardware.profile import LoadedProfile
from catalog.hardware.profile_model import Nics, Profile
from catalog.reading.setting import Origin, Setting
from catalog.workload.options import entry_origin, override

GPU = "nvidia.com/gpu"
MIG_RESOURCE = "nvidia.com/mig-"
"""What the resources of MIG devices begin with."""
GKE_NETWORK = "networking.gke.io.networks/"

UNKNOWN_GPUS = 4
"""GPUs per node when neither nodes nor profile tell: NVCRE's default for an unknown GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What most nodes of a cohort offer, as far as they tell.

    Attributes:
        gpus: whole GPUs.
        allocatable: by extended resource or DRA driver; huge pages in bytes; None where the nodes
            do not tell.
        networks: pod networks of GKE that all nodes have, in the order of their interfaces.
    """

    gpus: int | None = None
    allocatable: Mapping[str, int] | None = None
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """What one node must offer.

    Attributes:
        gpus: GPUs per node.
        nics: network devices per node that carry the traffic; 0 asks for none.
        nic_resource: extended resource that is requested for them, or None.
        requests: extended resources that a pod requests for them, units by name.
        claims: devices that a pod claims through DRA, by device class, where the nodes tell them.
        networks: pod networks by interface, where devices are attached as interfaces.
        notes: what a person should know.
        inside: the traffic of the workload stays inside the node.
    """

    gpus: Setting
    nics: Setting
    nic_resource: Setting
    requests: Mapping[str, int]
    networks: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    inside: bool = False
    claims: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The certification's wishes and the profile's word about network devices."""

    count: Setting | None
    name: Setting | None
    access: Setting | None
    nics: Nics
    origin: Origin
    bound: bool
    """The count is definite: of an instance type, and of a resource whose units are devices."""


def needs_of(
    entry: Entry,
    options: Mapping[str, Setting],
    profile: LoadedProfile | None,
    seen: Seen,
    scale: str,
) -> Needs:
    """Work out what one node must offer for a category.

    An instance type has a definite number of devices, so its profile decides and a node with
    fewer is short of something. An architecture has none, so there the nodes decide and the
    profile only fills in.
    """
    gpus = _gpus(options, profile, seen)
    stated = _given(options, "mlnxPerNode")
    inside = not _leaves_node(entry, scale)
    # Pods of GKE are attached to their networks also where no traffic takes them: the network
    # plugin that the nodes bring along ends NCCL when it finds none.
    attached = profile and profile.profile.nics.networks and "mlnxPerNode" in entry.options
    if stated is None and inside and not attached:
        origin = entry_origin(entry, "facts").model_copy(
            update={"rule": f"{entry.id} at scale {scale} stays inside the node"}
        )
        return replace(_nothing(gpus, Setting(value=None, origin=origin)), inside=True)
    wanted = _Wanted(
        count=stated,
        name=_given(options, "nicResourceName"),
        access=_given(options, "rdmaDeviceAccess"),
        nics=profile.profile.nics if profile else Nics(),
        origin=profile.origin_of("nics") if profile else _nodes_origin("network devices"),
        bound=bool(profile and profile.profile.instance_types and profile.profile.nics.resource),
    )
    if stated is not None and stated.value == 0:
        return _nothing(gpus, Setting(value=None, origin=stated.origin))
    return replace(_by_way(gpus, wanted, seen), inside=inside)


def _by_way(gpus: Setting, wanted: _Wanted, seen: Seen) -> Needs:
    """Choose the way in which the devices are handed to the pods."""
    if wanted.count is None and wanted.name is None and wanted.nics.count == 0:
        return _nothing(gpus, Setting(value=None, origin=wanted.origin))
    if wanted.access is not None and wanted.access.value == "hostPath":
        none = Setting(value=None, origin=wanted.access.origin)
        return Needs(gpus, _devices(wanted, None), none, {})
    if wanted.name is None and wanted.nics.networks:
        return _networks(gpus, wanted, seen)
    if wanted.name is None and wanted.nics.device_class:
        told = (seen.allocatable or {}).get(wanted.nics.device_class)
        none = Setting(value=None, origin=wanted.origin)
        devices = _devices(wanted, None)
        claims = {wanted.nics.device_class: int(devices.value)} if told else {}
        return Needs(gpus, devices, none, {}, claims=claims)
    return _requested(gpus, wanted, seen)


def _gpus(options: Mapping[str, Setting], profile: LoadedProfile | None, seen: Seen) -> Setting:
    if profile is not None and profile.profile.gpus is not None:
        gpus = Setting(value=profile.profile.gpus, origin=profile.origin_of("gpus"))
        if seen.gpus and _plausible(profile.profile, seen.gpus):
            gpus = override(gpus, seen.gpus, _nodes_origin(GPU))
    elif seen.gpus:
        gpus = Setting(value=seen.gpus, origin=_nodes_origin(GPU))
    else:
        origin = Origin(
            rule="default for an unknown GPU",
            file="catalog/workload/needs.py",
            source="NVIDIA/cluster-readiness-engine gpu defaults",
        )
        gpus = Setting(value=UNKNOWN_GPUS, origin=origin)
    stated = _given(options, "gpusPerNode")
    return gpus if stated is None else override(gpus, stated.value, stated.origin)


def _plausible(profile: Profile, seen: int) -> bool:
    """Say whether nodes may have ``seen`` GPUs by design; seven of eight are a fault."""
    usual = profile.gpus or seen
    return not profile.instance_types and (seen >= usual or usual % seen == 0)


def _leaves_node(entry: Entry, scale: str) -> bool:
    """Say whether the workload's traffic takes the network devices."""
    path = entry.facts.get("path", "fabric")
    if "mlnxPerNode" not in entry.options or path == "nvlink":
        return False
    return path == "nic" or scale != "intra-node"


def _given(options: Mapping[str, Setting], name: str) -> Setting | None:
    setting = options.get(name)
    return setting if setting is not None and setting.value is not None else None


def _nodes_origin(what: str) -> Origin:
    return Origin(rule=f"what most nodes allocate of {what}", file="Node objects")


def _nothing(gpus: Setting, why: Setting, notes: tuple[str, ...] = ()) -> Needs:
    return Needs(gpus, Setting(value=0, origin=why.origin), why, {}, notes=notes)


def _devices(wanted: _Wanted, seen: int | None) -> Setting:
    """Settle the number of devices; ``seen`` is what most nodes allocate, where that is a count."""
    count = Setting(value=wanted.nics.count or 0, origin=wanted.origin)
    if seen and not wanted.bound and seen < (wanted.nics.count or seen + 1):
        count = override(count if wanted.nics.count else None, seen, _nodes_origin("devices"))
    if wanted.count is not None:
        count = override(count, wanted.count.value, wanted.count.origin)
    return count


def _networks(gpus: Setting, wanted: _Wanted, seen: Seen) -> Needs:
    """Attach pod networks, those found on the nodes if their number is right."""
    ours = wanted.nics.networks
    names = [item.network for item in ours]
    notes: tuple[str, ...] = ()
    if len(seen.networks) == len(ours):
        names = list(seen.networks)
    elif seen.networks:
        notes = (
            f"nodes offer {len(seen.networks)} pod networks "
            f"({', '.join(seen.networks)}), {len(ours)} are needed; taking {', '.join(names)}",
        )
    pairs = tuple((item.interface, name) for item, name in zip(ours, names, strict=True))
    requests = {GKE_NETWORK + name: 1 for name in names} if wanted.nics.network_resources else {}
    none = Setting(value=None, origin=wanted.origin)
    return Needs(gpus, _devices(wanted, None), none, requests, pairs, notes)


def _requested(gpus: Setting, wanted: _Wanted, seen: Seen) -> Needs:
    """Request an extended resource: the stated one, the profile's, or the one that is found."""
    offered = seen.allocatable or {}
    if wanted.name is not None:
        resource = wanted.name
        if wanted.nics.resource:
            ours = Setting(value=wanted.nics.resource, origin=wanted.origin)
            resource = override(ours, wanted.name.value, wanted.name.origin)
    elif wanted.nics.resource:
        resource = Setting(value=wanted.nics.resource, origin=wanted.origin)
    else:
        least = wanted.count.value if wanted.count else 1
        matching = (
            name
            for glob in wanted.nics.detect
            for name, units in sorted(offered.items())
            if units >= least and fnmatchcase(name, glob)
        )
        found = list(dict.fromkeys(matching))
        if len(found) == 1:
            origin = Origin(rule=f"only candidate on the nodes: {found[0]}", file="Node objects")
            resource = Setting(value=found[0], origin=origin)
        elif wanted.nics.required:
            resource = Setting(value=(found or wanted.nics.detect)[0], origin=wanted.origin)
        else:
            globs = ", ".join(wanted.nics.detect)
            what = f"nodes allocate none of {globs}" if globs else "no profile names one"
            if found:
                what = f"candidates are {', '.join(found)}"
            note = f"no network device resource is requested: {what}; state nicResourceName"
            return _nothing(gpus, Setting(value=None, origin=wanted.origin), (note,))
    units_seen = offered.get(resource.value)
    # rdma/ib and the like may be a switch: one unit gives all devices of the node.
    switch = units_seen == 1 and resource.value.startswith("rdma/")
    devices = _devices(wanted, None if switch else units_seen)
    units = devices.value
    if wanted.count is None:
        units = wanted.nics.request or (1 if switch else devices.value)
    return Needs(gpus, devices, resource, {resource.value: units} if units else {})
