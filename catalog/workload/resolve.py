"""Resolving a workload: entry, hardware profile and certification become one launch.

Layers, weakest first: catalog entry, profile rules and profile (ours, then the user's files), what
the nodes tell, the certification, the category. Environment and pod parts merge by name, so a
later layer adds and replaces single values but never loses others. Every value keeps the chain of
rules that set it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog.certification import Certification
from catalog.entries.entry import Entry
from catalog.facts.tools import TOOLS
from catalog.hardware.hardware import Hardware, Situation
from catalog.hardware.profile import Assignment, LoadedProfile, Profiles
from catalog.reading.placeholders import GROUP_NAMES, fill
from catalog.reading.quantity import parse_duration, parse_quantity
from catalog.reading.setting import Origin, Setting
from catalog.reading.source import Source
from catalog.workload.needs import GPU, Needs, Seen, needs_of
from catalog.workload.options import entry_origin, env_layers, merge_options, override
from catalog.workload.pod_parts import claim, interfaces, merge_parts, with_topologies
from catalog.workload.workload import Workload

FILE = "catalog/workload/resolve.py"
"""Where the rules stand that no file of data holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be resolved: one category of a certification on one kind of node.

    Attributes:
        index: position of the category in ``spec.categories``.
        hardware: the nodes.
        seen: what most of them offer.
        source: where the certification was read, for lines.
    """

    entry: Entry
    certification: Certification
    index: int
    hardware: Hardware
    seen: Seen
    profiles: Profiles
    profile: LoadedProfile | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is settled before the size of the groups is known."""

    request: Request
    options: Mapping[str, Setting]
    scale: str
    mnnvl: Setting
    needs: Needs


def prepare(request: Request) -> Prepared:
    """Settle options, scale and what a node must offer.

    Raises:
        InputError: an option does not fit the entry.
    """
    options = merge_options(request.entry, request.certification, request.index, request.source)
    given = options.get("testScale")
    scale = str(given.value) if given and given.value else request.entry.scale
    mnnvl = _mnnvl(request.profile, options)
    needs = needs_of(request.entry, options, request.profile, request.seen, scale)
    return Prepared(request, options, scale, mnnvl, needs)


def tolerations_of(prepared: Prepared, nodes: int = 1) -> list[dict[str, Any]]:
    """Return the tolerations that the pods will have; decides which nodes can be used."""
    found = resolve_workload(prepared, nodes).pod.get("tolerations")
    return list(found.value) if found else []


def resolve_workload(prepared: Prepared, nodes: int) -> Workload:
    """Resolve the launch for groups of ``nodes`` nodes.

    ``${nodesPerJob}`` and ``${totalGpus}`` stay in the result; see `for_group`.

    Raises:
        InputError: an option does not fit the entry.
    """
    return _Resolver(prepared, nodes).workload()


def for_group(workload: Workload, nodes: int) -> Workload:
    """Fill in what depends on the size of a group."""
    names = {"nodesPerJob": nodes, "totalGpus": nodes * int(workload.gpus_per_node.value)}

    def filled(settings: Mapping[str, Setting]) -> dict[str, Setting]:
        return {key: _filled(item, names) for key, item in settings.items()}

    return workload.model_copy(
        update={
            "command": tuple(str(word) for word in fill(workload.command, names)),
            "env": {
                key: item.model_copy(update={"value": str(item.value)})
                for key, item in filled(workload.env).items()
            },
            "pod": filled(workload.pod),
            "launch": filled(workload.launch),
        }
    )


def _filled(setting: Setting, names: Mapping[str, Any]) -> Setting:
    """Fill placeholders in a value and in its history."""
    replaced = tuple(
        old.model_copy(update={"value": fill(old.value, names)}) for old in setting.replaced
    )
    return setting.model_copy(update={"value": fill(setting.value, names), "replaced": replaced})


def _words(filled: Iterable[Any]) -> list[str]:
    """Return the words of a command, into which lists are spliced."""
    return [str(word) for item in filled for word in (item if isinstance(item, list) else [item])]


def tensor_parallel(entry: Entry, gpu: str) -> int:
    """Return how many GPUs one copy of the model spans; 1 for entries that are no training."""
    return int(_fact(entry.facts.get("tensorParallel", 1), gpu))


def _fact(value: Any, gpu: str) -> Any:
    """Read a fact that may be given by architecture."""
    if isinstance(value, Mapping) and "default" in value:
        return value.get(gpu, value["default"])
    return value


def _mnnvl(profile: LoadedProfile | None, options: Mapping[str, Setting]) -> Setting:
    if profile is None:
        origin = Origin(rule="no profile", file=FILE)
        setting = Setting(value=False, origin=origin)
    else:
        setting = Setting(value=profile.profile.mnnvl, origin=profile.origin_of("mnnvl"))
    stated = options.get("enableMNNVL")
    if stated is not None and stated.value is not None:
        setting = override(setting, stated.value, stated.origin)
    return setting


def _transport(prepared: Prepared) -> Setting:
    """Return the names of the fabric, where the traffic has to take it."""
    request, needs = prepared.request, prepared.needs
    if request.profile is None:
        return Setting(value=[], origin=Origin(rule="no profile", file=FILE))
    origin = request.profile.origin_of("transport")
    names = Setting(value=list(request.profile.profile.transport), origin=origin)
    entry = request.entry
    through_nics = entry.facts.get("path") == "nic"
    over_nvlink = prepared.mnnvl.value and not needs.nics.value and not through_nics
    another = not TOOLS[entry.tool].measures_links
    if names.value and (needs.inside or over_nvlink or another):
        why = "another tool" if another else "the traffic stays on NVLink"
        names = override(names, [], Origin(rule=why, file=FILE))
    return names


def run_hardware(prepared: Prepared) -> Hardware:
    """Return the hardware of a run: that of the nodes, and what of it the run uses.

    A number of network devices that the certification states is how a person asks for them, which
    need not be how many there are (``rdma/ib: 1`` gives all of a node), so it is not taken.
    """
    known, needs = prepared.request.hardware, prepared.needs
    stated = prepared.options.get("mlnxPerNode")
    nics = 0 if stated is not None and stated.value is not None else int(needs.nics.value)
    return replace(
        known,
        gpus_per_node=int(needs.gpus.value),
        nics=nics or known.nics,
        nics_per_node=int(needs.nics.value),
        mnnvl=bool(prepared.mnnvl.value),
        transport=tuple(_transport(prepared).value),
    )


class _Resolver:
    def __init__(self, prepared: Prepared, nodes: int) -> None:
        self.prepared = prepared
        self.request = prepared.request
        self.entry = prepared.request.entry
        self.nodes = nodes
        self.layers = list(self._matching())

    def workload(self) -> Workload:
        entry, needs = self.entry, self.prepared.needs
        options = self._options()
        self.names = self._names(options)
        launch = self._launch()
        image = Setting(value=entry.image, origin=entry_origin(entry, "image"))
        for item in self._of("image"):
            image = override(image, item.value, item.origin)
        if options.get("image") and options["image"].value:
            image = override(image, options["image"].value, options["image"].origin)
        timeout = options["timeoutPerJob"]
        command = _words(fill(entry.command, self.names))
        if "binary" in launch:
            command[0] = launch["binary"].value
        return Workload(
            launcher=entry.launcher,
            hardware=run_hardware(self.prepared),
            image=image,
            command=tuple(command),
            options={name: item for name, item in options.items() if item.value is not None},
            env=self._env(),
            resources=self._resources(options),
            gpus_per_node=needs.gpus,
            nics_per_node=needs.nics,
            nic_resource=needs.nic_resource,
            transport=_transport(self.prepared),
            pod=self._pod(options),
            launch=launch,
            timeout_seconds=timeout.model_copy(
                update={"value": parse_duration(timeout.value).total_seconds()}
            ),
        )

    def _matching(self) -> Iterator[tuple[Assignment, ...]]:
        run = Situation(
            hardware=run_hardware(self.prepared),
            category=self.entry.id,
            launcher=self.entry.launcher.value,
            stage=self.request.certification.spec.stage,
            scale=self.prepared.scale,
            nodes=self.nodes,
        )
        for layer in self.request.profiles.layers(self.request.profile):
            if layer.when.holds(run):
                yield layer.assignments

    def _of(self, section: str) -> Iterator[Assignment]:
        for assignments in self.layers:
            for item in assignments:
                if item.section == section:
                    yield item

    def _options(self) -> dict[str, Setting]:
        options = merge_options(
            self.entry,
            self.request.certification,
            self.request.index,
            self.request.source,
            tuple(self._of("options")),
        )
        if "enableMNNVL" in options:
            options["enableMNNVL"] = self.prepared.mnnvl
        if "nodesPerJob" in options and options["nodesPerJob"].value != self.nodes:
            origin = Origin(rule="size of the groups", file="steps/detect/groups.py")
            options["nodesPerJob"] = override(options["nodesPerJob"], self.nodes, origin)
        return options

    def _names(self, options: Mapping[str, Setting]) -> dict[str, Any]:
        entry, needs = self.entry, self.prepared.needs
        facts = {
            name: _fact(value, self.request.hardware.gpu) for name, value in entry.facts.items()
        }
        facts |= {item.key: item.value for item in self._of("facts")}
        attachment = self.request.profile.profile.nics.attachment if self.request.profile else None
        names = {
            **{name: item.value for name, item in options.items() if item.value is not None},
            **facts,
            "binary": entry.command[0],
            "entry": entry.id.partition("/")[2],
            "gpusPerNode": needs.gpus.value,
            "nicsPerNode": needs.nics.value,
            "mnnvl": "1" if self.prepared.mnnvl.value else "0",
            "multusNetworks": ",".join([attachment or ""] * int(needs.nics.value)),
            "podNetworks": interfaces(needs.networks),
        }
        return {name: value for name, value in names.items() if name not in GROUP_NAMES}

    def _filled(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        return {key: _filled(item, self.names) for key, item in settings.items()}

    def _section(self, section: str, start: Mapping[str, Setting]) -> dict[str, Setting]:
        """Merge the parts of a section by name, lists and mappings inside them too."""
        parts = dict(start)
        for item in self._of(section):
            current = parts.get(item.key)
            value = item.value if current is None else merge_parts(current.value, item.value)
            parts[item.key] = override(current, value, item.origin)
        return parts

    def _launch(self) -> dict[str, Setting]:
        """Resolve how the command is started; everything there ends up as words."""
        launch = self._filled(self._section("launch", {}))
        for part in ("flags", "mca"):
            if part in launch:
                words = {name: str(value) for name, value in launch[part].value.items()}
                launch[part] = launch[part].model_copy(update={"value": words})
        return launch

    def _env(self) -> dict[str, Setting]:
        env = {
            name: Setting(value=value, origin=entry_origin(self.entry, "env", name))
            for name, value in self.entry.env.items()
        }
        for item in self._of("env"):
            env[item.key] = override(env.get(item.key), item.value, item.origin)
        if "env" in self.entry.options:
            request = self.request
            for name, value, origin in env_layers(
                request.certification, request.index, request.source
            ):
                env[name] = override(env.get(name), value, origin)
        return {
            name: item.model_copy(update={"value": str(item.value)})
            for name, item in self._filled(env).items()
        }

    def _resources(self, options: Mapping[str, Setting]) -> dict[str, Setting]:
        needs = self.prepared.needs
        found: dict[str, Setting] = {}
        if not self._claims_gpus():
            found[GPU] = needs.gpus
        for name, units in needs.requests.items():
            origin = needs.nic_resource.origin
            found[name] = needs.nics.model_copy(update={"value": units, "origin": origin})
        for side, amounts in self.entry.resources.items():
            for name, amount in amounts.items():
                origin = entry_origin(self.entry, "resources", side, name)
                found[f"{side}.{name}"] = Setting(value=amount, origin=origin)
        for item in self._of("resources"):
            if self._offered(item.key, item.value):
                found[item.key] = override(found.get(item.key), item.value, item.origin)
        stated = options.get("resources")
        if stated is not None and stated.value:
            for side, amounts in stated.value.items():
                for name, amount in amounts.items():
                    key = f"{side}.{name}"
                    found[key] = override(found.get(key), amount, stated.origin)
        return found

    def _offered(self, name: str, amount: str | int) -> bool:
        """Ask for huge pages only where the nodes have them; pods would never start elsewhere."""
        seen = self.request.seen.allocatable
        if not name.startswith("hugepages-") or seen is None:
            return True
        return seen.get(name, 0) >= parse_quantity(amount)

    def _claims_gpus(self) -> bool:
        profile = self.request.profile
        return bool(profile and profile.profile.gpu_device_class)

    def _pod(self, options: Mapping[str, Setting]) -> dict[str, Setting]:
        start = {
            name: Setting(value=value, origin=entry_origin(self.entry, "pod", name))
            for name, value in self.entry.pod.items()
        }
        pod = self._section("pod", start)
        for part, value, origin in self._pod_of_hardware(options):
            current = pod.get(part)
            merged = value if current is None else merge_parts(current.value, value)
            pod[part] = override(current, merged, origin)
        filled = self._filled(pod)
        if "configMaps" in filled:
            item = filled["configMaps"]
            filled["configMaps"] = item.model_copy(update={"value": with_topologies(item.value)})
        return filled

    def _pod_of_hardware(self, options: Mapping[str, Setting]) -> Iterator[tuple[str, Any, Origin]]:
        """Yield the pod parts that follow from claims, options and the target."""
        profile, needs = self.request.profile, self.prepared.needs
        if profile is not None and profile.profile.gpu_device_class:
            yield from claim(
                "gpus",
                profile.profile.gpu_device_class,
                needs.gpus.value,
                profile.origin_of("gpuDeviceClass"),
            )
        if profile is not None and profile.profile.nics.device_class and needs.nics.value:
            yield from claim(
                "nics",
                profile.profile.nics.device_class,
                needs.nics.value,
                profile.origin_of("nics"),
            )
        access = options.get("rdmaDeviceAccess")
        if access is not None and access.value == "hostPath":
            path = "/dev/infiniband"
            volume = {"name": "infiniband", "hostPath": {"path": path, "type": "Directory"}}
            yield "volumes", [volume], access.origin
            yield "volumeMounts", [{"name": "infiniband", "mountPath": path}], access.origin
            yield "privileged", True, access.origin
        for name in ("imagePullSecrets", "workloadMetadata"):
            setting = options.get(name)
            if setting is not None and setting.value:
                if name == "imagePullSecrets":
                    yield name, setting.value, setting.origin
                else:
                    yield "jobLabels", setting.value.get("labels", {}), setting.origin
        yield from self._pod_of_certification()

    def _pod_of_certification(self) -> Iterator[tuple[str, Any, Origin]]:
        spec = self.request.certification.spec
        text = self.request.source
        file = text.file if text else "certification"
        if spec.gang_scheduler is not None:
            line = text.place(("spec", "gangScheduler")).line if text else None
            origin = Origin(rule="certification", file=file, line=line)
            yield "schedulerName", spec.gang_scheduler.scheduler_name, origin
            queue = {spec.gang_scheduler.queue_label_key: spec.gang_scheduler.queue}
            yield "labels", queue, origin
        for index, taint in enumerate(spec.target.taint_selectors):
            path = ("spec", "target", "taintSelectors", index)
            line = text.place(path).line if text else None
            toleration: dict[str, Any] = {"key": taint.key, "operator": "Exists"}
            if taint.value is not None:
                toleration |= {"operator": "Equal", "value": taint.value}
            if taint.effect is not None:
                toleration["effect"] = taint.effect
            origin = Origin(rule="certification", file=file, line=line)
            yield "tolerations", [toleration], origin
