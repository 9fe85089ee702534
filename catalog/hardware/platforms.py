"""Which platform a node is on and which GPU it has, told from names and labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Annotated, NamedTuple

from pydantic import Field

from catalog.reading.model import Model
from catalog.reading.source import shipped

UNKNOWN = "unknown"


class PlatformRule(Model):
    """One rule by which a platform is told, see ``platforms.yaml``; all conditions must hold."""

    platform: str
    provider_id: Annotated[str | None, Field(alias="providerID")] = None
    label: str | None = None
    label_contains: str | None = None
    resource: str | None = None
    driver: str | None = None
    gpu: tuple[str, ...] = ()
    note: str | None = None

    def fits(
        self,
        provider_id: str,
        labels: Mapping[str, str],
        allocatable: Collection[str],
        drivers: Collection[str],
        gpu: str,
    ) -> bool:
        """Say whether a node with these facts is described by the rule."""
        if self.provider_id is not None:
            empty = self.provider_id == ""
            if (provider_id != "") if empty else not provider_id.startswith(self.provider_id):
                return False
        if self.label is not None:
            found = _named(self.label, labels)
            wanted = self.label_contains or ""
            if found is None or wanted not in labels[found]:
                return False
        if self.resource is not None and _named(self.resource, allocatable) is None:
            return False
        if self.driver is not None and self.driver not in drivers:
            return False
        return not self.gpu or gpu in self.gpu


class PlatformGuess(NamedTuple):
    """A platform, why it was taken, and what a person should know about it."""

    platform: str
    why: str
    note: str | None = None


def _named(pattern: str, names: Collection[str]) -> str | None:
    if pattern.endswith("*"):
        return next((name for name in names if name.startswith(pattern[:-1])), None)
    return pattern if pattern in names else None


@cache
def platform_rules() -> tuple[PlatformRule, ...]:
    """Return the rules that ship beside the profiles, in the order in which they are tried."""
    return tuple(
        PlatformRule.model_validate(item) for item in shipped("hardware/platforms.yaml").data
    )


def platform_named(name: str) -> str:
    """Return a platform that a person names, in our spelling; anything else as it is."""
    low = name.lower()
    return low if any(rule.platform == low for rule in platform_rules()) else name


def platform_of(
    provider_id: str,
    labels: Mapping[str, str],
    allocatable: Collection[str] = (),
    drivers: Collection[str] = (),
    gpu: str = UNKNOWN,
    *,
    rules: Iterable[PlatformRule],
) -> PlatformGuess:
    """Tell the platform of one node.

    A provider id of a scheme that no rule knows gives the scheme as platform, for which there is
    no profile: a cloud that we do not know must not be taken for machines of one's own.

    Args:
        provider_id: ``spec.providerID``; empty where the node has none.
        labels: node labels.
        allocatable: names of the allocatable resources.
        drivers: DRA drivers with devices on the node.
        gpu: GPU architecture.
        rules: in the order in which they are tried, see `Profiles.platform_rules`.
    """
    for rule in rules:
        if rule.fits(provider_id, labels, allocatable, drivers, gpu):
            why = " and ".join(_reasons(rule, labels))
            return PlatformGuess(rule.platform, why, rule.note)
    scheme = re.split(r"[:/.]", provider_id, maxsplit=1)[0].lower() or UNKNOWN
    return PlatformGuess(scheme, f"providerID {provider_id}", f"platform {scheme} is not known")


def _reasons(rule: PlatformRule, labels: Mapping[str, str]) -> list[str]:
    reasons = []
    if rule.provider_id is not None:
        reasons.append(f"providerID {rule.provider_id}" if rule.provider_id else "no providerID")
    if rule.label is not None:
        reasons.append(f"label {_named(rule.label, labels)}")
    if rule.resource is not None:
        reasons.append(f"resource {rule.resource}")
    if rule.driver is not None:
        reasons.append(f"DRA driver {rule.driver}")
    return reasons


_MODEL = re.compile(r"(gb|gh|b|h|a|l|v|t|p)\d{1,4}[a-z]?")
_CARD = re.compile(r"(rtx-pro|rtx|gtx)(?:-server)?-(\d{4})((?:-(?:ada|ti|super|d))*)(?=-|$)")
_PREFIXES = ("nvidia-", "tesla-", "geforce-", "quadro-")
_OTHER_MAKERS = ("amd", "radeon", "gaudi", "habana", "intel")


def architecture_of(product: str | None) -> str:
    """Shorten a GPU product name to the architecture name that profiles use.

    ``NVIDIA-H100-80GB-HBM3`` → ``h100``, ``NVIDIA-GB200-NVL72`` → ``gb200``,
    ``NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition`` → ``rtxpro6000``. The rule is NVCRE's: the
    text before the first hyphen, in lower case; names whose first word is a brand are searched
    for the model, so that an RTX 4090 and an RTX 3090 are two. Also reads the names of GKE
    (``nvidia-h100-mega-80gb``) and of CoreWeave (``H100_NVLINK_80GB``).
    """
    if not product or not product.strip():
        return UNKNOWN
    name = re.sub(r"[\s_]+", "-", product.strip().lower())
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    card = _CARD.match(name)
    if card:
        return "".join(card.groups()).replace("-", "")
    words = name.split("-")
    for word in words:
        if _MODEL.fullmatch(word):
            return word
    return words[0] or UNKNOWN


def is_other_make(product: str) -> bool:
    """Say whether a label of a provider names a GPU that is not NVIDIA's."""
    return product.lower().startswith(_OTHER_MAKERS)


def is_mig_product(product: str | None) -> bool:
    """Say whether GPU feature discovery marks the product as partitioned by MIG."""
    return bool(product and re.search(r"-MIG(-|$)", product.upper()))


def is_shared_product(product: str | None) -> bool:
    """Say whether GPU feature discovery marks the product as shared."""
    return bool(product and product.upper().endswith("-SHARED"))
