"""What can be refused of a certification before any node is known; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from catalog.bars.bar_file import OwnBars, read_bars
from catalog.bars.stages import find_stage
from catalog.certification import Certification
from catalog.entries.entry import find_entry
from catalog.hardware.profile import LoadedProfile, Profiles, load_profiles
from catalog.reading.setting import Setting
from catalog.reading.source import Path_, Source
from catalog.workload.options import NO_SOURCE, check_options, merge_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A certification that makes sense, whatever the nodes are.

    Attributes:
        profiles: ours and the user's.
        bars: the user's own.
        stated: profile that the certification states for its whole target.
        options: of each category, without what profiles set.
    """

    profiles: Profiles
    bars: OwnBars
    stated: LoadedProfile | None
    options: Sequence[Mapping[str, Setting]]


def check_certification(
    certification: Certification,
    text: Source | None = None,
    profiles: Iterable[Source] = (),
    bars: Sequence[Source] = (),
) -> Checked:
    """Check all of a certification that needs no nodes.

    Args:
        certification: what to certify.
        text: where it was read, for lines in errors.
        profiles: documents of kind Profiles, the user's own.
        bars: documents of kind Bars of the user's own.

    Raises:
        InputError: it asks for something that does not exist or fit.
    """
    spec, where = certification.spec, text or NO_SOURCE
    find_stage(spec.stage, where.place(("spec", "stage")))
    check_options(certification, text)
    known = load_profiles(profiles)
    return Checked(
        profiles=known,
        bars=read_bars(bars, known),
        stated=_stated_profile(certification, known, where),
        options=[
            merge_options(find_entry(category.id), certification, index, text)
            for index, category in enumerate(spec.categories)
        ],
    )


def _stated_profile(
    certification: Certification, profiles: Profiles, where: Source
) -> LoadedProfile | None:
    """Return the profile that the certification states; it holds for the whole target."""
    spec = certification.spec
    stated: list[tuple[str, Path_]] = []
    if spec.profile:
        stated.append((spec.profile, ("spec", "profile")))
    for index, category in enumerate(spec.categories):
        if category.options.profile:
            at: Path_ = ("spec", "categories", index, "options", "profile")
            stated.append((category.options.profile, at))
    found = [(profiles.find(name, where.place(path)), path) for name, path in stated]
    for profile, path in found[1:]:
        if profile.name != found[0][0].name:
            raise where.error(
                f"states profile {profile.name}, but {found[0][0].name} is stated before",
                path,
                "a certification states one profile, for all its nodes",
            )
    return found[0][0] if found else None
