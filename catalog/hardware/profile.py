"""Loading hardware profiles and finding the one that fits a machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from catalog.errors import InputError, Place
from catalog.hardware.conditions import When, matches
from catalog.hardware.hardware import Hardware
from catalog.hardware.platforms import UNKNOWN, PlatformRule, platform_rules
from catalog.hardware.profile_model import Profile, ProfileFile, Settings, unknown_name
from catalog.reading.model import suggestion
from catalog.reading.setting import Origin
from catalog.reading.source import (
    Path_,
    Source,
    read_one,
    shipped,
    validate,
    yaml_files,
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One value that a rule sets.

    Attributes:
        section: field of `Settings`: options, facts, image, env, resources, launch or pod.
        key: name within the section; empty for ``image``.
        value: the value, with placeholders.
        origin: where it stands.
    """

    section: str
    key: str
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class Layer:
    """Assignments that hold together, under conditions; ``line`` is where they stand."""

    name: str
    when: When
    assignments: tuple[Assignment, ...]
    line: int | None = None


@dataclass(frozen=True, slots=True)
class LoadedProfile:
    """A profile that knows where it stands.

    Attributes:
        profile: the profile.
        origin: its place.
        lines: line by field name.
        layer: its own settings.
    """

    profile: Profile
    origin: Origin
    lines: Mapping[str, int]
    layer: Layer

    @property
    def name(self) -> str:
        """The name of the profile."""
        return self.profile.name

    def origin_of(self, field: str) -> Origin:
        """Return the origin of one field, for example ``gpus``."""
        return self.origin.model_copy(update={"line": self.lines.get(field, self.origin.line)})


def hardware_of_profile(
    loaded: LoadedProfile, gpu: str, *, instance_type: str | None = None
) -> Hardware:
    """Return the hardware that a profile stands for; of its only instance type, if it has one."""
    profile = loaded.profile
    on_nvlink = profile.mnnvl and profile.nics.count == 0
    if instance_type is None and len(profile.instance_types) == 1:
        only = profile.instance_types[0]
        instance_type = None if set(only) & set("*?[") else only
    return Hardware(
        platform=profile.platform,
        gpu=gpu,
        instance_type=instance_type,
        profile=profile.name,
        gpus=profile.gpus,
        gpus_per_node=profile.gpus,
        nics=profile.nics.count or None,
        nic_gbps=profile.nic_gbps,
        nvlink=profile.nvlink,
        mnnvl=profile.mnnvl,
        transport=() if on_nvlink else profile.transport,
    )


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """One loaded profile file."""

    file: str
    platforms: tuple[PlatformRule, ...]
    rules: tuple[Layer, ...]
    profiles: Mapping[str, LoadedProfile]


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profile files in order: ours, then the user's."""

    files: tuple[ProfileSource, ...]

    def all(self) -> Iterator[LoadedProfile]:
        """Yield the profiles, the user's first; a later file replaces a profile by name."""
        seen: set[str] = set()
        for file in reversed(self.files):
            for name, profile in file.profiles.items():
                if name not in seen:
                    seen.add(name)
                    yield profile

    def platform_rules(self) -> tuple[PlatformRule, ...]:
        """Return the rules by which platforms are told, the user's first."""
        own = (rule for file in reversed(self.files) for rule in file.platforms)
        return (*own, *platform_rules())

    def platforms(self) -> list[str]:
        """Return the platforms that a node can be on or that a profile is for, sorted."""
        told = {rule.platform for rule in self.platform_rules()}
        return sorted(told | {loaded.profile.platform for loaded in self.all()})

    def layers(self, profile: LoadedProfile | None) -> Iterator[Layer]:
        """Yield the layers that may hold for a profile, weakest first."""
        for file in self.files:
            yield from file.rules
            if profile is not None and file.profiles.get(profile.name) is profile:
                yield profile.layer

    def find(self, name: str, place: Place | None = None) -> LoadedProfile:
        """Return a profile by its name, or by an instance type that it stands for.

        Raises:
            InputError: no such profile; the hint names the nearest.
        """
        found = list(self.all())
        for profile in found:
            if name == profile.name or _globbed(name, profile.profile.instance_types):
                return profile
        names = sorted(profile.name for profile in found)
        types = [item for profile in found for item in profile.profile.instance_types]
        hint = suggestion(name, [*names, *types]) or f"one of {', '.join(names)}"
        raise InputError(f"there is no hardware profile {name!r}", place, hint)

    def match(
        self,
        platform: str | None,
        instance_type: str | None,
        gpu: str | None,
        *,
        product: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> tuple[LoadedProfile, str] | None:
        """Find the profile of a machine: by instance type, else by platform and architecture.

        Args:
            platform: as detected; None for any.
            instance_type: as labelled.
            gpu: architecture as detected; None or ``unknown`` where nothing tells.
            product: GPU product name, which can tell variants of an architecture apart.
            labels: node labels, which can tell the instance type where it is not labelled.

        Returns:
            The profile and why it was taken; None when no profile fits.
        """
        gpu = None if gpu == UNKNOWN else gpu
        found: list[tuple[int, LoadedProfile, str]] = []
        for loaded in self.all():
            profile = loaded.profile
            if not profile.automatic or (platform and profile.platform != platform):
                continue
            if gpu and profile.gpu and gpu not in profile.gpu:
                continue
            if profile.products and not _globbed(product, profile.products):
                continue
            rank = _rank(profile, instance_type, gpu, labels or {})
            if rank:
                found.append((rank[0] + bool(profile.products), loaded, rank[1]))
        if not found:
            return None
        best = max(found, key=lambda item: item[0])
        return best[1], best[2]


def _rank(
    profile: Profile, instance_type: str | None, gpu: str | None, labels: Mapping[str, str]
) -> tuple[int, str] | None:
    """Say how well a profile fits, greater is better, and why; None when it does not."""
    if profile.instance_types:
        if _globbed(instance_type, profile.instance_types):
            return 30, f"instance type {instance_type}"
        if instance_type is None and profile.labels and profile.labels.items() <= labels.items():
            named = ", ".join(f"{key}={value}" for key, value in profile.labels.items())
            return 20, f"label {named}"
        return None
    if gpu is None:
        return None
    why = f"platform {profile.platform} and GPU {gpu}"
    if instance_type:
        why += f"; instance type {instance_type} has no profile of its own"
    return 10, why


def _globbed(name: str | None, globs: Sequence[str]) -> bool:
    return name is not None and matches(name, globs)


def profile_documents(paths: Iterable[Path]) -> list[Source]:
    """Read the profile files of the user, not yet validated.

    Args:
        paths: files, or directories that stand for their YAML files in the order of their names.

    Raises:
        InputError: a file cannot be read or is not one YAML mapping.
    """
    return [read_one(path) for path in yaml_files(paths)]


def load_profiles(documents: Iterable[Source] = ()) -> Profiles:
    """Return our profiles followed by the user's.

    Args:
        documents: of kind Profiles; the later is the stronger.

    Raises:
        InputError: with file, line and field of the first mistake.
    """
    ours = builtin_profiles()
    own = [read_profile_source(document) for document in documents]
    found = Profiles((*ours.files, *own))
    _check_platforms(own, found.platforms())
    return found


@cache
def builtin_profiles() -> Profiles:
    """Return the profiles that ship.

    Raises:
        InputError: a shipped file is damaged.
    """
    root = resources.files("catalog.hardware").joinpath("profiles")
    # base.yaml holds what is true everywhere, so it is the weakest.
    names = sorted(
        (item.name for item in root.iterdir() if item.name.endswith(".yaml")),
        key=lambda name: (name != "base.yaml", name),
    )
    found = (shipped(f"hardware/profiles/{name}") for name in names)
    return Profiles(tuple(read_profile_source(source) for source in found))


def find_profile(name: str, place: Place | None = None) -> LoadedProfile:
    """Return a shipped profile by name or instance type; see `Profiles.find`."""
    return builtin_profiles().find(name, place)


def match_profile(
    platform: str | None, instance_type: str | None, gpu: str | None
) -> LoadedProfile | None:
    """Return the shipped profile that fits; see `Profiles.match`."""
    found = builtin_profiles().match(platform, instance_type, gpu)
    return found[0] if found else None


def read_profile_source(source: Source) -> ProfileSource:
    """Validate a profile file and flatten it to assignments that know their lines.

    Raises:
        InputError: with file, line and field.
    """
    data = validate(source, ProfileFile)
    rules = []
    for index, rule in enumerate(data.rules):
        path = ("rules", index, "set")
        origin = Origin(rule=rule.name, file=source.file, source=rule.source or data.source)
        line = source.place(path[:2]).line
        found = _assignments(rule.set, source, path, origin)
        rules.append(Layer(rule.name, rule.when, found, line))
    profiles: dict[str, LoadedProfile] = {}
    for index, profile in enumerate(data.profiles):
        if profile.name in profiles:
            raise source.error(f"names profile {profile.name!r} twice", ("profiles", index, "name"))
        top: Path_ = ("profiles", index)
        origin = Origin(
            rule=f"profile {profile.name}",
            file=source.file,
            line=source.place(top).line,
            source=profile.source or data.source,
        )
        lines = {
            str(field): line
            for field in source.data["profiles"][index]
            if (line := source.place((*top, field)).line) is not None
        }
        own = Layer(origin.rule, When(), _assignments(profile.set, source, (*top, "set"), origin))
        profiles[profile.name] = LoadedProfile(profile, origin, lines, own)
    return ProfileSource(source.file, data.platforms, tuple(rules), profiles)


def _assignments(
    settings: Settings, source: Source, path: Path_, origin: Origin
) -> tuple[Assignment, ...]:
    mistake = unknown_name(settings)
    if mistake:
        raise source.error(mistake, path)
    found = []
    for section, value in _given(settings).items():
        keyed = value if isinstance(value, dict) else {"": value}
        for key, item in keyed.items():
            where = (*path, section, key) if key else (*path, section)
            at = origin.model_copy(update={"line": source.place(where).line})
            found.append(Assignment(section, key, item, at))
    return tuple(found)


def _given(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _check_platforms(files: Sequence[ProfileSource], known: Sequence[str]) -> None:
    """Refuse a condition on a platform that nothing can be on: it would never hold."""
    for file in files:
        for rule in file.rules:
            for name in rule.when.platform.within + rule.when.platform.not_in:
                if not any(matches(platform, [name]) for platform in known):
                    raise InputError(
                        f"rule {rule.name!r} is about platform {name!r}, which is not known",
                        Place(file.file, rule.line),
                        suggestion(name, known) or f"known: {', '.join(known)}",
                    )
